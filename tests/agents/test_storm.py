"""Fifty agents on one key, and a provider that says «later» for five minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.teams import open_team

from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn
from agent_worker.core.clock import TestClock
from agent_worker.core.errors import Overloaded

AGENTS = [f"agent{n}" for n in range(50)]
STORM = 300.0  # seconds
AT_ONCE = 8  # runs on this machine
SDK = "backend: sdk\nmodel: fake/stormy\nprompt: { system: You are one of many. }\n"


@dataclass
class Stormy:
    """One provider behind fifty agents: refuses until the storm is over, then takes a second for each answer."""

    clock: TestClock
    refused: list[float] = field(default_factory=list)  #: when
    answered: list[tuple[float, int]] = field(default_factory=list)  #: when, and how many were inside
    _inside: int = 0

    async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
        self._inside += 1
        try:
            began = self.clock.monotonic()
            if began < STORM:
                self.refused.append(began)
                raise Overloaded("slow down", retry_after=60)
            self.answered.append((began, self._inside))
            await self.clock.sleep(1)
            return Reply(text="done")
        finally:
            self._inside -= 1


async def test_L5_fifty_agents_on_one_key_come_through_a_storm_without_a_burst(
    tmp_path: Path, clock: TestClock
) -> None:
    extra = dict.fromkeys(AGENTS, SDK)
    async with open_team(tmp_path, *AGENTS, clock=clock, extra=extra, runs_at_once=AT_ONCE) as team:
        stormy = Stormy(clock)
        for agent in AGENTS:
            team.employ(agent, stormy)
            await team.dm(agent, "go")
        await team.meanwhile(team.idle(), at_most=15 * 60)
        states = await team.queue()
    assert [(row["state"], row["failures"]) for row in states] == [("done", 0)] * 50, "waiting used up no try"
    assert len([at for at in stormy.refused if at == 0]) <= AT_ONCE
    probes = [at for at in stormy.refused if at > 0]
    assert len(probes) <= STORM / 60 + 1, "one goes first, the others wait"
    assert len(stormy.answered) == 50
    assert max(inside for _, inside in stormy.answered) <= AT_ONCE
    first = [inside for at, inside in stormy.answered if at < stormy.answered[0][0] + 1]
    assert first == [1], "the gate opens step by step"
