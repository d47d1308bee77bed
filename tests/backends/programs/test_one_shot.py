"""One run of a program as its agent lives it: what is shown, kept and charged, and when it does not count."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests import stored
from tests.patience import eventually
from tests.teams import open_team

from agent_worker.backends.backend import Finished, PastStep, Reply, Suspended, Turn, Unfinished, Usage
from agent_worker.backends.programs.one_shot import OneShot, PrintingProgram, ProgramJob
from agent_worker.backends.programs.program import Program, ProgramHost, ToolEndpoint
from agent_worker.backends.programs.runner import Clocks, Launch
from agent_worker.backends.programs.sessions import INTERRUPTED, LOST, Session
from agent_worker.backends.programs.signals import (
    Calling,
    Over,
    ProgramReturned,
    ProgramSpent,
    ProgramStarted,
    Said,
    Signal,
)
from agent_worker.core.clock import SystemClock
from agent_worker.core.errors import BackendFailure, Crashed, Fenced, Permanent
from agent_worker.tools.tool import Call, Result

KINDS = {"started": ProgramStarted, "said": Said, "calling": Calling, "returned": ProgramReturned, "over": Over}


class Scripted(PrintingProgram):
    """A program of a few lines of Python that prints signals as they are."""

    def __init__(self, code: str) -> None:
        self._code = code

    def launch(self, job: ProgramJob) -> Launch:
        code = f"import json, os, sys, time\nSESSION = {job.session.id!r}\n{SAY}\n{self._code}"
        return Launch((sys.executable, "-S", "-c", code), job.program.cwd, job.environment(), job.prompt)

    def parser(self, job: ProgramJob) -> Scripted:
        return self

    def read(self, event: Mapping[str, Any]) -> Iterable[Signal]:
        for name, values in event.items():
            if name == "spent":
                yield ProgramSpent(Usage(*values))
            elif name == "failed":
                yield Over(failure=Crashed(values))
            else:
                yield KINDS[name](*values)

    def died(self, code: int, told: str) -> BackendFailure:
        return Crashed(f"exit {code}")


SAY = "def say(name, *values): print(json.dumps({name: values}), flush=True)"


class Hall:
    """An endpoint that opens at once, and a sink that remembers."""

    def __init__(self, *, lists: bool = True) -> None:
        self.entry = ToolEndpoint("http://127.0.0.1:1/mcp", "the-token")
        self.shown: list[object] = []
        self.kept: dict[int, Reply] = {}
        self.lost: list[Usage] = []
        self.prefaces: list[str] = []
        self.is_over = False  #: somebody ended the run
        self.answers: dict[str, str] = {}
        if lists:
            self.entry.listed.set()

    def open(self, run: str) -> ToolEndpoint:
        return self.entry

    def say(self, text: str) -> None:
        self.shown.append(text)

    def show(self, call: Call, result: Result | None = None) -> None:
        self.shown.append((call.tool, call.arguments) if result is None else (call.tool, result.text))

    def preface(self, text: str) -> None:
        self.prefaces.append(text)

    def asking(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def spent(self, usage: Usage) -> None:
        self.lost.append(usage)

    async def keep(self, step: int, reply: Reply) -> None:
        if self.is_over:
            raise Fenced("the run is over")
        self.kept[step] = reply

    async def call(self, step: int, call: Call) -> Result:
        if call.id not in self.answers:
            raise Suspended
        return Result(self.answers[call.id])


def work(
    tmp: Path, hall: Hall, code: str, *past: Reply, clocks: Clocks | None = None
) -> AsyncGenerator[Finished | Unfinished]:
    program = Program("it", "alice", tmp / "repo", tmp, ProgramHost(hall, tmp / "state", os.environ))
    turn = Turn(run="r_1", system="", prompt="do it", past=tuple(PastStep(reply) for reply in past))
    return OneShot(Scripted(code), program, clocks).work(turn, hall)


async def run(tmp: Path, hall: Hall, code: str, *past: Reply, clocks: Clocks | None = None) -> Finished:
    (finished,) = [each async for each in work(tmp, hall, code, *past, clocks=clocks)]
    assert isinstance(finished, Finished)
    return finished


async def test_a_run_is_shown_as_it_goes_and_answered_with_the_last_word(tmp_path: Path) -> None:
    hall = Hall()
    code = """
