"""Conversations as files: what was said in direct messages outlives the database."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.models import Attentive
from tests.teams import Team, open_team

from agent_worker.backends.mock import calls, says
from agent_worker.core.clock import TestClock
from agent_worker.workspaces.log_files import CONVERSATIONS, Target


async def say(team: Team, *lines: tuple[str, str]) -> None:
    for asked, answered in lines:
        team.backends["alice"].then(says(answered))
        await team.dm("alice", asked)
        await team.idle()


def conversation(root: Path) -> list[tuple[int, str, str]]:
    files = sorted((root / ".agents/alice/conversations").glob("*.jsonl"))
    records = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [(r["seq"], r["sender"], r["text"]) for r in records]


async def test_a_conversation_is_a_file_per_day(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        await say(team, ("hi", "hello"))
        await clock.advance(hours=24)
        await say(team, ("again", "yes"))
    names = sorted(p.name for p in (tmp_path / ".agents/alice/conversations").iterdir())
    assert names == ["2026-01-05.jsonl", "2026-01-06.jsonl"]
    assert conversation(tmp_path) == [
        (1, "user", "hi"),
        (2, "alice", "hello"),
        (3, "user", "again"),
        (4, "alice", "yes"),
    ]


async def test_with_a_new_database_the_conversation_goes_on_from_the_files(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        await say(team, ("my name is Ann", "hello Ann"))
        await clock.advance(hours=24)
        await say(team, ("I like tea", "noted"))
    model = Attentive()
    async with open_team(tmp_path, "alice", clock=clock) as team:
        team.employ("alice", model)
        await team.dm("alice", "who am I?")
        await team.idle()
        assert [(t.seq, t.text) for t in await team.thread("alice")] == [
            (1, "my name is Ann"),
            (2, "hello Ann"),
            (3, "I like tea"),
            (4, "noted"),
            (5, "who am I?"),
            (6, "ok"),
        ]
    (turn,) = model.turns
    assert "user: my name is Ann\nalice: hello Ann\nuser: I like tea\nalice: noted" in turn.prompt
    assert [seq for seq, _, _ in conversation(tmp_path)] == [1, 2, 3, 4, 5, 6], "no line is lost or doubled"


async def test_the_thread_shows_only_as_much_as_the_definition_wants(tmp_path: Path, clock: TestClock) -> None:
    extra = {"alice": "context: { thin_thread: 3 }\n"}
    async with open_team(tmp_path, "alice", clock=clock, extra=extra) as team:
        await say(team, ("one", "two"), ("three", "four"))
    model = Attentive()
    async with open_team(tmp_path, "alice", clock=clock, extra=extra) as team:
        team.employ("alice", model)
        await team.dm("alice", "and now?")
        await team.idle()
    assert "alice: two\nuser: three\nalice: four" in model.turns[0].prompt
    assert "user: one" not in model.turns[0].prompt


async def test_history_is_read_and_searched_after_the_database_is_lost(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        await say(team, ("the password of the wifi is swordfish", "I keep it"))
    shutil.rmtree(tmp_path / ".agents/alice/.index", ignore_errors=True)
    async with open_team(tmp_path, "alice", clock=clock) as team:
        team.backends["alice"].then(calls("history_read"), calls("history_search", query="wifi"), says("done"))
        await team.dm("alice", "look it up")
        await team.idle()
        read, searched = [row["result"] for row in await team.calls()]
    assert "swordfish" in read
    assert "swordfish" in searched


async def test_a_database_that_knows_more_than_the_files_fills_them(tmp_path: Path, clock: TestClock) -> None:
    database = tmp_path / "state.db"
    async with open_team(tmp_path, "alice", clock=clock, database=database) as team:
        await say(team, ("one", "two"), ("three", "four"))
    (file,) = (tmp_path / ".agents/alice/conversations").iterdir()
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:2]))
    async with open_team(tmp_path, "alice", clock=clock, database=database):
        pass
    assert [seq for seq, _, _ in conversation(tmp_path)] == [1, 2, 3, 4]


async def test_D7_a_log_that_was_written_in_part_is_looked_at_again(tmp_path: Path, clock: TestClock) -> None:
    """Lines of two days are brought to two files: the first is written, the second cannot be."""
    folder = tmp_path / ".agents/alice/conversations"
    async with open_team(tmp_path, "alice", clock=clock) as team:
        folder.parent.mkdir(exist_ok=True)
        folder.write_text("not a folder")
        await say(team, ("hi", "hello"))
        await team.runtime.log_files.flush()
        await clock.advance(hours=24)
        folder.unlink()
        tomorrow = folder / "2026-01-06.jsonl"
        tomorrow.mkdir(parents=True)
        await say(team, ("again", "yes"))
        await team.runtime.log_files.flush()
        assert (folder / "2026-01-05.jsonl").read_text().count("\n") == 2
        tomorrow.rmdir()
        await say(team, ("and now?", "well"))
    assert [seq for seq, _, _ in conversation(tmp_path)] == [1, 2, 3, 4, 5, 6], "no line is lost or doubled"


async def test_D7_a_log_that_cannot_be_written_keeps_no_other_from_it(tmp_path: Path, clock: TestClock) -> None:
    """All three are written together."""
    async with open_team(tmp_path, "alice", "bob", "carol", clock=clock) as team:
        folders = {name: tmp_path / f".agents/{name}/conversations" for name in ("alice", "bob", "carol")}
        folders["bob"].parent.mkdir(exist_ok=True)
        folders["bob"].write_text("not a folder")
        for name in folders:
            await team.dm(name, "hi")
        await team.idle()
        await team.runtime.log_files.flush()
        for name in ("alice", "carol"):
            (file,) = folders[name].iterdir()
            assert file.read_text().count("\n") == 2, "no line is lost or doubled"


async def test_D7_a_log_that_is_watched_already_knows_better_how_far_it_goes(tmp_path: Path, clock: TestClock) -> None:
    """Files of a project are read again at any time, also while a log is being written."""
    async with open_team(tmp_path, "alice", clock=clock) as team:
        await say(team, ("hi", "hello"))
        home = team.runtime.registry.worker(team.id_of("alice")).home
        assert home is not None
        await team.runtime.log_files.flush()
        team.runtime.log_files.watch(Target(team.loaded.id, None, team.id_of("alice")), home, CONVERSATIONS, written=0)
        await say(team, ("again", "yes"))
    assert [seq for seq, _, _ in conversation(tmp_path)] == [1, 2, 3, 4]


async def test_D7_lines_of_somebody_else_at_the_end_of_a_log_hide_none_of_ours(
    tmp_path: Path, clock: TestClock
) -> None:
    database = tmp_path / "state.db"
    async with open_team(tmp_path, "alice", clock=clock, database=database) as team:
        await say(team, ("hi", "hello"))
    (file,) = (tmp_path / ".agents/alice/conversations").iterdir()
    with file.open("a") as log:
        log.write('{"remark": "of a person"}\n' * 20)
    async with open_team(tmp_path, "alice", clock=clock, database=database) as team:
        await say(team, ("again", "yes"))
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert [record["seq"] for record in records if "seq" in record] == [1, 2, 3, 4]


async def test_G7_resources_that_could_not_be_looked_for_are_looked_for_again(tmp_path: Path, clock: TestClock) -> None:
    bound: dict[str, Any] = {
        "clock": clock,
        "database": tmp_path / "state.db",
        "workflow": "workspace: { bind: ./room/ }\n",
    }
    folder = tmp_path / "room" / "resources"
    async with open_team(tmp_path, "alice", **bound) as team:
        kept = await team.post("user", "long " * 2000)
        await team.runtime.log_files.flush()
        assert [file.name for file in folder.iterdir()] == [kept.resource]
    shutil.rmtree(folder)
    folder.write_text("not a folder")
    async with open_team(tmp_path, "alice", **bound) as team:
        await team.runtime.log_files.flush()
        folder.unlink()
        await team.post("user", "and now?")
        await team.runtime.log_files.flush()
        assert [file.name for file in folder.iterdir()] == [kept.resource]


async def test_R8_a_clock_that_was_set_back_by_a_day_doubles_no_line(tmp_path: Path, clock: TestClock) -> None:
    database = tmp_path / "state.db"
    async with open_team(tmp_path, "alice", clock=clock, database=database) as team:
        await say(team, ("hi", "hello"))
        clock.jump(-timedelta(days=1))
        await say(team, ("again", "yes"))
    async with open_team(tmp_path, "alice", clock=clock, database=database) as team:
        await say(team, ("and now?", "well"))
    assert sorted(seq for seq, _, _ in conversation(tmp_path)) == [1, 2, 3, 4, 5, 6], "no line is lost or doubled"


async def test_lines_that_are_no_records_of_ours_stop_nobody(tmp_path: Path, clock: TestClock) -> None:
    folder = tmp_path / ".agents/alice/conversations"
    folder.mkdir(parents=True)
    good = {
        "seq": 7,
        "at": "2026-01-01T10:00:00+00:00",
        "sender": "user",
        "kind": "message",
        "text": "kept",
        "run": None,
    }
    strange = ['{"seq": 8, "text": 5, "sender": null}', '{"seq": "x", "text": "y"}', '{"hello": 1}', "not json"]
    (folder / "2026-01-01.jsonl").write_text("\n".join([json.dumps(good), *strange]) + "\n")
    async with open_team(tmp_path, "alice", clock=clock) as team:
        await say(team, ("hi", "hello"))
        assert [(t.seq, t.text) for t in await team.thread("alice")] == [(7, "kept"), (9, "hi"), (10, "hello")]
