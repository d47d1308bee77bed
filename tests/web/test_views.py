"""The other views: home, agent, run, inbox, documents. What can be done there, and that everybody can read it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.patience import eventually
from tests.shells.served import Served, served
from tests.web.browser import (
    Browser,
    Visit,
    needs_chromium,
    say,
    script,
    start,
    visit,
    wait,
    workspace_of_one,
)

pytestmark = needs_chromium

ALICE = "soul: { role: reviewer, principles: [be kind] }\ntools: [{ name: write_file, approve: true }]\n" + script(
    {"call": {"tool": "team_doc_create", "with": {"name": "plan.md", "text": "# Plan\n\n- one\n"}}},
    {"call": {"tool": "team_doc_append", "with": {"name": "plan.md", "text": "- two\n"}}},
    {"say": "@bob please look"},
    {"call": {"tool": "write_file", "with": {"path": "made.txt", "text": "hello"}}},
    {"say": "it is written"},
    {"call": {"tool": "ask_user", "with": {"question": "Tea or coffee?", "options": ["tea", "coffee"]}}},
    {"say": "I will bring it"},
)
BOB = script({"fail": "transient"}, {"say": "looked"}, {"say": "I am"})
DEPLOY = """
agents: { dana: { backend: mock } }
workspace: { provider: sqlite }
params:
  - { name: target, required: true, description: Where to }
  - { name: times, type: integer, default: 3 }
  - { name: dry, type: boolean, default: true }
setup:
  - { shell: "echo $PARAMS_TARGET $PARAMS_DRY $PARAMS_TIMES", as: said }
kickoff: "to ${{ said }}"
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("views"), alice=ALICE, bob=BOB) as made:
        (made.project / ".workflows" / "deploy.yaml").write_text(DEPLOY)
        (made.project / ".agents" / "gary.yaml").write_text("backend: mock\nsoul: { role: reviewer }\n")
        made.do("POST", "/trust")
        start(made)
        say(made, "@alice begin")
        assert eventually(lambda: "looked" in texts(made))
        yield made


def texts(daemon: Served) -> list[str]:
    return [line["text"] for line in daemon.ask("GET", daemon.query("/messages?at=@review")).json]


# --- home


def test_home_shows_agents_workflows_and_failures(guest: Visit) -> None:
    page = guest.open("#/home")
    assert page.get_by_role("row", name=re.compile("^alice")).count() == 1
    assert page.get_by_role("row", name="@review").get_by_text("running").count() >= 1
    assert "transient" in page.locator(".part", has_text="Recent failures").inner_text()


def test_a_workflow_is_started_with_a_form_made_from_its_params(guest: Visit) -> None:
    page = guest.open("#/home")
    page.get_by_role("link", name="Start deploy").click()
    form = page.get_by_role("form", name="Start deploy")
    form.get_by_role("button", name="Start deploy").click()
    assert "workspace" not in page.url  # a required field is empty
    form.get_by_label("target").fill("the moon; echo no")
    assert form.get_by_label("times").get_attribute("type") == "number"
    assert form.get_by_label("dry").is_checked(), "what the file says it is"
    form.get_by_label("dry").uncheck()
    consent = form.get_by_label("I approve this")
    if consent.count():
        assert "echo $PARAMS_TARGET" in form.inner_text()
        consent.check()
    form.get_by_role("button", name="Start deploy").click()
    page.get_by_text("to the moon; echo no false 3").first.wait_for()
    assert "#/workspace/deploy" in page.url


