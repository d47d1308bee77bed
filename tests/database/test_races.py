"""Two who do the same at once: two hosts on PostgreSQL, two writers on SQLite. What comes out is what one after the
other would have brought about.

On PostgreSQL it is no matter of luck how they meet: the second begins when the first has done all it does and has not
committed, and the first commits when the second has done all it does, or waits for it. On SQLite no second one can
begin before the first has committed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests import stored
from tests.database.doors import Door, new_project

from agent_worker.agents import commands
from agent_worker.core.events import Bus
from agent_worker.database.database import ProjectDatabase, Row, Transaction
from agent_worker.definitions.schedule import Schedule
from agent_worker.files.swap import content_hash
from agent_worker.memory import audit
from agent_worker.memory.audit import AuditEntry
from agent_worker.proposals import lifecycle
from agent_worker.proposals.request import PERSON, ProposalRequest, Voter
from agent_worker.schedules import schedule
from agent_worker.schedules.schedule import Timer
from agent_worker.work import agent_rows, inbox, limits, queue
from agent_worker.workflows.quiet import close_if_quiet
from agent_worker.workspaces import routing, workspace_rows, workspace_state
from agent_worker.workspaces.document_rows import (
    Author,
    CurrentDocument,
    Document,
    Overtaken,
    last_revision,
    revise,
    revisions,
)
from agent_worker.workspaces.workspace_state import NewWorkspace

TIMES = 15


Change = Callable[[Any], object]  #: of a transaction


def asks(change: Callable[..., object], *args: Any, **kwargs: Any) -> Change:
    return lambda tx: change(tx, *args, **kwargs)


@dataclass
class Rivals:
    first: Any  #: what the database holds of a project, or of all
    second: Any
    server: psycopg.Connection[tuple[Any, ...]] | None  #: None with SQLite

    def __getitem__(self, number: int) -> ProjectDatabase:
        found: ProjectDatabase = (self.first, self.second)[number]
        return found

    def of_all_projects(self) -> Rivals:
        return Rivals(self.first._database, self.second._database, self.server)

    async def both(self, change: Callable[..., object], *args: Any, **kwargs: Any) -> list[Any]:
        """Both make this change; what came of it for each."""
        return await self.at_once(asks(change, *args, **kwargs), asks(change, *args, **kwargs))

    async def at_once(self, one: Change, other: Change) -> list[Any]:
        """The first makes one change, the second the other: what came of each, or what was raised."""
        if self.server is None:
            return await asyncio.gather(self.first.write(one), self.second.write(other), return_exceptions=True)
        is_made, other_is_made = threading.Event(), threading.Event()

        def begin(tx: Transaction) -> object:
            try:
                made = one(tx)
                tx.one("select 1 as one")  # whatever was not waited for has reached the server
            finally:
                is_made.set()
            while not other_is_made.wait(0.001) and not self._is_waited_for():
                pass
            return made

        def follow(tx: Transaction) -> object:
            try:
                return other(tx)
            finally:
                other_is_made.set()

        begun = self.first.write(begin)
        await asyncio.to_thread(is_made.wait)
        return await asyncio.gather(begun, self.second.write(follow), return_exceptions=True)

    def _is_waited_for(self) -> bool:
        assert self.server is not None
        asked = self.server.execute(
            """select count(*) from pg_stat_activity
                where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0"""
        )
        return asked.fetchall() != [(0,)]


@pytest.fixture
async def rivals(door: Door) -> AsyncIterator[Rivals]:
    first = await door.open()
    project = await new_project(first)
    server = None if isinstance(door.where, Path) else psycopg.connect(door.where, autocommit=True)
    yield Rivals(first.of(project), (await door.open_rival()).of(project), server)
    if server:
        server.close()


async def test_the_same_agent_enrolled_twice_is_one(rivals: Rivals) -> None:
    for n in range(TIMES):
        ids = await rivals.both(agent_rows.enrol, name=f"agent{n}")
        assert len(set(ids)) == 1


async def test_the_same_key_sent_twice_is_one_message_with_one_receipt(rivals: Rivals) -> None:
    agent = await rivals[0].write(agent_rows.enrol, name="alice")
    for n in range(TIMES):
        first, second = await rivals.both(routing.tell_agent, agent, "hello", now=1, key=f"k{n}")
        assert first == second
    assert len(await rivals[0].read(stored.instructions)) == TIMES


async def test_places_in_a_queue_are_given_once_each(rivals: Rivals) -> None:
    agent = await rivals[0].write(agent_rows.enrol, name="alice")
    for _ in range(TIMES):
        await rivals.both(routing.tell_agent, agent, "hello", now=1)
    rows = await rivals[0].read(stored.instructions)
    assert sorted(row["ord"] for row in rows) == list(range(1, 2 * TIMES + 1))


async def test_one_question_is_put_before_the_person_once(rivals: Rivals) -> None:
    for n in range(TIMES):
        await rivals.both(inbox.ask, "failure", ref=f"r{n}", text="what now?", now=n)
    items = await rivals[0].read(inbox.open_items)
    assert [item["n"] for item in items] == list(range(1, TIMES + 1))


async def test_of_two_limits_that_are_raised_at_once_both_hold(rivals: Rivals) -> None:
    place, _ = await workspace_with(rivals[0], "alice")
    for n in range(1, TIMES + 1):
        turns, usd = {"turns": 100.0 + n}, {"usd": 10.0 + n}
        await rivals.at_once(*(asks(workspace_state.grant, place["id"], each) for each in (turns, usd)))
        assert await rivals[0].read(workspace_rows.granted, place["id"]) == turns | usd


async def test_of_what_is_counted_nothing_is_lost(rivals: Rivals) -> None:
    for _ in range(TIMES):
        await rivals.both(limits.count_run, "root")
    (row,) = await rivals[0].read(stored.tallies)
    assert row["runs"] == 2 * TIMES


async def test_the_audit_of_two_writers_is_one_chain(rivals: Rivals) -> None:
    done = AuditEntry(agent="a", who="user", deed="deleted", about="something")
    for _ in range(TIMES):
        await rivals.both(audit.note, done, now=1)
    assert await rivals[0].read(audit.flaw) == ""
    assert [row["n"] for row in await rivals[0].read(stored.audit)] == list(range(1, 2 * TIMES + 1))


async def test_of_two_who_claim_an_agent_only_the_last_may_write(rivals: Rivals) -> None:
    agent = await rivals[0].write(agent_rows.enrol, name="alice")
    for _ in range(TIMES):
        fences = await rivals.at_once(*(asks(agent_rows.claim, agent, host) for host in ("h0", "h1")))
        held = [await rivals[n].write(agent_rows.holds, fence) for n in (0, 1) for fence in fences]
        assert sorted(held[:2]) == sorted(held[2:]) == [False, True]


async def test_work_that_is_cancelled_while_it_is_taken_does_not_begin(rivals: Rivals) -> None:
    """Even if whoever takes it had looked before: a row that was read is not a row that is still so."""
    agent = await rivals[0].write(agent_rows.enrol, name="alice")
    for n in range(TIMES):
        receipt = await rivals[0].write(routing.tell_agent, agent, "hello", now=n)
        (seen,) = await rivals[0].read(stored.instructions, id=receipt.id)
        await rivals.at_once(
            asks(commands.cancel, receipt.id, reason="no longer needed", now=n),
            asks(queue.begin_run, [seen], backend="mock", model="", now=n),
        )
        (row,) = await rivals[0].read(stored.instructions, id=receipt.id)
        assert (row["state"], row["attempts"]) == ("cancelled", 0)


async def workspace_with(database: ProjectDatabase, *names: str) -> tuple[Row, dict[str, str]]:
    """A workspace that runs, and its members: name → agent."""
    members = {name: await database.write(agent_rows.enrol, name=name) for name in names}
    wanted = NewWorkspace(f"w{len(await database.read(stored.workspaces))}", provider="sqlite", documents="sqlite")
    id = await database.write(workspace_state.open_workspace, wanted, now=1)
    await database.write(workspace_state.add_members, id, members)
    await database.write(workspace_state.let_in, id)
    return await database.read(workspace_rows.get, id), members


async def test_the_last_two_votes_at_once_end_the_proposal(rivals: Rivals) -> None:
    """Each of two who count alone misses the other's vote, and leaves it open for ever."""
    place, members = await workspace_with(rivals[0], "alice", "bob")
    voters = [Voter(name, agent) for name, agent in members.items()]
    for n in range(1, TIMES + 1):
        wanted = ProposalRequest("ship it?", ["yes", "no"])
        await rivals[0].write(lifecycle.propose, place, wanted, by=PERSON, now=n)
        await rivals.at_once(*(asks(lifecycle.cast, place["id"], n, "yes", by=each, now=n) for each in voters))
        (proposal,) = await rivals[0].read(stored.proposals, n=n)
        assert proposal["state"] != "open"


