"""Schedules: when each is due next, and the task that puts the work of due ones into queues.

`next_due` is pure. A tick moves the due time and queues the instruction in one transaction, under an id made of
schedule and slot, so a slot fires once. Missed cron slots fire once together. The one writer of `schedule`.
A workflow that is due is only marked here, in the same transaction; `service/schedule_starter.py` starts it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from cronsim import CronSim, CronSimError

from agent_worker.core.address import WorkspaceName
from agent_worker.core.clock import Clock, from_micros, micros, sleep_until
from agent_worker.core.failpoints import failpoint
from agent_worker.database.database import Database, Row, Transaction, WholeTransaction
from agent_worker.definitions.schedule import Schedule, Timing, WorkflowSchedule
from agent_worker.work import queue
from agent_worker.work.queue import Lane, Order

log = logging.getLogger(__name__)

_UNREADABLE = (ValueError, OverflowError, StopIteration, CronSimError)  # what was stored cannot be made a time of

AGAIN = timedelta(minutes=1)  # after the database could not be asked


@dataclass(frozen=True, slots=True)
class Timer:
    """A schedule of one agent or one workflow, as it is kept. With an instance alone, the default of its members."""

    schedule: Schedule | WorkflowSchedule
    agent: str | None = None
    workflow: str = ""  #: workflow:tag
    instance: str = ""  #: the workspace that it ends with
    set_by: Literal["file", "person", "team"] = "file"

    @property
    def id(self) -> str:
        return id_of(self.agent, self.workflow, self.instance)

    @property
    def state(self) -> str:
        """`default` never wakes anybody itself."""
        return "active" if self.agent or self.workflow else "default"


def id_of(agent: str | None, workflow: str = "", instance: str = "") -> str:
    return f"s_{agent or workflow}" + (f"/{instance}" if instance else "")


_RANK = ("team", "file", "person")  # who has set it: the later counts more


def next_due(schedule: Timing, *, now: datetime, active: datetime | None) -> datetime | None:
    """The next time after `now`; None when it will never fire again.

    An interval counts from the last activity; a cron line and a moment do not care.
    """
    if schedule.interval is not None:
        return max((active or now) + timedelta(seconds=schedule.interval), now)
    if schedule.cron is not None:
        # In its own time zone, so that nine o'clock stays nine o'clock when clocks change.
        return next(CronSim(schedule.cron, now.astimezone(schedule.zone))).astimezone(UTC)
    return schedule.moment if schedule.moment and schedule.moment > now else None


def keep(tx: Transaction, timer: Timer, *, now: datetime) -> None:
    """Store a schedule. One that was there before with the same words keeps its due time, even one that was missed."""
    spec = tx.redact_json(timer.schedule.model_dump_json(exclude_defaults=True))  # as it is stored: it is compared
    known = tx.one("select spec, set_by from schedule where project = :project and id = :id", id=timer.id)
    if known and (known["spec"], known["set_by"]) == (spec, timer.set_by):
        return
    if known and _RANK.index(known["set_by"]) > _RANK.index(timer.set_by):
        return
    due = next_due(timer.schedule, now=now, active=_active(tx, timer.agent, now))
    tx.run(
        """insert into schedule(project, id, agent, workflow, workspace, instance, prompt, spec, set_by, due_at, state)
           values (:project, :id, :agent, :workflow, :workspace, :instance, :prompt, :spec, :set_by, :due, :state)
           on conflict (project, id) do update
              set workspace = excluded.workspace, prompt = excluded.prompt, spec = excluded.spec,
                  set_by = excluded.set_by, due_at = excluded.due_at, slot = null, state = excluded.state""",
        state=timer.state,
        id=timer.id,
        agent=timer.agent,
        workflow=timer.workflow,
        workspace=getattr(timer.schedule, "workspace", None) or "",
        instance=timer.instance,
        prompt=timer.schedule.prompt or "",
        spec=spec,
        set_by=timer.set_by,
        due=due and micros(due),
    )


def keep_default(tx: Transaction, timer: Timer, members: Iterable[str], *, now: datetime) -> None:
    """Store what holds for those members of an instance who have no schedule of their own there."""
    keep(tx, timer, now=now)
    for agent in members:
        give_default(tx, timer.instance, agent, now=now)


def give_default(tx: Transaction, instance: str, agent: str, *, now: datetime) -> None:
    """A member that has no schedule of its own here gets the default, if there is one."""
    default = tx.one(
        "select * from schedule where project = :project and id = :id and state = 'default'",
        id=id_of(None, "", instance),
    )
    if default and not _wakes_there(tx, agent, default["workspace"]):
        spec = spec_of(default)
        assert isinstance(spec, Schedule)
        keep(tx, Timer(spec, agent=agent, instance=instance, set_by="team"), now=now)


def _wakes_there(tx: Transaction, agent: str, workspace: str) -> bool:
    """Whether the schedule that an agent has by itself already leads to this workflow."""
    own = tx.one(
        "select workspace from schedule where project = :project and id = :id and workspace <> ''", id=id_of(agent)
    )
    return own is not None and WorkspaceName.parse(own["workspace"]).workflow == WorkspaceName.parse(workspace).workflow


def clear_default(tx: Transaction, instance: str) -> bool:
    """End the default of an instance's members. True if there was one."""
    tx.run("delete from schedule where project = :project and instance = :it and set_by = 'team'", it=instance)
    return clear(tx, id_of(None, "", instance), set_by="person")