def test_an_empty_home_explains_the_first_command_and_offers_the_demo(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with served(tmp_path_factory.mktemp("empty")) as daemon:
        for file in daemon.project.rglob("*.yaml"):
            file.unlink()
        with visit(browser, daemon) as guest:
            page = guest.open("#/home")
            page.get_by_text("agent-worker init").wait_for()
            page.get_by_role("button", name="Watch the demo").click()
            page.get_by_text("please keep the notes").wait_for()
            assert "ada" in page.locator(".members").inner_text()
            assert not guest.complaints


# --- an agent


def test_an_agent_is_shown_with_all_that_is_its_own(guest: Visit) -> None:
    page = guest.open(guest.place("agent/alice"))
    about = page.get_by_role("complementary").inner_text()
    for part in ("Soul", "reviewer", "Todos", "Memory", "Notes", "Queue", "Schedule", "Runs"):
        assert part in about
    assert "today" in page.locator(".bar").inner_text()


def test_the_soul_is_edited_in_place_and_not_over_somebody_elses_edit(guest: Visit) -> None:
    page, daemon = guest.open("#/agent/gary"), guest.daemon
    page.get_by_text("Edit", exact=True).first.click()
    box = page.get_by_role("textbox", name="Soul of gary")
    box.fill("role: gardener\nprinciples: [water early]\n")
    page.get_by_role("form", name="Edit the soul").get_by_role("button", name="Save").click()
    page.locator(".soul dd", has_text="gardener").wait_for()
    assert (daemon.project / ".agents/gary/soul.yaml").read_text().startswith("role: gardener")
    assert "role: reviewer" in (daemon.project / ".agents/gary.yaml").read_text(), "the definition stays version 1"
    refused = daemon.ask(
        "PUT", "/agents/gary/soul", body={"text": "role: x", "was": "role: baker", "project": str(daemon.project)}
    )
    assert refused.status == 409
    wrong = daemon.ask(
        "PUT",
        "/agents/gary/soul",
        body={
            "text": "role: [",
            "was": daemon.client.request("GET", daemon.query("/agents/gary/soul"))[1]["text"],
            "project": str(daemon.project),
        },
    )
    assert wrong.status == 422


def test_todos_and_memory_are_edited_in_place(guest: Visit) -> None:
    page = guest.open(guest.place("agent/alice"))
    page.get_by_label("New todo").fill("sweep the floor")
    page.get_by_label("New todo").press("Enter")
    page.get_by_role("button", name="Tick off: sweep the floor").click()
    page.locator(".todos .done", has_text="sweep the floor").wait_for()
    part = page.locator(".part", has_text="Memory")
    part.get_by_text("Add", exact=True).click()
    part.get_by_label("Key").fill("tea")
    part.get_by_label("Value", exact=True).fill("green")
    part.get_by_role("button", name="Remember").click()
    part.locator(".memory summary", has_text="green").wait_for()


def test_an_edit_made_meanwhile_is_not_overwritten(guest: Visit) -> None:
    daemon = guest.daemon
    daemon.do("PUT", "/agents/alice/memory", key="colour", value="red")
    page = guest.open(guest.place("agent/alice"))
    page.locator(".memory summary", has_text="colour").click()
    field = page.get_by_label("Value of colour")
    field.fill("blue")
    daemon.do("PUT", "/agents/alice/memory", key="colour", value="green")
    page.get_by_role("form", name="Edit colour").get_by_role("button").click()
    page.get_by_text("was changed in the meantime: it is now 'green'").wait_for()
    assert field.input_value() == "blue"  # what was written is not lost
    notes = daemon.project / ".agents" / "alice" / "notes"
    notes.mkdir(parents=True, exist_ok=True)
    (notes / "2026-01-01-day.md").write_text("# Day\n\nfine\n")
    page.reload()
    page.get_by_text("2026-01-01-day.md").click()
    note = page.locator("details", has_text="2026-01-01-day.md")
    note.get_by_text("Edit", exact=True).click()
    note.get_by_role("textbox").fill("# Day\n\nbetter\n")
    (notes / "2026-01-01-day.md").write_text("# Day\n\nby hand\n")
    note.get_by_role("button", name="Save").click()
    note.get_by_text("Somebody else saved it in the meantime").wait_for()
    assert "by hand" in (notes / "2026-01-01-day.md").read_text()


def test_a_direct_message_is_written_and_answered_there(guest: Visit) -> None:
    page = guest.open(guest.place("agent/bob"))
    page.get_by_label("Message to bob").fill("are you there?")
    page.get_by_role("button", name="Send").click()
    page.locator(".rows .msg", has_text="are you there?").wait_for()
    page.locator(".rows .msg", has_text="I am").wait_for()


# --- a run


def run_of(daemon: Served, agent: str) -> str:
    """Its first."""
    return str(daemon.ask("GET", daemon.query(f"/runs?agent={agent}")).json[-1]["id"])


@pytest.mark.parametrize("width", [1280, 400])
def test_work_is_cancelled_there_and_what_became_of_it_is_told(browser: Browser, daemon: Served, width: int) -> None:
    name = f"carl{width}"
    asking = {"call": {"tool": "ask_user", "with": {"question": "Which one?"}}}
    (daemon.project / ".agents" / f"{name}.yaml").write_text(
        "backend: mock\n" + script(asking, {"say": "never said", "slow": "10m"})
    )
    for text in ("please decide", "a text that is long enough to leave no room for a button beside it", "the last"):
        daemon.do("POST", "/send", to=name, message=text)
    with visit(browser, daemon, viewport={"width": width, "height": 800}) as guest:
        page = guest.open(guest.place(f"agent/{name}"))
        work = page.locator(".queue li")
        wait(page, "() => ['waiting', 'running', 'queued'].every(s => document.querySelector(`.queue [title=${s}]`))")
        assert page.locator(".pending .msg").count() == 3, "all that was sent, and is not answered"
        for each in work.all():
            button = each.get_by_role("button", name="Cancel").bounding_box()
            row = each.bounding_box()
            assert button
            assert row
            assert button["x"] + button["width"] <= row["x"] + row["width"], "it can be read and pressed"
        for state, told in (
            ("queued", "It had not begun, and will not."),
            ("running", "It was stopped in the middle; what it had done stays."),
            ("waiting", "It was waiting for you, and its question is withdrawn."),
        ):
            row = work.filter(has=page.locator(f"[title={state}]"))
            row.get_by_role("button", name="Cancel").click()
            row.wait_for(state="detached")
            wait(page, "told => document.getElementById('queue-told').textContent === told", told)
        assert not guest.complaints


def test_what_a_model_was_sent_is_unfolded_word_by_word(guest: Visit) -> None:
    page = guest.open(guest.place(f"run/{run_of(guest.daemon, 'alice')}"))
    assert "be kind" not in page.locator("main").inner_text()
    page.get_by_text("What its model was sent, word by word").click()
    wait(page, "() => document.querySelector('.sent details')")
    page.get_by_text("system: soul").click()
    assert "principles: be kind" in page.locator(".sent pre:visible").inner_text()
    assert page.get_by_text("request 1: all of the above").is_visible()
    page.get_by_text("tool: channel_send").click()
    assert '"properties"' in page.locator(".sent pre:visible").last.inner_text()


def test_a_run_is_a_picture_of_its_time_and_of_what_it_saw(guest: Visit) -> None:
    page = guest.open(guest.place(f"run/{run_of(guest.daemon, 'alice')}"))
    time = page.locator("svg.timeline").get_attribute("aria-label") or ""
    assert "waited" in time
    assert "step 1: model" in time
    assert "team_doc_create" in time
    assert "instruction" in (page.locator("svg.stacked").get_attribute("aria-label") or "")
    page.locator("summary", has_text="team_doc_append").click()
    assert "- two" in page.locator("details[open] pre").first.inner_text()


def test_failures_and_tries_are_told_with_their_reasons(guest: Visit) -> None:
    page = guest.open(guest.place(f"run/{run_of(guest.daemon, 'bob')}"))
    attempts = page.locator(".part", has_text="Attempts")
    assert "transient" in attempts.inner_text()
    attempts.get_by_role("link", name="attempt 2").click()
    page.get_by_text("looked").first.wait_for()


# --- documents


def test_a_document_has_a_history_of_what_changed(guest: Visit) -> None:
    page = guest.open(guest.place("doc/review", name="plan.md"))
    assert page.locator(".doc h1").inner_text() == "Plan"
    page.locator(".history summary").first.click()
    assert page.locator(".diff .added").inner_text().strip() == "+- two"
    page.get_by_text("Edit", exact=True).click()
    page.get_by_label("Text of plan.md").fill("# Plan\n\n- three\n")
    page.get_by_role("button", name="Save").click()
    page.locator(".history summary").nth(2).wait_for()
    assert page.locator(".history summary").count() == 3
    assert page.locator(".doc li", has_text="three").first.is_visible()


def test_two_who_edit_a_document_do_not_overwrite_each_other(guest: Visit) -> None:
    daemon = guest.daemon
    daemon.do("PUT", "/documents/both.md", at="review", text="first")
    page = guest.open(guest.place("doc/review", name="both.md"))
    page.get_by_text("Edit", exact=True).click()
    page.get_by_label("Text of both.md").fill("mine")
    daemon.do("POST", "/documents/both.md", at="review", text="theirs")
    page.locator(".doc", has_text="theirs").wait_for()
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Somebody else saved it in the meantime").wait_for()
    assert page.get_by_label("Text of both.md").input_value() == "mine"
    assert daemon.ask("GET", daemon.query("/documents/both.md?at=review")).json["text"] == "first\ntheirs"


# --- inbox


def test_what_waits_is_counted_in_the_title_and_answered_in_place(guest: Visit) -> None:
    page = guest.open("#/inbox")
    page.get_by_text("Nothing waits for you").wait_for()
    say(guest.daemon, "@alice write it")
    item = page.locator(".item", has_text="write_file")
    item.wait_for()
    wait(page, "() => document.title.startsWith('(1) ')")
    item.get_by_role("button", name="Approve once").click()
    item.wait_for(state="detached")
    assert eventually(lambda: (guest.daemon.project / "made.txt").exists())
    wait(page, "() => !document.title.startsWith('(')")
    say(guest.daemon, "@alice and something to drink")
    question = page.locator(".item", has_text="Tea or coffee?")
    question.get_by_role("button", name="tea").click()
    question.wait_for(state="detached")
    guest.go(guest.workspace())
    page.get_by_text("I will bring it").wait_for()


def test_what_is_answered_elsewhere_goes_by_itself(guest: Visit) -> None:
    page = guest.open("#/inbox")
    workspace_of_one(guest.daemon, "failing", "fred", {"fail": "permanent"})
    say(guest.daemon, "@fred go", to="@failing")
    item = page.locator(".item", has_text="fred")
    item.wait_for()
    guest.daemon.client.request("POST", f"/inbox/{item.get_attribute('data-key')}", {"action": "dismiss"})
    item.wait_for(state="detached")


def test_a_view_that_takes_a_while_is_marked_at_once_and_said_to_be_on_its_way(guest: Visit) -> None:
    page = guest.open("#/home")
    held: list[Any] = []
    page.route("**/page/inbox*", lambda route: held.append(route))
    with page.expect_request("**/page/inbox*"):
        page.locator("#side").get_by_role("link", name="Inbox").click()
    page.locator("#side a[aria-current=page]", has_text="Inbox").wait_for()
    page.locator("#main[aria-busy]").wait_for()
    held[0].continue_()
    page.get_by_role("heading", name="Inbox").wait_for()
    page.locator("#main:not([aria-busy])").wait_for()
