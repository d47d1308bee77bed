"""While a program works that may write files: its agent's soul and memory stay as they were, but for our own tools."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from agent_worker.agents.recorder import RecorderContext
from agent_worker.agents.registry import AgentRuntime
from agent_worker.agents.run_begin import Assignment
from agent_worker.core.errors import AgentWorkerError
from agent_worker.database.database import Transaction
from agent_worker.memory import audit
from agent_worker.memory.own_files import HELD, OwnFiles
from agent_worker.work import inbox

log = logging.getLogger(__name__)


@asynccontextmanager
async def guarding(job: Assignment, worker: AgentRuntime, recording: RecorderContext) -> AsyncIterator[None]:
    """What the program writes there itself is put back, kept apart, noted in the audit and told to the person."""
    writes_freely = worker.definition.edits_freely or bool(worker.definition.unsafe)
    if worker.home is None or not writes_freely:
        yield
        return
    guard = await asyncio.to_thread(OwnFiles.begin, worker.home, job.run)
    try:
        yield
    finally:
        try:
            if found := await asyncio.to_thread(guard.end):
                database = recording.database.of(worker.project)
                await database.write(_tell, job, worker, found, now=recording.clock.micros())
        except (AgentWorkerError, OSError) as error:
            log.warning("the files of %s could not be put back: %s", worker.name, error)


def _tell(tx: Transaction, job: Assignment, worker: AgentRuntime, paths: Sequence[str], *, now: int) -> None:
    assert worker.home is not None
    listed = ", ".join(paths)
    audit.note(tx, audit.AuditEntry(worker.agent, worker.name, "denied", f"wrote {listed}", run=job.run), now=now)
    text = (
        f"{listed} of {worker.name} changed while its program worked ({job.run}), and not by one of its tools. "
        f"It was put back; what stood there is kept in {worker.home.location(HELD)}/{job.run}. If that was you, "
        f"copy it back, or use agent-worker agent memory {worker.name} and agent soul {worker.name}."
    )
    inbox.ask(tx, "conflict", ref=f"{job.run}/own-files", text=text, agent=worker.agent, now=now)
