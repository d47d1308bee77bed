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
    page.get_by_text("Or write its file yourself").click()
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


def test_an_agent_is_made_with_a_few_words(guest: Visit) -> None:
    page, file = guest.open("#/home"), guest.daemon.project / ".agents" / "mia.yaml"
    page.get_by_role("link", name="New agent").first.click()
    form = page.get_by_role("form", name="New agent")
    form.get_by_label("Name").fill("2 wrong")
    form.get_by_label("It uses").select_option("mock")
    form.get_by_label("Instructions").fill("You are Mia.")
    form.get_by_role("button", name="Create").click()
    form.locator(".told", has_text="2 wrong").wait_for()
    form.get_by_label("Name").fill("mia")
    form.get_by_role("button", name="Create").click()
    page.get_by_role("heading", name="mia").wait_for()
    assert "You are Mia." in file.read_text()
    page.get_by_label("Message to mia").fill("hello")
    page.keyboard.press("Enter")
    page.locator(".rows .msg[data-who=mia]").wait_for()


def test_a_quick_agent_is_made_and_becomes_a_lasting_one(guest: Visit) -> None:
    page, file = guest.open(guest.place("new/agent")), guest.daemon.project / ".agents" / "zoe.yaml"
    form = page.get_by_role("form", name="New agent")
    form.get_by_label("Name").fill("zoe")
    form.get_by_label("It uses").select_option("mock")
    form.get_by_role("button", name="Only a quick one").click()
    page.get_by_role("heading", name="zoe").wait_for()
    assert not file.exists()
    page.locator("details.menu > summary").click()
    page.get_by_role("button", name="Make it a lasting agent").click()
    page.get_by_role("link", name="Edit its file").wait_for()
    assert file.exists()


def test_a_new_workflow_begins_with_agents_that_there_are(guest: Visit) -> None:
    page = guest.open(guest.place("new/workflow"))
    box = page.get_by_role("textbox", name="Text of")
    assert "{ ref: alice }" in box.input_value()
    page.get_by_label("File", exact=True).fill(".workflows/begun.yaml")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Start begun").wait_for()


def test_an_agent_whose_file_is_broken_says_what_is_wrong_and_where_to_mend_it(guest: Visit) -> None:
    file = guest.daemon.project / ".agents" / "brok.yaml"
    file.write_text("backend: mock\nmodle: x\n")
    page = guest.open("#/home")
    page.locator("#side").get_by_role("link", name="brok").click()
    page.get_by_text("Its file cannot be used.").wait_for()
    page.get_by_role("link", name="Edit .agents/brok.yaml at line 2").click()
    page.get_by_role("textbox", name="Text of").fill("backend: mock\n")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("heading", name="brok").wait_for()
    page.get_by_text("You have not talked to brok yet.").wait_for()


def test_an_agent_that_was_always_broken_is_deleted(guest: Visit) -> None:
    file = guest.daemon.project / ".agents" / "rusty.yaml"
    file.write_text("backend: mock\nmodle: x\n")
    page = guest.open(guest.place("agent/rusty"))
    page.get_by_text("Delete …").click()
    page.get_by_role("button", name="Delete rusty").click()
    page.locator("#main .home").wait_for()
    assert not file.exists()


def test_a_member_that_only_its_workflow_defines_has_a_page_with_its_runs(guest: Visit) -> None:
    text = "agents: { ivy: { backend: mock, script: [{ say: hi }, { say: hi }] } }\nworkspace: { provider: sqlite }\n"
    (guest.daemon.project / ".workflows" / "inl.yaml").write_text(text)
    guest.daemon.do("POST", "/workflows", workflow="inl")
    say(guest.daemon, "@ivy hello", to="@inl")
    page = guest.open(guest.workspace("inl"))
    page.locator(".rows .msg[data-who=ivy]").wait_for()
    page.get_by_role("complementary", name="Team").get_by_role("link", name="ivy").click()
    page.get_by_text("lives in its workflow").wait_for()
    page.locator(".runs a", has_text="@inl").click()
    page.get_by_role("heading", name="ivy’s run").wait_for()


