"""The models of the OpenAI door: teams that run, then agents, then teams that could be started."""

from __future__ import annotations

from typing import Any

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import parse_address
from agent_worker.database.database import Row, Transaction
from agent_worker.doors.openai.target import NoModel, check_opens
from agent_worker.service.found_workflow import SESSION
from agent_worker.service.service import Service
from agent_worker.work.door_tokens import DoorToken
from agent_worker.workspaces import workspace_rows


async def models_of(service: Service, loaded: LoadedProject, token: DoorToken) -> list[dict[str, Any]]:
    """The models that this token opens. Sessions with one agent are no models of their own."""
    running = {
        f"@{workspace_rows.name_of(row)}": row["started_at"] // 1_000_000
        for row in await service.read(loaded, _running)
        if not row["file"].startswith(SESSION)
    }
    others = dict.fromkeys([*loaded.agents, *(f"@{name}" for name in loaded.project.workflows)], 0)
    owner = loaded.project.definition.name
    return [
        {"id": name, "object": "model", "created": made, "owned_by": owner}
        for name, made in (running | {name: made for name, made in others.items() if name not in running}).items()
        if _is_open(token, name)
    ]


def model_called(name: str, listed: list[dict[str, Any]]) -> dict[str, Any]:
    for model in listed:
        if model["id"].lower() == name.lower():
            return model
    raise NoModel(f"there is no model {name[:200]} here", hint="GET /v1/models lists them")


def _is_open(token: DoorToken, name: str) -> bool:
    try:
        check_opens(token, parse_address(name))
    except NoModel:
        return False
    return True


def _running(tx: Transaction) -> list[Row]:
    return [row for row in workspace_rows.of_project(tx) if row["state"] == "running"]
