"""All that one agent can look up: talk of a workspace is there for work in that workspace, and leaves no file."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent_worker.files.root import Root
from agent_worker.memory.library import PERSONAL, Library
from agent_worker.work.threads import ThreadEntry

NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Root:
    (tmp_path / "alice" / "memory").mkdir(parents=True)
    (tmp_path / "alice" / "memory" / "working.yaml").write_text("bird: the canary is mine\n")
    return Root(tmp_path / "alice")


@pytest.fixture
def library(home: Root) -> Library:
    library = Library(home, "alice")
    for workspace in ("w_1", "w_2"):
        library.hear(workspace, [ThreadEntry(1, "bob", f"the canary of {workspace}", 0)])
    return library


def found(library: Library, scopes: Collection[str] | None) -> set[str]:
    kinds = {"memory", "history"}
    return {each.entry.text for each in library.search("canary", now=NOW, kinds=kinds, scopes=scopes)}  # type: ignore[arg-type]


def test_A11_talk_of_a_workspace_is_found_only_where_that_workspace_is_named(library: Library) -> None:
    assert found(library, {"w_1"}) == {"the canary of w_1"}
    assert found(library, {PERSONAL}) == set()
    assert found(library, None) == {"the canary is mine"}


def test_I4_talk_of_a_workspace_leaves_nothing_in_the_folder_of_the_agent(library: Library, home: Root) -> None:
    found(library, {"w_1", "w_2"})
    library.close()
    files = [path for path in home.path.rglob("*") if path.is_file()]
    assert [path.name for path in files if b"the canary of" in path.read_bytes()] == []
    assert any(path.name == "recall.db" for path in files), "what is its own is indexed there"


def test_what_was_heard_of_a_workspace_is_known(library: Library) -> None:
    assert [library.heard(workspace) for workspace in ("w_1", "w_2", "w_3")] == [1, 1, 0]