async def test_the_same_workspace_opened_twice_is_one(rivals: Rivals) -> None:
    for n in range(TIMES):
        wanted = NewWorkspace("review", tag=f"t{n}", provider="sqlite", documents="sqlite")
        ids = await rivals.both(workspace_state.open_workspace, wanted, now=1)
        assert len(set(ids)) == 1


async def test_a_workspace_that_was_left_is_taken_up_by_one_host(rivals: Rivals) -> None:
    """Both hosts live: what one has taken, the other has not."""
    place, _ = await workspace_with(rivals[0], "alice")
    for name in ("h0", "h1"):
        await rivals[0].write(stored.add_host, name)
    for _ in range(TIMES):
        await rivals[0].write(workspace_state.leave, place["id"])
        took = await rivals.at_once(*(asks(workspace_state.take_up, place["id"], host) for host in ("h0", "h1")))
        assert sorted(map(bool, took)) == [False, True]


async def test_of_two_who_write_a_document_that_both_have_read_one_is_told_of_the_other(rivals: Rivals) -> None:
    place, _ = await workspace_with(rivals[0], "alice", "bob")
    for n in range(TIMES):
        seen = CurrentDocument("plan.md", None, 0) if n == 0 else await rivals[0].read(current, place["id"])
        told = await rivals.at_once(
            *(
                asks(revise, place, Document("plan.md", text, content_hash(text)), seen, Author(who), at=n)
                for who, text in (("alice", f"{n} by alice"), ("bob", f"{n} by bob"))
            )
        )
        assert [type(each) for each in told if isinstance(each, Exception)] == [Overtaken]
    assert len(await rivals[0].read(revisions, place["id"], "plan.md")) == TIMES


