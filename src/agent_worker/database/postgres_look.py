"""What `doctor` looks at when the state is in PostgreSQL: is it reached, does it fit, does it keep what it accepts?"""

from __future__ import annotations

import secrets

import psycopg
from psycopg.conninfo import conninfo_to_dict

from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.later import dataclass
from agent_worker.core.text import plural
from agent_worker.database.postgres_session import CREATE, Connection, applied_to, connect, place_of, unfit

_HEARD_WITHIN = 3.0  # seconds; on a server of one's own it takes none
_DIRECT = "connect to PostgreSQL itself (a daemon has seven sessions), or set pool_mode = session in the pooler"


@dataclass(frozen=True, slots=True)
class Look:
    ok: bool
    found: str
    cure: str = ""


def look_at(url: str) -> Look:
    """Connect as the daemon would, and change nothing."""
    try:
        place = place_of(url)
        with connect(url) as connection:
            return _look(connection, place, url)
    except AgentWorkerError as error:
        return Look(False, error.message, error.hint)
    except psycopg.Error as error:
        told = f"{place} cannot be reached: {' '.join(str(error).split())}"
        if make := _makes_it(url):
            return Look(False, told, f"make the database: {make}")
        return Look(False, told, "start PostgreSQL, or correct AGENT_WORKER_DATABASE_URL")


def _makes_it(url: str) -> str:
    """The command that makes the database of this URL, if that is all that is missing; '' otherwise."""
    parts = conninfo_to_dict(url)
    name = parts.get("dbname") or parts.get("user") or ""
    try:
        with psycopg.connect(url, dbname="postgres", connect_timeout=5, target_session_attrs="read-write") as server:
            if server.execute("select 1 from pg_database where datname = %s", [name]).fetchone():
                return ""
    except psycopg.Error:
        return ""
    flags = {"host": parts.get("host"), "port": parts.get("port"), "username": parts.get("user")}
    where = " ".join(f"--{flag}={value}" for flag, value in flags.items() if value)
    return f"{CREATE.removesuffix('agent_worker')}{where} {name}".rstrip()


def _hosts(connection: Connection) -> str:
    """How many daemons work on it, and how many have fallen silent."""
    if not applied_to(connection):
        return ""
    row = connection.execute(
        """select count(*), count(*) filter (where lease_until < extract(epoch from clock_timestamp()) * 1000000)
             from host"""
    ).fetchone()
    listed, silent = row or (0, 0)
    return f"; {plural(listed, 'host')}" + (f", {silent} of them overdue" if silent else "") if listed else ""


def _listens(url: str) -> bool:
    """Whether what one session says is heard in another."""
    channel = f"agent_worker_doctor_{secrets.token_hex(8)}"
    with connect(url) as ear, connect(url) as mouth:
        ear.execute(f"listen {channel}".encode())
        mouth.execute("select pg_notify($1, '')", [channel])
        return any(True for _ in ear.notifies(timeout=_HEARD_WITHIN, stop_after=1))


def _look(connection: Connection, place: str, url: str) -> Look:
    if wrong := unfit(connection):
        return Look(False, f"{place}: {wrong[0]}", wrong[1])
    row = connection.execute(
        """select current_setting('server_version'), current_setting('synchronous_commit'),
                  current_setting('fsync'), pg_size_pretty(pg_database_size(current_database())),
                  has_database_privilege(current_database(), 'create'),
                  (select count(*) from pg_stat_replication)"""
    ).fetchone()
    version, commit, sync, size, may_create, standbys = row or ("", "", "", "", False, 0)
    if sync != "on":
        cure = "set fsync = on in postgresql.conf, and restart PostgreSQL"
        return Look(False, f"{place} does not sync to its disk: a power cut destroys it", cure)
    tables = "its tables are there" if applied_to(connection) else "it has no tables yet"
    if not applied_to(connection) and not may_create:
        return Look(False, f"{place}: the user may not make tables there", "grant all on database … to the user")
    if not _listens(url):
        deaf = f"at {place} a pooler shares sessions, so LISTEN hears nothing: what other hosts do is seen late"
        return Look(False, deaf, _DIRECT)
    told = f"PostgreSQL {version.split()[0]} at {place}, {size}; {tables}{_hosts(connection)}"
    told += f"; {plural(standbys, 'standby')}" if standbys else ""
    # Our own commits say `on` whatever the server says; `off` there only shows what its owner thinks of losing some.
    return Look(True, told if commit != "off" else f"{told}; synchronous_commit is off there, and on for what we store")
