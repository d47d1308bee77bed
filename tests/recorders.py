"""The recorder of a run without its loop: for tests of what one call does."""

from __future__ import annotations

from agent_worker.agents import run_begin
from agent_worker.agents.recorder import RecorderContext, RunRecorder
from agent_worker.agents.run_begin import Assignment
from agent_worker.tools.tool import RunIdentity, Tool, ToolContext
from agent_worker.work import agent_rows
from agent_worker.work.agent_rows import Fence
from agent_worker.work.limits import WorkLimits
from agent_worker.work.queue import Ageing
from tests import stored
from tests.teams import Team

TERMS = run_begin.Terms("alice", "mock", "mock", WorkLimits())


async def by_hand(team: Team, agent: str = "alice", owner: str = "by hand") -> Assignment:
    """Take an agent's next work as a loop would, without a loop."""
    fence = await taken_by(team, agent, owner)
    job = await team.write(run_begin.begin, fence, lambda _: TERMS, now=team.now(), ageing=Ageing())
    assert isinstance(job, Assignment)
    return job


async def taken_by(team: Team, agent: str, host: str) -> Fence:
    """Another host claims an agent; where there are hosts, it is one of them and has found its owner dead."""
    if team.runtime.supervisor.host:
        if not await team.read(stored.hosts, id=host):
            await team.write(stored.add_host, host)
        await team.change("agent", {"id": team.id_of(agent)}, owner=None)
    return await team.write(agent_rows.claim, team.id_of(agent), host)


def recorder_of(team: Team, job: Assignment, *tools: Tool) -> RunRecorder:
    runtime = team.runtime
    identity = RunIdentity(job.fence.agent, job.name, job.project, job.run, job.lead.root, job.lead.hop, job.workspace)
    context = ToolContext(identity, team.database, runtime.clock)
    return RunRecorder(
        job, TERMS, context, {t.name: t for t in tools}, RecorderContext(runtime.database, runtime.bus, runtime.clock)
    )
