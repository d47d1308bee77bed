"""Schedules: when each is due next, and the task that puts the work of due ones into queues.

`next_due` is pure. A tick moves the due time and queues the instruction in one transaction, under an id made of
schedule and slot, so a slot fires once. Missed cron slots fire once together. The one writer of `schedule`.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cronsim import CronSim

from agent_worker import instructions
from agent_worker.clock import Clock, from_micros, micros
from agent_worker.definitions.schedule import Schedule
from agent_worker.errors import AgentWorkerError
from agent_worker.failpoints import failpoint
from agent_worker.instructions import Lane, Order
from agent_worker.storage.database import Database, Row, Transaction

log = logging.getLogger(__name__)

AGAIN = timedelta(minutes=1)  # after the database could not be asked


@dataclass(frozen=True, slots=True)
class Timer:
    """A schedule of one agent, as it is kept."""

    id: str
    project: str
    agent: str
    schedule: Schedule


def next_due(schedule: Schedule, *, now: datetime, active: datetime | None) -> datetime | None:
    """The next time after `now`; None when it will never fire again.

    An interval counts from the agent's last activity; a cron line and a moment do not care.
    """
    if schedule.interval is not None:
        return max((active or now) + timedelta(seconds=schedule.interval), now)
    if schedule.cron is not None:
        # In its own time zone, so that nine o'clock stays nine o'clock when clocks change.
        return next(CronSim(schedule.cron, now.astimezone(schedule.zone))).astimezone(UTC)
    return schedule.moment if schedule.moment and schedule.moment > now else None


def keep(tx: Transaction, timer: Timer, *, now: datetime) -> None:
    """Store it. One that was there before with the same words keeps its due time, even one that was missed."""
    spec = timer.schedule.model_dump_json(exclude_defaults=True)
    known = tx.one("select spec from schedule where id = :id", id=timer.id)
    if known and known["spec"] == spec:
        return
    due = next_due(timer.schedule, now=now, active=_active(tx, timer.agent, now))
    tx.run(
        """insert into schedule(id, project, agent, workspace, prompt, spec, due_at)
           values (:id, :project, :agent, :workspace, :prompt, :spec, :due)
           on conflict (id) do update
              set workspace = excluded.workspace, prompt = excluded.prompt, spec = excluded.spec,
                  due_at = excluded.due_at, state = 'active'""",
        id=timer.id,
        project=timer.project,
        agent=timer.agent,
        workspace=timer.schedule.workspace or "",
        prompt=timer.schedule.prompt,
        spec=spec,
        due=due and micros(due),
    )


def of_project(tx: Transaction, project: str) -> list[Row]:
    return tx.all(
        """select s.*, a.name from schedule s join agent a on a.id = s.agent
            where s.project = :project order by a.name""",
        project=project,
    )


def clear(tx: Transaction, id: str) -> bool:
    return bool(tx.run("delete from schedule where id = :id", id=id))


def fire_due(tx: Transaction, *, now: datetime) -> int:
    """Queue the work of all that are due. How many were."""
    _mend(tx, now)
    due = tx.all("select * from schedule where state = 'active' and due_at <= :now order by due_at", now=micros(now))
    for row in due:
        _fire(tx, row, now=now)
    failpoint("schedule.tick")
    return len(due)


def _mend(tx: Transaction, now: datetime) -> None:
    """An interval that is due later than it can be: somebody has set the clock back."""
    for row in tx.all("select * from schedule where state = 'active' and due_at > :now", now=micros(now)):
        interval = Schedule.model_validate_json(row["spec"]).interval
        if interval is not None and row["due_at"] > (latest := micros(now + timedelta(seconds=interval))):
            tx.run("update schedule set due_at = :due where id = :id", id=row["id"], due=latest)


def _fire(tx: Transaction, row: Row, *, now: datetime) -> None:
    schedule = Schedule.model_validate_json(row["spec"])
    active = _active(tx, row["agent"], now)
    if schedule.interval is not None and active and now < active + timedelta(seconds=schedule.interval):
        following: datetime | None = active + timedelta(seconds=schedule.interval)  # it was busy meanwhile
    else:
        if not _waits_still(tx, row):
            _queue(tx, row, now=now)
        following = next_due(schedule, now=now, active=now)
    tx.run(
        "update schedule set due_at = :due, fired_at = :now where id = :id",
        id=row["id"],
        due=following and micros(following),
        now=micros(now),
    )


def _waits_still(tx: Transaction, row: Row) -> bool:
    """Has an earlier wake-up of this schedule not ended yet? Then another one would say nothing new."""
    open_one = tx.one(
        """select 1 as one from instruction
            where agent = :agent and source = 'schedule' and state in ('queued', 'running', 'waiting')
              and substr(root, 1, :length) = :prefix limit 1""",
        agent=row["agent"],
        length=len(row["id"]) + 1,
        prefix=f"{row['id']}@",
    )
    return open_one is not None


def _queue(tx: Transaction, row: Row, *, now: datetime) -> None:
    id = f"{row['id']}@{row['due_at']}"
    workflow, _, tag = row["workspace"].partition(":")
    room = tx.one(
        """select w.id from workspace w join member m on m.workspace = w.id
            where w.project = :project and w.workflow = :workflow and w.tag = :tag and w.state = 'running'
              and m.agent = :agent""",
        project=row["project"],
        workflow=workflow,
        tag=tag or "main",
        agent=row["agent"],
    )
    order = Order(
        agent=row["agent"],
        text=row["prompt"],
        source="schedule",
        sender="schedule",
        lane=Lane.BACKGROUND,
        root=id,
        workspace=room["id"] if room else None,  # not running: personal context
    )
    instructions.put(tx, order, now=micros(now), id=id)


def _active(tx: Transaction, agent: str, now: datetime) -> datetime | None:
    """When it last did something. A time that is yet to come is from before the clock was set back."""
    row = tx.one("select state, active_at from agent where id = :agent", agent=agent)
    if row and row["state"] == "running":
        return now
    return from_micros(row["active_at"]) if row and row["active_at"] and row["active_at"] <= micros(now) else None


def first_due(tx: Transaction) -> datetime | None:
    row = tx.one("select min(due_at) as due from schedule where state = 'active'")
    return from_micros(row["due"]) if row and row["due"] is not None else None


class Ticker:
    """Sleeps until the first schedule is due, or until it is told that there is a new one."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._changed = asyncio.Event()
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
            except AgentWorkerError:
                log.exception("schedules could not be looked at")
                due = self._clock.now() + AGAIN
            await self._wait(due)

    async def _wait(self, due: datetime | None) -> None:
        waits: set[asyncio.Task[object]] = {asyncio.create_task(self._changed.wait())}
        if due is not None:
            # At most an hour: a wall clock that was set back or a machine that slept must not delay it for long.
            seconds = min((due - self._clock.now()).total_seconds(), 3600.0)
            waits.add(asyncio.create_task(self._clock.sleep(max(0.0, seconds))))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
