"""Schedules, as a person sets them. One in an agent's file is set again whenever that file changes."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from agent_worker.agents import schedule
from agent_worker.agents.schedule import Timer
from agent_worker.definitions.schedule import Schedule
from agent_worker.errors import BadInput
from agent_worker.service.messages import agent_id
from agent_worker.service.office import Office
from agent_worker.service.operation import operation


@dataclass(frozen=True, slots=True)
class Scheduled:
    agent: str
    wakeup: str
    prompt: str
    workspace: str
    due_at: int | None
    fired_at: int | None


@operation("GET", "/schedules")
async def schedules_list(office: Office, project: str | None = None) -> list[Scheduled]:
    """All schedules of a project, with when each is due next and was last."""
    admitted = await office.project(project)
    rows = await office.stage.database.read(schedule.of_project, admitted.id)
    found = []
    for row in rows:
        spec = Schedule.model_validate_json(row["spec"])
        when = spec.wakeup or f"at {spec.at.isoformat() if spec.at else ''}"
        found.append(Scheduled(row["name"], when, row["prompt"], row["workspace"], row["due_at"], row["fired_at"]))
    return found


@operation("PUT", "/schedules/{name}")
async def schedule_set(
    office: Office,
    name: str,
    wakeup: str | None = None,
    at: str | None = None,
    tz: str | None = None,
    prompt: str | None = None,
    workspace: str | None = None,
    project: str | None = None,
) -> list[Scheduled]:
    """Wake an agent by an interval (5m), a cron line (0 9 * * 1-5) or once (at)."""
    admitted = await office.project(project)
    given = {"wakeup": wakeup, "at": at, "tz": tz, "prompt": prompt, "workspace": workspace}
    try:
        wanted = Schedule.model_validate({key: value for key, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise BadInput(f"{where}: {first['msg']}".lstrip(": "), hint="such as 5m or '0 9 * * 1-5'") from None
    agent = agent_id(admitted, name)
    timer = Timer(f"s_{agent}", admitted.id, agent, wanted)
    await office.stage.database.write(schedule.keep, timer, now=office.stage.clock.now())
    if office.stage.roster.ticker:
        office.stage.roster.ticker.look_again()
    return [s for s in await schedules_list(office, project) if s.agent.lower() == name.lower()]


@operation("DELETE", "/schedules/{name}")
async def schedule_clear(office: Office, name: str, project: str | None = None) -> bool:
    """End a schedule. True if there was one."""
    admitted = await office.project(project)
    return await office.stage.database.write(schedule.clear, f"s_{agent_id(admitted, name)}")
