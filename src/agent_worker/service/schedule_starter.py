"""Starts the workflows whose time has come.

A schedule only marks its workflow as due (schedules/schedule.py); here it is run, until quiet, as a person would
run it. One that still runs from an earlier time is left alone, one that is kept alive is kicked off again. What cannot
be started is put before the person, who may try again. The mark is taken away afterwards, so a crash in between loses
nothing.
"""

from __future__ import annotations

import asyncio
import logging

from agent_worker.core.address import WorkspaceName
from agent_worker.core.errors import StorageFault
from agent_worker.database.database import Row, Transaction
from agent_worker.definitions.schedule import WorkflowSchedule
from agent_worker.schedules import schedule
from agent_worker.service.service import Service
from agent_worker.service.workflows import WorkflowRequest, begin
from agent_worker.work import inbox
from agent_worker.workflows.start import kick_again

log = logging.getLogger(__name__)


class Timekeeper:
    """Listens from when it is made."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._busy = asyncio.Lock()
        if (ticker := service.runtime.loader.ticker) is not None:
            ticker.listener = self.look
            ticker.look_again()

    def look(self) -> None:
        self._service.background(self._start_due())

    async def _start_due(self) -> None:
        async with self._busy:
            for row in await self._service.runtime.database.read(schedule.workflows_due):
                database = self._service.runtime.database.of(row["project"])
                try:
                    await self._start(row)
                    await database.write(_settled, row["id"])
                except StorageFault:
                    raise
                except Exception as error:  # boundary: one that cannot be started holds up no other
                    log.exception("the workflow %s was not started by its schedule", row["workflow"])
                    await database.write(_complain, row, str(error), now=self._service.now())
                await database.write(schedule.begun, row)

    async def _start(self, row: Row) -> None:
        service, wanted = self._service, schedule.spec_of(row)
        assert isinstance(wanted, WorkflowSchedule)
        name = WorkspaceName.parse(row["workflow"])
        workspace = await service.runtime.database.of(row["project"]).read(_running, name)
        if workspace is None:
            request = WorkflowRequest(name.workflow, row["root"], name.tag, wanted.params, wanted.prompt)
            service.background(service.finish(await begin(service, request, ends="quiet")))
        elif workspace["ends"] == "stop" and (instance := service.running(workspace["id"])) is not None:
            loaded = await service.project(row["root"])
            found = await service.workflow(loaded, workspace["file"] or name.workflow)
            await kick_again(instance, found.definition, wanted.prompt, key=f"{row['id']}@{row['slot']}")


def _running(tx: Transaction, name: WorkspaceName) -> Row | None:
    return tx.one(
        """select id, ends, file from workspace
            where project = :project and workflow = :workflow and tag = :tag and state in ('running', 'left')""",
        workflow=name.workflow,
        tag=name.tag,
    )


def _complain(tx: Transaction, row: Row, reason: str, *, now: int) -> None:
    text = f"{WorkspaceName.parse(row['workflow'])} was not started by its schedule: {reason}"
    inbox.ask(tx, "failure", ref=row["id"], text=text, now=now)


def _settled(tx: Transaction, id: str) -> None:
    inbox.close_about(tx, "failure", id)
