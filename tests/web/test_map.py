"""The team at a glance: the map shows who works and who waits for whom, as it happens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.shells.served import Served, served
from tests.web.browser import Visit, needs_chromium, say, script, start, wait

pytestmark = needs_chromium

ALICE = script({"say": "@bob please look"}, {"say": "thanks"})
BOB = script(
    {"call": {"tool": "ask_user", "with": {"question": "May I?", "options": ["yes", "no"]}}}, {"say": "looked"}
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("map"), alice=ALICE, bob=BOB) as made:
        made.do("POST", "/trust")
        start(made)
        yield made


def test_the_map_shows_who_waits_for_whom_until_it_is_answered(guest: Visit) -> None:
    page = guest.open(guest.workspace(tab="map"))
    page.get_by_text("Nobody is at work now.").wait_for()
    say(guest.daemon, "@alice begin")
    bob = page.locator(".glance li", has_text="bob")
    bob.get_by_text("alice waits for it").wait_for()
    bob.get_by_text("waits for you", exact=True).first.wait_for()
    wait(page, "() => document.querySelector('.graph .node.slow')")
    page.locator(".graph .call.waits").wait_for()
    page.locator(".glance li", has_text="alice").get_by_text("has called bob, no answer yet").wait_for()
    guest.go("#/inbox")
    page.locator(".item", has_text="May I?").get_by_role("button", name="yes").click()
    guest.go(guest.workspace(tab="map"))
    wait(page, "() => document.querySelector('.graph') && !document.querySelector('.graph .call.waits')")
    page.get_by_text("Nobody is at work now.").wait_for()
