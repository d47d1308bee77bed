"""Whether this host sees the folder that other hosts see, where an agent keeps it in files (`context.store: files`).

A file lies in the folder, and what no copy of it has in common with it is kept in the database: its number on the disk,
and when it was written. A host that finds another file, or none, leaves the agent to the others, and tells the person.
A host that is alone may be anywhere: it leaves a new mark.
"""

from __future__ import annotations

import asyncio

from agent_worker.agents.registry import AgentRuntime
from agent_worker.core.errors import NotFound
from agent_worker.core.ids import new_id
from agent_worker.database.database import ProjectDatabase, Transaction
from agent_worker.files.root import Root
from agent_worker.memory import personal_rows
from agent_worker.work import inbox

MARK = ".shared"  #: in the agent's folder


async def is_seen(database: ProjectDatabase, worker: AgentRuntime, node: str, *, alone: bool, now: int) -> bool:
    """Whether the agent may run here; the first who runs it leaves the mark."""
    assert worker.home is not None
    kept, found = await marks(database, worker)
    if kept and kept == found:
        return True
    if kept and not alone:
        await database.write(_tell, worker, node, now=now)
        return False
    made = found or await asyncio.to_thread(_leave, worker.home)
    return await database.write(_keep, worker.agent, kept, made, now=now)


async def marks(database: ProjectDatabase, worker: AgentRuntime) -> tuple[str, str]:
    """What the hosts know the agent's folder by, and what is found in it here; '' for none."""
    assert worker.home is not None
    kept, _ = await database.read(personal_rows.text, worker.agent, MARK)
    return kept, await asyncio.to_thread(_found, worker.home)


def _found(home: Root) -> str:
    try:
        return home.identity(MARK)
    except NotFound:
        return ""


def _leave(home: Root) -> str:
    home.swap(MARK, f"{new_id('m')}\n", expected=None)
    return home.identity(MARK)


def _keep(tx: Transaction, agent: str, before: str, made: str, *, now: int) -> bool:
    """False: another host was faster, and its mark counts."""
    text, hash = personal_rows.text(tx, agent, MARK)
    return text == before and personal_rows.put(tx, agent, MARK, made, seen=hash, now=now) is not None


def _tell(tx: Transaction, worker: AgentRuntime, node: str, *, now: int) -> None:
    assert worker.home is not None
    told = (
        f"{worker.name} keeps its folder in files that all hosts see (context.store: files), but {node} does not see "
        f"that folder at {worker.home.location()}, and leaves its work to the others; mount it there, or delete "
        f"`store: files` from the file of {worker.name}"
    )
    inbox.ask(tx, "conflict", agent=worker.agent, ref=f"{worker.agent}/{MARK}/{node}", text=told, now=now)
