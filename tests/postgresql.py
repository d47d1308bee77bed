"""A PostgreSQL of the suite's own: on loopback, run by an unprivileged user, gone when the tests are over.

`poe test-setup` installs it from Debian. Where it is missing, tests that need it skip and say so.
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from agent_worker.database.postgres_session import connect, prepare
from tests import engine
from tests.needs import skip_without

#: Where Debian puts each version; elsewhere the programs are found like others.
DEBIAN = Path("/usr/lib/postgresql")
NOBODY = "nobody"  # PostgreSQL refuses to be run by root
PATIENCE = "60"  #: seconds for it to start or to stop
#: Nothing here outlives the tests, so nothing is synced; that a commit is on disk is proved elsewhere.
SETTINGS = """
fsync = off
full_page_writes = off
listen_addresses = '127.0.0.1'
max_connections = 300
unix_socket_directories = ''
wal_level = minimal
max_wal_senders = 0
"""


def programs() -> Path | None:
    """The directory of `initdb` and `pg_ctl`, of the newest version there is; None without one."""
    found = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    plain = shutil.which("initdb")
    return Path(plain).resolve().parent if plain else None


@dataclass
class Cluster:
    """A server that runs, and the databases that tests make in it."""

    programs: Path
    directory: Path
    port: int
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def server(self) -> str:
        return f"postgresql://tester@127.0.0.1:{self.port}"

    def url(self, database: str = "postgres") -> str:
        return f"{self.server}/{database}"

    def new_database(self, *, locale: str = "C") -> str:
        """The URL of an empty database; other than `C`, its locale is one of ICU."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        order = "locale 'C'" if locale == "C" else f"locale 'C' locale_provider icu icu_locale '{locale}'"
        self.run(f"create database {name} template template0 encoding 'UTF8' {order}")
        return self.url(name)

    def make_tables(self) -> None:
        """The database that those of tests are copies of: to copy one is quicker than to make its tables."""
        self.run(f"create database {engine.TABLES} template template0 encoding 'UTF8' locale 'C'")
        with closing(connect(self.url(engine.TABLES))) as connection:
            prepare(connection)

    def run(self, sql: str, *values: object, at: str = "") -> list[tuple[Any, ...]]:
        """As its owner, outside of what is tested; `at` is the URL of one of its databases."""
        with psycopg.connect(at or self.url(), autocommit=True) as connection:
            cursor = connection.execute(sql, values or None)
            return cursor.fetchall() if cursor.description else []

    def start(self) -> None:
        self._control("start", "-w", "-t", PATIENCE, "-o", f"-p {self.port}", "-l", str(self.directory / "log"))

    @property
    def is_running(self) -> bool:
        return (self.directory / "data" / "postmaster.pid").exists()

    def stop(self, how: str = "immediate") -> None:
        self._control("stop", "-m", how, "-w", "-t", PATIENCE)

    def promote(self) -> None:
        self._control("promote", "-w", "-t", PATIENCE)

    def _control(self, *words: str) -> None:
        _as_nobody(self._command(*words), self.directory)

    def _command(self, *words: str) -> list[str]:
        return [str(self.programs / "pg_ctl"), "-D", str(self.directory / "data"), "-s", *words]

    @contextmanager
    def ending_with_us(self) -> Iterator[None]:
        """However this process ends, even killed: another notices by the end of a pipe, and stops the server."""
        script = 'read -r _; "$@"; rm -rf "$0"'
        command = ["sh", "-c", script, str(self.directory), *self._command("stop", "-m", "immediate")]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True, cwd="/", **_lower()
        ) as watcher:
            try:
                yield
            finally:
                watcher.kill()


def _as_nobody(command: list[str], directory: Path) -> None:
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(directory)}
    # A server that is started keeps what it was given: nobody would see the end of a pipe.
    with (directory / "told").open("w+") as told:
        done = subprocess.run(command, check=False, cwd=directory, env=env, stdout=told, stderr=told, **_lower())
        told.seek(0)
        assert done.returncode == 0, f"{' '.join(command)}: {told.read()}"


def _lower() -> dict[str, Any]:
    return {"user": NOBODY, "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def open_standby(primary: Cluster) -> Iterator[Cluster]:
    """A copy of a server that follows it, synchronously: what the first has accepted, this one has too."""
    directory = Path(tempfile.mkdtemp(prefix="agent-worker-pg-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
    if os.geteuid() == 0:
        shutil.chown(directory, NOBODY, "nogroup")
    standby = Cluster(primary.programs, directory, _free_port())
    source = f"host=127.0.0.1 port={primary.port} user=tester application_name=standby"
    copy = [str(primary.programs / "pg_basebackup"), "-d", source, "-D", str(directory / "data"), "-R", "-c", "fast"]
    try:
        _as_nobody(copy, directory)
        standby.start()
        primary.run("alter system set synchronous_standby_names = 'standby'")
        primary.run("select pg_reload_conf()")
        with standby.ending_with_us():
            try:
                yield standby
            finally:
                standby.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def open_cluster(more: str = "") -> Iterator[Cluster]:
    """`more`: settings that count beside, or in place of, those above."""
    found = programs()
    if found is None:
        skip_without("postgresql")
        raise AssertionError  # it has skipped
    # Not beneath pytest's own directory, which only its user may enter.
    directory = Path(tempfile.mkdtemp(prefix="agent-worker-pg-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
    if os.geteuid() == 0:
        shutil.chown(directory, NOBODY, "nogroup")
    cluster = Cluster(found, directory, _free_port())
    data = directory / "data"
    make = [str(found / "initdb"), "-D", str(data), "-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]
    try:
        _as_nobody(make, directory)
        with (data / "postgresql.conf").open("a") as settings:
            settings.write(SETTINGS + more)
        cluster.start()
        with cluster.ending_with_us():
            try:
                yield cluster
            finally:
                if cluster.is_running:
                    cluster.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
