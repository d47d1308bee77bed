"""What is made and changed on the page: whole workspaces, documents, proposals, files; two who edit the same text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.patience import eventually
from tests.shells.served import Served, served
from tests.web.browser import Visit, needs_chromium, say, wait

pytestmark = needs_chromium

GREET = """
agents: { gil: { backend: mock, script: [{ say: done }, { say: done }, { say: done }] } }
workspace: { provider: sqlite }
params:
  - { name: whom, required: true }
kickoff: "@gil greet ${{ params.whom }}"
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("making")) as made:
        (made.project / ".workflows" / "greet.yaml").write_text(GREET)
        made.do("POST", "/workflows", workflow="greet", params={"whom": "the world"})
        yield made


def state(daemon: Served) -> str:
    return str(daemon.ask("GET", daemon.query("/workflows/greet")).json["state"])


def test_a_team_is_stopped_and_starts_again_as_it_was_started(guest: Visit) -> None:
    page = guest.open(guest.workspace("greet"))
    page.locator(".manage summary").click()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("This workflow is stopped").wait_for()
    assert eventually(lambda: state(guest.daemon) == "stopped")
    guest.go("#/home")
    guest.go(guest.workspace("greet"))
    page.get_by_role("button", name="Start again").click()
    page.get_by_role("button", name="Pause").wait_for()
    assert state(guest.daemon) == "running"
    page.locator(".manage summary").click()
    page.get_by_role("button", name="Restart").click()
    greeted = "() => [...document.querySelectorAll('.rows .msg')].some(m => m.textContent.includes('greet the world'))"
    wait(page, greeted)
    assert eventually(lambda: state(guest.daemon) == "running")


@pytest.mark.parametrize(("word", "file"), [("Markdown", "md"), ("JSON lines", "jsonl"), ("one page", "html")])
def test_what_was_said_is_exported_as_a_file(guest: Visit, tmp_path: Path, word: str, file: str) -> None:
    say(guest.daemon, "keep this <b>sentence</b>", to="@greet")
    page = guest.open(guest.workspace("greet"))
    page.locator(".manage summary").click()
    with page.expect_download() as download:
        page.get_by_role("button", name=f"Export as {word}").click()
    assert download.value.suggested_filename == f"greet.{file}"
    download.value.save_as(tmp_path / file)
    text = (tmp_path / file).read_text()
    if file == "jsonl":
        assert any("keep this" in json.loads(line)["text"] for line in text.splitlines())
    assert "keep this" in text
    assert ("<b>sentence</b>" in text) == (file != "html"), "nothing that was said is markup on a page"


def test_a_document_is_made_there(guest: Visit) -> None:
    page = guest.open(guest.workspace("greet"))
    page.locator(".manage summary").click()
    page.get_by_role("link", name="New document").click()
    form = page.get_by_role("form", name="New document")
    form.get_by_label("Name").fill("plan.md")
    form.get_by_label("Text").fill("# A plan\n")
    form.get_by_role("button", name="Create").click()
    page.locator(".doc h1", has_text="A plan").wait_for()


def test_a_question_is_put_to_the_vote_there(guest: Visit) -> None:
    page = guest.open(guest.place("new-proposal/greet"))
    form = page.get_by_role("form", name="New proposal")
    form.get_by_label("Question").fill("Hello or good day?")
    form.get_by_label("Options").fill("hello\n\n good day \n")
    form.get_by_label("gil").uncheck()
    form.get_by_role("button", name="Ask for votes").click()
    card = page.locator(".card", has_text="Hello or good day?")
    card.get_by_role("form", name="Vote for good day").get_by_role("button").click()
    page.locator(".card .won", has_text="good day").wait_for()


def test_a_vote_is_cancelled_with_a_reason(guest: Visit) -> None:
    asked = {"question": "Red or blue?", "options": ["red", "blue"], "voters": ["user"]}
    guest.daemon.do("POST", "/proposals", at="@greet", **asked)
    page = guest.open(guest.workspace("greet", tab="decisions"))
    card = page.locator(".card", has_text="Red or blue?")
    card.get_by_text("Cancel the vote").click()
    card.get_by_label("Why").fill("nobody cares")
    card.get_by_role("button", name="Cancel it").click()
    page.locator(".card.cancelled", has_text="nobody cares").wait_for()


def test_what_somebody_else_saved_is_shown_as_a_difference_and_saving_again_goes_on(guest: Visit) -> None:
    page, file = guest.open(guest.place("file/.agents%2Falice.yaml")), guest.daemon.project / ".agents" / "alice.yaml"
    before = file.read_text()
    box = page.get_by_label("Text of .agents/alice.yaml")
    box.fill(before + "prompt: { system: mine }\n")
    page.locator(".diff .added", has_text="system: mine").wait_for()
    file.write_text(before + "prompt: { system: theirs }\n")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Somebody else saved it in the meantime").wait_for()
    page.locator(".diff .removed", has_text="system: theirs").wait_for()
    assert "theirs" in file.read_text(), "not overwritten unseen"
    page.get_by_role("button", name="Save again").click()
    assert eventually(lambda: file.read_text() == before + "prompt: { system: mine }\n")
    page.get_by_role("heading", name="alice").wait_for()
    file.write_text(before)


def test_a_note_meets_an_edit_by_hand_and_the_soul_shows_what_would_change(guest: Visit) -> None:
    guest.daemon.do("POST", "/agents/bob/notes", text="Day\n\nfine\n")
    page = guest.open(guest.place("agent/bob"))
    [name] = guest.daemon.ask("GET", guest.daemon.query("/agents/bob/notes")).json
    [kept] = [each for each in guest.daemon.project.rglob(name) if each.is_file()]
    page.locator("summary", has_text=name).click()
    note = page.locator("details", has_text=name).filter(has=page.locator("form"))
    note.get_by_text("Edit", exact=True).click()
    note.get_by_role("textbox").fill("Day\n\nbetter\n")
    kept.write_text("Day\n\nby hand\n")
    note.get_by_role("button", name="Save").click()
    note.locator(".diff .removed", has_text="by hand").wait_for()
    note.get_by_role("button", name="Save again").click()
    assert eventually(lambda: "better" in kept.read_text())
    page.locator("summary", has_text="Edit").first.click()
    page.get_by_label("Soul of bob").fill("role: gardener\n")
    page.get_by_role("form", name="Edit the soul").locator(".added", has_text="role: gardener").wait_for()


def test_a_draft_stays_when_the_view_is_left(guest: Visit) -> None:
    file = guest.daemon.project / ".agents" / "alice.yaml"
    page = guest.open(guest.place("file/.agents%2Falice.yaml"))
    box = page.get_by_label("Text of .agents/alice.yaml")
    box.fill(file.read_text() + "modle: x\n")
    guest.go("#/inbox")
    guest.go(guest.place("file/.agents%2Falice.yaml"))
    page.get_by_text("This is your draft").wait_for()
    assert box.input_value().endswith("modle: x\n")
    page.locator(".problems li", has_text="unknown key").wait_for()
    assert "modle" not in file.read_text()
