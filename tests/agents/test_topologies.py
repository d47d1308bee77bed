"""Loops of any shape stay within the allowance of the request they came from (L2)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.faults.report import LONG
from tests.teams import open_team
from tests.work.test_limits import Chatter

from agent_worker.core.clock import TestClock
from agent_worker.work.limits import WorkLimits

NO_HOPS = WorkLimits(hops_per_root=None)


async def runs_of(graph: Mapping[str, Sequence[str]], root: Path, *, limits: WorkLimits = NO_HOPS) -> int:
    """Everybody answers those the graph says, for ever; how many runs came of one request."""
    async with open_team(root, *graph, clock=TestClock()) as team:
        for name, others in graph.items():
            team.employ(name, Chatter(*others), limits=limits)
        await team.post("user", f"@{next(iter(graph))} begin")
        reason = await team.meanwhile(team.quiet())
        assert "limit reached" in reason
        assert len([m for m in await team.messages() if m.kind == "system"]) == 1
        assert set(await team.states()) <= {"done", "queued", "incomplete"}
        return len(await team.runs())


@pytest.mark.parametrize("size", range(2, 11) if LONG else [2, 3, 5, 10])
async def test_L2_a_ring_of_any_length_is_stopped(size: int, tmp_path: Path) -> None:
    graph = {f"a{n}": [f"a{(n + 1) % size}"] for n in range(size)}
    assert await runs_of(graph, tmp_path) == 50


@pytest.mark.parametrize("seed", range(20 if LONG else 6))
async def test_L2_a_random_graph_is_stopped(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    names = [f"a{n}" for n in range(chance.randint(3, 8))]
    graph = {name: chance.sample([o for o in names if o != name], chance.randint(1, 2)) for name in names}
    assert await runs_of(graph, tmp_path) <= 50


@pytest.mark.parametrize("size", [3, 10, 50])
async def test_L2_all_to_all_is_stopped(size: int, tmp_path: Path) -> None:
    graph = {f"a{n}": ["all"] for n in range(size)}
    assert await runs_of(graph, tmp_path) <= 50
