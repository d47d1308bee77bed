"""Schedules: when each is due next, and the task that puts the work of due ones into queues.

`next_due` is pure. A tick moves the due time and queues the instruction in one transaction, under an id made of
schedule and slot, so a slot fires once. Missed cron slots fire once together. The one writer of `schedule`.
A workflow that is due, and what has a check to run first, is only marked here, in the same transaction;
`service/schedule_starter.py` does the rest. What a person sets for members of a workflow is a row of its own that is
never due: while an instance runs, `give_members` makes of it, and of the file, one row for each member.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal

from cronsim import CronSim, CronSimError

from agent_worker.core.address import MAIN, WorkspaceName, as_written
from agent_worker.core.clock import Clock, from_micros, micros, sleep_until
from agent_worker.core.failpoints import failpoint
from agent_worker.core.later import dataclass
from agent_worker.database.database import Database, Row, Transaction, WholeTransaction
from agent_worker.definitions.schedule import Schedule, Timing, WorkflowSchedule
from agent_worker.work import queue
from agent_worker.work.queue import Lane, Order

log = logging.getLogger(__name__)

_UNREADABLE = (ValueError, OverflowError, StopIteration, CronSimError)  # what was stored cannot be made a time of

AGAIN = timedelta(minutes=1)  # after the database could not be asked

SetBy = Literal["file", "person", "default"]  #: `default`: a person set it for all members that have none


@dataclass(frozen=True, slots=True)
class Timer:
    """A schedule of an agent, of a workflow, or for members of a workflow, as it is kept."""

    schedule: Schedule | WorkflowSchedule
    agent: str | None = None
    workflow: str = ""  #: workflow:tag
    instance: str = ""  #: the workspace that it ends with
    member: str = ""  #: the agent's name there
    members_of: str = ""  #: workflow:tag; what a person has set for this member of it, or for all
    set_by: SetBy = "file"

    @property
    def id(self) -> str:
        if self.members_of:
            return id_for_members(self.members_of, self.member)
        return id_of(self.agent, self.workflow) + (f"/{self.instance}" if self.instance else "")


def id_of(agent: str | None, workflow: str = "") -> str:
    return f"s_{agent or workflow}"


def id_for_members(workflow: str, member: str = "") -> str:
    return f"s_{member}@{workflow}"


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
    if known and known["set_by"] == "person" and timer.set_by == "file":
        return
    due = next_due(timer.schedule, now=now, active=_active(tx, timer.agent, now)) if not timer.members_of else None
    tx.run(
        """insert into schedule(project, id, agent, workflow, workspace, member, instance, prompt, spec, set_by, due_at)
           values (:project, :id, :agent, :workflow, :workspace, :member, :instance, :prompt, :spec, :set_by, :due)
           on conflict (project, id) do update
              set workspace = excluded.workspace, prompt = excluded.prompt, spec = excluded.spec, failures = 0,
                  set_by = excluded.set_by, due_at = excluded.due_at, slot = null, state = 'active'""",
        id=timer.id,
        agent=timer.agent,
        workflow=timer.workflow,
        workspace=timer.members_of or getattr(timer.schedule, "workspace", None) or "",
        member=timer.member,
        instance=timer.instance,
        prompt=timer.schedule.prompt or "",
        spec=spec,
        set_by=timer.set_by,
        due=due and micros(due),
    )


def keep_workflows(tx: Transaction, wanted: Mapping[str, WorkflowSchedule], *, now: datetime) -> None:
    """Store what the files of a project say about its workflows; what they say no longer is cleared."""
    timers = [Timer(schedule, workflow=WorkspaceName(name).full) for name, schedule in wanted.items()]
    for row in tx.all("select id from schedule where project = :project and workflow <> '' and set_by = 'file'"):
        if row["id"] not in {timer.id for timer in timers}:
            clear(tx, row["id"])
    for timer in timers:
        keep(tx, timer, now=now)


def give_members(
    tx: Transaction,
    instance: str,
    name: WorkspaceName,
    members: Mapping[str, str],
    in_file: Mapping[str, Schedule],
    *,
    now: datetime,
) -> None:
    """Let each member (name → agent) of an instance wake as a person has set for it, else by its file, else by default.

    The default is for those who have no schedule at all, neither here nor of their own.
    """
    sql = "select * from schedule where project = :project and agent is null and workflow = '' and workspace = :name"
    set_for = {row["member"]: spec_of(row) for row in tx.all(sql, name=name.full)}
    for member, agent in members.items():
        mine: list[tuple[SetBy, Schedule | WorkflowSchedule | None]]
        mine = [("person", set_for.get(member)), ("file", in_file.get(member))]
        if not tx.one("select 1 as one from schedule where project = :project and id = :id", id=id_of(agent)):
            mine.append(("default", set_for.get("")))
        set_by, wanted = next((each for each in mine if each[1]), mine[1])
        id = f"{id_of(agent)}/{instance}"
        tx.run(
            "delete from schedule where project = :project and id = :id and (set_by <> :set_by or :gone)",
            id=id,
            set_by=set_by,
            gone=wanted is None,
        )
        if wanted is not None:
            here = wanted.model_copy(update={"workspace": str(name)})
            keep(tx, Timer(here, agent=agent, instance=instance, member=member, set_by=set_by), now=now)


def of_project(tx: Transaction) -> list[Row]:
    return tx.all(
        """select s.*, a.name from schedule s left join agent a on a.project = :project and a.id = s.agent
            where s.project = :project order by coalesce(a.name, ''), s.workflow, s.workspace, s.member"""
    )


def spec_of(row: Row) -> Schedule | WorkflowSchedule:
    kind: type[Schedule] | type[WorkflowSchedule] = WorkflowSchedule if row["workflow"] else Schedule
    return kind.model_validate_json(row["spec"])


def clear(tx: Transaction, id: str, *, set_by: str = "file") -> bool:
    """End a schedule, if it was set so. True if there was one."""
    sql = "delete from schedule where project = :project and id = :id and set_by = :set_by"
    return bool(tx.changed(sql, id=id, set_by=set_by))


def clear_agent(tx: Transaction, agent: str) -> None:
    """End the schedules of an agent that is gone."""
    tx.run("delete from schedule where project = :project and agent = :agent", agent=agent)


def clear_workspace(tx: Transaction, instance: str) -> None:
    """Remove the schedules that a workflow gave to its members, because its workspace has ended."""
    tx.run("delete from schedule where project = :project and instance = :instance", instance=instance)


def marked(tx: WholeTransaction) -> list[Row]:
    """What is due and waits to be started or checked, each with its agent and where its project is here."""
    return tx.all(
        """select s.*, c.root, a.name, a.kind from schedule s
             join checkout c on c.project = s.project and c.host = :here
             left join agent a on a.project = s.project and a.id = s.agent
            where s.slot is not null order by s.slot"""
    )


def take(tx: Transaction, row: Row, host: str) -> bool:
    """Claim what is due for this host, which then starts or checks it. False: another host does, or has."""
    taken = tx.changed(
        """update schedule set host = :host
            where project = :project and id = :id and slot = :slot
              and (host in ('', :host) or not exists (select 1 from host h where h.id = schedule.host))""",
        id=row["id"],
        slot=row["slot"],
        host=host,
    )
    return bool(taken)


def begun(tx: Transaction, row: Row) -> None:
    """Note that what was due has been started, or could not be."""
    sql = "update schedule set slot = null, host = '' where project = :project and id = :id and slot = :slot"
    tx.run(sql, id=row["id"], slot=row["slot"])


def again(tx: Transaction, id: str, *, now: int) -> bool:
    """Let what a schedule could not start be tried once more, because a person says so."""
    return bool(tx.changed("update schedule set slot = :now where project = :project and id = :id", id=id, now=now))


def check_failed(tx: Transaction, id: str) -> int:
    """How often the check of a schedule has now failed in a row."""
    sql = "update schedule set failures = failures + 1 where project = :project and id = :id returning failures"
    row = tx.one(sql, id=id)
    return int(row["failures"]) if row else 0


def check_worked(tx: Transaction, id: str) -> None:
    tx.run("update schedule set failures = 0 where project = :project and id = :id and failures > 0", id=id)


def wake(tx: Transaction, row: Row, text: str, *, now: datetime) -> None:
    """Queue a wake-up whose check has found something; `text` is what the agent is told."""
    _queue(tx, row, row["slot"], text, now=now)


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
    """Move intervals that are due later than they can be: somebody has set the clock back."""
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
        if row["agent"] and _waits_still(tx, row):
            pass  # another wake-up would say nothing new
        elif row["workflow"] or schedule.check:
            sql = "update schedule set slot = :due where project = :project and id = :id"
            tx.run(sql, id=row["id"], due=row["due_at"])
        else:
            _queue(tx, row, row["due_at"], row["prompt"], now=now)
        following = next_due(schedule, now=now, active=now)
    tx.run(
        "update schedule set due_at = :due, fired_at = :now where project = :project and id = :id",
        id=row["id"],
        due=following and micros(following),
        now=micros(now),
    )


def _waits_still(tx: Transaction, row: Row) -> bool:
    """Whether an earlier wake-up of this schedule has not ended yet."""
    open_one = tx.one(
        """select 1 as one from instruction
            where project = :project and agent = :agent and source = 'schedule'
              and state in ('queued', 'running', 'waiting') and substr(root, 1, :length) = :prefix limit 1""",
        agent=row["agent"],
        length=len(row["id"]) + 1,
        prefix=f"{row['id']}@",
    )
    return open_one is not None


def _queue(tx: Transaction, row: Row, slot: int, text: str, *, now: datetime) -> None:
    id = f"{row['id']}@{slot}"
    order = Order(
        agent=row["agent"],
        text=text,
        source="schedule",
        sender="schedule",
        lane=Lane.BACKGROUND,
        root=id,
        workspace=row["instance"] or _where(tx, row["agent"], row["workspace"]),
    )
    queue.put(tx, order, now=micros(now), id=id)


def _where(tx: Transaction, agent: str, workspace: str) -> str | None:
    """The running instance in which an agent wakes; without a tag any that it is in, `main` first, then the newest.

    None, when none runs, is its personal context.
    """
    workflow, tag = as_written(workspace)
    found = tx.one(
        """select w.id from workspace w join member m on m.project = :project and m.workspace = w.id
            where w.project = :project and w.workflow = :workflow and :tag in (w.tag, '') and w.state = 'running'
              and m.agent = :agent
            order by case w.tag when :main then 0 else 1 end, w.started_at desc limit 1""",
        workflow=workflow,
        tag=tag or "",
        main=MAIN,
        agent=agent,
    )
    return str(found["id"]) if found else None


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
