"""Documents on the page: who wrote them and when, a preview while one writes, conflicts, suggestions, files dropped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.patience import eventually
from tests.shells.served import Served, served
from tests.web.browser import Visit, needs_chromium, say, script, wait

pytestmark = needs_chromium

BOB = script(
    {"call": {"tool": "team_doc_suggest", "with": {"document": "plan.md", "suggestion": "- **bread**"}}},
    {"say": "suggested"},
    {"call": {"tool": "team_doc_suggest", "with": {"document": "plan.md", "suggestion": "- poison"}}},
    {"say": "suggested again"},
)
OWNED = "agents: { alice: { ref: alice }, bob: { ref: bob } }\nworkspace: { provider: sqlite, document_owner: alice }\n"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("documents"), bob=BOB) as made:
        (made.project / ".workflows" / "owned.yaml").write_text(OWNED)
        made.do("POST", "/trust")
        made.do("POST", "/workflows", workflow="owned")
        made.do("PUT", "/documents/plan.md", at="owned", text="# Plan\n\n- one\n")
        yield made


def text_of(daemon: Served, name: str) -> str:
    return str(daemon.ask("GET", daemon.query(f"/documents/{name}?at=owned")).json["text"])


def test_the_list_says_who_wrote_what_and_when(guest: Visit) -> None:
    page = guest.open(guest.workspace("owned", tab="documents"))
    row = page.get_by_role("row", name="plan.md")
    assert "you" in row.inner_text()
    assert row.locator("time").count() == 1
    row.get_by_role("link", name="plan.md").click()
    page.get_by_text("Written by you").wait_for()


def test_what_is_written_is_previewed_and_a_draft_outlives_the_view(guest: Visit) -> None:
    guest.daemon.do("PUT", "/documents/draft.md", at="owned", text="first\n")
    place = guest.place("doc/owned", name="draft.md")
    page = guest.open(place)
    page.get_by_text("Edit", exact=True).click()
    page.get_by_label("Text of draft.md").fill("# New heading\n\n<script>alert(1)</script>\n")
    page.locator(".preview h1", has_text="New heading").wait_for()
    assert page.locator(".preview script").count() == 0
    guest.go("#/home")
    guest.go(place)
    page.get_by_text("This is your draft").wait_for()
    assert "New heading" in page.get_by_label("Text of draft.md").input_value()
    page.get_by_role("button", name="Save").click()
    page.locator("article.doc:not(.preview) h1", has_text="New heading").wait_for()
    wait(page, "() => Object.keys(sessionStorage).every((key) => !key.startsWith('draft:'))")


def test_a_conflict_shows_the_difference_and_then_saves_again(guest: Visit) -> None:
    daemon = guest.daemon
    daemon.do("PUT", "/documents/both.md", at="owned", text="first\n")
    page = guest.open(guest.place("doc/owned", name="both.md"))
    page.get_by_text("Edit", exact=True).click()
    page.get_by_label("Text of both.md").fill("mine\n")
    daemon.do("POST", "/documents/both.md", at="owned", text="theirs\n")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Somebody else saved it in the meantime").wait_for()
    page.locator(".diff .removed", has_text="theirs").wait_for()
    assert page.get_by_label("Text of both.md").input_value() == "mine\n"
    assert text_of(daemon, "both.md") == "first\ntheirs\n"
    page.get_by_role("button", name="Save again").click()
    assert eventually(lambda: text_of(daemon, "both.md") == "mine\n")
    page.locator(".history summary").nth(2).wait_for()


def test_suggestions_are_applied_or_refused_there(guest: Visit) -> None:
    daemon = guest.daemon
    page = guest.open(guest.place("doc/owned", name="plan.md"))
    say(daemon, "@bob what is missing?", to="@owned")
    card = page.locator(".suggestion", has_text="bread")
    card.get_by_role("button", name="Apply").click()
    page.locator("article.doc:not(.preview) strong", has_text="bread").wait_for()
    card.wait_for(state="detached")
    assert text_of(daemon, "plan.md").endswith("- one\n- **bread**\n")
    say(daemon, "@bob and else?", to="@owned")
    other = page.locator(".suggestion", has_text="poison")
    other.get_by_role("button", name="Refuse").click()
    other.wait_for(state="detached")
    assert "poison" not in text_of(daemon, "plan.md")
    guest.go(guest.workspace("owned"))
    page.locator(".msg.system", has_text="was declined").wait_for()


def test_files_are_added_and_what_cannot_be_taken_is_said(guest: Visit, tmp_path: Path) -> None:
    page = guest.open(guest.workspace("owned", tab="documents"))
    (tmp_path / "notes.md").write_text("some notes\n")
    (tmp_path / "picture.bin").write_bytes(b"\xff\xfe\x00\x81")
    (tmp_path / "plan.md").write_text("another plan\n")
    files = [tmp_path / name for name in ("notes.md", "picture.bin", "plan.md")]
    page.get_by_label("Add files as documents").set_input_files(files)
    page.get_by_text("notes.md was added.").wait_for()
    page.get_by_text("picture.bin was not added: it is not a text").wait_for()
    page.get_by_text("plan.md was not added: a document of that name is there already").wait_for()
    page.get_by_role("row", name="notes.md").wait_for()
    assert page.get_by_text("picture.bin was not added").is_visible(), "also after the list was renewed"


def test_a_file_is_dropped_on_the_list(guest: Visit) -> None:
    page = guest.open(guest.workspace("owned", tab="documents"))
    data = page.evaluate_handle(
        """() => { const made = new DataTransfer();
                   made.items.add(new File(['dropped text'], 'dropped.md', { type: 'text/markdown' })); return made }"""
    )
    page.dispatch_event("[data-drop]", "dragover", {"dataTransfer": data})
    page.dispatch_event("[data-drop]", "drop", {"dataTransfer": data})
    page.get_by_text("dropped.md was added.").wait_for()
    assert text_of(guest.daemon, "dropped.md") == "dropped text"
