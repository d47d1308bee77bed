"""What waits for the person: answered by buttons, where it arose and in the inbox, by hand and by keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.patience import eventually
from tests.shells.served import Served, served
from tests.web.browser import Browser, Visit, needs_chromium, say, script, visit, wait, workspace_of_one

pytestmark = needs_chromium

ASKS = {"call": {"tool": "ask_user", "with": {"question": "Tea or **coffee**?", "options": ["tea", "coffee"]}}}
WRITES = script(
    {"call": {"tool": "write_file", "with": {"path": "one.txt", "text": "hello\nworld"}}},
    {"call": {"tool": "write_file", "with": {"path": "two.txt", "text": "again"}}},
    {"say": "both are written"},
)
REFUSED = script(
    {"call": {"tool": "write_file", "with": {"path": "three.txt", "text": "no"}}},
    {"say": "not written then"},
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("inbox")) as made:
        for name, does in {"wanda": WRITES, "wilma": REFUSED}.items():
            (made.project / ".agents" / f"{name}.yaml").write_text(
                "backend: mock\ntools: [{ name: write_file, approve: true }]\n" + does
            )
        made.do("POST", "/trust")
        yield made


def test_a_question_is_answered_in_the_channel_by_the_button_of_an_option(guest: Visit) -> None:
    workspace_of_one(guest.daemon, "drinks", "ann", ASKS, {"say": "I will bring it"})
    page = guest.open(guest.workspace("drinks"))
    say(guest.daemon, "@ann something to drink", to="@drinks")
    card = page.locator(".log .item", has_text="Tea or coffee?")
    card.wait_for()
    page.locator(".members li", has_text="waits for you").wait_for()
    page.set_viewport_size({"width": 390, "height": 800})
    asked = card.get_by_text("Tea or coffee?").bounding_box()
    assert asked, "it is shown"
    assert asked["height"] < 40, "in one line, also on a phone"
    card.get_by_role("button", name="tea").click()
    page.locator(".rows .msg", has_text="I will bring it").wait_for()
    page.locator(".log .item").wait_for(state="detached")


def test_other_words_than_the_options_are_an_answer_too(guest: Visit) -> None:
    workspace_of_one(guest.daemon, "others", "ann", ASKS, {"say": "as you like"})
    page = guest.open("#/inbox")
    say(guest.daemon, "@ann something to drink", to="@others")
    item = page.locator(".item", has_text="Tea or coffee?")
    item.get_by_role("button", name="Answer").click()
    assert item.count() == 1, "nothing was written"
    item.get_by_label("Other words").fill("plain water")
    item.get_by_role("button", name="Answer").click()
    item.wait_for(state="detached")
    guest.go(guest.workspace("others"))
    page.locator(".rows .msg", has_text="as you like").wait_for()


def test_an_approval_shows_the_call_and_its_run_and_holds_for_the_run(guest: Visit) -> None:
    page, daemon = guest.open(guest.place("agent/wanda")), guest.daemon
    daemon.do("POST", "/send", to="wanda", message="write them")
    card = page.locator(".log .item")
    card.wait_for()
    told = card.inner_text()
    assert "wanda wants to use write_file" in told
    assert card.locator("dd pre").inner_text() == "hello\nworld"
    assert "{" not in told
    assert card.get_by_role("link", name="its run").get_attribute("href").startswith("#/run/r_")  # type: ignore[union-attr]
    card.get_by_role("button", name="For this run").click()
    page.locator(".rows .msg", has_text="both are written").wait_for()
    assert (daemon.project / "two.txt").read_text() == "again"


def test_keys_go_to_what_waits_and_answer_it(guest: Visit) -> None:
    page, daemon = guest.open("#/inbox"), guest.daemon
    daemon.do("POST", "/send", to="wilma", message="and one more")
    page.locator(".item", has_text="three.txt").wait_for()
    page.keyboard.press("x")
    wait(page, "() => document.activeElement.matches('.item')")
    assert page.locator(".item").count() == 1, "the first press only goes there"
    page.keyboard.press("x")
    page.locator(".item").wait_for(state="detached")
    assert eventually(lambda: "not written then" in str(daemon.ask("GET", daemon.query("/messages?at=wilma")).json))
    assert not (daemon.project / "three.txt").exists()


def test_votes_and_vetoes_have_a_title_and_buttons(guest: Visit) -> None:
    workspace_of_one(guest.daemon, "ballots", "ann", {"say": "hm"}, {"say": "hm"}, {"say": "hm"})
    page = guest.open("#/inbox")
    guest.daemon.do(
        "POST", "/proposals", at="@ballots", question="Tabs?", options=["tabs", "spaces"], voters=["user", "ann"]
    )
    vote = page.locator(".item[data-kind=vote]")
    vote.wait_for()
    assert "@ballots asks for your vote" in " ".join(vote.inner_text().split())
    vote.get_by_role("button", name="spaces").click()
    vote.wait_for(state="detached")


def test_the_menu_of_a_phone_says_that_something_waits(browser: Browser, daemon: Served) -> None:
    workspace_of_one(daemon, "phone", "ann", ASKS, {"say": "fine"})
    with visit(browser, daemon, viewport={"width": 390, "height": 800}) as guest:
        page = guest.open(guest.workspace("phone"))
        say(daemon, "@ann something to drink", to="@phone")
        page.get_by_role("button", name="Menu, 1 in the inbox").wait_for()
        page.locator(".log .item").get_by_role("button", name="coffee").click()
        page.get_by_role("button", name="Menu", exact=True).wait_for()
        assert not guest.complaints
