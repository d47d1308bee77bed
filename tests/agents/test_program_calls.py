"""What a coding program does with its own tools is kept with its run: for people, marked as its own, and cut."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.backends.programs.test_one_shot import Hall, Scripted
from tests.house import bytes_of
from tests.teams import Team, open_team

from agent_worker.agents import deletion
from agent_worker.agents.call_record import CALLS_OF_PROGRAM, KEPT_OF_PROGRAM
from agent_worker.backends.mock import says
from agent_worker.backends.programs.one_shot import OneShot
from agent_worker.backends.programs.program import Program, ProgramHost
from agent_worker.backends.programs.sessions import INTERRUPTED
from agent_worker.cli.console import Console
from agent_worker.cli.live import LiveView
from agent_worker.core.clock import SystemClock
from agent_worker.core.events import Called, Event, Returned
from agent_worker.daemon.web.runs import run as view
from agent_worker.memory.containment import tree
from agent_worker.service.runs import Explained, explain
from agent_worker.service.service import Service
from agent_worker.workflows.archive import erase

SECRET = "correct-horse-battery-staple"
WORKS = """
say('started', 's-1')
say('calling', 'c1', 'Bash', '{"command": "ls"}'); say('returned', 'c1', 'a.txt')
say('calling', 'c2', 'Edit', '{"path": "a.txt"}'); say('returned', 'c2', 'no such file', False)
say('over', 'done')
"""


@asynccontextmanager
async def program(tmp: Path, code: str, *, database: Path | None = None) -> AsyncIterator[Team]:
    """A team whose alice is a program of a few lines."""
    async with open_team(tmp / "p", "alice", "bob", clock=SystemClock(), database=database) as team:
        employ(team, tmp, code)
        yield team


def employ(team: Team, tmp: Path, code: str) -> None:
    made = Program("it", "alice", tmp / "repo", tmp, ProgramHost(Hall(), tmp / "state", os.environ))
    team.employ("alice", backend=OneShot(Scripted(code), made))


async def seen(team: Team, *, full: bool = False, number: int = -1) -> Explained:
    await team.idle()
    return await explain(Service(team.runtime), (await team.runs())[number]["id"], full=full)


def made(found: Explained) -> list[tuple[str, str, bool, str]]:
    """Its calls: tool, arguments, whether it went well, and what came of it."""
    calls = [call for step in found.steps for call in step.calls]
    assert all(call["own"] for call in calls)
    return [(c["tool"], c["arguments"], c["ok"], c["result"] if c["done_at"] else "not finished") for c in calls]


async def test_what_a_program_did_by_itself_is_kept_with_its_run_and_marked(tmp_path: Path) -> None:
    heard: list[Event] = []
    async with program(tmp_path, WORKS) as team:
        team.runtime.bus.listen(heard.append)
        await team.dm("alice", "do it")
        found = await seen(team)
    assert made(found) == [
        ("Bash", '{"command": "ls"}', True, "a.txt"),
        ("Edit", '{"path": "a.txt"}', False, "no such file"),
    ]
    assert [(event.tool, event.own) for event in heard if isinstance(event, Called)] == [("Bash", True), ("Edit", True)]
    assert [(event.ok, event.own) for event in heard if isinstance(event, Returned)] == [(True, True), (False, True)]


async def test_a_call_that_a_killed_program_had_begun_is_shown_as_not_finished(tmp_path: Path) -> None:
    code = "say('started', 's-1'); say('calling', 'c1', 'Bash', '{\"command\": \"sleep 600\"}'); time.sleep(600)"
    async with program(tmp_path, code) as team:
        begun = asyncio.Event()
        team.runtime.bus.listen(lambda event: begun.set() if isinstance(event, Called) else None)
        await team.dm("alice", "do it")
        await begun.wait()
        await team.halt()
        service, run = Service(team.runtime), (await team.runs())[0]["id"]
        found, page = await explain(service, run), await view(service, run)
    assert "its own" in page.html
    assert "not finished" in page.html
    assert made(found) == [("Bash", '{"command": "sleep 600"}', True, "not finished")]


async def test_what_is_kept_of_a_call_is_cut_and_says_so(tmp_path: Path) -> None:
    code = """
