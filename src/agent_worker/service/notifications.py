"""Where the person is told what waits for them, what could not be told, and a test of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import field

from agent_worker.core.errors import BadInput
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.definitions.notifications import FILE, Notifications, read_notifications
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.work import inbox, outbox


@dataclass(frozen=True, slots=True)
class SinkView:
    name: str
    to: str  #: webhook | ntfy | command | email
    kinds: list[str] = field(default_factory=list)  #: none named is all
    waiting: int = 0  #: what is still to be told there
    trouble: str = ""  #: why the last of these could not be


@operation("GET", "/notifications")
async def notifications_list(service: Service, project: str | None = None) -> list[SinkView]:
    """Where notifications go, and what could not be delivered."""
    return await sinks_of(service, [project])


async def sinks_of(service: Service, projects: Sequence[str | None]) -> list[SinkView]:
    """Where notifications go, and what of these projects could not be delivered; there may be none of them."""
    opened = [await service.project(each) for each in projects]
    wanted = await asyncio.to_thread(_wanted, service)
    rows = [row for each in opened for row in await service.read(each, outbox.of_project)]
    found = []
    for name, sink in wanted.sinks.items():
        mine = [row for row in rows if row["sink"] == name]
        trouble = next((row["reason"] for row in reversed(mine) if row["reason"]), "")
        found.append(SinkView(name, sink.to, list(sink.kinds), len(mine), trouble))
    return found


@operation("POST", "/notifications/test")
async def notifications_test(service: Service, project: str | None = None) -> str:
    """Put a test item into your inbox. It is sent to every sink, at once. Returns its id."""
    loaded = await service.project(project)
    wanted = await asyncio.to_thread(_wanted, service)
    if not wanted.sinks:
        where = service.runtime.home.location(FILE) if service.runtime.home else FILE
        raise BadInput("no notifications are set up yet", hint=f"write {where}: docs/guides/notifications.md says how")
    text = "This is a test of your notifications. Dismiss it."
    return await service.write(loaded, inbox.ask, "test", ref=new_id("x"), text=text, now=service.now())


def _wanted(service: Service) -> Notifications:
    home = service.runtime.home
    return read_notifications(home.location()) if home else Notifications()
