"""`restore` and `doctor --fix`: the daemon's database is exchanged, by this process, while no daemon runs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from agent_worker.client.discovery import (
    DATABASE,
    DATABASE_VARIABLE,
    AlreadyRunning,
    home_directory,
    make_home,
    read_daemon,
)
from agent_worker.core.errors import Refused
from agent_worker.core.ids import new_id
from agent_worker.core.text import plural
from agent_worker.daemon.process.lock import only_one
from agent_worker.database.recovery import recover
from agent_worker.database.restore import check_there, put_back, saved_copy
from agent_worker.database.runtime_lock import RuntimeHolder, hold_database
from agent_worker.definitions.project_files import find_project, load_project
from agent_worker.files.root import Root
from agent_worker.service.backups import BACKUPS, put_files_back

STOPPING = 15.0  #: seconds that a daemon may take to end


def restored(file: Path) -> tuple[int, Path | None]:
    """Make this backup what the daemon keeps; how many messages are in it, and where the old database is kept."""
    if os.environ.get(DATABASE_VARIABLE, "").strip():
        told = "the daemon's state is in PostgreSQL, which has its own backups"
        hint = f"pg_restore, into an empty database; or unset {DATABASE_VARIABLE} to restore what this home keeps"
        raise Refused(told, hint=hint)
    check_there(file)
    with alone() as home:
        stamp = time_stamp()
        found, aside = put_back(file, home / DATABASE, stamp=stamp)
        put_files_back(Root.private(home), found.files, stamp=stamp)
    return found.messages, aside


def recovered() -> tuple[bool, str]:
    """Put what can be read of a damaged database in its place; whether nothing is lost, and what came of it."""
    with alone() as home:
        database, stamp = home / DATABASE, time_stamp()
        if saved := saved_copy(database):
            found, _ = put_back(saved, database, stamp=stamp)
            return True, f"nothing is lost: {plural(found.messages, 'message')}, from {saved}"
        done = recover(database, stamp=stamp, backups=home.glob(f"{BACKUPS}/*.db"), channels=_channels_here())
        return done.complete, done.told()


def _channels_here() -> list[Path]:
    """The channel files of the project we are in."""
    project = load_project(find_project(Path.cwd()))
    base = project.root / project.definition.workspace.base.strip("/")
    return sorted(base.glob("*/*/channel.jsonl"))


@contextmanager
def alone() -> Iterator[Path]:
    """The daemon's home, while nobody can work on it. A daemon that is stopping is waited for."""
    home, until = make_home(home_directory()), time.monotonic() + STOPPING
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(only_one(home, new_id("d")))
                break
            except AlreadyRunning:
                if read_daemon(home) is not None or time.monotonic() > until:
                    told = "the daemon is running, so its database cannot be replaced"
                    raise Refused(told, hint="agent-worker stop --all, then try again") from None
                time.sleep(0.1)
        # A program may have it open without a daemon.
        held.callback(os.close, hold_database(home / DATABASE, RuntimeHolder()))
        yield home


def time_stamp() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}"
