"""Deleting an agent beyond its file: what this process, the database, coding programs and the disk have of it.

Who may be deleted, and when, is decided in agent_files.py; the rows go in agents/deletion.py.
"""

from __future__ import annotations

import asyncio
import contextlib

from agent_worker.agents import deletion
from agent_worker.agents.loader import LoadedProject
from agent_worker.backends.programs.program import owner_of
from agent_worker.backends.programs.sessions import forget_sessions
from agent_worker.core.errors import NotFound
from agent_worker.database.database import Row
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.files.root import Root
from agent_worker.service.service import Service
from agent_worker.trust.powers import powers_of_agent
from agent_worker.workspaces.log_files import HISTORY, Target


async def take_leave(service: Service, loaded: LoadedProject, me: Row, definition: AgentDefinition) -> None:
    """Remove whatever of an agent is in this process, in the database, with coding programs and among approvals."""
    runtime, id = service.runtime, me["id"]
    await service.write(loaded, deletion.cancel_all, id, now=service.now())
    await runtime.supervisor.dismiss(id)
    await runtime.log_files.flush()
    runtime.log_files.forget(Target(loaded.id, None, id))
    for library in runtime.registry.remove_all(id):
        await asyncio.to_thread(library.close)
    if runtime.personal:
        await asyncio.to_thread(runtime.personal.forget, id)
    await service.write(loaded, deletion.erase, me, now=service.now())
    await runtime.database.shed()
    root = loaded.project.root
    await asyncio.to_thread(lambda: runtime.gate.withdraw(root, powers_of_agent(definition, root)))
    await asyncio.to_thread(forget_sessions, runtime.programs, owner_of(me["name"], root, me["name"]))


def remove_files(root: Root, folder: str, logs: list[Row]) -> None:
    """Remove an agent's folder, and its own log in the folders of workspaces."""
    with contextlib.suppress(NotFound):
        root.remove_tree(folder)
    for log in logs:
        with contextlib.suppress(NotFound):
            root.remove(f"{log['directory']}/{HISTORY}/{log['name']}.jsonl")
