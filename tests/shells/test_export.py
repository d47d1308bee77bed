"""`export --format html`: one file that shows everything and can do nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from tests.shells.served import served
from tests.shells.terminal import Terminal

HOSTILE = "<script>alert(1)</script> ![x](http://evil.example/?leak) [go](javascript:alert(1)) <img src=x onerror=y>"
LONG = "a long report\n\n" + "line of it\n" * 1000


class Tags(HTMLParser):
    """Every tag with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("export"), alice="script: [{ say: '**checked**, @bob' }]\n") as daemon:
        terminal = Terminal(daemon)
        terminal.says("start", "review")
        terminal.says("send", "@review", "@alice please look")
        terminal.says("send", "@review", HOSTILE)
        terminal.says("send", "@review", LONG)
        terminal.says("doc", "write", "@review", "plan.md", "# The plan\n\n- first")
        daemon.do("POST", "/proposals", at="@review", question="ship it?", options=["yes", "no"])
        terminal.says("stop", "@review")
        yield terminal.says("export", "@review", "--format", "html")


def test_it_holds_what_was_said_written_voted_and_spent(page: str) -> None:
    text = re.sub(r"<[^>]+>", "", page)
    for part in ("please look", "checked", "The plan", "ship it?", "Runs", "tokens"):
        assert part in text
    assert "<strong>checked</strong>" in page
    assert page.count("line of it") >= 1000  # the whole of a long message, folded


def test_X1_X2_X3_it_can_do_nothing(page: str) -> None:
    tags = Tags(page).found
    assert not {tag for tag, _ in tags} & {"script", "img", "iframe", "link", "object", "form", "svg"}
    assert not [attrs for _, attrs in tags if any(name.startswith("on") for name in attrs)]
    links = {attrs["href"] for tag, attrs in tags if tag == "a"}
    assert all(link and link.startswith(("http://", "https://", "mailto:")) for link in links)
    (policy,) = (attrs["content"] for _, attrs in tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_a_conversation_is_exported_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    with served(tmp_path_factory.mktemp("talk")) as daemon:
        terminal = Terminal(daemon)
        terminal.says("ask", "alice", "hello there")
        assert "hello there" in terminal.says("export", "alice", "--format", "html")
