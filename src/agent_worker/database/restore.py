"""A backup is looked at, and put in the place of the database. Only while no daemon runs.

Whatever is replaced is set aside under another name and never deleted. Killed at any moment, the database is the old
one or the new one. How backups are made: backup.py. What is done about damage: recovery.py.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path

import apsw

from agent_worker.core.errors import BadInput, NotFound, Refused, StorageFault
from agent_worker.core.failpoints import failpoint
from agent_worker.core.later import dataclass
from agent_worker.database.backup import FILES, NEW_FILE, put
from agent_worker.database.migrations import schema_of, shape, versions
from agent_worker.database.presence import FIX, SUFFIX, CommitMarker, commits_in, never_before
from agent_worker.files.folder import Folder

SAVED = ".saved-"  #: beside a database: all of it, by a process whose files were taken away
BESIDE = ("-wal", "-shm")  #: what SQLite keeps beside a database that is in use


@dataclass(frozen=True, slots=True)
class BackupContents:
    """What a backup holds."""

    version: int
    messages: int
    files: Mapping[str, bytes]  #: of the home, by name


def look_into(path: Path) -> BackupContents:
    """Look at every page of a backup. Raises BadInput with what is wrong with it."""
    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            found = [str(problem) for (problem,) in connection.execute("pragma integrity_check(3)")]
            if found != ["ok"]:
                raise BadInput(f"{path} is damaged: {found[0]}", hint="take an earlier backup")
            return _contents(connection, path)
    except (apsw.Error, UnicodeDecodeError) as error:
        raise BadInput(f"{path} is not a backup: {error}", hint="agent-worker backup (it makes one)") from None


def _contents(connection: apsw.Connection, path: Path) -> BackupContents:
    found = shape(connection)
    files: dict[str, bytes] = {}
    if found.pop(FILES, None):
        found.pop(f"sqlite_autoindex_{FILES}_1", None)
        files = dict(connection.execute(f"select name, content from {FILES}"))
    if "migration" not in found:
        raise BadInput(f"{path} is a database, but not one of ours", hint="agent-worker backup (it makes one)")
    version, newest = connection.execute("select max(version) from migration").get, versions()[-1][0]
    if not isinstance(version, int) or version > newest:
        raise BadInput(
            f"{path} has schema version {version}, this program knows {newest}", hint="install the newer one"
        )
    # A trigger or a view in it would act whenever we write.
    if found != schema_of(version):
        raise BadInput(f"{path} does not have the tables of version {version}", hint="take another backup")
    return BackupContents(version, connection.execute("select count(*) from message").get, files)


def saved_copy(database: Path) -> Path | None:
    """The copy that a process saved when its database was taken away, if nothing that was ever
    stored is missing in it.
    """
    mark = _beside(database, SUFFIX)
    since = mark.stat().st_mtime_ns if mark.exists() else 0  # whoever wrote later did not know of the copy
    for saved in sorted(database.parent.glob(f"{database.name}{SAVED}*"), reverse=True):
        with suppress(BadInput):
            look_into(saved)
            with closing(apsw.Connection(str(saved), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
                commits = commits_in(connection)
            if saved.stat().st_mtime_ns >= since and not CommitMarker(database).missing(commits):
                return saved
    return None


def check_not_taken_away(database: Path) -> None:
    """Raise StorageFault where a database was taken away, or another put in its place, while what it held is saved."""
    if database.exists() and database.stat().st_size and not CommitMarker(database).is_bad:
        return
    if saved := saved_copy(database):
        raise StorageFault(f"{database} was taken away while it was in use; all of it is saved in {saved}", hint=FIX)


def check_there(backup: Path) -> None:
    """Refuse a backup that is no file, before anybody stops a daemon for it."""
    if not backup.is_file():
        raise NotFound(f"there is no file {backup}", hint="agent-worker backup (it makes one)")


def put_back(source: Path, database: Path, *, stamp: str) -> tuple[BackupContents, Path | None]:
    """Make this backup the database; what was there is set aside: its new name, None when there was nothing."""
    check_there(source)
    if any(_beside(source, suffix).exists() for suffix in BESIDE):
        raise Refused(f"{source} is a database in use, not a backup", hint="agent-worker backup (it makes one)")
    arriving = database.with_name(f"{database.name}.restoring")
    discard(arriving)
    try:
        with source.open("rb") as reading, open(os.open(arriving, NEW_FILE, 0o600), "wb") as writing:
            shutil.copyfileobj(reading, writing, 1024 * 1024)
        found = look_into(arriving)  # the copy, not what it was copied from: this is what will be used
        with closing(apsw.Connection(str(arriving))) as connection:
            connection.execute(f"drop table if exists {FILES}")
        _fold_in(database)
        return found, put_in_place(arriving, database, aside=f"replaced-{stamp}")
    finally:
        discard(arriving)


def put_in_place(arriving: Path, database: Path, *, aside: str) -> Path | None:
    """Exchange the database for this file; the old one is kept as `<name>.<aside>`."""
    with closing(apsw.Connection(str(arriving))) as connection:
        never_before(connection, CommitMarker(database).commits)
    kept = _set_aside(database, aside) if database.exists() else None
    failpoint("restore.rename")
    for suffix in (*BESIDE, SUFFIX):  # the old one's: they would be taken for the new one's
        _beside(database, suffix).unlink(missing_ok=True)
    put(arriving, database)
    return kept


def _set_aside(database: Path, aside: str) -> Path:
    """Give the database a second name that stays. The first one stays too, until something else is put in its place."""
    target = next(t for n in range(1000) if not (t := _named(database, aside, n)).exists())
    for suffix in ("", "-wal"):
        with suppress(FileNotFoundError):
            _second_name(_beside(database, suffix), _beside(target, suffix))
    with Folder.at(database.parent) as folder:
        folder.sync()
    return target


def _second_name(path: Path, second: Path) -> None:
    try:
        os.link(path, second)
    except FileNotFoundError:
        raise
    except OSError:  # this disk knows no second names
        shutil.copyfile(path, second)
        second.chmod(0o600)


def _named(database: Path, aside: str, n: int) -> Path:
    return _beside(database, f".{aside}" + (f"-{n}" if n else ""))


def discard(*databases: Path) -> None:
    """Remove databases that nobody relies on: copies that were not finished, or are not needed any more."""
    for database in databases:
        for suffix in ("", *BESIDE, "-journal"):
            _beside(database, suffix).unlink(missing_ok=True)


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _fold_in(database: Path) -> None:
    """Bring the log into the file, so that one file is all of it. Where that is not possible, both are kept."""
    if not database.exists():
        return
    with suppress(apsw.Error), closing(apsw.Connection(str(database))) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")
