"""What is stored, as tests look at it: the one place in the suite that knows the tables by name.

A view is a function of a transaction: `team.read(stored.runs, state="done")` asks the same of a team in this process
as `daemon.read(stored.runs, state="done")` of a daemon that is another one. Rows come whole, in the order in which they
were made, and what belongs to an agent has its `name`. An argument is a column and the value it has; whatever else is
wanted of the rows is plain Python. What a person is told is no matter of rows: a test of that asks the product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import apsw

from agent_worker.database.database import Row
from agent_worker.database.postgres_session import PostgresTransaction, connect
from tests import engine

T = TypeVar("T")
View = Callable[..., list[Row]]


class Reader(Protocol):
    """All that a view needs of a transaction."""

    def all(self, sql: str, **values: object) -> list[Row]: ...


class Writer(Protocol):
    """All that `add` and `change` need of one."""

    def run(self, sql: str, **values: object) -> object: ...


def _view(table: str, agent: str = "", order: str = "id") -> View:
    """The rows of a table, with the name of their agent where this says whose they are.

    SQLite knows in which order they were made; `order` says so to PostgreSQL, as far as the rows tell.
    """
    whose = f"(select name from agent a where a.project = t.project and a.id = {agent})" if agent else "t.name"
    name = f", {whose} as name" if agent else ""

    def view(tx: Reader, **wanted: object) -> list[Row]:
        # Not `name`: PostgreSQL knows no alias there.
        of = {column: whose if column == "name" else f"t.{column}" for column in wanted}
        where = "".join(f" and {said} is not distinct from :{column}" for column, said in of.items())
        by = order if is_postgres(tx) else "t.rowid"
        return tx.all(f"select t.*{name} from {table} t where true{where} order by {by}", **wanted)

    return view


def is_postgres(tx: object) -> bool:
    return isinstance(getattr(tx, "_whole", tx), PostgresTransaction)


_OF_RUN = "(select agent from run r where r.project = t.project and r.id = t.run)"

accepted = _view("accepted", order="at, key")
agents = _view("agent")
answer_links = _view("answer_link", order="ends_at, digest")
approvals = _view("approval", order="project, field, key")  #: where several hosts share them
audit = _view("audit", order="n")
checkouts = _view("checkout", order="project, host")
closed_gates = _view("closed_gate", order="key")  #: keys that providers refused
calls = _view("call", _OF_RUN, "run, step, length(t.id), id")  #: of tools
deliveries = _view("delivery", "t.agent", "workspace, seq, agent")  #: what was brought to whom
documents = _view("document", order="at, name, n")  #: each revision
hook_deliveries = _view("hook_delivery")
hosts = _view("host")
inbox = _view("inbox_item", "t.agent", "n")  #: everything that ever was in it
instructions = _view("instruction", "t.agent", "queued_at, id")
ledger = _view("ledger", "t.agent", "at, run, id")  #: what each step cost
members = _view("member", order="workspace, name")
messages = _view("message", order="workspace, seq")
outbox = _view("outbox", order="due_at, item, sink")  #: what is still to be told elsewhere
personal_files = _view("personal_file", order="agent, path")  #: of agents, where several hosts share them
program_calls = _view("program_call", order="run, n")  #: of tools that a coding program has itself
proposals = _view("proposal", order="workspace, n")
resources = _view("resource")
runs = _view("run", "t.agent")
schedules = _view("schedule", "t.agent")
sent_texts = _view("sent_text")  #: to models
suggestions = _view("suggestion", order="workspace, seq")
steps = _view("step", _OF_RUN, "at, work, n")
talk = _view("talk", "t.agent", "at, agent, context, seq")  #: the threads of all agents
tallies = _view("tally", order="scope, key, day")
votes = _view("vote", order="at, voter")
watches = _view("watch", order="project, host")  #: where what is written is followed
workspaces = _view("workspace")


def unfinished(tx: Reader) -> list[Row]:
    """The instructions that are still to be done or that somebody is at work on."""
    return [row for row in instructions(tx) if row["state"] in ("queued", "running")]


def schema(tx: Reader) -> list[Row]:
    """Each table and index, as it was created."""
    if is_postgres(tx):
        return tx.all(
            """select 'table' as type, table_name as name, '' as sql from information_schema.tables
                where table_schema = current_schema() order by table_name"""
        )
    return tx.all("select type, name, sql from sqlite_schema order by name")


def everything(tx: Reader) -> dict[str, list[Row]]:
    """All rows of all tables, by their names."""
    return {each["name"]: _view(each["name"], order="1")(tx) for each in schema(tx) if each["type"] == "table"}


def add(tx: Writer, table: str, **columns: object) -> None:
    """A row as the product would not make it."""
    tx.run(f"insert into {table}({', '.join(columns)}) values ({', '.join(f':{each}' for each in columns)})", **columns)


def add_host(tx: Writer, name: str) -> None:
    """Another host, which lives."""
    lives: dict[str, object] = {"pid": 1, "labels": "[]", "version": "", "began_at": 0, "lease_until": 2**62}
    add(tx, "host", id=name, node=name, home=name, place=name, **lives)


def drop_host(tx: Writer, name: str) -> None:
    """Somebody has found it dead."""
    tx.run("delete from host where id = :id", id=name)


def change(tx: Writer, table: str, of: dict[str, object] | None = None, **columns: object) -> None:
    """Make rows hold what only a fault or long use would bring about: of all, or of those with these values."""
    put = ", ".join(f"{column} = :{column}" for column in columns)
    where = "".join(f" and {column} is not distinct from :of_{column}" for column in of or {})
    values = columns | {f"of_{column}": value for column, value in (of or {}).items()}
    tx.run(f"update {table} set {put} where true{where}", **values)


def write(database: Path, change: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    """Make such a change in a database file, or in what stands for it, whoever else has it open."""
    with opened(database, write=True) as tx:
        change(tx, *args, **kwargs)


def read(database: Path, view: Callable[..., T], **wanted: object) -> T:
    """What a view shows of a database that another process may be writing."""
    with opened(database) as tx:
        return view(tx, **wanted)


@contextmanager
def opened(database: Path, *, write: bool = False) -> Iterator[Any]:
    """One transaction in it."""
    where = engine.state_at(database)
    if isinstance(where, str):
        with closing(connect(where)) as server, server.transaction():
            yield (tx := PostgresTransaction(server))
            tx.settle()
        return
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE if write else apsw.SQLITE_OPEN_READONLY
    with closing(apsw.Connection(str(where), flags=flags)) as connection, connection:
        connection.set_busy_timeout(5000)
        yield _File(connection)


class _File:
    """A database file, as a transaction that does without our own code."""

    def __init__(self, connection: apsw.Connection) -> None:
        connection.row_trace = _by_name
        self._connection = connection

    def all(self, sql: str, **values: object) -> list[Row]:
        return list(self._connection.execute(sql, values))

    def run(self, sql: str, **values: object) -> None:
        self._connection.execute(sql, values)


def _by_name(cursor: apsw.Cursor, row: tuple[Any, ...]) -> Any:
    return dict(zip((name for name, _ in cursor.get_description()), row, strict=True))
