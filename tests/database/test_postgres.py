"""PostgreSQL goes away, comes back, loses a connection in a commit, or is not what we need."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from tests import stored
from tests.database.doors import new_project
from tests.database.lossy import Loses, LossyWire
from tests.database.test_contract import accept, tell
from tests.hosts.wire import open_wire
from tests.needs import skip_without
from tests.patience import PATIENCE, eventually, until
from tests.postgresql import Cluster, open_cluster, programs

from agent_worker.core import failpoints
from agent_worker.core.errors import BadInput, NotStored, Refused, StorageFault, Unreachable
from agent_worker.core.events import Bus
from agent_worker.database import postgres, postgres_trips
from agent_worker.database.database import Row, Transaction, WholeTransaction
from agent_worker.database.migrations import versions
from agent_worker.database.postgres import PostgresDatabase
from agent_worker.database.postgres_look import look_at
from agent_worker.database.postgres_session import connect, numbered, place_of, prepare


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    """One that a test may stop: nobody else uses it."""
    with open_cluster() as cluster:
        yield cluster


@pytest.fixture
async def database(cluster: Cluster) -> AsyncIterator[PostgresDatabase]:
    database = await PostgresDatabase.open(cluster.new_database(), Bus())
    yield database
    await database.close()


async def test_a_server_that_restarts_is_waited_for_and_nothing_is_lost_or_doubled(own_cluster: Cluster) -> None:
    database = await PostgresDatabase.open(own_cluster.new_database(), Bus())
    project = database.of(await new_project(database))
    await project.write(accept, "before")
    await project.read(stored.accepted)
    await asyncio.to_thread(own_cluster.stop)
    writes = [project.write(accept, f"meanwhile {n}") for n in range(20)]
    read = asyncio.ensure_future(project.read(stored.accepted))
    await until(lambda: "refused" in database.trouble)
    assert not any(write.done() for write in writes)
    await asyncio.to_thread(own_cluster.start)
    await asyncio.gather(*writes)
    await read
    assert database.trouble == ""
    assert len(await project.read(stored.accepted)) == 21
    await database.close()


async def test_a_server_that_stays_away_is_told_and_work_goes_on_when_it_is_back(own_cluster: Cluster) -> None:
    database = await PostgresDatabase.open(own_cluster.new_database(), Bus(), patience=0.1)
    project = database.of(await new_project(database))
    await asyncio.to_thread(own_cluster.stop)
    with pytest.raises(Unreachable, match=r"cannot be reached: .*; nothing was stored"):
        await project.write(accept, "away")
    with pytest.raises(Unreachable):
        await project.read(stored.accepted)
    await asyncio.to_thread(own_cluster.start)
    assert await project.write(accept, "back") == ["back"]
    await database.close()


async def test_it_can_be_closed_while_the_server_is_away(own_cluster: Cluster) -> None:
    database = await PostgresDatabase.open(own_cluster.new_database(), Bus())
    project = database.of(await new_project(database))
    await asyncio.to_thread(own_cluster.stop)
    lost = project.write(accept, "away")
    await until(lambda: database.trouble != "")
    await database.close()
    with pytest.raises(StorageFault):
        await lost
    await asyncio.to_thread(own_cluster.start)


async def test_a_connection_that_was_ended_is_opened_anew(cluster: Cluster, database: PostgresDatabase) -> None:
    project = database.of(await new_project(database))
    for n in range(5):
        await project.write(accept, str(n))
        await project.read(stored.accepted)
        name = database.place.rpartition("/")[2]
        cluster.run("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", name)
    assert len(await project.read(stored.accepted)) == 5


@pytest.mark.parametrize("loses", ["request", "answer"])
async def test_H5_a_connection_that_breaks_in_a_commit_neither_loses_nor_doubles_it(
    cluster: Cluster, loses: Loses
) -> None:
    bus, heard = Bus(), []  # type: tuple[Bus, list[int]]
    bus.listen(lambda event: heard.append(event.number))
    with LossyWire(cluster.new_database()) as wire:
        database = await PostgresDatabase.open(wire.url, bus)
        project = database.of(await new_project(database))
        for n in range(6):
            wire.loses = loses
            assert len(await asyncio.gather(project.write(accept, str(n)), project.write(tell, str(n)))) == 2
        assert wire.lost == 6
        assert [row["key"] for row in await project.read(stored.accepted)] == list("012345")
        assert heard == sorted(set(heard))
        assert len(heard) == 6
        await database.close()


async def test_H5_a_server_that_crashes_in_a_commit_takes_no_other_commit_for_it(own_cluster: Cluster) -> None:
    """After a crash it gives the number of a transaction that left no trace to another one."""
    url = own_cluster.new_database()
    own_cluster.run("create table other (id int)", at=url)

    def crash() -> None:
        own_cluster.stop()
        own_cluster.start()
        for n in range(20):
            own_cluster.run(f"insert into other values ({n})", at=url)

    with LossyWire(url) as wire:
        database = await PostgresDatabase.open(wire.url, Bus())
        project = database.of(await new_project(database))
        wire.before_cut = crash
        for n in range(5):
            wire.loses = "request"
            await project.write(accept, str(n))
            assert [row["key"] for row in await project.read(stored.accepted)] == [str(each) for each in range(n + 1)]
        assert wire.lost == 5
        await database.close()


async def test_what_others_told_is_heard_later_when_it_cannot_be_read_at_once(cluster: Cluster) -> None:
    bus, heard = Bus(), []  # type: tuple[Bus, list[int]]
    url = cluster.new_database()
    bus.listen(lambda event: heard.append(event.number))
    with LossyWire(url) as wire:
        theirs, ours = await PostgresDatabase.open(url, Bus()), await PostgresDatabase.open(wire.url, bus, patience=0.0)
        project = await new_project(theirs)
        await theirs.of(project).write(tell, "theirs")
        wire.loses = "look"
        await ours.of(project).write(tell, "ours")
        assert (wire.lost, heard) == (1, [2])
        await ours.of(project).write(tell, "ours again")
        assert heard == [2, 1, 3]
        for each in (theirs, ours):
            await each.close()


async def test_it_can_be_closed_when_its_server_has_fallen_silent(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_trips, "PARTING", 0.1)  # seconds
    async with open_wire(cluster.new_database()) as wire:
        database = await PostgresDatabase.open(wire.url, Bus())
        project = database.of(await new_project(database))
        await project.read(stored.accepted)
        wire.cut()
        asked = asyncio.ensure_future(project.read(stored.accepted)), project.write(accept, "unheard")
        await until(lambda: database._jobs.empty())
        await database.close()
        told = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in told] == [Unreachable, Unreachable]


async def test_a_server_that_has_fallen_silent_counts_as_gone_and_is_reached_anew(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_wire(cluster.new_database()) as wire:
        database = await PostgresDatabase.open(wire.url, Bus())
        project = database.of(await new_project(database))
        assert database._writer
        database._writer._trips._silent = 0.1  # seconds
        wire.cut()
        written = project.write(accept, "unheard at first")
        await until(lambda: "has not answered" in database.trouble)
        wire.heal()
        assert await written == ["unheard at first"]
        await database.close()


async def test_what_fails_after_a_commit_for_a_reason_nobody_thought_of_was_stored_all_the_same(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = database.of(await new_project(database))
    monkeypatch.setattr(failpoints, "_armed", failpoints._parse("commit.after=eio:1"))
    assert await project.write(accept, "first") == ["first"]
    assert await project.write(accept, "next") == ["first", "next"]


async def test_what_fails_before_a_commit_for_a_reason_nobody_thought_of_is_refused_and_the_next_is_stored(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = database.of(await new_project(database))
    monkeypatch.setattr(failpoints, "_armed", failpoints._parse("commit.before=eio:1"))
    with pytest.raises(NotStored, match=r"PostgreSQL did not store this: .*failpoint"):
        await project.write(accept, "first")
    assert await project.write(accept, "next") == ["next"]


async def test_what_the_server_does_not_answer_is_told_as_an_error_of_ours(
    cluster: Cluster, database: PostgresDatabase
) -> None:
    project = database.of(await new_project(database))
    cluster.run("alter table message rename to mislaid", at=database._url)
    with pytest.raises(NotStored, match=r"PostgreSQL did not answer this: .*message.* does not exist") as caught:
        await project.read(lambda tx: tx.all("select 1 from message where project = :project"))
    assert caught.value.hint == "agent-worker doctor"
    cluster.run("alter table mislaid rename to message", at=database._url)
    assert await project.read(lambda tx: tx.all("select 1 from message where project = :project")) == []


async def test_a_look_of_one_trip_is_a_transaction_that_nobody_begins(
    cluster: Cluster, database: PostgresDatabase
) -> None:
    how = "select current_setting('transaction_isolation') as level, current_setting('transaction_read_only') as ro"

    def in_one(tx: WholeTransaction) -> list[Row]:
        asked = [tx.all_soon(f"{how}, now() as began, {n} as n") for n in range(2)]
        return [row for each in asked for row in each()]

    for _ in range(2):  # begun as a transaction, and without
        one, other = await database.read(in_one)
        assert (one["level"], one["ro"]) == ("repeatable read", "on")
        assert one["began"] == other["began"]
    asked = "select query like 'select current_setting%%' from pg_stat_activity where pid = %s"
    found = [cluster.run(asked, session.info.backend_pid) for session in database._readers._open]
    assert [(True,)] in found, "in the session that took the second, nothing came after it"


async def test_a_look_that_takes_a_second_trip_this_time_sees_one_moment_all_the_same(
    database: PostgresDatabase,
) -> None:
    project, loop = database.of(await new_project(database)), asyncio.get_running_loop()

    async def write(key: str) -> None:
        await project.write(accept, key)

    def look(tx: Transaction, *keys: str) -> list[int]:
        seen = [len(stored.accepted(tx))]
        for key in keys:
            asyncio.run_coroutine_threadsafe(write(f"{key} after {seen}"), loop).result(PATIENCE)
            seen.append(len(stored.accepted(tx)))
        return seen

    assert [await project.read(look) for _ in range(2)] == [[0], [0]]
    assert await project.read(look, "one", "two") == [1, 1, 1], "what it saw in its first try was another moment"
    assert await project.read(look) == [3]


async def test_a_look_that_writes_this_time_cannot(database: PostgresDatabase) -> None:
    database._reach.patience = 0.0
    project = database.of(await new_project(database))

    def look(tx: Transaction, *, sly: bool) -> int:
        if sly:  # in its first trip: before a second one it would begin anew, as a transaction
            tx.run("insert into accepted(project, key, ref, at) values (:project, 'sly', 'ref', 0)")
        return len(stored.accepted(tx))

    assert [await project.read(look, sly=False) for _ in range(2)] == [0, 0]
    with pytest.raises(Unreachable, match="read-only"):
        await project.read(look, sly=True)
    assert await project.read(look, sly=False) == 0


async def test_several_hosts_begin_on_an_empty_database_at_once(cluster: Cluster) -> None:
    url = cluster.new_database()
    hosts = await asyncio.gather(*(PostgresDatabase.open(url, Bus()) for _ in range(4)))
    ids = await asyncio.gather(*(new_project(host) for host in hosts))
    assert len(set(ids)) == 1
    for host in hosts:
        await host.close()


async def test_old_events_go_while_the_process_lives(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "EVENTS_KEPT", 5)
    monkeypatch.setattr(postgres, "EVENTS_OVER", 2)
    project = database.of(await new_project(database))
    for _ in range(20):
        await project.write(tell, "again")
    (row,) = await database.read(lambda tx: tx.all("select min(id) as oldest, max(id) as newest from event"))
    assert row["newest"] == 20
    assert row["oldest"] > 10


# --- what is refused ---------------------------------------------------------------------------------------


async def test_a_database_that_sorts_otherwise_is_refused_with_the_command_that_makes_a_fit_one(
    cluster: Cluster,
) -> None:
    url = cluster.new_database(locale="en")
    with pytest.raises(StorageFault, match="sorts by a language's rules") as caught:
        await PostgresDatabase.open(url, Bus())
    assert caught.value.hint.startswith("createdb --template=template0 --locale=C")


async def test_a_database_that_does_not_exist_and_a_server_that_is_not_there_are_told_without_a_password() -> None:
    url = "postgresql://me:hunter2hunter2@127.0.0.1:1/nowhere"
    with pytest.raises(StorageFault, match=r"postgresql://127\.0\.0\.1:1/nowhere cannot be used") as caught:
        await PostgresDatabase.open(url, Bus())
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in look_at(url).found
    assert not look_at(url).ok


@pytest.mark.parametrize("url", ["postgresql://[", "postgresql://host/db?nonsense=1"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match="not the address of a PostgreSQL"):
        place_of(url)


async def test_a_backup_is_the_servers_own_and_the_command_is_told(database: PostgresDatabase, tmp_path: str) -> None:
    with pytest.raises(Refused) as caught:
        await database.back_up(tmp_path)  # type: ignore[arg-type]
    assert caught.value.hint.startswith("pg_dump ")
    assert "127.0.0.1" in caught.value.message


async def test_doctor_says_what_it_found_and_changes_nothing(cluster: Cluster) -> None:
    url = cluster.new_database()
    assert "does not sync to its disk" in look_at(url).found  # as is meant here: nothing outlives the tests
    database = await PostgresDatabase.open(url, Bus())  # which finds it empty
    await new_project(database)
    await database.close()


# --- statements --------------------------------------------------------------------------------------------


def test_names_become_numbers_and_what_is_quoted_stays() -> None:
    assert numbered("select :b, :a, :b, ':c', 'it''s :d', x::text") == (
        "select $1, $2, $1, ':c', 'it''s :d', x::text",
        ("b", "a"),
    )


SUITE = """
import time
from tests.postgresql import open_cluster
with open_cluster() as cluster:
    print(cluster.directory, cluster.port, flush=True)
    time.sleep(600)
