"""A pooler between us and PostgreSQL that gives each transaction another session: work goes on, `doctor` says it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from tests import stored
from tests.database.doors import new_project
from tests.database.test_contract import accept, tell
from tests.needs import needs
from tests.patience import PATIENCE, eventually
from tests.postgresql import NOBODY, Cluster, _lower, open_cluster

from agent_worker.core.events import Bus
from agent_worker.database.postgres import PostgresDatabase
from agent_worker.database.postgres_look import look_at
from agent_worker.database.postgres_session import connect, is_pooled

PROGRAM = shutil.which("pgbouncer") or ""
pytestmark = needs("pgbouncer", there=bool(PROGRAM))

SETTINGS = """
[databases]
* = host=127.0.0.1 port={to} user=tester
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
"""


@pytest.fixture(scope="module")
def syncing() -> Iterator[Cluster]:
    """One that syncs, as `doctor` wants it."""
    with open_cluster("fsync = on\n") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def port(syncing: Cluster) -> Iterator[int]:
    """Where the pooler listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    file = syncing.directory / "pgbouncer.ini"
    file.write_text(SETTINGS.format(to=syncing.port, port=port))
    if os.geteuid() == 0:
        shutil.chown(file, NOBODY, "nogroup")
    with (Path(syncing.directory) / "pgbouncer.log").open("w") as log:
        pooler = subprocess.Popen([PROGRAM, file], cwd="/", stdout=log, stderr=log, **_lower())
    try:
        assert eventually(lambda: answers(port))
        yield port
    finally:
        pooler.send_signal(signal.SIGKILL)
        pooler.wait(PATIENCE)


def answers(port: int) -> bool:
    try:
        psycopg.connect(f"postgresql://tester@127.0.0.1:{port}/postgres").close()
    except psycopg.OperationalError:
        return False
    return True


def through(port: int, url: str) -> str:
    return urlunsplit(urlsplit(url)._replace(netloc=f"tester@127.0.0.1:{port}"))


async def test_writes_and_reads_go_on_through_it_however_sessions_are_handed_around(
    syncing: Cluster, port: int
) -> None:
    """What was prepared in one session is unknown in the next: nothing is prepared."""
    hosts = [await PostgresDatabase.open(through(port, syncing.new_database()), Bus())]
    hosts.append(await PostgresDatabase.open(hosts[0]._url, Bus()))
    projects = [host.of(await new_project(host)) for host in hosts]
    for n in range(20):
        await asyncio.gather(*(each.write(accept, f"{n} {i}") for i, each in enumerate(projects)))
        await asyncio.gather(*(each.write(tell, str(n)) for each in projects))
        await asyncio.gather(*(each.read(stored.accepted) for each in projects for _ in range(4)))
    assert len(await projects[0].read(stored.accepted)) == 40
    for host in hosts:
        await host.close()


def test_it_is_recognised(syncing: Cluster, port: int) -> None:
    url = syncing.new_database()
    with closing(connect(url)) as direct, closing(connect(through(port, url))) as pooled:
        assert not is_pooled(direct)
        assert is_pooled(pooled)


def test_doctor_finds_that_nothing_is_heard_through_it_and_says_what_to_do(syncing: Cluster, port: int) -> None:
    url = syncing.new_database()
    assert look_at(url).ok, look_at(url).found
    found = look_at(through(port, url))
    assert not found.ok
    assert "LISTEN hears nothing" in found.found
    assert found.cure.startswith("connect to PostgreSQL itself")
