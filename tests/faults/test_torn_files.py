"""Files that people read, cut anywhere in their last record: after a restart they hold what the tables hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_worker.core.events import Bus
from agent_worker.database.sqlite import SqliteDatabase
from agent_worker.files.root import Root
from agent_worker.workspaces import resources
from agent_worker.workspaces.log_files import CONVERSATIONS, LogFiles, Target
from tests import stored
from tests.faults.driver import Nursery, Scene
from tests.faults.oracle import check
from tests.faults.report import report

pytestmark = pytest.mark.sqlite("opens the database of a scene by itself, as SQLite does")


@pytest.fixture
def scene(nursery: Nursery, tmp_path: Path) -> Scene:
    """A team that has talked, in the room and in direct messages."""
    scene = Scene(nursery, tmp_path)
    for n, member in enumerate(scene.members):
        scene.intend(f"k{n}", "@review", f"@{member} work:k{n} hops:2")
        scene.intend(f"d{n}", member, f"work:d{n}")
    scene.settle()
    check(scene)
    return scene


def logs(scene: Scene) -> list[Path]:
    conversations = sorted((scene.project / ".agents" / "alice" / CONVERSATIONS).glob("*.jsonl"))
    return [scene.workspace / "channel.jsonl", scene.workspace / "history" / "alice.jsonl", conversations[-1]]


def last_record_of(path: Path) -> int:
    """How many bytes it has, its newline included."""
    return len(path.read_bytes().rstrip(b"\n").rpartition(b"\n")[2]) + 1


async def catch_up(scene: Scene, database: SqliteDatabase, bus: Bus) -> None:
    """What a start does for the files."""
    (row,) = await database.read(stored.workspaces)
    project, workspace = row["project"], row["id"]
    alice = (await database.read(stored.agents, name="alice"))[0]["id"]
    log_files = LogFiles(database, bus)
    log_files.watch(Target(project, workspace, None), Root(scene.workspace), "channel.jsonl")
    log_files.watch(Target(project, workspace, alice), Root(scene.workspace), "history/alice.jsonl")
    log_files.watch(Target(project, None, alice), Root(scene.project / ".agents" / "alice"), CONVERSATIONS)
    await log_files.close()


async def test_D7_a_log_cut_at_any_byte_of_its_last_record_is_whole_again_after_a_start(scene: Scene) -> None:
    whole = {path: path.read_bytes() for path in logs(scene)}
    bus = Bus()
    database = await SqliteDatabase.open(scene.home / "state.db", bus)
    for cut in range(1, max(map(last_record_of, whole)) + 1):
        for path, content in whole.items():
            path.write_bytes(content[: -min(cut, last_record_of(path))])
        await catch_up(scene, database, bus)
        for path, content in whole.items():
            assert path.read_bytes().rstrip(b"\n") == content.rstrip(b"\n"), f"{path.name} cut by {cut}"
            path.write_bytes(content)
        report.count("D7 cuts", len(whole))
    await database.close()


def test_D7_a_killed_process_that_left_torn_logs_starts_and_makes_them_whole(scene: Scene) -> None:
    for cut in (1, 2, 40):
        for path in logs(scene):
            path.write_bytes(path.read_bytes()[:-cut])
        scene.settle()
        check(scene)


def test_D7_a_log_that_was_deleted_is_written_again(scene: Scene) -> None:
    for path in logs(scene):
        path.unlink()
    scene.settle()
    check(scene)


async def test_D7_a_resource_has_its_file_in_every_workspace_and_is_not_written_again(tmp_path: Path) -> None:
    bus = Bus()
    database = await SqliteDatabase.open(tmp_path / "state.db", bus)
    for workspace in ("one", "two"):
        kept = await database.of("p").write(resources.store, workspace, "the same text")
    seen = set()
    for _ in range(2):
        log_files = LogFiles(database, bus)
        for workspace in ("one", "two"):
            log_files.watch(Target("p", workspace, None), Root(tmp_path / workspace), "channel.jsonl")
        await log_files.close()
        files = [tmp_path / workspace / "resources" / kept.id for workspace in ("one", "two")]
        assert [path.read_text() for path in files] == ["the same text"] * 2
        seen.add(tuple(path.stat().st_ino for path in files))
    assert len(seen) == 1
    await database.close()
