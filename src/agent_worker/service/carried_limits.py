"""The limits of a request go on where an agent asks by a command, or through an editor, as a person would.

The environment of what an agent starts names its run, and every command of ours passes that on. Without it, a team that
reaches itself would begin with fresh limits each time. It proves nothing: a caller who leaves it out has the daemon's
own token, and is bounded by money.
"""

from __future__ import annotations

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.errors import Refused
from agent_worker.core.text import plural
from agent_worker.database.database import Row, Transaction
from agent_worker.service.service import Service
from agent_worker.work.limits import WorkLimits
from agent_worker.workspaces.carried_root import CarriedRoot

_HOPS = WorkLimits().hops_per_root or 0


async def cause_of(service: Service, loaded: LoadedProject, run: str) -> CarriedRoot | None:
    """The request that a run works on, for a message that it sends. Raises Refused after too many hops."""
    found = await _cause(service, loaded, run)
    if found and found.hop >= _HOPS:
        told = f"an agent asks this, {plural(_HOPS, 'hop')} away from the request that began it: it is not passed on"
        raise Refused(told, hint=f"agent-worker explain {run}")
    return found


async def _cause(service: Service, loaded: LoadedProject, run: str) -> CarriedRoot | None:
    """The request that a run works on. If the run belongs to another project its request is not one of ours, but its
    hops still count.
    """
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