"""


def test_the_server_of_a_suite_that_was_killed_ends_too() -> None:
    if programs() is None:
        skip_without("postgresql")
    here = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", SUITE], cwd=here, stdout=subprocess.PIPE, text=True) as suite:
        assert suite.stdout is not None
        directory, port = suite.stdout.readline().split()
        suite.send_signal(signal.SIGKILL)
    assert eventually(lambda: not Path(directory).exists())
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(f"postgresql://tester@127.0.0.1:{port}/postgres")


def test_tables_are_changed_only_when_no_host_works_on_them_and_an_older_version_refuses_newer_ones(
    cluster: Cluster,
) -> None:
    newer = [*versions(), (versions()[-1][0] + 1, "create table later (id text primary key);")]
    host = """insert into host(id, node, home, place, pid, labels, version, began_at, lease_until)
            values ('h', 'alpha', 'x', 'x', 1, '[]', '0.1', 0, extract(epoch from clock_timestamp()) * 1000000 + $1)"""
    with closing(connect(cluster.new_database())) as connection:
        prepare(connection)
        connection.execute(host.encode(), [3_600_000_000])
        prepare(connection)  # the same version comes beside it
        with pytest.raises(StorageFault, match=r"hosts of an older one work on them: alpha \(0\.1\)"):
            prepare(connection, newer)
        assert connection.execute("select to_regclass('later')").fetchone() == (None,)
        connection.execute("update host set lease_until = 0")
        prepare(connection, newer)
        assert connection.execute("select to_regclass('later')").fetchone() == ("later",)
        with pytest.raises(StorageFault, match="has schema version"):
            prepare(connection)
