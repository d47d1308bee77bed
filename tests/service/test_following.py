"""Following a piece of work: everything that came of it is told, however late somebody reads it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.house import house

from agent_worker.backends.mock import calls, says
from agent_worker.core.events import AgentChanged, Bus, Ended, Event, WorkspaceChanged
from agent_worker.service.run import RunRequest, run


@pytest.mark.parametrize("key", [None, "once"], ids=["without a key", "with a key, by which it may be over before"])
async def test_whoever_reads_only_when_the_work_is_done_is_told_all_of_it(tmp_path: Path, key: str | None) -> None:
    async with house(tmp_path) as here:
        (here.root / ".agents" / "talker.yaml").write_text("backend: mock\nscript: [{ say: word by word }]\n")
        ended = asyncio.Event()
        here.runtime.bus.listen(lambda event: ended.set() if isinstance(event, Ended) else None)
        stream = await run(here.service, RunRequest(agent="talker", message="talk", project=str(here.root), key=key))
        told = []
        async for batch in stream:
            told += [json.loads(item.data) for item in batch]
            await ended.wait()
        await stream.close()
    kinds = [each["event"] for each in told if each["event"] != "chunk"]
    assert kinds == ["begun", "started", "step", "ended", "done"]
    assert "".join(each["text"] for each in told if each["event"] == "chunk") == "word by word"


async def test_everything_that_happens_says_in_which_project(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        project = (await here.service.project(str(here.root))).id
        here.mocks["alice"].then(calls("memory_write", key="a", value="b"), says("done"), says("again"))
        told: list[Event] = []
        here.runtime.bus.listen(told.append)
        await here.do("send", to="alice", message="remember it")
        await here.ask("alice", "and go on")
        assert {type(event).event for event in told} >= {
            "queued",
            "started",
            "chunk",
            "tool_call",
            "tool_result",
            "step",
        }
        assert {event.project for event in told} == {project}


async def test_whoever_only_waits_for_the_end_is_told_nothing_before_it(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        here.mocks["alice"].then(calls("memory_write", key="a", value="b"), says("done, word by word"))
        asked = RunRequest(agent="alice", message="go", project=str(here.root), brief=True)
        stream = await run(here.service, asked)
        told = [json.loads(item.data) async for batch in stream for item in batch]
        await stream.close()
    assert [each["event"] for each in told] == ["begun", "ended", "done"]
    assert told[-1]["text"] == "done, word by word"


def test_who_listens_for_one_agent_hears_of_it_and_of_what_is_about_nobody() -> None:
    bus, heard = Bus(), list[Event]()
    end = bus.listen_about("a_1", heard.append)
    ours, others = (AgentChanged(agent=agent, name=agent, state="idle") for agent in ("a_1", "a_2"))
    nobodys = WorkspaceChanged(workspace="w_1", state="running")
    for event in (ours, others, nobodys):
        bus.publish(event)
    end()
    bus.publish(ours)
    assert heard == [ours, nobodys]
