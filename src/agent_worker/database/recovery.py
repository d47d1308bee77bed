"""What can still be read of a damaged database, put into a new one, with numbers.

There are four sources, and each fills only what those before it lack: what SQLite can read, table by table; then, for
what was said and made, pages that no table leads to any more, the newest backup, and the files of workspaces: channels,
and what each member was told and answered. (Conversations with an agent alone are taken in when its project is opened.)
Work that is not over is taken from the first alone: an old copy of it might be done twice. The damaged file is kept as
it is. Only while no daemon runs, and only when a person asks for it: files of a project may say anything.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import field
from datetime import datetime
from pathlib import Path
from typing import TypeGuard

import apsw

from agent_worker.core.clock import micros
from agent_worker.core.errors import AgentWorkerError, StorageFault, UnknownSchema
from agent_worker.core.later import dataclass
from agent_worker.core.text import one, plural
from agent_worker.database import raw_pages
from agent_worker.database.migrations import migrate, version_of
from agent_worker.database.presence import CommitMarker, commits_in, counted
from agent_worker.database.raw_pages import Value
from agent_worker.database.restore import check_not_taken_away, discard, look_into, put_in_place
from agent_worker.files.jsonl import iterate
from agent_worker.files.root import Root

#: What was said and made, and what it hangs on: rows of these never mean that something must still be done.
HISTORY = ("project", "agent", "workspace", "member", "message", "talk", "resource", "document", "ledger")
_JSON = {"mentions", "given", "granted", "options", "electorate", "effect", "spec", "record"}  #: columns
_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.IOError)
_TRIES = 1_000  # queries of one table that may fail
_EVERYTHING = (0, 2**32)  # numbers of rows
_CHANNEL = "channel.jsonl"


@dataclass
class Report:
    """What came of a recovery."""

    messages: int = 0  #: that are there now
    expected: int = 0  #: that there should be, by the numbers that were given out
    unreadable: int = 0  #: rows that were found and made no sense
    from_pages: int = 0  #: messages, of `messages`
    from_backup: int = 0
    from_files: int = 0
    lost_work: bool = False  #: whether anything was still to be done could not be read
    lost_commits: int = 0  #: that had been stored and are not in the database that was found
    readable: list[str] = field(default_factory=list)  #: channel files of workspaces that the database does not know
    kept: Path | None = None  #: the damaged file

    @property
    def complete(self) -> bool:
        """Whether nothing is known to be lost."""
        return not (self.lost_work or self.lost_commits or self.readable) and self.messages >= self.expected

    def told(self) -> str:
        more = {"its loose pages": self.from_pages, "the newest backup": self.from_backup, "files": self.from_files}
        parts = [f"{count:,} of them from {source}" for source, count in more.items() if count]
        said = ", ".join([f"{self.messages:,} of {plural(self.expected, 'message')} recovered", *parts])
        work = "; unfinished work could not be read: ask for it again" if self.lost_work else ""
        if self.lost_commits:
            said = f"{counted(self.lost_commits)} lost, with votes, costs and work of that time; {said}"
        if self.readable:
            said = f"{said}; other messages can be read in {', '.join(self.readable)}"
        return f"{said}{work}; the damaged file is kept as {self.kept}"


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    columns: tuple[str, ...]
    kinds: tuple[type, ...]
    needed: tuple[bool, ...]

    def fits(self, values: Sequence[object]) -> TypeGuard[Sequence[Value]]:
        """Whether this can be a row of ours: types, what must be there, and JSON where there is JSON."""
        if len(values) != len(self.columns):
            return False
        for name, kind, needed, value in zip(self.columns, self.kinds, self.needed, values, strict=True):
            if value is None and not needed:
                continue
            if type(value) is not kind or (name in _JSON and not _is_json(value)):
                return False
        return True

    @property
    def insert(self) -> str:
        return f"insert or ignore into {self.name} values ({', '.join('?' * len(self.columns))})"

    @property
    def select(self) -> str:
        """Read rows with texts as bytes: one that is no UTF-8 must not end the reading."""
        shown = (f"case typeof({c}) when 'text' then cast({c} as blob) else {c} end" for c in self.columns)
        return (
            f"select rowid, {', '.join(shown)} from {self.name} not indexed where rowid between ? and ? order by rowid"
        )


def look_at(database: Path) -> str:
    """Look at every page of a database, without changing it; what is wrong with it, empty when nothing is. Raises
    UnknownSchema.
    """
    mark = CommitMarker(database)  # read first: whoever writes meanwhile is ahead of it
    try:
        check_not_taken_away(database)
        mark.check()
        if not database.exists():
            mark.check_end(0)
            return ""
        mark.check_log()
        with closing(apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            for (found,) in connection.execute("pragma integrity_check(1)"):
                if found != "ok":
                    return str(found)
            version_of(connection)
            mark.check_end(commits_in(connection))
            for row in connection.execute("pragma foreign_key_check"):
                return f"a row of {row[0]} names {one(row[2])} that does not exist"
    except UnknownSchema:
        raise
    except StorageFault as fault:
        return fault.message
    except (apsw.Error, UnicodeDecodeError) as error:
        return str(error)
    return ""


def recover(database: Path, *, stamp: str, backups: Iterable[Path] = (), channels: Iterable[Path] = ()) -> Report:
    """Put what can be read in the place of the damaged database. Of `channels`, those it does not know are named."""
    report, fresh = Report(), database.with_name(f"{database.name}.recovered")
    work = database.with_name(f"{database.name}.salvage")
    try:
        discard(work, fresh)
        database.touch(0o600)  # it may be gone altogether
        _copy(database, work)
        report.lost_commits = CommitMarker(database).missing(_commits(work))
        with closing(apsw.Connection(str(fresh))) as connection:
            fresh.chmod(0o600)
            migrate(connection, None)
            with connection:
                _fill(_Filling(connection, report), work, backups)
            _mend(connection)
            _count(connection, report)
            report.readable = _unknown(connection, channels)
        report.kept = put_in_place(fresh, database, aside=f"damaged-{stamp}")
        return report
    finally:
        discard(work, fresh)


def _copy(database: Path, work: Path) -> None:
    """Copy the database with its log, unless that log is not its own."""
    shutil.copyfile(database, work)
    work.chmod(0o600)
    with suppress(StorageFault, FileNotFoundError):
        CommitMarker(database).check_log()
        shutil.copyfile(f"{database}-wal", f"{work}-wal")


def _commits(work: Path) -> int:
    """How many commits the database has. Where that cannot be read, the largest number: it is damaged then, and its log
    is not lost.
    """
    try:
        with closing(apsw.Connection(str(work))) as connection:
            return commits_in(connection)
    except (apsw.Error, ValueError):
        return 2**63


def _unknown(connection: apsw.Connection, channels: Iterable[Path]) -> list[str]:
    known = {directory for (directory,) in connection.execute("select directory from workspace")}
    return [str(channel) for channel in channels if str(channel.parent) not in known]


# --- the sources


@dataclass
class _Filling:
    connection: apsw.Connection
    report: Report
    tables: tuple[_Table, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.tables = tuple(_tables(self.connection))

    def add(self, table: _Table, values: Sequence[Value]) -> bool:
        """Add a row; whether it was missing and is there now."""
        if not table.fits(values):
            self.report.unreadable += 1
            return False
        before = self.connection.total_changes()
        self.connection.execute(table.insert, values)
        return self.connection.total_changes() > before


def _fill(filling: _Filling, work: Path, backups: Iterable[Path]) -> None:
    report = filling.report
    report.lost_work = not _from_tables(filling, work)
    report.from_pages = _from_pages(filling, work)
    for backup in sorted(backups, reverse=True):
        try:
            look_into(backup)
        except AgentWorkerError:
            continue
        report.from_backup = _from_backup(filling, backup)
        break
    report.from_files = _from_files(filling)


def _from_tables(filling: _Filling, work: Path) -> bool:
    """Take in what the tables hold; whether there were any. A file that SQLite cannot open may become readable with its
    log applied.
    """
    for last_try in (False, True):
        try:
            with closing(apsw.Connection(str(work))) as damaged:
                if not damaged.execute("select count(*) from sqlite_schema").get:  # without it there are no tables
                    return False
                for table in filling.tables:
                    for _, *values in _rows(damaged, table):
                        filling.add(table, [_text(value) for value in values])
            return True
        except _DAMAGE:
            if not last_try:
                raw_pages.apply_log(work, work.with_name(f"{work.name}-wal"))
    return False


def _rows(connection: apsw.Connection, table: _Table) -> Iterator[tuple[Value, ...]]:
    """The rows of a table that can be reached. Behind a broken page, row numbers are tried in ever smaller spans."""
    spans, tries = [_span(connection, table.name) or _EVERYTHING], _TRIES
    while spans and tries:
        low, high = spans.pop()
        try:
            for row in connection.execute(table.select, (low, high)):
                if isinstance(row[0], int) and row[0] >= low:
                    low = row[0] + 1
                    yield row
        except apsw.SQLError:
            return  # there is no such table in it
        except (apsw.CorruptError, apsw.IOError):
            tries -= 1
            if low < high:
                middle = (low + high) // 2
                spans += [(middle + 1, high), (low, middle)]


def _span(connection: apsw.Connection, table: str) -> tuple[int, int] | None:
    try:
        low, high = connection.execute(f"select min(rowid), max(rowid) from {table} not indexed").get
        return (low or 0, high or 0)
    except (apsw.CorruptError, apsw.IOError, apsw.SQLError):
        return None


def _text(value: Value) -> Value:
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            return value.decode()
    return value


def _from_pages(filling: _Filling, work: Path) -> int:
    """Take in rows of pages that no table leads to: each goes where it fits, if that is one place only."""
    found = 0
    for values in raw_pages.rows_in(work):
        fitting = [table for table in filling.tables if table.fits(values)]
        if len(fitting) == 1 and fitting[0].name in HISTORY and filling.add(fitting[0], values):
            found += fitting[0].name == "message"
    return found


def _from_backup(filling: _Filling, backup: Path) -> int:
    found = 0
    with closing(apsw.Connection(str(backup), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        for table in filling.tables:
            if table.name in HISTORY:
                for _, *values in _rows(connection, table):
                    added = filling.add(table, [_text(value) for value in values])
                    found += added and table.name == "message"
    return found


def _from_files(filling: _Filling) -> int:
    """Take in what the files of workspaces have more; how many messages."""
    tables = {table.name: table for table in filling.tables}
    workspaces = list(
        filling.connection.execute("select project, id, directory from workspace where provider = 'file'")
    )
    found = 0
    for project, workspace, directory in workspaces:
        whose = {"project": project, "workspace": workspace}
        for record in _records(directory, _CHANNEL):
            if values := _message(tables["message"], record, whose):
                found += filling.add(tables["message"], values)
        sql = "select agent, name from member where project = :project and workspace = :workspace"
        members = list(filling.connection.execute(sql, whose))
        for agent, name in members:
            for record in _records(directory, f"history/{name}.jsonl"):
                if values := _talk(tables["talk"], record, {"project": project, "agent": agent, "context": workspace}):
                    filling.add(tables["talk"], values)
    return found


def _records(directory: str, path: str) -> Iterator[Mapping[str, object]]:
    with suppress(AgentWorkerError, OSError):
        yield from (record for record in iterate(Root(Path(directory)), path) if record)


def _talk(table: _Table, record: Mapping[str, object], whose: Mapping[str, str]) -> Sequence[Value] | None:
    try:
        at = micros(datetime.fromisoformat(str(record.get("at"))))
    except ValueError:
        return None
    given = {**record, **whose, "at": at, "held": 0}
    values = [given.get(name) for name in table.columns]
    return values if table.fits(values) else None


def _message(table: _Table, record: Mapping[str, object], whose: Mapping[str, str]) -> Sequence[Value] | None:
    """A line of a channel file as a row; None for a line that somebody else wrote."""
    try:
        at = micros(datetime.fromisoformat(str(record.get("at"))))
    except ValueError:
        return None
    given = {**record, **whose, "mentions": json.dumps(record.get("mentions")), "at": at, "run": None}
    given["held"] = int(bool(record.get("held")))
    values = [given.get(name) for name in table.columns]
    return values if table.fits(values) else None


def _tables(connection: apsw.Connection) -> Iterator[_Table]:
    names = connection.execute("select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'")
    for (name,) in list(names):
        if name == "migration":
            continue
        columns = list(connection.execute(f"pragma table_info({name})"))
        yield _Table(
            name,
            tuple(column[1] for column in columns),
            tuple(str if column[2].lower() == "text" else int for column in columns),
            tuple(bool(column[3] or column[5]) for column in columns),
        )


def _is_json(value: object) -> bool:
    try:
        json.loads(value if isinstance(value, str) else "")
    except (ValueError, RecursionError):
        return False
    return True


# --- making one thing of it

#: What was said in a workspace that is lost stays readable, as `recovered:<end of its id>`.
_STAND_IN = (
    """insert into project(id, identity, name) select project, 'lost/' || project, 'recovered'
         from (select project from agent union select project from message) as named
        where project not in (select id from project)""",
    """insert or ignore into workspace(project, id, workflow, tag, provider, documents, state, seq, started_at)
       select m.project, m.workspace, 'recovered', substr(m.workspace, -12), 'sqlite', 'sqlite', 'stopped',
              max(m.seq), min(m.at)
         from message m where m.workspace not in (select id from workspace) group by m.project, m.workspace""",
)

#: Rows that hang on what is lost would trip whoever meets them.
_MEND = (
    "delete from workspace where project not in (select id from project)",
    "delete from agent where project not in (select id from project)",
    "delete from checkout where project not in (select id from project)",
    "delete from message where workspace not in (select id from workspace)",
    "delete from talk where agent not in (select id from agent)",
    "delete from run where agent not in (select id from agent)",
    "delete from instruction where agent not in (select id from agent)",
    "delete from instruction where workspace is not null and workspace not in (select id from workspace)",
    "delete from delivery where message not in (select id from message) or agent not in (select id from agent)",
    "delete from proposal where workspace not in (select id from workspace)",
    "delete from vote where proposal not in (select id from proposal)",
    "delete from inbox_item where project not in (select id from project)",
    "delete from schedule where project not in (select id from project)",
    """delete from accepted where key not like 'kickoff/%' and ref not in (select id from message)
          and ref not in (select id from instruction)""",
    """update workspace set seq = max(seq, (select coalesce(max(m.seq), 0) from message m
                                             where m.project = workspace.project and m.workspace = workspace.id))""",
    """update agent set ordered = max(ordered, (select coalesce(max(i.ord), 0) from instruction i
                                                 where i.project = agent.project and i.agent = agent.id))""",
    """insert into thread(project, agent, context, seq)
       select project, agent, context, max(seq) from talk where true group by 1, 2, 3
         on conflict (project, agent, context) do update set seq = max(thread.seq, excluded.seq)""",
    """update instruction set state = 'queued', run = null
        where state = 'running' and not exists (
              select 1 from run r where r.project = instruction.project and r.id = run and r.state = 'running')""",
    """update instruction set state = 'queued'
        where state = 'waiting' and not exists (
              select 1 from inbox_item t where t.project = instruction.project and t.state = 'open'
                 and substr(t.ref, 1, length(work)) = work)""",
    """update run set state = 'lost', reason = 'its work was lost with a part of the database'
        where state = 'running' and not exists (
              select 1 from instruction i where i.project = run.project and i.run = run.id)""",
    """update delivery set state = 'failed'
        where state in ('queued', 'given')
          and not exists (select 1 from instruction i where i.project = delivery.project
                             and i.message = delivery.message and i.agent = delivery.agent
                                                        and i.state in ('queued', 'running', 'waiting'))""",
)


def _mend(connection: apsw.Connection) -> None:
    with connection:
        for sql in _STAND_IN:
            connection.execute(sql)
        while broken := list(connection.execute("pragma foreign_key_check")):
            for table, row, *_ in broken:
                connection.execute(f"delete from {table} where rowid = ?", (row,))
        for sql in _MEND:
            connection.execute(sql)


def _count(connection: apsw.Connection, report: Report) -> None:
    report.messages = connection.execute("select count(*) from message").get
    report.expected = connection.execute("select coalesce(sum(seq), 0) from workspace").get
