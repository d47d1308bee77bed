"""The hosts that share the work, where the state is in PostgreSQL: who is there, and what each has in hand."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace

from agent_worker.agents.hosting import HostGone
from agent_worker.agents.shared_folder import marks
from agent_worker.core.later import dataclass
from agent_worker.database import host_rows
from agent_worker.database.database import Row, Transaction, WholeTransaction
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.work import agent_rows, project_rows
from agent_worker.workspaces import workspace_rows

TOLD = 3600 * 1_000_000  #: microseconds for which a host that is gone is told of


@dataclass(frozen=True, slots=True)
class HostView:
    """One daemon of several."""

    id: str
    node: str  #: the name of its machine
    pid: int
    version: str
    labels: list[str]  #: what it has that an agent may require
    lease: float  #: seconds until the others count it as dead, unless it says otherwise; below 0: it is overdue
    here: bool  #: it is the daemon that answers
    agents: list[str]  #: whom it runs, or has just run
    working: int  #: how many of them are at work
    instances: list[str]  #: the workflows that it has open
    checkout: str = ""  #: where it has the project that was asked about; '' when it has none


@dataclass(frozen=True, slots=True)
class SharedFolder:
    """The folder of one agent."""

    agent: str
    path: str  #: where it is here
    mark: str  #: what the hosts know it by; '' until one of them has worked in it
    found: str  #: what is there, on this host: the same if it is the same folder


@operation("GET", "/hosts")
async def hosts_list(service: Service, project: str | None = None) -> list[HostView]:
    """The daemons that share the database, oldest first; none if this one keeps its state in a file.

    With a project, also where each has its checkout.
    """
    if service.runtime.supervisor.hosting is None:
        return []
    loaded = await service.project(project) if project else None
    return await service.runtime.database.read(
        _listed, service.runtime.supervisor.owner, project=loaded.id if loaded else ""
    )


@operation("GET", "/hosts/gone")
async def hosts_gone(service: Service) -> list[HostGone]:
    """The daemons that were found dead in the last hour, since this one began; the others have their work."""
    hosting = service.runtime.supervisor.hosting
    if hosting is None:
        return []
    return [each for each in hosting.gone.values() if service.now() - each.at < TOLD]


@operation("GET", "/hosts/folders")
async def hosts_folders(service: Service, project: str | None = None) -> list[SharedFolder]:
    """The folders that agents keep where all hosts see them (`context.store: files`), as this host sees them."""
    loaded = await service.project(project)
    personal = service.runtime.personal
    owned = [service.runtime.registry.worker(agent) for agent in loaded.agents.values()]
    return [
        SharedFolder(worker.name, str(worker.home.location()), *await marks(service.database(loaded), worker))
        for worker in owned
        if personal and worker.home and not personal.shares(worker)
    ]


async def is_first(service: Service) -> bool:
    """Whether what one of several hosts does for all is for us to do: we are alone, or have been here longest."""
    here = service.runtime.supervisor.host
    if here is None:
        return True
    hosts = await service.runtime.database.read(host_rows.listed)
    return bool(hosts) and hosts[0]["id"] == here


def _listed(tx: WholeTransaction, here: str, *, project: str) -> list[HostView]:
    checkouts = {row["host"]: row["root"] for row in project_rows.checkouts(tx.of(project))}
    agents: dict[str, list[Row]] = defaultdict(list)
    instances: dict[str, list[str]] = defaultdict(list)
    for each in project_rows.ids(tx):
        for row in agent_rows.owned(tx.of(each)):
            agents[row["owner"]].append(row)
        for row in _open_instances(tx.of(each)):
            instances[row["owner"]].append(f"@{workspace_rows.name_of(row)}")
    return [
        replace(
            _view(row, agents[row["id"]], instances[row["id"]]),
            here=row["id"] == here,
            checkout=checkouts.get(row["place"], ""),
        )
        for row in host_rows.listed(tx)
    ]


def _view(row: Row, agents: list[Row], instances: list[str]) -> HostView:
    working = sum(agent["state"] == "running" for agent in agents)
    lease = row["left_of_lease"] / 1e6
    names = [agent["name"] for agent in agents]
    about = row["id"], row["node"], row["pid"], row["version"], json.loads(row["labels"]), lease, False
    return HostView(*about, names, working, instances)


def _open_instances(tx: Transaction) -> list[Row]:
    return [row for row in workspace_rows.of_project(tx) if row["state"] == "running" and row["owner"]]
