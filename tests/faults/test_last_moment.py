"""A run ends when its work has ended: whatever begins in the last millisecond before quiet is still done (Q9)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_worker.agents.prompt import NO_REPLY
from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn
from agent_worker.core.clock import SystemClock
from agent_worker.core.errors import NotRunning
from agent_worker.database.database import Row
from agent_worker.proposals import lifecycle
from agent_worker.proposals.request import PERSON, ProposalRequest
from agent_worker.tools.tool import Call
from agent_worker.work.limits import WorkLimits
from agent_worker.workflows import start as workflows
from agent_worker.workspaces import workspace_rows
from tests import stored
from tests.faults.report import LONG, SEED, report
from tests.patience import tries
from tests.teams import Team, open_team

TRIES = 334 if LONG else 40  # of each kind
MOMENT = 0.002
NO_LIMITS = WorkLimits(None, None, None, None, None, None)


def left_over(tx: stored.Reader) -> list[Row]:
    """All that is not over."""
    return [
        *(row for row in stored.instructions(tx) if row["state"] in ("queued", "running", "waiting")),
        *(row for row in stored.deliveries(tx) if row["state"] in ("queued", "given")),
        *stored.proposals(tx, state="open"),
    ]


class Quick:
    """Votes where there is something to vote on; says what it is given to say, after a while."""

    def __init__(self, wait: Callable[[], float] = lambda: 0.0, text: str = NO_REPLY) -> None:
        self._wait, self._text = wait, text

    async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
        if "[PROPOSAL" in turn.prompt and not steps:
            return Reply(calls=(Call("c1", "team_vote", {"proposal": 1, "choice": "yes"}),))
        await asyncio.sleep(self._wait())
        return Reply(self._text)


async def message(team: Team) -> None:
    await team.post("user", "@bob one more thing")


async def proposal(team: Team) -> None:
    workspace = await team.read(workspace_rows.get, team.workspace.id)
    await team.write(lifecycle.propose, workspace, ProposalRequest("shall we?"), by=PERSON, now=team.now())


async def child(team: Team) -> None:
    await team.post("user", "@alice pass it on")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("begin", [message, proposal, child], ids=lambda kind: str(kind.__name__))
async def test_Q9_what_begins_in_the_last_moment_is_done_before_a_run_ends(tmp_path: Path, begin: Any) -> None:
    """Runs end while something begins at a random point of the last moment, or just after it: until both were seen."""
    with report.seeded("Q9", SEED) as chance:
        async with open_team(tmp_path, "alice", "bob", clock=SystemClock(), quiet_moment=MOMENT) as team:
            accepted: list[bool] = []

            def seen_from_both_sides() -> bool:
                late_enough = begin is child or accepted.count(False) > TRIES / 20
                return late_enough and accepted.count(True) > TRIES / 10

            for number in tries(TRIES, enough=seen_from_both_sides):
                longest = 3 * MOMENT * max(1, 2 * number / TRIES)  # a slow machine ends later
                accepted.append(await _one_try(await _again(team, chance), begin, chance.random() * longest))
        report.counts[f"Q9 {begin.__name__}"] += len(accepted)


async def _again(team: Team, chance: random.Random) -> Team:
    if (await team.read(workspace_rows.get, team.workspace.id))["state"] != "running":
        definition = team.loaded.project.workflows["review"]
        team.workspace = await workflows.start(team.runtime, team.loaded, workflows.Start(definition))
    team.employ("alice", Quick(lambda: chance.random() * 2 * MOMENT, "@bob yours"), limits=NO_LIMITS)
    team.employ("bob", Quick(), limits=NO_LIMITS)
    return team


async def _one_try(team: Team, begin: Any, wait: float) -> bool:
    """True if it began in time. Then nothing of it is left when the run has ended."""
    if begin is child:
        await begin(team)
    ending = asyncio.create_task(team.workspace.run())
    try:
        if begin is not child:
            await asyncio.sleep(wait)
            await begin(team)
    except NotRunning:
        await ending
        return False
    summary = await ending
    assert await team.read(left_over) == []
    assert summary.outcome == "done"
    if begin is child:
        assert summary.runs == {"alice": 1, "bob": 1}
    return True