def test_an_agent_is_stopped_started_cleared_exported_and_deleted_with_its_folder(guest: Visit) -> None:
    daemon = guest.daemon
    daemon.do("POST", "/agents", name="otis", backend="mock")
    daemon.do("POST", "/serve", agent="otis", message="keep this secret word")
    page = guest.open(guest.place("agent/otis"))
    page.locator(".rows .msg", has_text="keep this secret word").first.wait_for()
    more = page.locator(".menu summary").first
    more.click()
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("form", name="start otis").get_by_role("button").click()
    page.get_by_role("button", name="Pause").wait_for()
    guest.go("#/home")
    guest.go(guest.place("agent/otis"))
    more.click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export as Markdown").click()
    assert download.value.suggested_filename == "otis.md"
    page.get_by_role("button", name="Begin the conversation afresh").click()
    assert eventually(lambda: not ask(daemon, "/agents/otis")["thread"])
    guest.go("#/home")
    guest.go(guest.place("agent/otis"))
    more.click()
    page.get_by_text("Delete …").click()
    page.get_by_label("and its folder").check()
    page.get_by_role("button", name="Delete otis").click()
    page.locator("#main .home").wait_for()
    assert not (daemon.project / ".agents" / "otis").exists()
    assert not (daemon.project / ".agents" / "otis.yaml").exists()


def test_an_agent_of_the_longest_name_is_deleted_by_a_button_that_is_all_there(guest: Visit) -> None:
    name = "a" + "bcdefghij" * 6
    guest.daemon.do("POST", "/agents", name=name, backend="mock")
    page = guest.open(guest.place(f"agent/{name}"))
    page.locator("details.menu", has_text="Delete").locator("summary").first.click()
    page.get_by_text("Delete …").click()
    menu, press = page.locator(".choices").bounding_box(), page.get_by_role("button", name=f"Delete {name}")
    box = press.bounding_box()
    assert menu
    assert box
    assert box["x"] + box["width"] <= menu["x"] + menu["width"]
    press.click()
    page.locator("#main .home").wait_for()


def test_a_workflow_runs_at_set_times(guest: Visit) -> None:
    file = guest.daemon.project / ".workflows" / "nightly.yaml"
    file.write_text(
        'agents: { alice: { ref: alice } }\nkickoff: "@alice ${{ params.what }}"\n'
        "params: [{ name: what, required: true }]\nworkspace: { provider: sqlite }\n"
    )
    page = guest.open("#/home")
    page.locator("#main").get_by_role("link", name="nightly", exact=True).click()
    page.get_by_text("It runs only when it is started.").wait_for()
    page.get_by_text("Set", exact=True).click()
    form = page.get_by_role("form", name="Schedule nightly")
    form.get_by_label("When").fill("weekdays at 9")
    form.get_by_label("what").fill("count")
    form.get_by_role("button", name="Set it").click()
    page.get_by_text("the workflow nightly runs").wait_for()
    assert ask(guest.daemon, "/schedules/nightly")["params"] == {"what": "count"}
    page.get_by_role("button", name="Clear").click()
    page.get_by_text("It runs only when it is started.").wait_for()


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
    team.get_by_text("Raise", exact=True).first.click()
    team.get_by_label("New limit of @chat: runs").fill("40")
    team.get_by_role("form", name="Raise turns of @chat").get_by_role("button").click()
    page.get_by_role("button", name="Pause").wait_for()
    team.get_by_text("of 40 runs").wait_for()


def test_what_an_agent_may_spend_in_a_day_is_written_into_its_file(guest: Visit) -> None:
    page = guest.open(guest.place("agent/bob"))
    page.get_by_text("Raise", exact=True).click()
    page.get_by_label("New limit of bob: USD a day").fill("33")
    page.get_by_role("form", name="Raise usd_per_day of bob").get_by_role("button").click()
    page.get_by_text("Today: $0 of $33").wait_for()
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
