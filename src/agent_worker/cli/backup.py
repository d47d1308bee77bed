"""`backup`, `restore`, `gc`: what the daemon keeps, copied, put back, and tidied up."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click

from agent_worker.cli.output import as_json_option, clean, plural, tell_json, tell_table
from agent_worker.core.errors import NotFound, Refused
from agent_worker.files.space import amount

STOPPING = 15.0  #: seconds that a daemon may take to end


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@as_json_option
def backup(file: Path | None, as_json: bool) -> None:
    """Copy everything the daemon keeps to FILE, as of one moment, while it works; without FILE, to its home.

    In it: messages, instructions, runs, costs, votes, schedules, revisions of documents, your approvals. Not in it: the
    files of your projects, which are yours and in their folders.
    """
    from agent_worker.cli.call import call

    target = _free(file) if file else None
    made = call("POST", "/backups", timeout=3600)
    path = Path(made["path"])
    if target:
        path = _move(path, target)
    if as_json:
        return tell_json({"path": str(path), "bytes": made["bytes"]})
    click.echo(f"{clean(str(path))}  {amount(made['bytes'])}")


def _free(file: Path) -> Path:
    if file.is_dir():
        return file / f"agent-worker-{_stamp()}.db"
    if file.exists():
        raise Refused(f"{file} exists already", hint="name another file")
    if not file.absolute().parent.is_dir():
        raise NotFound(f"there is no directory {file.absolute().parent}", hint=f"mkdir -p {file.absolute().parent}")
    return file


def _move(path: Path, target: Path) -> Path:
    try:
        shutil.move(path, target)
        with target.open("rb") as file:
            os.fsync(file.fileno())
    except OSError as error:
        raise Refused(f"{target} cannot be written: {error.strerror}", hint=f"the backup is at {path}") from None
    return target


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@as_json_option
def restore(file: Path, as_json: bool) -> None:
    """Replace what the daemon keeps with FILE, a backup. The daemon must be stopped.

    The backup is checked first. What was there is set aside in the daemon's home and never deleted.
    """
    from agent_worker.client.discovery import DATABASE
    from agent_worker.database.restore import put_back
    from agent_worker.files.root import Root
    from agent_worker.service.backups import put_files_back

    with alone() as home:
        stamp = _stamp()
        found, aside = put_back(file, home / DATABASE, stamp=stamp)
        put_files_back(Root.private(home), found.files, stamp=stamp)
    if as_json:
        return tell_json({"messages": found.messages, "aside": str(aside) if aside else None})
    click.echo(f"restored {plural(found.messages, 'message')} from {clean(str(file))}")
    if aside:
        click.echo(f"what was there is kept as {clean(str(aside))}")


@click.command()
@click.option("--dry-run", is_flag=True, help="Only list what would go.")
@as_json_option
def gc(dry_run: bool, as_json: bool) -> None:
    """Remove from the disk what nobody needs any more; nothing of your projects is touched.

    \b
    - temporary folders of runs that were killed
    - folders of coding programs for agents that are gone, and their sessions older than 30 days
    - backups older than 30 days, but for the newest 3; databases set aside that long ago; old logs
    """
    from agent_worker.cli.call import call

    found = call("GET" if dry_run else "DELETE", "/leftovers")
    if as_json:
        return tell_json(found)
    tell_table(("what", "size", "where"), [(e["what"], amount(e["bytes"]), e["path"]) for e in found])
    if found:
        total = amount(sum(each["bytes"] for each in found))
        click.echo(f"\n{total} {'can go: agent-worker gc' if dry_run else 'freed'}")


def recovered() -> tuple[bool, str]:
    """Put what can be read of a damaged database in its place; whether nothing is lost, and what came of it."""
    from agent_worker.client.discovery import DATABASE
    from agent_worker.database.recovery import recover
    from agent_worker.database.restore import put_back, saved_copy
    from agent_worker.service.backups import BACKUPS

    with alone() as home:
        database, stamp = home / DATABASE, _stamp()
        if saved := saved_copy(database):
            found, _ = put_back(saved, database, stamp=stamp)
            return True, f"nothing is lost: {plural(found.messages, 'message')}, from {saved}"
        done = recover(database, stamp=stamp, backups=home.glob(f"{BACKUPS}/*.db"), channels=_channels_here())
        return done.complete, done.told()


def _channels_here() -> list[Path]:
    """The channel files of the project we are in."""
    from agent_worker.definitions.project import find_project, load_project

    project = load_project(find_project(Path.cwd()))
    base = project.root / project.definition.workspace.base.strip("/")
    return sorted(base.glob("*/*/channel.jsonl"))


@contextmanager
def alone() -> Iterator[Path]:
    """The daemon's home, while nobody can work on it. A daemon that is stopping is waited for."""
    from agent_worker.client.discovery import DATABASE, AlreadyRunning, home_directory, make_home, read_daemon
    from agent_worker.core.ids import new_id
    from agent_worker.daemon.process.lock import only_one
    from agent_worker.database.engine_lock import Holder, hold_database

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
        held.callback(os.close, hold_database(home / DATABASE, Holder()))  # a program may have it open without a daemon
        yield home


def _stamp() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}"
