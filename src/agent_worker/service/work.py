"""Open work, as a person sees it: listing it, and cancelling what they do not want any more."""

from __future__ import annotations

from agent_worker.agents import commands
from agent_worker.core.errors import NotFound, Refused
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.work import agent_rows, open_work


@dataclass(frozen=True, slots=True)
class Cancelled:
    """One instruction that was cancelled, and what became of it."""

    id: str
    agent: str
    was: str  #: queued | running | waiting (for a person)
    told: str  #: what happened, as a sentence


_TOLD = {
    "queued": "it had not begun, and will not",
    "running": "it was stopped in the middle; what it had done stays",
    "waiting": "it was waiting for you, and its question is withdrawn",
}


_OVER = {"acked": "done"}


@dataclass(frozen=True, slots=True)
class OpenWork:
    """One instruction that is not over."""

    id: str
    agent: str
    state: str  #: queued | running | waiting (for a person)
    text: str


@operation("GET", "/instructions")
async def work_list(service: Service, project: str | None = None, limit: int = 200) -> list[OpenWork]:
    """The work of a project that is queued, waiting, or under way."""
    loaded = await service.project(project)
    return await service.read(loaded, _open_work, max(1, min(limit, 1000)))


@operation("DELETE", "/instructions/{id}")
async def work_cancel(
    service: Service, id: str, reason: str = "a person no longer wants it", whole: bool = False
) -> list[Cancelled]:
    """Cancel work, whether it is queued, waiting, or under way. Other work continues.

    By the id of an instruction (`agent info` shows it), of a run, or of the message that asked for it: then it is
    cancelled for all whom that message called on. With `whole`, also for all who were called on because of it.
    """
    database, id = await service.holding(id, "work", "run", "message")
    return await database.write(_cancel, id, reason, now=service.now(), whole=whole)


def _open_work(tx: Transaction, limit: int) -> list[OpenWork]:
    return [OpenWork(row["id"], row["name"], row["state"], row["text"][:200]) for row in open_work.open_work(tx, limit)]


def _cancel(tx: Transaction, id: str, reason: str, *, now: int, whole: bool = False) -> list[Cancelled]:
    rows = next((rows for sql in _NAMED if (rows := tx.all(sql, id=id))), [])
    if whole and (came := tx.all(_CAME_OF, id=id)):
        rows = came
    if not rows:
        open_now = open_work.open_work(tx, 1)
        where = f"agent info {open_now[0]['name']}" if open_now else "runs"
        raise NotFound(f"there is no work {id}", hint=f"agent-worker {where}")
    open_rows = [row for row in rows if row["state"] in _TOLD]
    if not open_rows:
        state = rows[-1]["state"]  # of work, or of a delivery
        raise Refused(f"it is already over: {_OVER.get(state, state)}", hint="agent-worker runs")
    found = []
    for row in open_rows:
        name = agent_rows.identity(tx, row["agent"])["name"]
        commands.cancel(tx, row["id"], reason=reason, now=now)
        found.append(Cancelled(row["id"], name, row["state"], _told(row)))
    return found


def _told(row: Row) -> str:
    if row["state"] == "queued" and (row["attempts"] or row["work"] != row["id"]):
        return "it had begun, and will not continue; what it had done stays"
    return _TOLD[row["state"]]


#: Work that is not over, by the message that all of it came of.
_CAME_OF = """
select * from instruction
 where project = :project and root = :id and state in ('queued', 'running', 'waiting') order by ord"""

#: Work by its own id, by that of a run, and by that of the message that asked for it.
_NAMED = (
    "select * from instruction where project = :project and id = :id",
    "select * from instruction where project = :project and run = :id order by ord",
    """select i.* from run r join instruction i on i.project = :project and i.id = r.instruction
        where r.project = :project and r.id = :id""",
    """select i.* from delivery d join instruction i on i.project = :project and i.workspace = d.workspace
          and i.state in ('queued', 'running', 'waiting') and i.message = d.message and i.agent = d.agent
        where d.project = :project and d.message = :id order by i.ord""",
    "select * from delivery where project = :project and message = :id",  # it is over
)
