"""Stored steps are data of one shape: whatever else stands there is neither run nor believed, and stops nobody else."""

from __future__ import annotations

import asyncio
import json
import pickle
from pathlib import Path

import pytest
from tests import stored
from tests.faults.report import report
from tests.teams import open_team

from agent_worker.backends.backend import PastStep, Reply
from agent_worker.backends.mock import says
from agent_worker.backends.programs.sessions import Session, session_of
from agent_worker.core.clock import TestClock
from agent_worker.core.errors import BadInput

CANARY = "touched-by-a-stored-step"


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (Path(CANARY),))


def whole(**changes: object) -> str:
    return json.dumps({"text": "", "calls": [], "raw": "", "more": True} | changes)


COMMAND = f"touch {CANARY}"
HOSTILE = {
    "a pickle": pickle.dumps(Evil(), protocol=0).decode("latin-1"),
    "a tagged object": json.dumps({"py/reduce": [{"py/function": "os.system"}, {"py/tuple": [COMMAND]}]}),
    "a constructor": json.dumps({"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"c": COMMAND}}),
    "a YAML tag": f"!!python/object/apply:os.system ['{COMMAND}']",
    "an expression": f"__import__('os').system('{COMMAND}')",
    "nothing": "",
    "null": "null",
    "a list": "[]",
    "a word": '"finished"',
    "half": '{"text": "',
    "deep": "[" * 100_000,
    "a missing field": json.dumps({"text": "", "calls": []}),
    "a text that is none": whole(text=["a"]),
    "calls that are none": whole(calls="bash"),
    "a call with a method": whole(calls=[["c", "bash", {}, "__class__"]]),
    "a call that is an object": whole(calls=[{"id": "c", "tool": "bash", "arguments": {}}]),
    "arguments that are none": whole(calls=[["c", "bash", f"touch {CANARY}"]]),
    "a tool that is none": whole(calls=[["c", ["bash"], {}]]),
    "raw that is an object": whole(raw={"kind": "response", "parts": []}),
    "more that is a word": whole(more="yes"),
    "a constant": whole(more=True).replace("true", "NaN"),
}


@pytest.mark.parametrize("record", HOSTILE.values(), ids=HOSTILE)
def test_N8_a_stored_step_of_another_shape_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="cannot be read"):
        Reply.load(record)
    assert not Path(CANARY).exists()
    report.count("N8 hostile steps")


@pytest.mark.parametrize(
    "raw",
    [
        pickle.dumps(Evil(), protocol=0).decode("latin-1"),
        json.dumps({"program": "codex"}),
        json.dumps({"program": "codex", "session": ["--dangerous"], "usd": 0}),
        json.dumps({"program": "codex", "session": "s", "usd": "a lot"}),
        json.dumps({"program": ["codex"], "session": "s", "usd": 0}),
        "[" * 100_000,
    ],
)
def test_N8_a_stored_session_of_another_shape_is_no_session(raw: str) -> None:
    assert session_of([PastStep(Reply(raw=raw))], "codex") == Session("codex")


async def test_N8_work_with_a_hostile_step_fails_with_a_reason_and_its_agent_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_team(tmp_path / "p", "alice", clock=TestClock()) as team:
        for n, record in enumerate(HOSTILE.values()):
            await team.change("agent", paused="while we break in")
            await team.dm("alice", f"question {n}")
            (asked,) = await team.queue(state="queued")
            step = {"project": asked["project"], "work": asked["work"], "n": 0, "run": "r"}
            await team.write(stored.add, "step", **step, reply=record, at=0)
            await team.change("instruction", {"id": asked["id"]}, attempts=1)  # a step has been made of it
            await team.change("agent", paused="")
            team.runtime.supervisor.wake(team.id_of("alice"))
            await team.idle()
        assert set(await team.states()) == {"failed"}
        reasons = {row["reason"] for row in await team.queue()}
        assert reasons == {"the record of its earlier steps cannot be read (dismiss it, and ask again)"}
        assert {kind for kind, _ in await team.inbox()} == {"failure"}
        team.backends["alice"].then(says("all is well"))
        await team.dm("alice", "and now?")
        await team.idle()
        assert (await team.states()).count("done") == 1
        assert (await team.agent("alice"))["state"] == "idle"
        assert CANARY not in {path.name for path in await asyncio.to_thread(lambda: list(tmp_path.iterdir()))}
