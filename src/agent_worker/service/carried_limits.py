"""The limits of a request that go on where an agent asks by a command or an editor's door, as a person would.

What an agent starts is told by its environment which run it belongs to, and every command of ours says so. Without
that, a team that reaches itself would begin anew each time. It is no proof of anything: whoever leaves it out is
somebody who has the daemon's own token, and is bounded by money.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.errors import Refused
from agent_worker.core.text import plural
from agent_worker.database.database import Row, Transaction
from agent_worker.service.service import Service
from agent_worker.work import agent_rows
from agent_worker.work.limits import WorkLimits
from agent_worker.workspaces.routing import CarriedRoot

_HOPS = WorkLimits().hops_per_root or 0


async def cause_of(service: Service, loaded: LoadedProject, run: str | None) -> CarriedRoot | None:
    """What a message comes from that such a command sends. Raises Refused where it has been passed on too often."""
    found = await _cause(service, loaded, run) if run else None
    if found and found.hop >= _HOPS:
        told = f"an agent asks this, and it is {plural(_HOPS, 'hop')} away from the request that began it: no further"
        raise Refused(told, hint=f"agent-worker explain {run}")
    return found


async def _cause(service: Service, loaded: LoadedProject, run: str) -> CarriedRoot | None:
    """The run may belong to another project: then its request is not one of ours, but how far it went still counts."""
    database, whole = await service.holding(run, "run")
    row = await database.read(_of_run, whole) if database.project and whole == run else None
    return CarriedRoot(row["root"] if database.project == loaded.id else "", row["hop"] + 1) if row else None


def _of_run(tx: Transaction, run: str) -> Row | None:
    return tx.one(
        """select r.root, i.hop from run r
             join instruction i on i.project = :project and i.id = r.instruction
            where r.project = :project and r.id = :run""",
        run=run,
    )


def check_waits_for_itself(tx: Transaction, cause: CarriedRoot | None, agents: Sequence[str]) -> None:
    """An agent does one thing at a time: who is at work on a request cannot be asked by what it started for it."""
    for agent in agents if cause is not None and cause.root else ():
        at_work = tx.one(
            """select 1 as one from run
                where project = :project and agent = :agent and state = 'running' and root = :root""",
            agent=agent,
            root=cause.root if cause else "",
        )
        if at_work:
            name = agent_rows.identity(tx, agent)["name"]
            told = f"{name} is at work on this very request, and would wait for itself"
            raise Refused(told, hint="let it start another agent or team")
