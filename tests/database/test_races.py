"""Two who do the same at once: two hosts on PostgreSQL, two writers on SQLite. What comes out is what one after the
other would have brought about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest
from tests import stored
from tests.database.doors import Door, new_project

from agent_worker.agents import commands
from agent_worker.core.events import Bus
from agent_worker.database.database import ProjectDatabase, Row, Transaction
from agent_worker.memory import audit
from agent_worker.memory.audit import AuditEntry
from agent_worker.work import agent_rows, inbox, limits, queue
from agent_worker.workspaces import routing

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
