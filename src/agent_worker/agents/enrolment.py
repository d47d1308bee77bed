"""The ids of a project and of those who work in it, known or new: the first thing that is done with its files."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from agent_worker.agents import deletion
from agent_worker.agents.project_identity import checkout_of, is_at
from agent_worker.core.later import dataclass
from agent_worker.database.database import Database, WholeTransaction
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.project_files import ProjectFiles
from agent_worker.work import agent_rows, project_rows
from agent_worker.work.project_rows import Checkout


@dataclass(frozen=True, slots=True)
class Enrolled:
    project: str  #: id
    agents: Mapping[str, str]  #: name → id
    quick: Mapping[str, AgentDefinition]  #: those without a file whose name no file has taken


async def enrol(
    database: Database, project: ProjectFiles, quick: Mapping[str, AgentDefinition], host: str, *, now: int
) -> Enrolled:
    """Find or make the ids of a project and its agents. `host` is our id among hosts that share the database; '' when
    we are alone.
    """
    here = await asyncio.to_thread(checkout_of, project, shared=bool(host))
    before = await database.read(project_rows.had_at, here)
    moved = "" if await asyncio.to_thread(is_at, before, here.identity) else before
    quick = {name: definition for name, definition in quick.items() if name not in project.agents}
    id, agents = await database.write(_enrol, here, moved, tuple(project.agents), tuple(quick), host, now=now)
    return Enrolled(id, agents, quick)


def _enrol(
    whole: WholeTransaction,
    here: Checkout,
    moved: str,
    lasting: tuple[str, ...],
    quick: tuple[str, ...],
    host: str,
    *,
    now: int,
) -> tuple[str, dict[str, str]]:
    id = project_rows.enrol(whole, here, gone=moved)
    tx = whole.of(id)
    known = {row["name"].lower(): row for row in agent_rows.at_home(tx)}
    for name in lasting:
        before = known.get(name.lower())
        if before is not None and before["kind"] == "ephemeral":  # whoever has a file now is somebody else
            deletion.cancel_all(tx, before["id"], now=now)
            deletion.erase(tx, before, now=now)
    agents = {name: agent_rows.enrol(tx, name=name) for name in lasting}
    return id, agents | {name: agent_rows.enrol(tx, name=name, kind="ephemeral", host=host) for name in quick}
