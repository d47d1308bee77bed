"""Starts the workflows whose time has come, and runs the checks of schedules that have one.

A schedule only marks what is due (schedules/schedule.py). Here a workflow is run, until quiet, as a person would run
it. One that still runs from an earlier time is left alone, one that is kept alive is kicked off again. A check is
run first; when it prints nothing, nothing begins. What cannot be started is put before the person, who may try again;
of a check that fails, the second time in a row. The mark is taken away afterwards, so a crash in between loses nothing.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from agent_worker.core.address import WorkspaceName
from agent_worker.core.errors import NotNow, Refused, StorageFault, Untrusted
from agent_worker.core.events import HostChanged
from agent_worker.database.database import Row, Transaction
from agent_worker.database.patient import AGAIN, until_possible
from agent_worker.definitions.schedule import Schedule, WorkflowSchedule
from agent_worker.schedules import schedule
from agent_worker.schedules.check import run_check, told
from agent_worker.service.service import Service
from agent_worker.service.workflows import WorkflowRequest, begin
from agent_worker.trust.powers import check_power
from agent_worker.work import inbox
from agent_worker.workflows.kickoff import kick_again

log = logging.getLogger(__name__)

BY_PERSON = "you"  #: in the approval of a check that a person has set
FAILURES = 2  #: of a check, in a row, until the person is told


class ScheduleStarter:
    """Listens from when it is made."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._busy = asyncio.Lock()
        self._checking: set[tuple[str, str]] = set()
        service.listen(lambda _: self.look(), HostChanged)  # what one has taken and not begun
        if (ticker := service.runtime.loader.ticker) is not None:
            ticker.listener = self.look
            ticker.look_again()

    def look(self) -> None:
        self._service.background(until_possible(self._start_due, self._service.runtime.clock))

    async def _start_due(self) -> None:
        async with self._busy:
            for row in await self._service.runtime.database.read(schedule.marked):
                if (row["project"], row["id"]) not in self._checking and await self._is_ours(row):
                    await self._take(row)

    async def _is_ours(self, row: Row) -> bool:
        """Whether this host starts what is due: of several, it is one that has the project."""
        host, runtime = self._service.runtime.supervisor.host, self._service.runtime
        if host is None:
            return True
        is_here = await asyncio.to_thread(Path(row["root"]).is_dir)
        return is_here and await runtime.database.of(row["project"]).write(schedule.take, row, host)

    async def _take(self, row: Row) -> None:
        try:
            spec = schedule.spec_of(row)
        except ValueError as error:  # it holds up no other, and does not come again
            return await self._failed(row, error)
        if spec.check is None:
            return await self._begin(row, spec, "")
        self._checking.add((row["project"], row["id"]))
        self._service.background(self._check(row, spec, spec.check))

    async def _check(self, row: Row, spec: Schedule | WorkflowSchedule, command: str) -> None:
        """Run the check of a schedule. It may take minutes, which holds up no other schedule."""
        database = self._service.runtime.database.of(row["project"])
        try:
            try:
                found = await self._run(row, command)
            except Refused as error:
                failures = await database.write(schedule.check_failed, row["id"])
                if failures >= FAILURES or isinstance(error, Untrusted):
                    await self._failed(row, error)
                await database.write(schedule.begun, row)
                return
            await database.write(schedule.check_worked, row["id"])
            async with self._busy:
                if found:
                    await self._begin(row, spec, told(command, found))
                else:
                    await database.write(_settled, row["id"])
                    await database.write(schedule.begun, row)
        except NotNow:  # its command is run once more
            await self._service.runtime.clock.sleep(AGAIN)
        except StorageFault:
            raise
        except Exception as error:  # boundary: one that cannot be checked holds up no other
            await self._failed(row, error)
        finally:
            self._checking.discard((row["project"], row["id"]))
        self.look()  # it may have come due again meanwhile

    async def _run(self, row: Row, command: str) -> str:
        root = Path(row["root"])
        power = await asyncio.to_thread(check_power, command, _who(row), root)
        try:
            await asyncio.to_thread(self._service.runtime.gate.require, root, [power])
        except Untrusted as error:
            if row["set_by"] == "file":
                raise
            more = "what its check runs has changed since you set it: check it, and set the schedule again"
            raise Untrusted(f"{more}\n{error.message}") from None
        return await run_check(command, root)

    async def _begin(self, row: Row, spec: Schedule | WorkflowSchedule, found: str) -> None:
        """Start what is due; `found` is what its check has printed."""
        database = self._service.runtime.database.of(row["project"])
        try:
            if isinstance(spec, WorkflowSchedule):
                await self._start(row, spec, found)
            else:
                text = f"{row['prompt']}\n\n{found}".rstrip()
                await database.write(schedule.wake, row, text, now=self._service.runtime.clock.now())
            await database.write(_settled, row["id"])
        except StorageFault:
            raise
        except Exception as error:  # boundary: one that cannot be started holds up no other
            await self._failed(row, error)
        await database.write(schedule.begun, row)

    async def _failed(self, row: Row, error: Exception) -> None:
        log.error("the schedule %s began nothing", row["id"], exc_info=error)
        database = self._service.runtime.database.of(row["project"])
        await database.write(_complain, row, str(error), now=self._service.now())
        await database.write(schedule.begun, row)

    async def _start(self, row: Row, wanted: WorkflowSchedule, found: str) -> None:
        service = self._service
        name = WorkspaceName.parse(row["workflow"])
        workspace = await service.runtime.database.of(row["project"]).read(_running, name)
        if workspace is None:
            request = WorkflowRequest(name.workflow, row["root"], name.tag, wanted.params, wanted.prompt)
            service.background(service.finish(await begin(service, request, ends="quiet", material=found)))
        elif workspace["ends"] == "stop" and (instance := service.running(workspace["id"])) is not None:
            loaded = await service.project(row["root"])
            workflow = (await service.workflow(loaded, workspace["file"] or name.workflow)).definition
            key = f"{row['id']}@{row['slot']}"
            await kick_again(instance, workflow, wanted.prompt, material=found, key=key)


def _who(row: Row) -> str:
    """The owner of a check, by the name under which it was approved (trust/powers.py)."""
    if row["set_by"] != "file":
        return BY_PERSON
    if row["workflow"]:
        return WorkspaceName.parse(row["workflow"]).workflow
    name = str(row["name"])
    return f"{name}@{WorkspaceName.parse(row['workspace']).workflow}" if row["kind"] == "inline" else name


def _running(tx: Transaction, name: WorkspaceName) -> Row | None:
    return tx.one(
        """select id, ends, file from workspace
            where project = :project and workflow = :workflow and tag = :tag and state in ('running', 'left')""",
        workflow=name.workflow,
        tag=name.tag,
    )


def _complain(tx: Transaction, row: Row, reason: str, *, now: int) -> None:
    if row["workflow"]:
        text = f"{WorkspaceName.parse(row['workflow'])} was not started by its schedule: {reason}"
    else:
        text = f"{row['member'] or row['name']} was not woken by its schedule: {reason}"
    inbox.ask(tx, "failure", ref=row["id"], text=text, now=now, workspace=row["instance"] or None)


def _settled(tx: Transaction, id: str) -> None:
    inbox.close_about(tx, "failure", id)