def current(tx: Transaction, workspace: str) -> CurrentDocument:
    row = last_revision(tx, workspace, "plan.md")
    assert row
    return CurrentDocument("plan.md", Document("plan.md", row["text"], row["revision"]), row["n"])


async def test_a_message_that_comes_while_a_workspace_ends_as_quiet_is_refused_or_keeps_it_open(
    rivals: Rivals,
) -> None:
    ends = []
    for n in range(TIMES):
        place, _ = await workspace_with(rivals[0], "alice", "bob")
        said = routing.OutgoingMessage(workspace=place["id"], sender="user", text="@alice go on")
        both = [asks(routing.say, said, now=2), asks(close_if_quiet, place["id"], now=2)]
        told = await rivals.at_once(*both[:: -1 if n % 2 else 1])
        closed = told[n % 2 - 1]
        queued = await rivals[0].read(stored.instructions, workspace=place["id"], state="queued")
        (row,) = await rivals[0].read(stored.workspaces, id=place["id"])
        ends.append((len(queued), row["state"], closed))
    assert set(ends) <= {(1, "running", False), (0, "stopped", True)}


async def test_two_hosts_that_look_at_one_schedule_wake_its_agent_once(rivals: Rivals) -> None:
    agent = await rivals[0].write(agent_rows.enrol, name="alice")
    begun, hosts = datetime(2026, 1, 5, 9, 0, tzinfo=UTC), rivals.of_all_projects()
    await rivals[0].write(schedule.keep, Timer(Schedule(wakeup="*/5 * * * *"), agent=agent), now=begun)
    for n in range(1, TIMES + 1):
        now = begun + timedelta(minutes=5 * n)
        await hosts.both(schedule.fire_due, now=now)
        (woken,) = await rivals[0].read(stored.instructions, state="queued")
        await rivals[0].write(queue.end_one, woken["id"], "cancelled", reason="", now=n)