say('started', 's-1')
say('calling', 'c1', 'Write', json.dumps({'text': 'x' * 20000})); say('returned', 'c1', 'y' * 20000)
say('over', 'done')
"""
    async with program(tmp_path, code) as team:
        await team.dm("alice", "do it")
        await seen(team)
        (row,) = await team.program_calls()
    for kept in (row["arguments"], row["result"]):
        assert KEPT_OF_PROGRAM < len(kept) < KEPT_OF_PROGRAM + 50
        assert "[cut: 12" in kept


async def test_no_more_than_so_many_calls_of_a_run_are_kept(tmp_path: Path) -> None:
    code = f"""
say('started', 's-1')
for n in range({CALLS_OF_PROGRAM} + 5):
    say('calling', str(n), 'Bash'); say('returned', str(n), 'ok')
say('over', 'done')
"""
    async with program(tmp_path, code) as team:
        await team.dm("alice", "do it")
        await seen(team)
        rows = await team.program_calls()
    assert len(rows) == CALLS_OF_PROGRAM
    assert all(row["done_at"] for row in rows)


async def test_N9_a_secret_that_a_program_prints_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", SECRET)
    code = f"""
say('started', 's-1')
say('calling', 'c1', 'Bash', json.dumps({{'command': 'echo {SECRET}'}})); say('returned', 'c1', 'z' * 7990 + '{SECRET}')
say('over', 'done')
"""
    database = tmp_path / "state.db"
    async with program(tmp_path, code, database=database) as team:
        await team.dm("alice", "do it")
        await seen(team)
        (row,) = await team.program_calls()
    assert json.loads(row["arguments"]) == {"command": "echo [redacted:secret]"}
    assert SECRET[:8].encode() not in bytes_of(database), "nor its first half, where the result was cut"


async def test_what_a_program_did_goes_with_its_workspace(tmp_path: Path) -> None:
    async with program(tmp_path, WORKS) as team:
        await team.post("user", "@alice do it")
        await seen(team)
        assert len(await team.program_calls()) == 2
        await team.write(erase, team.workspace.id)
        assert await team.program_calls() == []


async def test_what_a_program_did_goes_with_its_agent(tmp_path: Path) -> None:
    async with program(tmp_path, WORKS) as team:
        await team.dm("alice", "do it")
        await seen(team)
        await team.halt()
        await team.write(deletion.erase, await team.agent("alice"), now=team.now())
        assert await team.program_calls() == []


def test_whoever_watches_sees_whose_tool_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    watching = LiveView(Console(), "alice", verbose=True)
    for call, own in (("1", True), ("2", False)):
        said = {"event": "tool_call", "name": "alice", "call": call, "tool": "Bash", "arguments": {}, "own": own}
        watching.show(said)
    first, second = (line for line in capsys.readouterr().out.splitlines() if "Bash" in line)
    assert "Bash (its own)" in first
    assert "its own" not in second


async def test_what_a_program_is_told_before_its_prompt_is_shown_with_it(tmp_path: Path) -> None:
    """It failed once: the next run goes on with its session, and begins with other words."""
    code = "say('started', 's-1'); say('failed', 'broken') if not SESSION else say('over', sys.stdin.read())"
    async with program(tmp_path, code) as team:
        await team.dm("alice", "do it")
        found = await seen(team, full=True)
    assert found.sent
    asked = [section.text or "" for section in found.sent.sections if section.part == "prompt"]
    assert asked[0] == INTERRUPTED
    assert "\n\n".join(asked) == found.text, "it said what it was told"


async def test_A15_a_program_that_was_shown_words_by_its_own_tool_has_seen_them(tmp_path: Path) -> None:
    code = """
say('started', 's-1')
say('calling', 'c1', 'Read'); say('returned', 'c1', 'the launch code is 4711-0815')
say('over', 'fine')
"""
    async with program(tmp_path, code) as team:
        team.backends["bob"].then(says("the launch code is 4711-0815"))
        await team.dm("bob", "say it")
        await team.idle()
        await team.post("user", "@alice look")
        await team.idle()
        said, saw = await team.runs()
        found = await team.read(tree, [said["id"]])
    assert [each.run for each in found] == [said["id"], saw["id"]]
