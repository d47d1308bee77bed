"""The workspace view: what is said comes by itself, who would wake is shown, votes count, a long channel is light."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests import stored
from tests.shells.served import Served, served
from tests.web.browser import Browser, Visit, needs_chromium, say, start, visit, wait, workspace_of_one

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("room")) as made:
        start(made)
        yield made


def test_a_message_comes_by_itself_with_its_sender_and_its_markdown(guest: Visit) -> None:
    said = "```python\nprint('hi')\n```\nand **done**, see https://example.org/x"
    workspace_of_one(guest.daemon, "talk", "ann", {"say": said})
    page = guest.open(guest.workspace("talk"))
    say(guest.daemon, "@ann hello", to="@talk")
    page.get_by_text("and done, see").wait_for()
    answer = page.locator(".msg", has_text="and done").last
    assert answer.locator(".who").inner_text() == "ann"
    assert answer.locator("pre code .nb").inner_text() == "print"
    assert answer.locator("strong").inner_text() == "done"
    link = answer.get_by_role("link", name="https://example.org/x")
    assert link.get_attribute("rel") == "noopener noreferrer nofollow"
    assert page.locator(".msg", has_text="hello").locator(".mention").first.inner_text() == "@ann"


def test_what_an_agent_is_writing_is_shown_until_its_message_comes(guest: Visit) -> None:
    workspace_of_one(guest.daemon, "slow", "ann", {"say": "writing this slowly enough", "slow": "0.3s"})
    page = guest.open(guest.workspace("slow"))
    page.evaluate(
        """() => { window.seen = []; window.shifted = 0;
             new MutationObserver(() => seen.push(document.querySelector('.working').textContent))
               .observe(document.querySelector('.working'), {childList: true, subtree: true, characterData: true});
             new PerformanceObserver((all) => all.getEntries().forEach((e) => { shifted += e.value }))
               .observe({type: 'layout-shift'}) }"""
    )
    say(guest.daemon, "@ann begin", to="@slow")
    page.locator(".msg", has_text="writing this slowly").wait_for()
    wait(page, "() => document.querySelector('.working').children.length === 0")
    seen = page.evaluate("seen")
    assert any("is at work" in each for each in seen)
    assert any("writing this slowly enough" in each for each in seen)
    assert page.evaluate("shifted") < 0.1  # nothing jumps under the reader's eyes


def test_the_box_completes_names_and_says_who_would_wake(guest: Visit) -> None:
    page = guest.open(guest.workspace())
    box = page.get_by_role("textbox", name="Message to @review")
    box.press_sequentially("look @bo")
    page.get_by_role("option", name="bob").wait_for()
    box.press("Enter")
    assert box.input_value() == "look @bob "
    page.get_by_text("Wakes bob.").wait_for()
    box.press_sequentially("`@alice` and @carol")
    page.get_by_text("Wakes bob. Not a member: carol.").wait_for()
    box.fill("")
    box.press_sequentially("@alice and @bo")
    page.get_by_role("option", name="bob").wait_for()
    page.get_by_text("Wakes alice.", exact=True).wait_for()
    box.fill("nobody in particular, said at the door")
    page.get_by_text("Wakes nobody").wait_for()
    box.press("Enter")
    page.locator(".msg", has_text="said at the door").wait_for()
    assert box.input_value() == ""


def test_what_cannot_be_sent_is_said_and_stays_in_the_box(guest: Visit) -> None:
    page = guest.open(guest.workspace())
    box = page.get_by_role("textbox", name="Message to @review")
    box.fill("x" * 300_000)
    page.get_by_role("button", name="Send").click()
    page.get_by_text("a message holds at most 256 KiB").wait_for()
    assert len(box.input_value()) == 300_000


def test_a_long_text_is_folded_and_fetched_when_it_is_opened(guest: Visit) -> None:
    say(guest.daemon, "the beginning\n" + "line of a long text\n" * 500 + "the very end")
    page = guest.open(guest.workspace())
    row = page.locator(".msg", has_text="the beginning").last
    assert "the very end" not in row.inner_text()
    row.locator("summary").click()
    row.get_by_text("the very end").wait_for()


def test_votes_are_cast_in_place_and_counted_on_every_page(browser: Browser, guest: Visit) -> None:
    workspace_of_one(guest.daemon, "votes", "ann", {"say": "I must think about it"}, {"say": "still"})
    page = guest.open(guest.workspace("votes"))
    guest.daemon.do(
        "POST",
        "/proposals",
        at="@votes",
        question="Tabs or spaces?",
        options=["tabs", "spaces"],
        voters=["user", "ann"],
    )
    card = page.get_by_role("region", name="Proposal 1")
    card.wait_for()
    with visit(browser, guest.daemon) as other:
        watching = other.open(other.workspace("votes", tab="decisions"))
        watching.get_by_text("Not voted: you, ann.").wait_for()
        card.get_by_role("form", name="Vote for spaces").get_by_role("button").click()
        watching.get_by_text("Not voted: ann.").wait_for()
        watching.get_by_label("1 vote").wait_for()
    card.get_by_role("button", name="Your vote").wait_for()


def test_a_channel_of_ten_thousand_messages_stays_light(guest: Visit) -> None:
    workspace = start(guest.daemon, "long")["id"]
    fill(guest.daemon, workspace, 10_000)
    page = guest.open(guest.workspace("review:long"))
    page.locator(".msg", has_text="number 10000").wait_for()
    for _ in range(8):
        first = page.evaluate("Number(document.querySelector('.rows > li').dataset.seq)")
        page.locator(".log").press("Home")
        wait(page, "(first) => Number(document.querySelector('.rows > li').dataset.seq) < first", first)
    rows = page.evaluate("[...document.querySelectorAll('.rows > li')].map((row) => Number(row.dataset.seq))")
    assert len(rows) <= 240
    assert rows == list(range(rows[0], rows[0] + len(rows)))  # in order, none missing, none twice
    assert rows[0] < 9500
    say(guest.daemon, "the newest", to="@review:long")
    page.get_by_role("button", name="New messages").click()
    page.locator(".msg", has_text="the newest").wait_for()
    assert page.evaluate("document.querySelectorAll('.rows > li').length") <= 240


#: By hand and at once; the page has heard of it.
TO_THE_TOP = """(log) => new Promise((done) => {
  log.addEventListener("scroll", () => requestAnimationFrame(done), { once: true });
  log.dispatchEvent(new WheelEvent("wheel"));
  log.scrollTop = 0;
})"""


def test_what_was_said_earlier_comes_even_if_the_top_is_reached_while_something_new_is_fetched(guest: Visit) -> None:
    workspace = start(guest.daemon, "busy")["id"]
    fill(guest.daemon, workspace, 300)
    page = guest.open(guest.workspace("review:busy"))
    page.locator(".msg", has_text="number 300").wait_for()
    held: list[Any] = []
    page.route("**/page/messages?*since=*", lambda route: route.continue_() if held else held.append(route))
    with page.expect_request("**/page/messages?*since=*"):
        say(guest.daemon, "something new", to="@review:busy")
    page.locator(".log").evaluate(TO_THE_TOP)
    held[0].continue_()
    wait(page, "() => Number(document.querySelector('.rows > li').dataset.seq) < 200")


def fill(daemon: Served, workspace: str, count: int) -> None:
    """A long past, written where it is stored."""
    (row,) = daemon.read(stored.workspaces, id=workspace)
    said = {"project": row["project"], "workspace": workspace, "sender": "bob", "kind": "message"}
    said |= {"mentions": "[]", "root": "", "hop": 0}

    def put(tx: stored.Writer) -> None:
        for n in range(1, count + 1):
            stored.add(tx, "message", **said, seq=n, id=f"m_{workspace}_{n}", text=f"number {n}", at=n * 1_000_000)
        stored.change(tx, "workspace", {"id": workspace}, seq=count)

    stored.write(daemon.home / "state.db", put)


def test_the_keys_move_and_open(guest: Visit) -> None:
    for text in ("one", "two", "three"):
        say(guest.daemon, text)
    page = guest.open(guest.workspace())
    page.keyboard.press("k")
    page.keyboard.press("k")
    focused = "document.activeElement.dataset.seq"
    above = int(page.evaluate(focused))
    page.keyboard.press("j")
    assert int(page.evaluate(focused)) == above + 1
    page.keyboard.press("c")
    assert page.evaluate("document.activeElement.tagName") == "TEXTAREA"
    page.keyboard.type("j?")  # letters are letters there
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("m")
    page.get_by_text("Who wakes whom").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("bob")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="bob").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("i")
    page.get_by_role("heading", name="Inbox").wait_for()


def test_the_map_shows_who_wakes_whom(guest: Visit) -> None:
    say(guest.daemon, "@alice for the map")
    page = guest.open(guest.workspace(tab="map"))
    assert "user wakes alice" in (page.locator("svg.graph").get_attribute("aria-label") or "")
    say(guest.daemon, "@bob for the map")
    wait(page, "() => document.querySelector('svg.graph').getAttribute('aria-label').includes('user wakes bob')")
