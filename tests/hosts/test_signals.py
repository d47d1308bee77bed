"""What hosts tell each other while it happens: text as it is written, who waits for what, and keys that are refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests import stored
from tests.hosts.fleet import Fleet, TestHost, open_fleet
from tests.patience import until
from tests.postgresql import Cluster

from agent_worker.agents.limiter import Limiter
from agent_worker.agents.terms import credential_of, shared_key
from agent_worker.agents.waiting import WaitingAgent
from agent_worker.backends.backend import Call, PastStep, Reply, StepSink, Turn
from agent_worker.core.events import Called, Delta, Event, Returned, WaitChanged
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.service.agent_run import ask_and_follow
from agent_worker.service.agents import agents_list
from agent_worker.service.messages import put_question

LONG = "été " * 5000  # more than one word to another host may hold


@dataclass
class Writing:
    """A model that writes its answer in pieces, and calls a tool before that."""

    pieces: Sequence[str]
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def reply(self, turn: Turn, steps: Sequence[PastStep], sink: StepSink) -> Reply:
        if not steps:
            sink.say("let me see")
            return Reply(text="let me see", calls=(Call("c1", "no_such_tool", {}),))
        for piece in self.pieces:
            sink.say(piece)
        await self.go_on.wait()
        sink.say(".")
        return Reply(text="".join(self.pieces) + ".")


@pytest.fixture
async def fleet(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Fleet]:
    """Alice works only where there is a GPU."""
    extra = {"alice": "requires: [gpu]\n"}
    async with open_fleet(cluster.new_database(), tmp_path, "alice", "bob", extra=extra) as fleet:
        yield fleet


def heard_on(host: TestHost, *kinds: type[Event]) -> list[Event]:
    heard: list[Event] = []
    host.runtime.bus.listen(heard.append, *kinds)
    return heard


async def test_who_asks_on_one_host_reads_along_while_an_agent_writes_on_another(fleet: Fleet) -> None:
    here, there = await fleet.add(), await fleet.add("gpu")
    model = Writing(["one ", LONG, "two"])
    there.employ("alice", model)
    followed = await ask_and_follow(here.service, here.loaded, "alice", "write", key=None)
    told: list[dict[str, object]] = []
    async for batch in followed:
        told += [json.loads(item.data) for item in batch]
        if any(each["event"] == "chunk" and "one" in str(each["text"]) for each in told):
            model.go_on.set()
    await followed.close()
    kinds = [each["event"] for each in told if each["event"] in ("chunk", "tool_call", "tool_result", "done")]
    assert kinds[:3] == ["chunk", "tool_call", "tool_result"]
    assert kinds[-1] == "done"
    written = "".join(str(each["text"]) for each in told if each["event"] == "chunk")
    assert written == f"let me seeone {LONG}two."
    assert told[-1]["text"] == f"one {LONG}two."


async def test_nothing_is_told_to_a_host_where_nobody_watches_any_more(fleet: Fleet) -> None:
    here, there = await fleet.add(), await fleet.add("gpu")
    model = Writing(["one"])
    model.go_on.set()
    there.employ("alice", model)
    followed = await ask_and_follow(here.service, here.loaded, "alice", "write", key=None)
    async for _ in followed:
        pass
    await followed.close()
    assert here.runtime.signals
    await here.runtime.signals.tell()
    assert not await here.runtime.database.read(stored.watches)
    await until(lambda: not there.runtime.signals._watchers)  # type: ignore[union-attr]
    heard = heard_on(here, Delta, Called, Returned)
    assert (await put_question(here.runtime, here.loaded, "alice", "again")).text == "one."
    assert not heard


async def test_what_an_agent_waits_for_on_another_host_is_its_state_here_and_told_once(fleet: Fleet) -> None:
    here, there = await fleet.add(), await fleet.add("gpu")
    heard = heard_on(here, WaitChanged)
    alice = there.loaded.agents["alice"]
    who = WaitingAgent(there.loaded.id, alice, "alice")
    there.runtime.supervisor.waits.begin(who, "model", "its provider asks for patience", seconds=60)
    await until(lambda: here.runtime.supervisor.waits.of(alice) is not None)
    assert here.runtime.supervisor.waits.of(alice) == there.runtime.supervisor.waits.of(alice)
    (shown,) = [each for each in await agents_list(here.service, str(fleet.root)) if each.name == "alice"]
    assert shown.waiting is not None
    assert (shown.state, shown.waiting.what) == ("waiting", "model")
    there.runtime.supervisor.waits.end(alice)
    await until(lambda: here.runtime.supervisor.waits.of(alice) is None)
    assert [event.what for event in heard if isinstance(event, WaitChanged)] == ["model", ""]


async def test_who_waits_on_a_host_that_dies_waits_no_longer(fleet: Fleet) -> None:
    here, there = await fleet.add(), await fleet.add("gpu")
    alice = there.loaded.agents["alice"]
    there.runtime.supervisor.waits.begin(WaitingAgent(there.loaded.id, alice, "alice"), "slot", "all are taken")
    await until(lambda: here.runtime.supervisor.waits.of(alice) is not None)
    await there.fall_silent()
    await until(lambda: here.runtime.supervisor.waits.of(alice) is None)


async def test_a_key_that_is_refused_on_one_host_is_not_used_on_another_before_its_time(fleet: Fleet) -> None:
    one, two = await fleet.add(), await fleet.add()
    first, second = limiter_of(one), limiter_of(two)
    first.key_of = second.key_of = lambda credential: f"the hash of {credential}"
    assert first.refused("anthropic", 30) == pytest.approx(30)
    await until(lambda: second.opens_in("anthropic"))
    assert 0 < second.opens_in("anthropic") <= 31
    assert not second.opens_in("openai")
    (row,) = await one.runtime.database.read(stored.closed_gates)
    assert (row["key"], row["host"]) == ("the hash of anthropic", one.id)
    # A refusal that was heard is not told on: the row stays as its host wrote it.
    await two.runtime.signals.tell()  # type: ignore[union-attr]
    assert await one.runtime.database.read(stored.closed_gates) == [row]


async def test_a_host_that_begins_later_hears_of_a_gate_that_is_closed(fleet: Fleet) -> None:
    one = await fleet.add()
    limiter_of(one).refused("anthropic", 30)
    await one.runtime.signals.tell()  # type: ignore[union-attr]
    two = await fleet.add()
    await until(lambda: limiter_of(two).opens_in("anthropic"))


def test_a_gate_is_known_by_a_hash_that_is_the_same_where_the_key_is() -> None:
    secret = "sk-ant-0123456789"
    names = [
        shared_key("anthropic", lambda _: {"ANTHROPIC_API_KEY": secret}),
        shared_key("anthropic", lambda _: {"ANTHROPIC_API_KEY": secret, "PATH": "/bin"}),
        shared_key("anthropic", lambda _: {"ANTHROPIC_API_KEY": "another"}),
        shared_key("chat|http://localhost|${MINE}", lambda _: {"MINE": secret}),
        shared_key("chat|http://localhost|${MINE}", lambda _: {"MINE": "another"}),
    ]
    assert names[0] == names[1]
    assert len({*names}) == 4
    assert not any(secret in name for name in names)


def test_projects_share_a_gate_only_if_they_share_a_key(tmp_path: Path) -> None:
    keys = {tmp_path / "one": "sk-ant-first", tmp_path / "two": "sk-ant-second", tmp_path / "three": "sk-ant-first"}
    alice = AgentDefinition.model_validate({"name": "alice", "model": "anthropic/claude", "prompt": {"system": "Hi."}})
    one, two, three = (
        shared_key(credential_of(alice, alice.model, root), lambda root: {"ANTHROPIC_API_KEY": keys[root]})  # type: ignore[index]
        for root in keys
    )
    assert one == three != two


def limiter_of(host: TestHost) -> Limiter:
    return host.runtime.supervisor._loop_context.limiter
