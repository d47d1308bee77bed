"""What every database keeps to, whichever engine it is: SQLite or PostgreSQL."""

from __future__ import annotations

import asyncio

import pytest
from tests import stored
from tests.database.doors import Door, new_project

from agent_worker.core.errors import NotFound, NotRunning, StorageFault
from agent_worker.core.events import Bus, Queued, WorkspaceChanged
from agent_worker.database.database import Transaction
from agent_worker.work import agent_rows, inbox, limits
from agent_worker.work.limits import Charge, Payer
from agent_worker.workspaces import routing


def tell(tx: Transaction, reason: object) -> None:
    tx.tell(WorkspaceChanged(workspace="w", state="paused", reason=reason))  # type: ignore[arg-type]


def accept(tx: Transaction, key: str) -> list[str]:
    routing.accept(tx, key, "ref", now=len(stored.accepted(tx)))
    return [row["key"] for row in stored.accepted(tx)]


async def test_what_was_written_is_seen_by_the_next_read(door: Door) -> None:
    database = await door.open()
    project = database.of(await new_project(database))
    for n in range(20):
        await project.write(accept, str(n))
        assert len(await project.read(stored.accepted)) == n + 1


async def test_what_is_asked_soon_is_answered_as_of_then_in_whatever_order_it_is_taken(door: Door) -> None:
    database = await door.open()
    project = database.of(await new_project(database))
    listed = "select key from accepted where project = :project order by key"

    def look_and_write(tx: Transaction) -> list[object]:
        accept(tx, "a")
        one, none = tx.one_soon(listed), tx.one_soon(f"{listed} limit 0")
        before = tx.all_soon(listed)
        accept(tx, "b")
        after = tx.all_soon(listed)
        return [after(), before(), none(), one()]

    a, b = {"key": "a"}, {"key": "b"}
    assert await project.write(look_and_write) == [[a, b], [a], None, a]
    assert await project.read(lambda tx: tx.all_soon(listed)()) == [a, b]
    assert await database.read(lambda tx: tx.one_soon("select count(*) as n from accepted")()) == {"n": 2}


async def test_writes_are_made_in_the_order_in_which_they_were_asked_for(door: Door) -> None:
    database = await door.open()
    project = database.of(await new_project(database))
    soon = project.write_soon(accept, "first")
    rest = [project.write(accept, str(n)) for n in range(100)]
    await asyncio.gather(soon, *rest)
    assert soon.result() == ["first"]
    assert rest[-1].result() == ["first", *map(str, range(100))]


async def test_a_change_that_fails_takes_nobody_elses_with_it(door: Door) -> None:
    database = await door.open()
    project = database.of(await new_project(database))

    def put(tx: Transaction, n: int) -> int:
        accept(tx, str(n))
        if n % 3 == 0:
            raise ValueError(n)
        return n

    outcomes = await asyncio.gather(*(project.write(put, n) for n in range(60)), return_exceptions=True)
    assert [isinstance(outcome, ValueError) for outcome in outcomes] == [n % 3 == 0 for n in range(60)]
    assert {row["key"] for row in await project.read(stored.accepted)} == {str(n) for n in range(60) if n % 3}


async def test_a_change_that_the_engine_refuses_takes_nobody_elses_with_it(door: Door) -> None:
    database = await door.open()
    project = database.of(await new_project(database))
    first = [project.write(routing.accept, "same", "ref", now=0) for _ in range(3)]
    other = project.write(accept, "other")
    outcomes = await asyncio.gather(*first, return_exceptions=True)
    assert [outcome is None for outcome in outcomes] == [True, False, False]
    assert await other == ["same", "other"]


async def test_a_reference_to_nothing_is_refused(door: Door) -> None:
    database = await door.open()
    with pytest.raises(Exception, match=r"(?i)foreign key"):
        await database.of("nobody").write(agent_rows.enrol, name="alice")


