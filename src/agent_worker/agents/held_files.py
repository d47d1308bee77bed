"""Holds back what a coding program writes into its agent's own files: soul and memory are changed by our tools only.

The files are watched during a run and put back (memory/own_files.py); the person is told, and may take over what was
held (service/held_files.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

from agent_worker.agents.recorder import RecorderContext
from agent_worker.agents.registry import AgentRuntime
from agent_worker.agents.run_begin import Assignment
from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.later import dataclass
from agent_worker.database.database import ProjectDatabase, Transaction
from agent_worker.files.root import Root
from agent_worker.memory import audit
from agent_worker.memory.own_files import HELD, OwnFiles, RunJournal
from agent_worker.work import inbox

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FilesOwner:
    """The agent that files belong to."""

    agent: str  #: id
    name: str
    home: Root


@asynccontextmanager
async def guarding(
    job: Assignment, worker: AgentRuntime, recording: RecorderContext, journal: RunJournal
) -> AsyncIterator[None]:
    """Put back what a program writes into its agent's own files during a run, keep it apart, note it in the audit and
    tell the person.
    """
    writes_freely = worker.definition.edits_freely or bool(worker.definition.unsafe)
    if worker.home is None or not writes_freely:
        yield
        return
    owner = FilesOwner(worker.agent, worker.name, worker.home)
    guard = await asyncio.to_thread(OwnFiles.begin, owner.home, job.run, journal, owner.agent)
    try:
        yield
    finally:
        try:
            if found := await asyncio.to_thread(guard.end):
                database = recording.database.of(worker.project)
                await database.write(_tell, owner, job.run, found, now=recording.clock.micros())
            await asyncio.to_thread(journal.end, owner.agent)
        except (AgentWorkerError, OSError) as error:
            log.warning("the files of %s could not be put back: %s", worker.name, error)


async def put_back_after_kill(
    journal: RunJournal, owners: Iterable[FilesOwner], database: ProjectDatabase, *, now: int
) -> None:
    """Undo what programs wrote into the files of these agents in runs that died with their process."""
    for owner in owners:
        try:
            found = await asyncio.to_thread(OwnFiles.recover, owner.home, journal, owner.agent)
            if found and found[1]:
                await database.write(_tell, owner, *found, now=now)
            await asyncio.to_thread(journal.end, owner.agent)
        except (AgentWorkerError, OSError) as error:
            log.warning("the files of %s could not be put back: %s", owner.name, error)


def matter_of(agent: str, run: str) -> str:
    """The reference by which the inbox knows what was put back in a run of an agent."""
    return f"{agent}/{run}"


def _tell(tx: Transaction, owner: FilesOwner, run: str, paths: Sequence[str], *, now: int) -> None:
    listed, name = ", ".join(paths), owner.name
    audit.note(tx, audit.AuditEntry(owner.agent, name, "denied", f"wrote {listed}", run=run), now=now)
    text = (
        f"{listed} of {name} changed while its program worked ({run}), but not through one of its tools. "
        f"The change was undone and is kept in {owner.home.location(HELD)}/{run}. If you made it, "
        f"restore it: agent-worker agent release {name} --run {run}"
    )
    inbox.ask(tx, "held", ref=matter_of(owner.agent, run), text=text, agent=owner.agent, now=now)