def keep_workflows(tx: Transaction, wanted: Mapping[str, WorkflowSchedule], *, now: datetime) -> None:
    """What the files of a project say about its workflows; what they say no longer is cleared."""
    timers = [Timer(schedule, workflow=WorkspaceName(name).full) for name, schedule in wanted.items()]
    for row in tx.all("select id from schedule where project = :project and workflow <> '' and set_by = 'file'"):
        if row["id"] not in {timer.id for timer in timers}:
            clear(tx, row["id"])
    for timer in timers:
        keep(tx, timer, now=now)


def of_project(tx: Transaction) -> list[Row]:
    """All schedules, each with the name of its agent and of the instance it belongs to."""
    return tx.all(
        """select s.*, a.name, w.workflow as of_workflow, w.tag as of_tag
             from schedule s left join agent a on a.project = :project and a.id = s.agent
                  left join workspace w on w.project = :project and w.id = s.instance
            where s.project = :project order by a.name, s.workflow, s.id"""
    )


def spec_of(row: Row) -> Schedule | WorkflowSchedule:
    kind: type[Schedule] | type[WorkflowSchedule] = WorkflowSchedule if row["workflow"] else Schedule
    return kind.model_validate_json(row["spec"])


def clear(tx: Transaction, id: str, *, set_by: str = "file") -> bool:
    """End a schedule, if it was set so. True if there was one."""
    sql = "delete from schedule where project = :project and id = :id and set_by = :set_by"
    return bool(tx.run(sql, id=id, set_by=set_by))


def clear_agent(tx: Transaction, agent: str) -> None:
    """End the schedules of an agent that is gone."""
    tx.run("delete from schedule where project = :project and agent = :agent", agent=agent)


def clear_workspace(tx: Transaction, instance: str) -> None:
    """Remove the schedules that a workflow gave to its members, because its workspace has ended."""
    tx.run("delete from schedule where project = :project and instance = :instance", instance=instance)


def workflows_due(tx: WholeTransaction) -> list[Row]:
    """Workflows that wait to be started, each with the root of its project."""
    return tx.all(
        """select s.*, p.root from schedule s join project p on p.id = s.project
            where s.slot is not null order by s.slot"""
    )


def begun(tx: Transaction, row: Row) -> None:
    """Note that what was due has been started, or could not be."""
    sql = "update schedule set slot = null where project = :project and id = :id and slot = :slot"
    tx.run(sql, id=row["id"], slot=row["slot"])


def again(tx: Transaction, id: str, *, now: int) -> bool:
    """Let what a schedule could not start be tried once more, because a person says so."""
    sql = "update schedule set slot = :now where project = :project and id = :id and workflow <> ''"
    return bool(tx.run(sql, id=id, now=now))


def fire_due(tx: WholeTransaction, *, now: datetime) -> int:
    """Queue the work of all schedules that are due; how many were."""
    _mend(tx, now)
    due = tx.all("select * from schedule where state = 'active' and due_at <= :now order by due_at", now=micros(now))
    for row in due:
        try:
            _fire(tx.of(row["project"]), row, now=now)
        except _UNREADABLE:  # it holds up no other, and does not come again
            log.exception("the schedule %s cannot be followed", row["id"])
            _set_due(tx.of(row["project"]), row, None)
    failpoint("schedule.tick")
    return len(due)


