"""Two who do the same at once: two hosts on PostgreSQL, two writers on SQLite. What comes out is what one after the
other would have brought about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime

import pytest
from tests import stored
from tests.database.doors import Door, new_project

from agent_worker.agents import commands
from agent_worker.core.events import Bus
from agent_worker.database.database import ProjectDatabase, Row, Transaction
from agent_worker.definitions.schedule import Schedule
from agent_worker.memory import audit
from agent_worker.memory.audit import AuditEntry
from agent_worker.proposals import lifecycle
from agent_worker.proposals.request import PERSON, ProposalRequest, Voter
from agent_worker.schedules import schedule
from agent_worker.schedules.schedule import Timer
from agent_worker.work import agent_rows, inbox, limits, queue
from agent_worker.workflows.quiet import close_if_quiet
from agent_worker.workspaces import routing, workspace_rows, workspace_state
from agent_worker.workspaces.workspace_state import NewWorkspace

TIMES = 15


@pytest.fixture
async def rivals(door: Door) -> list[ProjectDatabase]:
    first = await door.open()
    project = await new_project(first)
    return [first.of(project), (await door.open_rival()).of(project)]


async def at_once(*asked: Awaitable[object]) -> list[object]:
    return list(await asyncio.gather(*asked))


async def test_the_same_agent_enrolled_twice_is_one(rivals: list[ProjectDatabase]) -> None:
    for n in range(TIMES):
        ids = await at_once(*(each.write(agent_rows.enrol, name=f"agent{n}") for each in rivals))
        assert len(set(ids)) == 1


async def test_the_same_key_sent_twice_is_one_message_with_one_receipt(rivals: list[ProjectDatabase]) -> None:
    agent = await rivals[0].write(agent_rows.enrol, name="alice")
    for n in range(TIMES):
        sent = (each.write(routing.tell_agent, agent, "hello", now=1, key=f"k{n}") for each in rivals)
        first, second = await at_once(*sent)
        assert first == second
    assert len(await rivals[0].read(stored.instructions)) == TIMES


async def test_places_in_a_queue_are_given_once_each(rivals: list[ProjectDatabase]) -> None:
    agent = await rivals[0].write(agent_rows.enrol, name="alice")
    sent = (each.write(routing.tell_agent, agent, "hello", now=1) for _ in range(TIMES) for each in rivals)
    await at_once(*sent)
    rows = await rivals[0].read(stored.instructions)
    assert sorted(row["ord"] for row in rows) == list(range(1, 2 * TIMES + 1))


async def test_one_question_is_put_before_the_person_once(rivals: list[ProjectDatabase]) -> None:
    for n in range(TIMES):
        await at_once(*(each.write(inbox.ask, "failure", ref=f"r{n}", text="what now?", now=n) for each in rivals))
    items = await rivals[0].read(inbox.open_items)
    assert [item["n"] for item in items] == list(range(1, TIMES + 1))


async def test_of_what_is_granted_nothing_is_lost(rivals: list[ProjectDatabase]) -> None:
    await at_once(*(each.write(limits.count_run, "root") for _ in range(TIMES) for each in rivals))
    (row,) = await rivals[0].read(stored.tallies)
    assert row["runs"] == 2 * TIMES


async def test_the_audit_of_two_writers_is_one_chain(rivals: list[ProjectDatabase]) -> None:
    done = AuditEntry(agent="a", who="user", deed="deleted", about="something")
    await at_once(*(each.write(audit.note, done, now=1) for _ in range(TIMES) for each in rivals))
    assert await rivals[0].read(audit.flaw) == ""
    assert [row["n"] for row in await rivals[0].read(stored.audit)] == list(range(1, 2 * TIMES + 1))


async def test_of_two_who_claim_an_agent_only_the_last_may_write(rivals: list[ProjectDatabase]) -> None:
    agent = await rivals[0].write(agent_rows.enrol, name="alice")
    for _ in range(TIMES):
        fences = await at_once(*(each.write(agent_rows.claim, agent, f"h{n}") for n, each in enumerate(rivals)))
        held = await at_once(*(each.write(agent_rows.holds, fence) for each in rivals for fence in fences))
        assert sorted(held[:2]) == sorted(held[2:]) == [False, True]  # type: ignore[type-var]


async def test_work_that_is_cancelled_while_it_is_taken_does_not_begin(rivals: list[ProjectDatabase]) -> None:
    """Even if whoever takes it had looked before: a row that was read is not a row that is still so."""
    agent = await rivals[0].write(agent_rows.enrol, name="alice")
    receipt = await rivals[0].write(routing.tell_agent, agent, "hello", now=1)
    (seen,) = await rivals[0].read(stored.instructions)
    await rivals[1].write(commands.cancel, receipt.id, reason="no longer needed", now=2)

    def begin(tx: Transaction, row: Row) -> str:
        return queue.begin_run(tx, [row], backend="mock", model="", now=3)

    await rivals[0].write(begin, seen)
    (row,) = await rivals[0].read(stored.instructions)
    assert (row["state"], row["attempts"]) == ("cancelled", 0)


async def workspace_with(database: ProjectDatabase, *names: str) -> tuple[Row, dict[str, str]]:
    """A workspace that runs, and its members: name → agent."""
    members = {name: await database.write(agent_rows.enrol, name=name) for name in names}
    wanted = NewWorkspace(f"w{len(await database.read(stored.workspaces))}", provider="sqlite", documents="sqlite")
    id = await database.write(workspace_state.open_workspace, wanted, now=1)
    await database.write(workspace_state.add_members, id, members)
    await database.write(workspace_state.let_in, id)
    return await database.read(workspace_rows.get, id), members


async def test_the_last_two_votes_at_once_end_the_proposal(rivals: list[ProjectDatabase]) -> None:
    """Each of two who count alone misses the other's vote, and leaves it open for ever."""
    place, members = await workspace_with(rivals[0], "alice", "bob")
    by = {name: Voter(name, agent) for name, agent in members.items()}
    for n in range(1, TIMES + 1):
        wanted = ProposalRequest("ship it?", ["yes", "no"])
        await rivals[0].write(lifecycle.propose, place, wanted, by=PERSON, now=n)
        votes = zip(rivals, ("alice", "bob"), strict=True)
        await at_once(*(each.write(lifecycle.cast, place["id"], n, "yes", by=by[name], now=n) for each, name in votes))
        (proposal,) = await rivals[0].read(stored.proposals, n=n)
        assert proposal["state"] != "open"


