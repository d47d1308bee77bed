"""Whoever answers whom, a request stays within its limits: rings, everybody to everybody, and graphs of chance (L2)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from agent_worker.core.clock import TestClock
from agent_worker.work.limits import WorkLimits
from tests.faults.report import LONG, SEED, report
from tests.teams import open_team
from tests.work.test_limits import Chatter

GRAPHS = 200 if LONG else 20
LARGEST = 50


def graph_of(chance: random.Random) -> dict[str, list[str]]:
    size = chance.choice([2, 3, 5, 8, 13, 21, 34, LARGEST])
    names = [f"a{n}" for n in range(size)]
    match chance.choice(["ring", "all", "chance"]):
        case "ring":
            return {name: [names[(n + 1) % size]] for n, name in enumerate(names)}
        case "all":
            return {name: ["all"] for name in names}
        case _:
            most = min(size - 1, 4)
            return {name: chance.sample([o for o in names if o != name], chance.randint(1, most)) for name in names}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(GRAPHS))
async def test_L2_a_team_of_any_shape_stays_within_the_limits(tmp_path: Path, number: int) -> None:
    with report.seeded("L2", SEED + number) as chance:
        graph = graph_of(chance)
        async with open_team(tmp_path, *graph, clock=TestClock()) as team:
            for name, others in graph.items():
                team.employ(name, Chatter(*others))
            await team.post("user", f"@{next(iter(graph))} begin")
            reason = await team.meanwhile(team.quiet())
            assert "limit reached" in reason
            messages = await team.messages()
            assert len([m for m in messages if m.kind == "system"]) == 1, "one notice"
            assert max(m.hop for m in messages) <= (WorkLimits().hops_per_root or 0)
            assert len(await team.runs()) <= (WorkLimits().runs_per_root or 0)
            assert set(await team.states()) <= {"done", "queued", "incomplete"}, "nothing was dropped"
            assert [kind for kind, _ in await team.inbox()] == ["limit"]
    report.counts["L2 graphs"] += 1
