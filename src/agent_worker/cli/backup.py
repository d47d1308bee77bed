"""`backup`, `restore`, `gc`: what the daemon keeps, copied, put back, and tidied up."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import click

from agent_worker.cli.output import as_json_option, echo, tell_json, tell_table
from agent_worker.core.disk_space import amount
from agent_worker.core.errors import NotFound, Refused
from agent_worker.core.text import clean, plural


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@as_json_option
def backup(file: Path | None, as_json: bool) -> None:
    """Copy everything the daemon keeps to FILE, as of one moment, even while it works; without FILE, to its home.

    It holds messages, instructions, runs, costs, votes, schedules, revisions of documents and your approvals; not the
    files of your projects, which stay in their folders.
    """
    from agent_worker.cli.call import call

    target = _free(file) if file else None
    made = call("POST", "/backups", timeout=3600)
    path = Path(made["path"])
    if target:
        path = _move(path, target)
    if as_json:
        return tell_json({"path": str(path), "bytes": made["bytes"]})
    echo(f"{clean(str(path))}  {amount(made['bytes'])}")


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
    from agent_worker.offline.stored import restored

    messages, aside = restored(file)
    if as_json:
        return tell_json({"messages": messages, "aside": str(aside) if aside else None})
    echo(f"restored {plural(messages, 'message')} from {clean(str(file))}")
    if aside:
        echo(f"what was there is kept as {clean(str(aside))}")


@click.command()
@click.option("--dry-run", is_flag=True, help="Only list what would go.")
@as_json_option
def gc(dry_run: bool, as_json: bool) -> None:
    """Free disk space by removing what nobody needs any more; your projects are not touched.

    \b
    - temporary folders of runs that were killed
    - folders of coding programs for agents that are gone, and their sessions older than 30 days
    - backups older than 30 days, except the newest 3; databases set aside that long ago; old logs
    - texts that no model was sent in the last 30 days (AGENT_WORKER_KEEP_PROMPTS)
    """
    from agent_worker.cli.call import call

    found = call("GET" if dry_run else "DELETE", "/leftovers")
    if as_json:
        return tell_json(found)
    tell_table(
        ("what", "size", "where"),
        [(e["what"], amount(e["bytes"]), e["path"]) for e in found],
        empty="nothing to remove",
    )
    if found:
        total = amount(sum(each["bytes"] for each in found))
        echo(f"\n{total} {'can go: agent-worker gc' if dry_run else 'freed'}")


def _stamp() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}"