async def test_the_same_workspace_opened_twice_is_one(rivals: list[ProjectDatabase]) -> None:
    for n in range(TIMES):
        wanted = NewWorkspace("review", tag=f"t{n}", provider="sqlite", documents="sqlite")
        ids = await at_once(*(each.write(workspace_state.open_workspace, wanted, now=1) for each in rivals))
        assert len(set(ids)) == 1


async def test_a_workspace_that_was_left_is_taken_up_by_one_host(rivals: list[ProjectDatabase]) -> None:
    """Both hosts live: what one has taken, the other has not."""
    place, _ = await workspace_with(rivals[0], "alice")
    for name in ("h0", "h1"):
        await rivals[0].write(add_host, name)
    for _ in range(TIMES):
        await rivals[0].write(workspace_state.leave, place["id"])
        took = await at_once(
            *(each.write(workspace_state.take_up, place["id"], f"h{n}") for n, each in enumerate(rivals))
        )
        assert sorted(map(bool, took)) == [False, True]


async def test_a_message_that_comes_while_a_workspace_ends_as_quiet_is_refused_or_keeps_it_open(
    rivals: list[ProjectDatabase],
) -> None:
    ends = []
    for _ in range(TIMES):
        place, _ = await workspace_with(rivals[0], "alice", "bob")
        said = routing.OutgoingMessage(workspace=place["id"], sender="user", text="@alice go on")
        _, closed = await asyncio.gather(
            rivals[0].write(routing.say, said, now=2),
            rivals[1].write(close_if_quiet, place["id"], now=2),
            return_exceptions=True,
        )
        queued = await rivals[0].read(stored.instructions, workspace=place["id"], state="queued")
        (row,) = await rivals[0].read(stored.workspaces, id=place["id"])
        ends.append((len(queued), row["state"], closed))
    assert set(ends) <= {(1, "running", False), (0, "stopped", True)}


async def test_what_a_schedule_marks_as_due_is_started_by_one_host(rivals: list[ProjectDatabase]) -> None:
    agent = await rivals[0].write(agent_rows.enrol, name="alice")
    for name in ("h0", "h1"):
        await rivals[0].write(add_host, name)
    timer = Timer(Schedule(wakeup="1h"), agent=agent)
    await rivals[0].write(schedule.keep, timer, now=datetime.now(UTC))
    for n in range(1, TIMES + 1):
        await rivals[0].write(schedule.again, timer.id, now=n)
        (row,) = await rivals[0].read(stored.schedules)
        took = await at_once(*(each.write(schedule.take, row, f"h{i}") for i, each in enumerate(rivals)))
        assert sorted(map(bool, took)) == [False, True]
        late = await at_once(*(each.write(schedule.begun, row) for each in rivals))
        assert late == [None, None]


async def test_work_that_is_answered_while_it_begins_to_wait_does_not_wait_for_ever(
    rivals: list[ProjectDatabase],
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

        await at_once(rivals[0].write(waits), rivals[1].write(answered))
        (row,) = await rivals[0].read(stored.instructions, id=work["id"])
        assert row["state"] == "queued"
        await rivals[0].write(queue.end_one, row["id"], "cancelled", reason="", now=4)


def add_host(tx: Transaction, name: str) -> None:
    stored.add(
        tx,
        "host",
        id=name,
        node=name,
        home=name,
        place=name,
        pid=1,
        labels="[]",
        version="",
        began_at=0,
        lease_until=2**62,
    )


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
    await at_once(
        *(each.of(project).write(routing.tell_agent, agent, "hi", now=1) for _ in range(TIMES) for each in databases)
    )
    # Each hears its own, and what others told before: in the order of the numbers, without a gap up to its last.
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in told)
    assert max(map(len, told)) == len(databases) * TIMES