async def test_who_listens_from_now_on_knows_what_was_told_before_also_before_it_was_opened(door: Door) -> None:
    bus = Bus()
    database = await door.open(bus)
    project = database.of(await new_project(database))
    await project.write(tell, "once")
    last = bus.last
    await project.write(tell, "again")
    assert 0 < last < bus.last
    await database.close()
    later = Bus()
    database = await door.open(later)
    assert later.last == bus.last
    await database.close()


async def test_what_is_told_is_heard_after_its_commit_and_numbered_in_the_order_of_commits(door: Door) -> None:
    bus, heard = Bus(), []  # type: tuple[Bus, list[Event]]
    database = await door.open(bus)
    bus.listen(heard.append)
    project = database.of(await new_project(database))
    await asyncio.gather(*(project.write(tell, str(n)) for n in range(100)))
    assert [event.reason for event in heard if isinstance(event, WorkspaceChanged)] == [str(n) for n in range(100)]
    numbers = [event.number for event in heard]
    assert numbers == sorted(set(numbers))
    assert numbers[0] > 0


async def test_nothing_is_told_of_a_change_that_failed(door: Door) -> None:
    bus, heard = Bus(), []  # type: tuple[Bus, list[Event]]
    database = await door.open(bus)
    bus.listen(heard.append)
    project = database.of(await new_project(database))

    def tell_and_fail(tx: Transaction) -> None:
        tell(tx, "never mind")
        raise ValueError("never mind")

    with pytest.raises(ValueError, match="never mind"):
        await project.write(tell_and_fail)
    await project.write(tell, "said")
    assert [event.reason for event in heard if isinstance(event, WorkspaceChanged)] == ["said"]


async def test_a_write_whose_caller_went_away_is_still_told(door: Door) -> None:
    bus, heard = Bus(), []  # type: tuple[Bus, list[Event]]
    database = await door.open(bus)
    bus.listen(heard.append)
    project = database.of(await new_project(database))
    project.write(tell, "said").cancel()
    await project.write(lambda tx: None)
    assert [event.reason for event in heard if isinstance(event, WorkspaceChanged)] == ["said"]


async def test_an_event_that_cannot_be_stored_fails_its_own_change_only(door: Door) -> None:
    database = await door.open()
    project = database.of(await new_project(database))
    first, second = await asyncio.gather(
        project.write(tell, object()), project.write(tell, "a lone \ud800 surrogate"), return_exceptions=True
    )
    assert isinstance(first, TypeError)
    assert second is None


async def test_a_reader_cannot_write(door: Door) -> None:
    database = await door.open(patience=0)  # what PostgreSQL says here, a server says too that will be writable soon
    project = database.of(await new_project(database))
    with pytest.raises(Exception, match=r"(?i)read-?only"):
        await project.read(routing.accept, "key", "ref", now=1)
    assert await project.read(stored.accepted) == []
    assert await project.write(accept, "key") == ["key"]


async def test_what_a_query_raises_comes_to_who_asked_and_the_next_one_is_answered(door: Door) -> None:
    database = await door.open()
    project = database.of(await new_project(database))
    for _ in range(10):
        with pytest.raises(NotFound):
            await project.read(agent_rows.identity, "nobody")
    assert await project.read(agent_rows.at_home) == []


async def test_the_same_ids_in_two_projects_are_two_rows(door: Door) -> None:
    database = await door.open()
    one, two = [database.of(await new_project(database, name)) for name in ("one", "two")]
    await asyncio.gather(one.write(accept, "k"), two.write(accept, "k"))
    await two.write(routing.forget_keys, now=10**18)
    assert len(await one.read(stored.accepted, project=one.project)) == 1
    assert await two.read(stored.accepted, project=two.project) == []


