"""Conversations, in a channel and with an agent: they follow what is said, unless the reader is elsewhere by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.shells.served import Served, served
from tests.web.browser import Browser, Visit, needs_chromium, say, script, start, visit, wait, workspace_of_one

pytestmark = needs_chromium

LONG = "\n\n".join(f"paragraph {n} of an answer that is just not folded" for n in range(8))
BEN = script(*[{"say": f"answer {n}\n\n{LONG}"} for n in range(12)])
SLOW = script({"say": "one word after the other", "slow": "0.4s"}, {"say": "never", "slow": "10m"})


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("talk")) as made:
        for name, entries in (("ben", BEN), ("slow", SLOW)):
            (made.project / ".agents" / f"{name}.yaml").write_text(f"backend: mock\n{entries}")
        start(made)
        yield made


@pytest.fixture
def small(browser: Browser, daemon: Served) -> Iterator[Visit]:
    """A window in which no two answers have room."""
    with visit(browser, daemon, viewport={"width": 1280, "height": 480}) as made:
        yield made
        assert not made.complaints


IN_SIGHT = """(text) => {
  const row = [...document.querySelectorAll('.rows > li')].at(-1), log = document.querySelector('.log');
  if (!row || !row.textContent.includes(text)) return false;
  const end = document.querySelector('.pending').getBoundingClientRect().bottom;
  return end <= log.getBoundingClientRect().bottom + 1 && log.scrollHeight - log.scrollTop - log.clientHeight < 2;
}"""


def test_a_channel_keeps_each_answer_in_sight(small: Visit) -> None:
    said = [{"say": f"answer {n}\n\n{LONG}"} for n in range(5)]
    workspace_of_one(small.daemon, "follow", "ann", *said)
    page = small.open(small.workspace("follow"))
    box = page.get_by_label("Message to @follow")
    for n in range(5):
        box.fill(f"@ann question {n}")
        box.press("Enter")
        wait(page, IN_SIGHT, f"answer {n}")
    assert page.locator(".jump").is_hidden()


def test_who_scrolls_up_stays_there_and_is_told_of_new_messages(small: Visit) -> None:
    workspace_of_one(small.daemon, "away", "ann", *[{"say": f"answer {n}\n\n{LONG}"} for n in range(4)])
    page = small.open(small.workspace("away"))
    for n in range(2):
        say(small.daemon, f"@ann question {n}", to="@away")
        wait(page, IN_SIGHT, f"answer {n}")
    page.locator(".log").hover()
    page.mouse.wheel(0, -900)
    page.get_by_role("button", name="To the newest").wait_for()
    seen_through = "(e) => getComputedStyle(e).backgroundColor === 'rgba(0, 0, 0, 0)'"
    assert not page.locator(".jump").evaluate(seen_through)
    top = page.evaluate("document.querySelector('.log').scrollTop")
    say(small.daemon, "@ann question 2", to="@away")
    page.get_by_role("button", name="New messages").wait_for()
    assert page.evaluate("document.querySelector('.log').scrollTop") == top
    page.get_by_role("button", name="New messages").click()
    wait(page, IN_SIGHT, "answer 2")
    say(small.daemon, "@ann question 3", to="@away")
    wait(page, IN_SIGHT, "answer 3")


def test_a_conversation_with_an_agent_opens_at_the_newest_and_enter_sends(small: Visit) -> None:
    daemon = small.daemon
    for n in range(3):
        daemon.do("POST", "/ask", agent="ben", message=f"question {n}")
    page = small.open(small.place("agent/ben"))
    wait(page, IN_SIGHT, "answer 2")
    box = page.get_by_label("Message to ben")
    box.fill("question 3")
    box.press("Enter")
    assert box.input_value() == ""
    wait(page, IN_SIGHT, "answer 3")
    wait(page, "() => !document.querySelector('.pending .msg')")  # the answer to sending may be late
    assert page.locator(".rows .msg", has_text="question 3").count() == 1


def test_what_is_sent_stands_there_at_once_and_what_is_written_is_seen_as_it_comes(guest: Visit) -> None:
    page = guest.open(guest.place("agent/slow"))
    page.evaluate(
        """() => { window.seen = []; window.first = null;
             const log = document.querySelector('.log');
             new MutationObserver(() => { seen.push(log.querySelector('.working').textContent);
               window.first ??= log.querySelector('.pending').textContent || null; })
               .observe(log, {childList: true, subtree: true, characterData: true}) }"""
    )
    box = page.get_by_label("Message to slow")
    box.fill("please begin")
    box.press("Shift+Enter")
    box.press_sequentially("slowly")
    box.press("Enter")
    page.locator(".rows .msg", has_text="one word after the other").wait_for()
    assert "please begin" in page.evaluate("first")
    assert "is being sent" in page.evaluate("first")
    wait(page, "() => document.querySelector('.working').children.length === 0")
    seen = page.evaluate("seen")
    assert any("is at work" in each for each in seen)
    assert any("one word after" in each and "writes" in each for each in seen)
    box.fill("and once more")
    box.press("Enter")
    page.locator(".pending .msg", has_text="and once more").wait_for()
    page.locator(".working li", has_text="is at work").wait_for()
    page.reload()
    page.locator(".pending .msg", has_text="and once more").wait_for()
    page.locator(".working li", has_text="is at work").wait_for()


def test_a_message_that_was_begun_is_there_again_after_another_view_and_after_a_reload(guest: Visit) -> None:
    page = guest.open(guest.workspace())
    box = page.get_by_label("Message to @review")
    box.fill("half of a sen")
    guest.go(guest.place("agent/ben"))
    assert page.get_by_label("Message to ben").input_value() == "", "each conversation has its own"
    guest.go(guest.workspace())
    assert box.input_value() == "half of a sen"
    page.reload()
    wait(page, "() => document.querySelector('.compose textarea')?.value === 'half of a sen'")
    box.press("End")
    box.press_sequentially("tence")
    box.press("Enter")
    page.locator(".rows .msg", has_text="half of a sentence").wait_for()
    page.reload()
    wait(page, "() => document.querySelector('.compose textarea')?.value === ''")


def test_two_messages_sent_quickly_arrive_once_each_and_in_order(guest: Visit) -> None:
    workspace_of_one(guest.daemon, "quick", "ann", {"say": "fine"})
    page = guest.open(guest.workspace("quick"))
    box = page.get_by_label("Message to @quick")
    for n in range(6):
        box.fill(f"quick {n}")
        box.press("Enter")
    page.locator(".rows .msg", has_text="quick 5").wait_for()
    wait(page, "() => !document.querySelector('.sending')")
    said = page.evaluate("[...document.querySelectorAll('.rows > li .prose')].map((each) => each.textContent.trim())")
    assert [each for each in said if each.startswith("quick")] == [f"quick {n}" for n in range(6)]


#: Answers to what is sent are held until they are let go; what is asked for meanwhile is not.
HELD_ANSWERS = """(() => { const real = window.fetch; let go; const later = new Promise((done) => { go = done });
  window.letGo = go;
  window.fetch = async (url, how) => {
    const sends = how?.method === 'POST' && /\\/(send|channels)\\b/.test(String(url));
    if (sends && window.holdRequest) await later;
    const answer = await real(url, how);
    if (sends && window.holdAnswer) await later;
    return answer; } })()"""
OF_MINE = (
    "() => [...document.querySelectorAll('.log .msg')].filter((row) => row.textContent.includes('my words')).length"
)


def test_what_was_sent_stands_there_once_however_late_its_sending_is_answered(guest: Visit) -> None:
    (guest.daemon.project / ".agents" / "swift.yaml").write_text("backend: mock\n" + script({"say": "at once"}))
    guest.page.add_init_script(HELD_ANSWERS)
    page = guest.open(guest.place("agent/swift"))
    page.evaluate("() => { window.holdAnswer = true }")
    box = page.get_by_label("Message to swift")
    box.fill("my words")
    box.press("Enter")
    page.locator(".rows .msg", has_text="at once").wait_for()
    assert page.evaluate(OF_MINE) == 1
    page.evaluate("() => window.letGo()")
    wait(page, "() => !document.querySelector('form.compose[data-busy]')")
    assert page.evaluate(OF_MINE) == 1


def test_what_is_on_its_way_stays_in_sight_while_the_same_person_says_something_elsewhere(guest: Visit) -> None:
    workspace_of_one(guest.daemon, "twotabs", "ann", {"say": "fine"})
    guest.page.add_init_script(HELD_ANSWERS)
    page = guest.open(guest.workspace("twotabs"))
    page.evaluate("() => { window.holdRequest = true }")
    box = page.get_by_label("Message to @twotabs")
    box.fill("my words")
    box.press("Enter")
    say(guest.daemon, "from another tab", to="@twotabs")
    page.locator(".rows .msg", has_text="from another tab").wait_for()
    assert page.locator(".sending", has_text="my words").count() == 1
    page.evaluate("() => window.letGo()")
    page.locator(".rows .msg", has_text="my words").wait_for()
    wait(page, f"() => ({OF_MINE})() === 1")  # its answer and the event come one after the other


def test_a_message_that_finds_no_daemon_is_in_the_box_again_and_is_said_once(guest: Visit) -> None:
    guest.page.add_init_script(
        """(() => { const real = window.fetch; window.fetch = async (url, how) => {
             if (!window.cut || !String(url).includes('/channels/')) return real(url, how);
             window.cut = false; await real(url, how); throw new TypeError('the answer was lost'); } })()"""
    )
    page = guest.open(guest.workspace())
    page.evaluate("() => { window.cut = true }")
    box = page.get_by_label("Message to @review")
    box.fill("only once, please")
    box.press("Enter")
    page.get_by_text("the daemon does not answer").wait_for()
    assert box.input_value() == "only once, please"
    box.press("Enter")
    wait(page, "() => document.querySelector('.compose textarea').value === '' && !document.querySelector('.sending')")
    assert page.locator(".rows .msg", has_text="only once, please").count() == 1


def test_a_workspace_says_how_much_of_it_is_new_until_it_is_looked_at(browser: Browser, daemon: Served) -> None:
    for tag in ("here", "there"):
        start(daemon, tag)
    with visit(browser, daemon, viewport={"width": 1280, "height": 800}) as guest:
        page = guest.open(guest.workspace("review:there"))
        say(daemon, "seen at once", to="@review:there")
        page.get_by_text("seen at once").wait_for()
        guest.go(guest.workspace("review:here"))
        for n in range(3):
            say(daemon, f"unseen {n}", to="@review:there")
        entry = page.locator("#side li", has_text="@review:there")
        entry.get_by_label("3 new").wait_for()
        guest.go(guest.workspace("review:there"))
        wait(page, "() => [...document.querySelectorAll('#side li[data-name$=there] .fresh')].every((e) => e.hidden)")
        assert not guest.complaints


def test_pausing_a_workflow_changes_what_its_head_says_and_offers(guest: Visit) -> None:
    workspace_of_one(guest.daemon, "rest", "ann", {"say": "fine"})
    page = guest.open(guest.workspace("rest"))
    for act, state, then in (("Pause", "paused", "Resume"), ("Resume", "running", "Pause")):
        page.get_by_role("button", name=act, exact=True).click()
        page.get_by_role("button", name=then, exact=True).wait_for()
        assert page.locator(".bar .state").inner_text() == state
    guest.daemon.do("POST", "/workflows/rest/pause")
    page.locator(".bar .state", has_text="paused").wait_for()
