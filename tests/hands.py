"""The hands of a run without its loop: for tests of what one call does."""

from __future__ import annotations

from agent_worker import identities
from agent_worker.agents import assignments
from agent_worker.agents.assignments import Assignment
from agent_worker.agents.hands import Pen, RunHands
from agent_worker.instructions import Ageing
from agent_worker.limits import Limits
from agent_worker.tools.tool import Desk, Seat, Tool
from tests.teams import Team

TERMS = assignments.Terms("alice", "mock", "mock", Limits())


async def by_hand(team: Team, agent: str = "alice", owner: str = "by hand") -> Assignment:
    """Take an agent's next work as a loop would, without a loop."""
    fence = await team.write(identities.claim, team.id_of(agent), owner)
    job = await team.write(assignments.begin, fence, lambda _: TERMS, now=team.now(), ageing=Ageing())
    assert isinstance(job, Assignment)
    return job


def hands_of(team: Team, job: Assignment, *tools: Tool) -> RunHands:
    stage = team.engine.stage
    seat = Seat(job.fence.agent, job.name, job.project, job.run, job.lead.root, job.lead.hop, job.workspace)
    desk = Desk(seat, stage.database, stage.clock)
    return RunHands(job, TERMS, desk, {t.name: t for t in tools}, Pen(stage.database, stage.bus, stage.clock))
