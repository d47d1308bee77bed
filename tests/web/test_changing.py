"""What a person makes and changes on the page: a project, agents and workflows, limits, a schedule, memory, todos."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import stored
from tests.patience import eventually
from tests.shells.served import Served, served
from tests.web.browser import Visit, needs_chromium, say, script, wait

pytestmark = needs_chromium

#: One request leads to two runs at most: the third waits at the limit.
TALKERS = """
agents:
  una: { backend: mock, script: [{ say: "@duo your turn" }, { say: "@duo once more" }, { say: end }] }
  duo: { backend: mock, script: [{ say: "@una and yours" }, { say: "@una again" }, { say: end }] }
workspace: { provider: sqlite }
limits: { turns: 2 }
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("changing"), alice=script({"say": "hello"})) as made:
        yield made


def ask(daemon: Served, path: str) -> Any:
    return daemon.ask("GET", daemon.query(path)).json


# --- a project, an agent, a workflow


def test_a_project_is_set_up_in_a_folder_and_put_to_work(guest: Visit, tmp_path: Path) -> None:
    page = guest.open("#/home")
    page.get_by_role("link", name="New project").click()
    form = page.get_by_role("form", name="New project")
    form.get_by_label("Folder").fill("relative/path")
    form.get_by_role("button", name="Create").click()
    form.get_by_text("is not a full path").wait_for()
    form.get_by_label("Folder").fill(str(tmp_path / "no" / "where"))
    form.get_by_role("button", name="Create").click()
    form.get_by_text("there is no directory").wait_for()
    form.get_by_label("Folder").fill(str(tmp_path / "shop"))
    form.get_by_label("Team").select_option("triage")
    form.get_by_label("Its agents use").select_option("mock")
    form.get_by_role("button", name="Create").click()
    page.get_by_role("heading", name="Start triage").wait_for()
    assert (tmp_path / "shop" / ".agents" / "tess.yaml").exists()
    assert page.locator(".consent").count() == 0, "what was written for the person is approved"
    page.get_by_role("button", name="Start triage").click()
    page.get_by_role("heading", name="@triage").wait_for()
    guest.go("#/new-project")
    form.get_by_label("Folder").fill(str(tmp_path / "shop"))
    form.get_by_label("Team").select_option("triage")
    form.get_by_role("button", name="Create").click()
    form.get_by_text("everything is already there").wait_for()


def test_what_was_in_the_folder_before_is_asked_about_as_in_a_terminal(guest: Visit, tmp_path: Path) -> None:
    (tmp_path / ".workflows").mkdir()
    file = tmp_path / ".workflows" / "triage.yaml"
    file.write_text("agents: { tess: { ref: tess } }\nsetup: [{ shell: 'echo mine' }]\n")
    page = guest.open("#/new-project")
    form = page.get_by_role("form", name="New project")
    form.get_by_label("Folder").fill(str(tmp_path))
    form.get_by_label("Team").select_option("triage")
    form.get_by_label("Its agents use").select_option("mock")
    form.get_by_role("button", name="Create").click()
    page.get_by_role("heading", name="Start triage").wait_for()
    page.locator(".consent", has_text="echo mine").wait_for()
    assert "echo mine" in file.read_text(), "it was left alone"


def test_an_agent_and_a_workflow_are_made_from_their_files(guest: Visit) -> None:
    page, project = guest.open("#/home"), guest.daemon.project
    page.get_by_role("link", name="New agent").first.click()
    page.get_by_label("File", exact=True).fill(".agents/nora.yaml")
    page.get_by_role("textbox", name="Text of").fill("backend: mock\nmodle: x\n")
    page.locator(".problems", has_text='did you mean "model"').wait_for()
    page.get_by_role("button", name="Save").click()
    page.locator(".told", has_text="modle").wait_for()
    assert not (project / ".agents" / "nora.yaml").exists(), "what is wrong is not saved"
    page.get_by_role("textbox", name="Text of").fill("backend: mock\nprompt: { system: help }\n")
    page.get_by_role("button", name="Save").click()
    page.locator("#main .home").wait_for()
    page.get_by_role("link", name="New workflow").first.click()
    page.get_by_label("File", exact=True).fill(".workflows/pair.yaml")
    page.get_by_role("textbox", name="Text of").fill("agents: { nora: { ref: nora } }\n")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Start pair").wait_for()
    assert (project / ".workflows" / "pair.yaml").read_text() == "agents: { nora: { ref: nora } }\n"


# --- limits


def at_the_limit(daemon: Served, workflow: str) -> None:
    (daemon.project / ".workflows" / f"{workflow}.yaml").write_text(TALKERS)
    daemon.do("POST", "/workflows", workflow=workflow)
    say(daemon, "@una begin", to=f"@{workflow}")
    assert eventually(lambda: any(i["kind"] == "limit" and i["workspace"] == workflow for i in ask(daemon, "/inbox")))


def runs_in(daemon: Served, workflow: str) -> int:
    return len(ask(daemon, f"/runs?at=@{workflow}"))


