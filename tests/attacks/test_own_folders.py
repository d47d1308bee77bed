"""F15, F16: folders of ours in a project that are links, or are made while everything we make is open to everybody."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.patience import eventually
from tests.shells.served import Served, served

from agent_worker.core.errors import AgentWorkerError
from agent_worker.files.root import Root
from agent_worker.memory.library import Library

WORKSPACE = "agents: {{ alice: {{ ref: alice }} }}\nworkspace: {{ {place} }}\n"
CAROL = """\
backend: mock
isolate: worktree
script:
  - call: { tool: memory_write, with: { key: a, value: b } }
  - say: done
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Started by somebody whose umask is 000."""
    tmp = tmp_path_factory.mktemp("folders")
    before = os.umask(0)
    try:
        with served(tmp) as made:
            os.umask(before)
            yield made
    finally:
        os.umask(before)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


def start(daemon: Served, name: str, place: str) -> str:
    (daemon.project / ".workflows" / f"{name}.yaml").write_text(WORKSPACE.format(place=place))
    try:
        daemon.do("POST", "/trust")
        daemon.do("POST", "/trust", workflow=name)
        daemon.do("POST", "/workflows", workflow=name)
    except AgentWorkerError as error:
        return error.message
    return ""


@pytest.mark.parametrize(
    ("name", "place", "link"),
    [
        ("base", "provider: file", ".workspace"),
        ("inner", "provider: file", ".workspace/inner"),
        ("room", "provider: file", ".workspace/room/main"),
        ("bound", "bind: shared/bound", "shared"),
        ("bound2", "bind: kept2", "kept2"),
        ("chosen", "dir: rooms/chosen", "rooms"),
        ("stored", "provider: sqlite, documents: file", ".workspace/stored"),
    ],
)
def test_F15_a_link_on_the_way_to_a_workspace_leads_nowhere(
    daemon: Served, outside: Path, name: str, place: str, link: str
) -> None:
    there = daemon.project / link
    there.parent.mkdir(exist_ok=True, parents=True)
    aside = there.with_name(there.name + "-aside")
    if there.exists():
        there.rename(aside)
    there.symlink_to(outside)
    try:
        said = start(daemon, name, place)
        assert "link" in said or "points outside the project" in said, said
        assert list(outside.iterdir()) == []
        assert daemon.alive()
    finally:
        there.unlink()
        if aside.exists():
            aside.rename(there)
    assert start(daemon, name, place) == ""  # and nothing of it stays in the way


def test_F15_the_shelf_of_old_workspaces_may_be_no_link(daemon: Served, outside: Path) -> None:
    assert start(daemon, "again", "provider: file") == ""
    daemon.do("POST", "/send", to="@again", message="hello")
    channel = daemon.project / ".workspace/again/main/channel.jsonl"
    assert eventually(channel.exists)
    daemon.do("DELETE", "/workflows/again")
    shelf = daemon.project / ".workspace/again/.archive"
    shelf.symlink_to(outside)
    assert "link" in start(daemon, "again", "provider: file")
    assert list(outside.iterdir()) == []
    assert channel.exists()


def test_F15_an_index_that_is_a_link_is_made_anew_and_what_it_led_to_stays(tmp_path: Path, outside: Path) -> None:
    home = Root(tmp_path / "project").beneath(".agents/alice")
    home.replace("notes/2026-01-01-colours.md", "# Colours\n\nThe door is green.\n")
    theirs = outside / "theirs.db"
    theirs.write_text("theirs")
    home.make_dirs(".index")
    (home.location() / ".index/recall.db").symlink_to(theirs)
    library = Library(home, "alice")
    found = library.search("green door", now=datetime(2026, 1, 2, tzinfo=UTC), kinds=("note",))
    library.close()
    assert found
    assert theirs.read_text() == "theirs"
    assert [path.name for path in outside.iterdir()] == ["theirs.db"]


def test_F16_nothing_we_make_can_be_written_by_others_under_any_umask(daemon: Served) -> None:
    (daemon.project / ".agents/carol.yaml").write_text(CAROL)
    (daemon.project / ".workflows/open.yaml").write_text(
        "agents: { carol: { ref: carol } }\nkickoff: '@carol go'\nworkspace: { bind: deep/rooms/open }\n"
    )
    daemon.do("POST", "/trust")
    daemon.do("POST", "/trust", workflow="open")
    daemon.do("POST", "/workflows", workflow="open")
    asked = daemon.do("POST", "/send", to="carol", message="remember")
    assert eventually(lambda: daemon.is_done(asked))
    daemon.client.request("PUT", "/documents/a/b.md", {"at": "@open", "text": "x", "project": str(daemon.project)})
    daemon.do("POST", "/agents", name="dave", backend="mock", system="You are dave.")
    ours = [daemon.project / name for name in (".workspace", "deep", ".agents/carol", ".agents/alice")]
    assert (daemon.project / ".agents/carol").exists()
    made = [path for top in (*ours, daemon.home) if top.exists() for path in (top, *top.rglob("*"))]
    copies = daemon.project / "deep/rooms/open/copies"
    open_to_all = [
        str(path)
        for path in made
        if not path.is_symlink() and stat.S_IMODE(path.lstat().st_mode) & 0o022 and not path.is_relative_to(copies)
    ]
    assert open_to_all == []
    assert stat.S_IMODE(copies.stat().st_mode) & 0o077 == 0  # what Git makes in it lies behind this
