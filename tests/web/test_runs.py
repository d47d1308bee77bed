"""A run, completely: why it happened and what came of it, input and output of its steps, a filter, an export."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import stored
from tests.patience import eventually
from tests.shells.served import Served, served
from tests.web.browser import Visit, needs_chromium, say, script, start, wait

pytestmark = needs_chromium

LONG = "a line of the plan\n" * 200
ALICE = script(
    {"call": {"tool": "team_doc_create", "with": {"name": "plan.md", "text": LONG}}},
    {"call": {"tool": "team_doc_read", "with": {"name": "plan.md"}}},
    {"call": {"tool": "team_doc_read", "with": {"name": "nowhere.md"}}},
    {"say": "@bob please look"},
)
BOB = script({"say": "looked"}, {"say": "voted"})


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("runs"), alice=ALICE, bob=BOB) as made:
        made.do("POST", "/trust")
        start(made)
        say(made, "@alice begin")
        assert eventually(lambda: len(done(made, "bob")) == 1)
        yield made


def done(daemon: Served, agent: str) -> list[str]:
    return [row["id"] for row in daemon.read(stored.runs, name=agent) if row["state"] == "done"]


def test_the_chain_of_causes_is_walked_by_links(guest: Visit) -> None:
    (first,), (second,) = done(guest.daemon, "alice"), done(guest.daemon, "bob")
    page = guest.open(guest.place(f"run/{second}"))
    causes = page.locator(".causes")
    assert "@alice begin" in causes.inner_text()
    assert "@bob please look" in causes.inner_text()
    causes.get_by_role("link", name="its run").click()
    page.get_by_role("heading", name="alice’s run").wait_for()
    assert first in page.url
    page.locator(".causes").get_by_role("link", name="bob’s run").click()
    page.get_by_role("heading", name="bob’s run").wait_for()
    page.locator(".causes").get_by_role("link", name="@review #1").click()
    page.get_by_role("heading", name="@review").wait_for()


def test_each_call_shows_what_went_in_and_all_that_came_out(guest: Visit) -> None:
    page = guest.open(guest.place(f"run/{done(guest.daemon, 'alice')[0]}"))
    call = page.locator("details.tool", has_text="team_doc_read").first
    call.locator("summary").first.click()
    assert '"plan.md"' in call.inner_text()
    call.get_by_text("All of it").click()
    wait(
        page,
        "lines => [...document.querySelectorAll('.result')].some(e => e.textContent.split('plan').length > lines)",
        200,
    )


def test_steps_are_filtered_by_words_and_by_kind(guest: Visit) -> None:
    page = guest.open(guest.place(f"run/{done(guest.daemon, 'alice')[0]}"))
    steps = page.locator(".steps-list > li:visible")
    assert steps.count() == 4
    page.get_by_label("Filter the steps").fill("nowhere")
    page.get_by_text("1 found").wait_for()
    assert steps.count() == 1
    page.get_by_label("Filter the steps").fill("")
    page.get_by_label("Which of them").select_option("calls that failed")
    page.get_by_text("1 found").wait_for()
    assert "nowhere.md" in steps.inner_text()
    page.get_by_label("Which of them").select_option("everything")
    wait(page, "() => document.querySelectorAll('.steps-list > li:not([hidden])').length === 4")


def test_a_trace_is_exported_as_a_file(guest: Visit, tmp_path: Path) -> None:
    run = done(guest.daemon, "alice")[0]
    page = guest.open(guest.place(f"run/{run}"))
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export").click()
    assert saved.value.suggested_filename == f"alice-{run}.json"
    saved.value.save_as(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["run"]["id"] == run
    assert trace["sent"]["sections"], "word by word what its model was sent"
    assert trace["causes"]["woke"][0]["agent"] == "bob"
