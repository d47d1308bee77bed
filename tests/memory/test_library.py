"""All that one agent can look up of its own; what was said in workspaces is held for all their members together."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent_worker.files.root import Root
from agent_worker.memory.index import IndexedSource
from agent_worker.memory.library import Library
from agent_worker.memory.workspace_library import WorkspaceLibraries, document_entries, message_entry

NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Root:
    (tmp_path / "alice" / "memory").mkdir(parents=True)
    (tmp_path / "alice" / "memory" / "working.yaml").write_text("bird: the canary is mine\n")
    return Root(tmp_path / "alice")


@pytest.fixture
def libraries(tmp_path: Path) -> WorkspaceLibraries:
    (tmp_path / "host").mkdir()
    libraries = WorkspaceLibraries(Root(tmp_path / "host"))
    for workspace in ("w_1", "w_2"):
        libraries.of(workspace, kept=True).hear([message_entry(workspace, 1, "bob", f"the canary of {workspace}", 0)])
    return libraries


def found(library: Library, libraries: WorkspaceLibraries, *workspaces: str) -> set[str]:
    beside = [libraries.of(each, kept=True).scope for each in workspaces]
    kinds = ("memory", "history", "document")
    return {each.entry.text for each in library.search("canary", now=NOW, kinds=kinds, beside=beside)}


def holding(folder: Path, text: str) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_A11_talk_of_a_workspace_is_found_only_where_that_workspace_is_named(
    home: Root, libraries: WorkspaceLibraries
) -> None:
    library = Library(home, "alice")
    assert found(library, libraries, "w_1") == {"the canary is mine", "the canary of w_1"}
    assert found(library, libraries) == {"the canary is mine"}


def test_I4_talk_of_a_workspace_leaves_nothing_in_the_folder_of_the_agent(
    home: Root, libraries: WorkspaceLibraries
) -> None:
    library = Library(home, "alice")
    found(library, libraries, "w_1", "w_2")
    library.close()
    libraries.close()
    assert holding(home.path, "the canary of") == []
    assert (home.path / ".index" / "recall.db").exists(), "what is its own is indexed there"


def test_of_a_workspace_that_is_dropped_no_byte_is_left(tmp_path: Path, libraries: WorkspaceLibraries) -> None:
    libraries.of("w_1", kept=True).hear([message_entry("w_1", 2, "bob", "poison", 0)])
    libraries.close()
    assert holding(tmp_path / "host", "the canary of w_1")
    libraries.drop("w_1")
    assert not holding(tmp_path / "host", "canary of w_1")
    assert not holding(tmp_path / "host", "poison")
    assert libraries.of("w_1", kept=True).stamps() == {}
    assert libraries.of("w_2", kept=True).stamps() == {"channel": "1"}


def test_indexes_of_workspaces_that_are_gone_are_swept_away(tmp_path: Path, libraries: WorkspaceLibraries) -> None:
    libraries.close()
    libraries.sweep({"w_2", "w_3"})
    assert [path.name for path in (tmp_path / "host" / "indexes").iterdir()] == ["w_2"]


def test_a_workspace_that_keeps_nothing_is_indexed_in_memory(tmp_path: Path, libraries: WorkspaceLibraries) -> None:
    libraries.of("w_3", kept=False).hear([message_entry("w_3", 1, "bob", "the canary of w_3", 0)])
    libraries.close()
    assert not holding(tmp_path / "host", "w_3")


def test_a_document_is_found_by_its_name_and_gone_when_it_is(home: Root, libraries: WorkspaceLibraries) -> None:
    library, there = Library(home, "alice"), libraries.of("w_1", kept=True)
    paragraphs = document_entries("w_1", "canary.md", "# Birds\n\nThey sing.")
    there.read([IndexedSource("document/canary.md", lambda: paragraphs, "1")])
    assert {"# Birds", "They sing."} <= found(library, libraries, "w_1")
    there.read([])
    assert found(library, libraries, "w_1") == {"the canary is mine", "the canary of w_1"}


def said(home: Root, day: str, *texts: str) -> Path:
    path = home.path / "conversations" / f"{day}.jsonl"
    path.parent.mkdir(exist_ok=True)
    lines = [
        {"seq": n, "sender": "user", "text": text, "at": f"{day}T09:00:00+00:00"} for n, text in enumerate(texts, 1)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def heard(library: Library, *, later: int = 0) -> set[str]:
    now = NOW + timedelta(seconds=later)
    return {each.entry.text for each in library.search("canary", now=now, kinds=("history",))}


def test_what_is_said_today_is_found_at_once_and_so_is_a_file_that_takes_the_place_of_an_older_one(home: Root) -> None:
    older, _ = said(home, "2026-03-09", "the canary sang"), said(home, "2026-03-10", "the canary slept")
    library = Library(home, "alice")
    assert heard(library) == {"the canary sang", "the canary slept"}
    said(home, "2026-03-10", "the canary slept", "the canary woke")
    assert "the canary woke" in heard(library)
    fresh = older.with_name("fresh")
    fresh.write_text(older.read_text().replace("sang", "was silent"))
    fresh.replace(older)
    assert heard(library) == {"the canary was silent", "the canary slept", "the canary woke"}
    said(home, "2026-03-11", "the canary flew")
    assert "the canary flew" in heard(library)


def test_what_somebody_does_to_an_older_conversation_in_place_is_seen_soon_after(home: Root) -> None:
    older, _ = said(home, "2026-03-09", "the canary sang"), said(home, "2026-03-10", "the canary slept")
    library = Library(home, "alice")
    heard(library)
    older.write_text(older.read_text().replace("sang", "was silent"))
    assert heard(library, later=60) == {"the canary was silent", "the canary slept"}
