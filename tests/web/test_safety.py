"""X1–X4: whatever somebody wrote, it is shown and does nothing."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt
from tests.patience import eventually
from tests.shells.served import Served, served
from tests.web.browser import Visit, needs_chromium, say, script, start, wait
from tests.web.corpus import PIECES, corpus

from agent_worker.daemon.web.markup import h
from agent_worker.daemon.web.prose import code, made_code, made_prose

ALLOWED = {"a": {"href", "title", "target", "rel"}, "span": {"class"}, "code": {"class"}, "ol": {"start"}}
ALLOWED |= {"th": {"class"}, "td": {"class"}, "pre": {"tabindex"}}
PLAIN = {"p", "br", "hr", "blockquote", "ul", "li", "em", "strong", "s", "pre", "table", "thead", "tbody", "tr"}
PLAIN |= {f"h{n}" for n in range(1, 7)}


class Inspector(HTMLParser):
    """Complains of every tag and attribute that is not on the list."""

    def __init__(self) -> None:
        super().__init__()
        self.complaints: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in PLAIN and tag not in ALLOWED:
            self.complaints.append(tag)
        for name, value in attrs:
            if name not in ALLOWED.get(tag, ()):
                self.complaints.append(f"{tag} {name}")
            if name == "href" and not (value or "").startswith(("http://", "https://", "mailto:")):
                self.complaints.append(f"{tag} {name}={value}")


def prose(text: str) -> str:
    """However long it takes: the page would leave some of these to another process."""
    return made_prose(text, ())


@pytest.mark.parametrize(
    "make",
    [
        prose,
        lambda text: made_code(text, "html"),
        lambda text: code(text, "x.html"),
        lambda text: h("p", text, title=text),
    ],
)
def test_X1_X2_X4_nothing_survives_but_what_is_on_the_list(make: object) -> None:
    assert len(corpus()) >= 200
    for text in corpus():
        inspector = Inspector()
        made = make(text)  # type: ignore[operator]
        inspector.feed(made.removeprefix("<p title=") if made.startswith("<p title=") else made)
        assert not inspector.complaints, (text, made)


def test_X1_html_that_somebody_wrote_is_shown_as_text() -> None:
    """Not merely taken away: who wrote `<b>` in a message meant these three characters."""
    for text in ("<b>bold</b>", "a <script>x()</script> b", "<p>\n\ntext\n\n</p>", '<a href="https://x">x</a>'):
        shown = html.unescape(re.sub(r"<[^>]*>", "", prose(text)))
        assert text.replace("\n", "") in shown.replace("\n", "")


def test_X1_what_the_parser_would_let_through_is_cleaned_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second layer by itself: as if a hole had been found in the first."""
    monkeypatch.setattr(MarkdownIt, "render", lambda self, text, env: text)
    for text in corpus():
        inspector = Inspector()
        inspector.feed(prose(f"{text} "))  # not one that was rendered before
        assert not inspector.complaints, text


def test_X2_an_address_that_could_do_something_is_no_link() -> None:
    for text in PIECES:
        if text.startswith("[x]("):
            assert 'href="javascript' not in prose(text).lower()
            assert 'href="data' not in prose(text).lower()
            assert 'href="/' not in prose(text)
            assert 'href="#' not in prose(text)


# --- in a browser

EVIL = PIECES[0] + PIECES[5] + PIECES[6]
ALICE = script(
    {"call": {"tool": "my_status_set", "with": {"status": EVIL}}},
    {"call": {"tool": "team_doc_create", "with": {"name": "evil.md", "text": "\n\n".join(PIECES)}}},
    {"call": {"tool": "team_doc_create", "with": {"name": "evil.html", "text": "\n".join(PIECES)}}},
    {"call": {"tool": "ask_user", "with": {"question": EVIL}}},
    {"say": "done"},
)
BOB = f"soul: {{ role: {json.dumps(EVIL)} }}\n" + script({"fail": "permanent"})


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("safety"), alice=ALICE, bob=BOB) as made:
        start(made)
        yield made


@needs_chromium
def test_X1_X3_X4_no_script_runs_no_request_leaves_and_nothing_is_clobbered(guest: Visit) -> None:
    """The fixture looks at requests and at violations of the policy."""
    daemon = guest.daemon
    texts = corpus()
    for text in (*PIECES, *("\n\n----\n\n".join(texts[n : n + 10]) for n in range(0, len(texts), 10))):
        say(daemon, text)
    say(daemon, f"@alice {EVIL}")
    say(daemon, f"@bob {EVIL}")
    daemon.do("PUT", "/agents/bob/memory", key="<img src=x onerror=window.pwned=1>", value=EVIL)
    daemon.do("POST", "/agents/bob/todos", text=EVIL)
    daemon.do("POST", "/proposals", at="@review", question=EVIL, options=[PIECES[5], "no"], voters=["user"])
    assert eventually(lambda: len(daemon.ask("GET", daemon.query("/inbox")).json) >= 2)
    run = daemon.ask("GET", daemon.query("/runs?agent=alice")).json[-1]["id"]
    page = guest.open(guest.workspace())
    seen = 0
    while page.evaluate("document.querySelector('.rows > li').dataset.seq") != "1":  # all of the channel
        first = page.evaluate("document.querySelector('.rows > li').dataset.seq")
        page.locator(".log").press("Home")
        wait(page, "(first) => document.querySelector('.rows > li').dataset.seq !== first", first)
        seen += 1
        clean(guest)
    assert seen
    for place in (
        guest.workspace(tab="team"),
        guest.workspace(tab="decisions"),
        guest.workspace(tab="map"),
        guest.place("doc/review", name="evil.md"),
        guest.place("doc/review", name="evil.html"),
        guest.place("agent/bob"),
        guest.place(f"run/{run}"),
        guest.place("run/<img src=x onerror=window.pwned=1>"),
        "#/inbox",
        "#/home",
    ):
        guest.go(place)
        for fold in page.locator("#main summary:not(.menu summary)").all():
            fold.click()
        page.locator("#main .menu, #main .menu details").evaluate_all("(all) => all.forEach((e) => { e.open = true })")
        clean(guest)


def clean(guest: Visit) -> None:
    found = guest.page.evaluate(
        """() => ({
          pwned: window.pwned,
          tags: [...document.querySelectorAll('#main script, #main img, #main iframe, #main object, #main embed, '
                + '#main link, #main style, #main video, #main audio, #main base, #main meta')].length,
          handlers: [...document.querySelectorAll('#main *')].filter((e) =>
            [...e.attributes].some((a) => a.name.startsWith('on') || a.name === 'style')).length,
          ids: [...document.querySelectorAll('#main .prose [id], #main .prose [name]')].length,
          forms: [...document.querySelectorAll('form[data-do*=shutdown], [data-src*=shutdown]')].length,
        })"""
    )
    assert found == {"pwned": None, "tags": 0, "handlers": 0, "ids": 0, "forms": 0}