def _mend(tx: WholeTransaction, now: datetime) -> None:
    """An interval that is due later than it can be: somebody has set the clock back."""
    for row in tx.all("select * from schedule where state = 'active' and due_at > :now", now=micros(now)):
        try:
            interval = spec_of(row).interval
        except _UNREADABLE:  # told when it is due
            continue
        if interval is not None and row["due_at"] > (latest := micros(now + timedelta(seconds=interval))):
            _set_due(tx.of(row["project"]), row, latest)


def _set_due(tx: Transaction, row: Row, due: int | None) -> None:
    tx.run("update schedule set due_at = :due where project = :project and id = :id", id=row["id"], due=due)


def _fire(tx: Transaction, row: Row, *, now: datetime) -> None:
    schedule = spec_of(row)
    active = _active(tx, row["agent"], now)
    if row["instance"] and not tx.one(
        "select 1 as one from workspace where project = :project and id = :id and state = 'running'", id=row["instance"]
    ):
        following = next_due(schedule, now=now, active=now)
    elif schedule.interval is not None and active and now < active + timedelta(seconds=schedule.interval):
        following = active + timedelta(seconds=schedule.interval)  # it was busy meanwhile
    else:
        if row["workflow"]:
            sql = "update schedule set slot = :due where project = :project and id = :id"
            tx.run(sql, id=row["id"], due=row["due_at"])
        elif not _waits_still(tx, row):
            _queue(tx, row, now=now)
        following = next_due(schedule, now=now, active=now)
    tx.run(
        "update schedule set due_at = :due, fired_at = :now where project = :project and id = :id",
        id=row["id"],
        due=following and micros(following),
        now=micros(now),
    )


def _waits_still(tx: Transaction, row: Row) -> bool:
    """Has an earlier wake-up of this schedule not ended yet? Then another one would say nothing new."""
    open_one = tx.one(
        """select 1 as one from instruction
            where project = :project and agent = :agent and source = 'schedule'
              and state in ('queued', 'running', 'waiting') and substr(root, 1, :length) = :prefix limit 1""",
        agent=row["agent"],
        length=len(row["id"]) + 1,
        prefix=f"{row['id']}@",
    )
    return open_one is not None


def _queue(tx: Transaction, row: Row, *, now: datetime) -> None:
    id = f"{row['id']}@{row['due_at']}"
    name = WorkspaceName.parse(row["workspace"])
    workspace = tx.one(
        """select w.id from workspace w join member m on m.project = :project and m.workspace = w.id
            where w.project = :project and w.workflow = :workflow and w.state = 'running' and m.agent = :agent
              and (w.tag = :tag or :any = 1)
            order by case when w.tag = :tag then 0 else 1 end, w.started_at desc limit 1""",
        workflow=name.workflow,
        tag=name.tag,
        any=int(":" not in row["workspace"]),  # a workflow without a tag: wherever of it the agent works now
        agent=row["agent"],
    )
    order = Order(
        agent=row["agent"],
        text=row["prompt"],
        source="schedule",
        sender="schedule",
        lane=Lane.BACKGROUND,
        root=id,
        workspace=workspace["id"] if workspace else None,  # not running: personal context
    )
    queue.put(tx, order, now=micros(now), id=id)


def _active(tx: Transaction, agent: str | None, now: datetime) -> datetime | None:
    """When the agent last did something. A time that is yet to come is from before the clock was set back."""
    row = tx.one("select state, active_at from agent where project = :project and id = :agent", agent=agent)
    if row and row["state"] == "running":
        return now
    return from_micros(row["active_at"]) if row and row["active_at"] and row["active_at"] <= micros(now) else None


def first_due(tx: WholeTransaction) -> datetime | None:
    row = tx.one("select min(due_at) as due from schedule where state = 'active'")
    return from_micros(row["due"]) if row and row["due"] is not None else None


class Ticker:
    """Sleeps until the first schedule is due, or until it is told that there is a new one."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._changed = asyncio.Event()
        self.listener: Callable[[], None] | None = None  #: told after each look
        self._task = asyncio.create_task(self._tick(), name="schedules")

    def look_again(self) -> None:
        self._changed.set()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _tick(self) -> None:
        while True:
            self._changed.clear()
            try:
                await self._database.write(fire_due, now=self._clock.now())
                due = await self._database.read(first_due)
            except Exception:  # boundary: the other schedules are looked at again
                log.exception("schedules could not be looked at")
                due = self._clock.now() + AGAIN
            if self.listener:
                self.listener()
            await sleep_until(self._clock, due, or_when=self._changed)
