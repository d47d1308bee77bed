"""The team at a glance: the map shows who works and who waits for whom, as it happens."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.shells.served import Served, served
from tests.web.browser import Browser, Visit, needs_chromium, say, script, start, visit, wait

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
    page.locator(".glance li", has_text="alice").get_by_text("has called on bob, no answer yet").wait_for()
    guest.go("#/inbox")
    page.locator(".item", has_text="May I?").get_by_role("button", name="yes").click()
    guest.go(guest.workspace(tab="map"))
    wait(page, "() => document.querySelector('.graph') && !document.querySelector('.graph .call.waits')")
    page.get_by_text("Nobody is at work now.").wait_for()


def changes_app(text: str) -> str:
    return "tools: [read_file, write_file]\nisolate: worktree\n" + script(
        {"call": {"tool": "write_file", "with": {"path": "app.py", "text": text}}}, {"say": "changed"}
    )


def commit(folder: Path, file: str) -> None:
    for words in (["init", "-q"], ["add", file], ["commit", "-qm", "begin"]):
        settings = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
        subprocess.run(["git", *settings, *words], cwd=folder, capture_output=True, check=True)


def test_two_who_changed_the_same_file_are_told_once_and_the_map_shows_it(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    alice, bob = changes_app("print('from alice')\n"), changes_app("print('from bob')\n")
    with served(tmp_path_factory.mktemp("copies"), alice=alice, bob=bob) as daemon:
        (daemon.project / "app.py").write_text("print('old')\n")
        commit(daemon.project, "app.py")
        daemon.do("POST", "/trust")
        start(daemon)
        with visit(browser, daemon, viewport={"width": 1280, "height": 800}) as guest:
            page = guest.open(guest.workspace())
            say(daemon, "@alice @bob improve it")
            told = page.locator(".msg.system", has_text="have both changed app.py")
            told.wait_for()
            assert "A trial merge conflicts in app.py" in told.inner_text()
            assert told.count() == 1
            offered = page.locator(".msg.system", has_text="alice changed 1 file in its own copy: app.py")
            offered.get_by_text("What was changed").click()
            offered.get_by_text("+print('from alice')").wait_for()
            guest.go(guest.workspace(tab="map"))
            page.locator(".overlaps", has_text="alice and bob have both changed app.py").wait_for()
            assert not guest.complaints