async def test_secrets_are_taken_out_of_what_is_written_and_told(door: Door) -> None:
    bus, heard = Bus(), []  # type: tuple[Bus, list[Event]]
    database = await door.open(bus, redact=lambda text: text.replace("hunter2hunter2", "[redacted]"))
    bus.listen(heard.append)
    project = database.of(await new_project(database))
    agent = await project.write(agent_rows.enrol, name="alice")
    await project.write(routing.tell_agent, agent, "it is hunter2hunter2", now=1)
    await project.write(tell, "because of hunter2hunter2")
    assert [row["text"] for row in await project.read(stored.instructions)] == ["it is [redacted]"]
    assert [event.reason for event in heard if isinstance(event, WorkspaceChanged)] == ["because of [redacted]"]


@pytest.mark.parametrize(
    "text", ["é😀 \u202e bidi", "\r\n", "'; drop table message; --", "100 % $1 :name ? {x} \\", " ", "x" * 300_000]
)
async def test_a_text_comes_back_as_it_was_sent(door: Door, text: str) -> None:
    database = await door.open()
    project = database.of(await new_project(database))
    agent = await project.write(agent_rows.enrol, name="alice")
    await project.write(inbox.ask, "failure", ref="r", text=text, agent=agent, now=1)
    assert [row["text"] for row in await project.read(inbox.open_items)] == [text]


async def test_a_nul_is_kept_as_the_sign_for_it(door: Door) -> None:
    database = await door.open()
    project = database.of(await new_project(database))
    await project.write(inbox.ask, "failure", ref="r", text="a\0b", now=1)
    assert [row["text"] for row in await project.read(inbox.open_items)] == ["a␀b"]


async def test_numbers_are_as_large_as_they_are_and_sums_are_whole_numbers(door: Door) -> None:
    database = await door.open()
    project = database.of(await new_project(database))
    agent, much = await project.write(agent_rows.enrol, name="alice"), 2**40
    for step in (1, 2):
        charge = Charge(run="r", step=step, model="m", input=much, cached=0, output=much, usd=much / 1e6)
        await project.write(limits.charge, Payer(agent, "root"), charge, now=1)
    assert {(row["input"], row["micros"]) for row in await project.read(stored.ledger)} == {(much, much)}
    assert {row["micros"] for row in await project.read(stored.tallies)} == {2 * much}
    (run,) = await project.read(lambda tx: tx.all("select sum(input) as input from ledger where project = :project"))
    assert (run["input"], type(run["input"])) == (2 * much, int)


async def test_names_stand_in_the_order_of_their_characters(door: Door) -> None:
    database = await door.open()
    project = database.of(await new_project(database))
    names = ["a_b", "a-b", "B", "a", "Z", "ab", "é", "_"]
    for name in names:
        await project.write(agent_rows.enrol, name=name)
    await project.write(lambda tx: [tx.tell(Queued(agent=name, instruction="i", lane=0)) for name in names])
    found = await project.read(lambda tx: tx.all("select name from agent where project = :project order by name"))
    assert [row["name"] for row in found] == sorted(names)


async def test_a_closed_door_is_closed(door: Door) -> None:
    database = await door.open()
    await database.close()
    await database.close()
    for ask in (database.write, database.write_soon, database.read):
        with pytest.raises(StorageFault) as told:
            await ask(lambda tx: None)
        assert isinstance(told.value, NotRunning), "whoever asks is not told that the disk is broken"


async def test_what_was_asked_for_before_it_closes_is_stored(door: Door) -> None:
    database = await door.open()
    project = database.of(await new_project(database))
    written = [project.write_soon(accept, "soon"), project.write(accept, "now")]
    await database.close()
    assert await written[0] == ["soon"]
    assert await written[1] == ["soon", "now"]
    again = (await door.open()).of(project.project)
    assert [row["key"] for row in await again.read(stored.accepted)] == ["soon", "now"]


async def test_events_are_numbered_onwards_after_a_restart(door: Door) -> None:
    numbers = []
    for _ in range(3):
        bus = Bus()
        bus.listen(lambda event: numbers.append(event.number))
        database = await door.open(bus)
        await database.of(await new_project(database)).write(tell, "again")
        await database.close()
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 3
