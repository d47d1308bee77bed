"""Ctrl-K finds everything: names at once, and what was said and written, by the index of the agents."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.shells.served import Served, served
from tests.web.browser import Visit, needs_chromium, say, start, wait

from agent_worker.daemon.web.prose import in_a_line


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("search")) as made:
        start(made)
        say(made, "the quadratic loop in the parser is the slow one")
        made.do("PUT", "/documents/plan.md", at="review", text="# Plan\n\nMake the quadratic part linear.\n")
        yield made


@needs_chromium
def test_what_was_said_and_written_is_found_by_a_key(guest: Visit) -> None:
    page = guest.open("#/home")
    page.keyboard.press("Control+k")
    page.keyboard.type("quadratic")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Search: quadratic").wait_for()
    results = page.locator(".results")
    assert "the slow one" in results.inner_text()
    results.get_by_role("link", name="@review / plan.md").first.click()
    page.locator(".doc", has_text="Make the quadratic part linear").wait_for()


@needs_chromium
def test_a_message_that_was_found_is_opened_where_it_stands_in_the_channel(guest: Visit) -> None:
    start(guest.daemon, "long")
    for n in range(60):
        say(guest.daemon, f"entry number {n} of a long talk" if n != 5 else "the zebra crossed", to="@review:long")
    page = guest.open("#/search/zebra")
    page.locator(".results").get_by_role("link", name="@review:long #").first.click()
    found = page.locator(".rows .msg", has_text="the zebra crossed")
    found.wait_for()
    wait(page, "() => document.activeElement.textContent.includes('the zebra crossed')")
    page.get_by_role("button", name="To the newest").click()
    page.locator(".rows .msg", has_text="entry number 59").wait_for()
    assert page.locator("#side [aria-current=page]", has_text="@review:long").count() == 1


def test_a_text_that_is_only_mentioned_stands_in_one_line_without_its_marks() -> None:
    text = "Measured, **all**:\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n"
    text += "```sh\nls | `wc`\n```\n# Head\n> [so](https://x.y) __init__"
    assert in_a_line(text) == "Measured, all: a · b 1 · 2 ls | wc Head so __init__"


@needs_chromium
def test_a_name_is_opened_at_once_and_everything_can_be_searched_for_it(guest: Visit) -> None:
    page = guest.open("#/home")
    page.keyboard.press("/")
    page.keyboard.type("ali")
    page.get_by_role("link", name="Search everything").click()
    page.locator(".results").get_by_role("link", name="alice", exact=True).click()
    page.get_by_role("heading", name="alice").wait_for()


@pytest.mark.parametrize("query", ["", " ", "%25%22%27", "*", "(((", "zzzz-nothing", "x" * 3000, "@"])
def test_whatever_is_searched_for_is_answered(daemon: Served, query: str) -> None:
    assert daemon.ask("GET", f"/page/search?query={query.replace(' ', '+')}").status == 200


@needs_chromium
def test_memory_runs_and_commands_are_found_and_opened_by_keys_alone(guest: Visit) -> None:
    daemon = guest.daemon
    daemon.do("PUT", "/agents/alice/memory", key="drink", value="oolong, never sugar")
    daemon.do("POST", "/ask", agent="bob", message="say something")
    page = guest.open("#/home")

    def found(query: str, kind: str, name: str) -> None:
        page.keyboard.press("Control+k")
        page.keyboard.type(query)
        page.keyboard.press("Enter")
        page.locator(".results li", has_text=kind).filter(has_text=name).first.wait_for()

    def opened(name: str) -> None:
        page.keyboard.press("j")
        while name not in page.evaluate("document.activeElement.textContent"):
            page.keyboard.press("j")
        page.keyboard.press("Enter")

    found("oolong sugar", "memory", "alice / drink")
    opened("alice / drink")
    page.get_by_role("heading", name="alice").wait_for()
    found("bob done", "run", "bob")
    opened("runbob")
    wait(page, "() => location.hash.startsWith('#/run/')")
    found("new agent", "command", "New agent")
    opened("New agent")
    page.get_by_role("form", name="New agent").wait_for()
    found("new project", "command", "New project")
