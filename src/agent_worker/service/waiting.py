"""What agents wait for, as it is shown: by what this process knows, and by what was asked of the person."""

from __future__ import annotations

from agent_worker.agents.loader import LoadedProject
from agent_worker.agents.waiting import Waiting as Waiting
from agent_worker.database.database import Row
from agent_worker.service.service import Service
from agent_worker.work import inbox


async def waiting_agents(service: Service, loaded: LoadedProject) -> dict[str, Waiting]:
    """Which agents wait, and for what, by id. Work that waits for a person does not keep its agent from other work."""
    asked = await service.read(loaded, inbox.asked_by_agents)
    for_you = {agent: Waiting("person", item["text"], item["at"]) for agent, item in asked.items()}
    here = service.runtime.supervisor.waits.all()
    return for_you | {agent: wait for agent, wait in here.items() if wait.what != "person" or agent not in for_you}


def state_of(row: Row, wait: Waiting | None) -> tuple[str, Waiting | None]:
    """The state of an agent, as it is shown; and what it waits for, when that is its state."""
    if row["paused"]:
        return "paused", None
    if away := row.get("away"):  # of a member: here it does not work
        return str(away), None
    return ("waiting", wait) if wait and row["state"] == "idle" else (row["state"], None)
