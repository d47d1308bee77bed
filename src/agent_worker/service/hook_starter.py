"""Starts the workflows that accepted webhooks ask for, one at a time of each group.

It looks when a webhook was accepted and when an instance has ended, and otherwise sleeps. What is being started is
marked first, so that a crash neither loses it nor does it twice. What cannot be started is put before the person.
"""

from __future__ import annotations

import asyncio
import logging

from agent_worker.core.address import WorkspaceName
from agent_worker.core.errors import NotNow, StorageFault
from agent_worker.core.events import Event, HookAccepted, HostChanged, WorkspaceChanged
from agent_worker.core.failpoints import failpoint
from agent_worker.database.database import Row, Transaction
from agent_worker.database.patient import until_possible
from agent_worker.service.hooks import running
from agent_worker.service.service import Service
from agent_worker.service.workflows import WorkflowRequest, begin
from agent_worker.work import hook_deliveries, inbox

log = logging.getLogger(__name__)


class HookStarter:
    """Works from when it is made, until the service is closed."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._stirred = asyncio.Event()
        self._starting: set[tuple[str, str, str]] = set()  # project, workflow, tag
        self._host = service.runtime.supervisor.host or ""
        self._orphaned = True  # a process may be gone that was starting something
        service.runtime.bus.listen(self._hear, HookAccepted, WorkspaceChanged, HostChanged)
        service.background(self._work())

    def _hear(self, event: Event) -> None:
        self._orphaned = self._orphaned or isinstance(event, HostChanged)
        self._stirred.set()

    async def _work(self) -> None:
        while True:
            self._stirred.clear()
            await until_possible(self._look, self._service.runtime.clock)
            await self._stirred.wait()

    async def _look(self) -> None:
        database = self._service.runtime.database
        if self._orphaned:
            await database.write(hook_deliveries.take_up)
            self._orphaned = False
        for row in await database.read(hook_deliveries.queued):
            await self._take(row)

    async def _take(self, row: Row) -> None:
        place = (row["project"], row["workflow"], row["tag"])
        database = self._service.runtime.database.of(row["project"])
        busy = await database.read(running, WorkspaceName(row["workflow"], row["tag"]))
        if place in self._starting or busy is not None:
            return
        if await database.write(hook_deliveries.claim, row["id"], self._host, now=self._service.now()):
            self._starting.add(place)
            self._service.background(self._start(row, place))

    async def _start(self, row: Row, place: tuple[str, str, str]) -> None:
        """Start the workflow of one delivery. Its set-up may take minutes, which holds up no other group."""
        service = self._service
        database = service.runtime.database.of(row["project"])
        try:
            failpoint("hook.claimed")
            params = hook_deliveries.params_of(row)
            request = WorkflowRequest(row["workflow"], row["root"], row["tag"], params)
            instance = await begin(service, request, ends="quiet")
            service.background(service.finish(instance))
            failpoint("hook.started")
            await database.write(hook_deliveries.started, row["id"])
        except NotNow:
            whole = service.runtime.database
            await until_possible(lambda: whole.write(hook_deliveries.take_up, row["id"]), service.runtime.clock)
        except StorageFault:
            raise
        except Exception as error:  # boundary: one that cannot be started holds up no other
            log.error("the webhook %s began nothing", row["id"], exc_info=error)
            await database.write(_failed, row, str(error), now=service.now())
        finally:
            self._starting.discard(place)
            self._stirred.set()


def _failed(tx: Transaction, row: Row, reason: str, *, now: int) -> None:
    hook_deliveries.failed(tx, row["id"], reason)
    name = WorkspaceName(row["workflow"], row["tag"])
    text = f"{name} was not started by the webhook {row['name']}: {reason}"
    inbox.ask(tx, "failure", ref=row["id"], text=text, now=now)
