"""The hosts that share the work, where the state is in PostgreSQL: who is there, and what each has in hand."""

from __future__ import annotations

import json
from collections import defaultdict

from agent_worker.core.later import dataclass
from agent_worker.database import host_rows
from agent_worker.database.database import Row, Transaction, WholeTransaction
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.work import agent_rows
from agent_worker.workspaces import workspace_rows


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


@operation("GET", "/hosts")
async def hosts_list(service: Service) -> list[HostView]:
    """The daemons that share the database, the oldest first; none where this one keeps its state for itself."""
    if service.runtime.supervisor.hosting is None:
        return []
    return await service.runtime.database.read(_listed, service.runtime.supervisor.owner)


def _listed(tx: WholeTransaction, here: str) -> list[HostView]:
    agents: dict[str, list[Row]] = defaultdict(list)
    instances: dict[str, list[str]] = defaultdict(list)
    for project in agent_rows.projects(tx):
        for row in agent_rows.owned(tx.of(project)):
            agents[row["owner"]].append(row)
        for row in _open_instances(tx.of(project)):
            instances[row["owner"]].append(f"@{workspace_rows.name_of(row)}")
    return [_view(row, agents[row["id"]], instances[row["id"]], here) for row in host_rows.listed(tx)]


def _view(row: Row, agents: list[Row], instances: list[str], here: str) -> HostView:
    working = sum(agent["state"] == "running" for agent in agents)
    lease = row["left_of_lease"] / 1e6
    names = [agent["name"] for agent in agents]
    about = row["id"], row["node"], row["pid"], row["version"], json.loads(row["labels"]), lease, row["id"] == here
    return HostView(*about, names, working, instances)


def _open_instances(tx: Transaction) -> list[Row]:
    return [row for row in workspace_rows.of_project(tx) if row["state"] == "running" and row["owner"]]