def test_a_limit_is_raised_to_a_number_on_its_card(guest: Visit) -> None:
    at_the_limit(guest.daemon, "talk")
    page = guest.open("#/inbox")
    card = page.locator(".item[data-kind=limit]", has_text="@talk")
    number = card.get_by_label("New limit of @talk: runs")
    assert number.input_value() == "4", "twice as much is offered"
    number.fill("3")
    card.get_by_role("button", name="Raise to this").click()
    page.locator(".item[data-kind=limit]", has_text="3 runs (limit 3)").wait_for()
    assert runs_in(guest.daemon, "talk") == 3, "what was used counts on"
    page.locator(".item[data-kind=limit]", has_text="@talk").get_by_role("button", name="Grant the same again").click()
    assert eventually(lambda: runs_in(guest.daemon, "talk") > 3)


def test_a_limit_is_raised_beside_the_channel(guest: Visit) -> None:
    at_the_limit(guest.daemon, "chat")
    page = guest.open(guest.workspace("chat"))
    team = page.get_by_role("complementary", name="Team")
    team.get_by_text("2 of 2 runs").wait_for()
    team.get_by_label("New limit of @chat: runs").fill("40")
    team.get_by_role("form", name="Raise turns of @chat").get_by_role("button").click()
    page.get_by_role("button", name="Pause").wait_for()
    team.get_by_text("of 40 runs").wait_for()


def test_what_an_agent_may_spend_in_a_day_is_written_into_its_file(guest: Visit) -> None:
    page = guest.open(guest.place("agent/bob"))
    page.get_by_label("New limit of bob: USD a day").fill("33")
    page.get_by_role("form", name="Raise usd_per_day of bob").get_by_role("button").click()
    page.get_by_text("today: $0 of $33").wait_for()
    assert "usd_per_day: 33" in (guest.daemon.project / ".agents" / "bob.yaml").read_text()
    assert not ask(guest.daemon, "/trust?agent=bob"), "the person has said so: it is approved"


# --- what an agent keeps


def test_a_schedule_is_set_and_cleared(guest: Visit) -> None:
    page = guest.open(guest.place("agent/alice"))
    section = page.locator(".part", has=page.get_by_role("heading", name="Schedule"))
    section.get_by_text("Set", exact=True).click()
    section.get_by_label("When it wakes", exact=True).fill("never ever")
    section.get_by_role("button", name="Set it").click()
    wait(page, "() => document.querySelector('form[aria-label=\"Set the schedule\"] .told').textContent.length > 10")
    section.get_by_label("When it wakes", exact=True).fill("3h")
    section.get_by_label("What it is told when it wakes up").fill("anything new?")
    section.get_by_role("button", name="Set it").click()
    section.get_by_text("anything new?").wait_for()
    assert ask(guest.daemon, "/schedules/alice")["wakeup"] == "3h"
    section.get_by_role("button", name="Clear").click()
    section.get_by_text("Wakes up only when called.").wait_for()


def test_memory_is_added_changed_and_archived(guest: Visit) -> None:
    page = guest.open(guest.place("agent/alice"))
    section = page.locator(".part", has=page.get_by_role("heading", name="Memory"))
    section.get_by_text("Add", exact=True).click()
    section.get_by_label("Key").fill("tea")
    section.get_by_label("Value", exact=True).fill("green")
    section.get_by_role("button", name="Remember").click()
    section.locator("summary", has_text="tea").click()
    section.get_by_text("by you").wait_for()
    section.get_by_label("Value of tea").fill("black")
    section.get_by_role("form", name="Edit tea").get_by_role("button", name="Save").click()
    section.locator("summary", has_text="black").wait_for()
    section.get_by_label("Value of tea").fill("")
    section.get_by_role("form", name="Edit tea").get_by_role("button", name="Save").click()
    section.locator(".archived", has_text="black").wait_for()


def test_a_todo_is_added_and_ticked_off(guest: Visit) -> None:
    page = guest.open(guest.place("agent/alice"))
    page.get_by_label("New todo").fill("water the plants")
    page.get_by_role("form", name="Add a todo").get_by_role("button").click()
    page.get_by_role("button", name="Tick off: water the plants").click()
    page.locator(".todos .done", has_text="water the plants").wait_for()


def test_one_run_is_cancelled_and_an_agent_paused_and_resumed(guest: Visit) -> None:
    (guest.daemon.project / ".agents" / "slow.yaml").write_text("backend: mock\n" + script({"say": "x", "slow": "10m"}))
    guest.daemon.do("POST", "/send", to="slow", message="take your time")
    page = guest.open(guest.place("agent/slow"))
    page.locator(".queue .work", has_text="take your time").get_by_role("button", name="Cancel").click()
    page.get_by_text("Nothing to do.").wait_for()
    assert eventually(lambda: [r["state"] for r in guest.daemon.read(stored.runs, name="slow")] == ["cancelled"])
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Pause").wait_for()