say('started', 's-1')
say('said', 'Hel', True); say('said', 'lo', True); say('said', 'Hello')
say('said', 'All at once')
say('calling', 'c1', 'Bash', '{"command": "ls"}'); say('returned', 'c1', 'a.txt')
say('spent', 100, 10, 20, 0.5)
say('over', 'done')
"""
    finished = await run(tmp_path, hall, code)
    assert hall.shown == ["Hel", "lo", "All at once", ("Bash", {"command": "ls"}), ("Bash", "a.txt")]
    assert finished.step == 1  # the session is a step of its own, kept when it is known
    assert json.loads(hall.kept[0].raw)["session"] == "s-1"
    assert (finished.reply.text, finished.reply.usage.usd) == ("done", 0.5)


async def test_an_answer_is_there_before_the_program_has_ended_and_it_may_end_by_itself(tmp_path: Path) -> None:
    gate, saved = tmp_path / "gate", tmp_path / "saved"
    os.mkfifo(gate)
    code = f"say('started', 's-1'); say('over', 'done'); open({str(saved)!r}, 'w').write(open({str(gate)!r}).read())"
    working = work(tmp_path, Hall(), code)
    finished = await anext(working)
    assert isinstance(finished, Finished)
    assert finished.reply.text == "done"
    await asyncio.to_thread(gate.write_text, "its session")
    await working.aclose()
    assert saved.read_text() == "its session"


async def test_what_a_failed_run_has_spent_is_charged(tmp_path: Path) -> None:
    hall = Hall()
    with pytest.raises(Crashed, match="broken"):
        await run(tmp_path, hall, "say('started', 's-1'); say('spent', 100, 0, 20, 0.25); say('failed', 'broken')")
    assert hall.kept[1].usage.usd == 0.25
    assert json.loads(hall.kept[1].raw) == {"program": "it", "session": "s-1", "usd": 0.25}


@pytest.mark.parametrize("is_over", [False, True])
async def test_L4_what_a_run_has_spent_is_charged_when_it_is_cancelled(tmp_path: Path, is_over: bool) -> None:
    """With its session, where the work may go on; else alone."""
    hall = Hall()
    told = "say('started', 's-1'); say('spent', 100, 0, 20, 0.25); say('said', 'on it'); time.sleep(600)"
    running = asyncio.create_task(run(tmp_path, hall, told))
    assert await asyncio.to_thread(eventually, lambda: hall.shown)
    hall.is_over = is_over
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    if is_over:
        assert hall.lost == [Usage(100, 0, 20, 0.25)]
        assert list(hall.kept) == [0]
    else:
        assert hall.lost == []
        assert json.loads(hall.kept[1].raw) == {"program": "it", "session": "s-1", "usd": 0.25}
        assert hall.kept[1].usage == Usage(100, 0, 20, 0.25)


async def test_L4_an_answer_that_nobody_waits_for_is_paid_once(tmp_path: Path) -> None:
    hall = Hall()
    working = work(tmp_path, hall, "say('started', 's'); say('spent', 100, 0, 20, 0.25); say('over', 'done')")
    finished = await anext(working)
    await working.aclose()
    assert isinstance(finished, Finished)
    assert finished.reply.usage.usd == 0.25
    assert (list(hall.kept), hall.lost) == ([0], [])


async def test_an_interrupted_run_goes_on_with_its_session_and_is_told(tmp_path: Path) -> None:
    past = Session("it", "s-1").kept()
    finished = await run(tmp_path, Hall(), "say('started', SESSION); say('over', SESSION + sys.stdin.read())", past)
    assert finished.reply.text == f"s-1{INTERRUPTED}\n\ndo it"
    assert finished.step == 1  # the same session is not kept twice


async def test_a_session_that_is_forgotten_is_begun_anew(tmp_path: Path) -> None:
    past = Session("it", "s-1").kept()
    code = "say('started', 's-2') if not SESSION else sys.exit(1)\nsay('over', sys.stdin.read())"
    assert (await run(tmp_path, Hall(), code, past)).reply.text == f"{LOST}\n\ndo it"


async def test_the_steps_of_another_backend_are_no_session(tmp_path: Path) -> None:
    past = [Reply("hm", raw="not json"), Reply("hm", raw="[]"), Session("another", "s-9").kept()]
    finished = await run(tmp_path, Hall(), "say('started', 's'); say('over', SESSION + '.')", *past)
    assert finished.reply.text == "."


@pytest.mark.parametrize("word", ["say('said', 'hm'); time.sleep(60)", "say('over', 'I did it all')"])
async def test_a_program_that_never_asks_for_our_tools_has_not_done_its_work(tmp_path: Path, word: str) -> None:
    with pytest.raises(Permanent, match="it worked without our tools"):
        await run(tmp_path, Hall(lists=False), f"say('started', 's'); {word}", clocks=Clocks(tools=0.2))


async def test_a_call_that_waits_for_a_person_ends_the_program_and_its_answer_begins_the_next(tmp_path: Path) -> None:
    hall = Hall()
    hall.entry.unanswered = (1, Call("c1", "ask_user", {"question": "Which?"}))
    hall.entry.waiting.set()
    with pytest.raises(Suspended):
        await run(tmp_path, hall, "say('started', 's-1'); time.sleep(60)")
    past = [Session("it", "s-1").kept(), hall.kept[1]]
    assert past[1].calls == (Call("c1", "ask_user", {"question": "Which?"}),)
    again = Hall()
    again.answers["c1"] = "the blue one"
    finished = await run(tmp_path, again, "say('started', SESSION); say('over', sys.stdin.read())", *past)
    assert 'Your call ask_user({"question": "Which?"}) has its answer:\nthe blue one' in finished.reply.text
    with pytest.raises(Suspended):  # still no answer
        await run(tmp_path, Hall(), "say('over', 'x')", *past)


async def test_without_a_daemon_a_program_says_that_it_needs_one(tmp_path: Path) -> None:
    definition = "backend: claude\nprompt: { system: You are Alice. }\n"
    async with open_team(tmp_path, "alice", clock=SystemClock(), extra={"alice": definition}) as team:
        await team.dm("alice", "hello")
        (run,) = await team.until(bool, stored.runs, state="failed")
        assert "claude reaches our tools through the daemon" in run["reason"]


async def test_programs_count_against_their_own_limit(tmp_path: Path) -> None:
    definition = "backend: codex\nprompt: { system: You are Alice. }\n"
    async with open_team(tmp_path, "alice", "bob", clock=SystemClock(), extra={"alice": definition}) as team:
        registry = team.runtime.registry
        assert registry.worker(team.loaded.agents["alice"]).is_program
        assert not registry.worker(team.loaded.agents["bob"]).is_program