async def test_what_a_schedule_marks_as_due_is_started_by_one_host(rivals: Rivals) -> None:
    agent = await rivals[0].write(agent_rows.enrol, name="alice")
    for name in ("h0", "h1"):
        await rivals[0].write(stored.add_host, name)
    timer = Timer(Schedule(wakeup="1h"), agent=agent)
    await rivals[0].write(schedule.keep, timer, now=datetime.now(UTC))
    for n in range(1, TIMES + 1):
        await rivals[0].write(schedule.again, timer.id, now=n)
        (row,) = await rivals[0].read(stored.schedules)
        took = await rivals.at_once(*(asks(schedule.take, row, host) for host in ("h0", "h1")))
        assert sorted(map(bool, took)) == [False, True]
        late = await rivals.both(schedule.begun, row)
        assert late == [None, None]


async def test_work_that_is_answered_while_it_begins_to_wait_does_not_wait_for_ever(
    rivals: Rivals,
) -> None:
    agent = await rivals[0].write(agent_rows.enrol, name="alice")
    for n in range(TIMES):
        await rivals[0].write(routing.tell_agent, agent, "hello", now=1)
        (work,) = await rivals[0].read(stored.instructions, state="queued")
        run = await rivals[0].write(queue.begin_run, [work], backend="mock", model="", now=2)
        item = await rivals[0].write(
            inbox.ask, "question", ref=f"{work['work']}/{n}", text="which?", now=3, agent=agent
        )

        def waits(tx: Transaction, work: Row = work, run: str = run) -> None:
            """As run_end.suspend, without the run's fence."""
            if inbox.waits_for(tx, work["work"]):
                queue.set_waiting(tx, run)
            else:
                queue.put_back(tx, run)

        def answered(tx: Transaction, work: Row = work, item: str = str(item)) -> None:
            inbox.close(tx, item, state="answered", answer="this one")
            queue.wake(tx, work["work"])

        await rivals.at_once(*(waits, answered)[:: -1 if n % 2 else 1])
        (row,) = await rivals[0].read(stored.instructions, id=work["id"])
        assert row["state"] == "queued"
        await rivals[0].write(queue.end_one, row["id"], "cancelled", reason="", now=4)


async def test_events_of_all_hosts_are_numbered_in_one_row(door: Door) -> None:
    told: list[list[int]] = []
    databases = []
    for _ in range(2 if isinstance(door.where, str) else 1):
        bus, numbers = Bus(), list[int]()
        bus.listen(lambda event, numbers=numbers: numbers.append(event.number))  # type: ignore[misc]
        told.append(numbers)
        databases.append(await door.open(bus))
    project = await new_project(databases[0])
    agent = await databases[0].of(project).write(agent_rows.enrol, name="alice")
    await asyncio.gather(
        *(each.of(project).write(routing.tell_agent, agent, "hi", now=1) for _ in range(TIMES) for each in databases)
    )
    # Each hears its own, and what others told before: in the order of the numbers, without a gap up to its last.
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in told)
    assert max(map(len, told)) == len(databases) * TIMES
