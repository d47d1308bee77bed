"""Files of an agent that were put back while a program worked for it: a person says that it was them."""

from __future__ import annotations

import asyncio

from agent_worker.agents.held_files import matter_of
from agent_worker.core.errors import NotFound
from agent_worker.core.later import dataclass
from agent_worker.database.database import Transaction
from agent_worker.memory import audit, own_files
from agent_worker.service.messages import agent_id
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.work import inbox


@dataclass(frozen=True, slots=True)
class FilesTakenOver:
    files: list[str]
    undo: str  #: the run to name to have it as it was


@operation("POST", "/agents/{name}/held/{run}/release")
async def held_release(service: Service, name: str, run: str, project: str | None = None) -> FilesTakenOver:
    """Restore the edits to an agent's soul and memory files that were put back during this run.

    What stands there now is kept, and comes back in the same way.
    """
    loaded = await service.project(project)
    return await take_over_files(service, agent_id(loaded, name), run)


async def take_over_files(service: Service, agent: str, run: str) -> FilesTakenOver:
    worker = service.runtime.registry.worker(agent)
    if worker.home is None:
        raise NotFound(f"{worker.name} has no files of its own")
    await service.see_files(agent)
    files = await asyncio.to_thread(own_files.take_over, worker.home, run)
    if not files:
        there = ", ".join(await asyncio.to_thread(own_files.held_runs, worker.home))
        raise NotFound(f"nothing of {worker.name} was put back in {run!r}", hint=f"there are: {there or 'none'}")
    database = service.runtime.database.of(worker.project)
    await database.write(_note, agent, run, files, now=service.now())
    await service.runtime.public.publish(worker)
    return FilesTakenOver(files, own_files.counterpart(run))


def _note(tx: Transaction, agent: str, run: str, files: list[str], *, now: int) -> None:
    done = audit.AuditEntry(agent, "user", "released", f"{', '.join(files)} of {run}")
    audit.note(tx, done, now=now)
    inbox.close_about(tx, "held", matter_of(agent, run))
