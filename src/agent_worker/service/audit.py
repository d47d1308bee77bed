"""The audit, as a person reads it: what was done to the memory of agents, and whether the record is whole."""

from __future__ import annotations

from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction
from agent_worker.memory import audit
from agent_worker.service.messages import agent_id
from agent_worker.service.operation import operation
from agent_worker.service.service import Service

MOST = 10_000


@dataclass(frozen=True, slots=True)
class Noted:
    number: int
    at: int
    agent: str  #: whose memory it concerns
    who: str  #: who did it
    deed: str
    about: str
    run: str


@dataclass(frozen=True, slots=True)
class Audit:
    entries: list[Noted]  #: the newest, in order
    flaw: str  #: where the record was tampered with; '' when it is whole


@operation("GET", "/audit")
async def audit_show(service: Service, agent: str | None = None, limit: int = 100, project: str | None = None) -> Audit:
    """What was done to the memory of agents, and by whom. The whole record is checked each time."""
    loaded = await service.project(project)
    names = {id: name for name, id in loaded.agents.items()}
    id = agent_id(loaded, agent) if agent else None
    rows, flaw = await service.read(loaded, _look, id, max(1, min(limit, MOST)))
    return Audit([_noted(row, names.get(row["agent"], row["agent"])) for row in rows], flaw)


def _look(tx: Transaction, agent: str | None, limit: int) -> tuple[list[Row], str]:
    return audit.entries(tx, agent=agent, limit=limit), audit.flaw(tx)


def _noted(row: Row, agent: str) -> Noted:
    return Noted(row["n"], row["at"], agent, row["who"], row["deed"], row["about"], row["run"])
