"""`db`: move what the daemon keeps from its home to PostgreSQL, and back."""

from __future__ import annotations

import click

from agent_worker.cli.output import as_json_option, echo, tell_json
from agent_worker.client.discovery import DATABASE_VARIABLE
from agent_worker.core.errors import BadInput
from agent_worker.core.text import clean, plural


@click.group()
def db() -> None:
    """Move what the daemon keeps: from the file in its home to PostgreSQL, or back."""


@db.command()
@click.option("--to", "to_url", metavar="URL", help="Copy from this home to an empty PostgreSQL database.")
@click.option("--from", "from_url", metavar="URL", help="Copy from a PostgreSQL database to this home.")
@as_json_option
def migrate(to_url: str | None, from_url: str | None, as_json: bool) -> None:
    """Copy everything in one step. The daemon must be stopped.

    The copy is used only once the rows are counted on both sides and the audit is checked. The source stays as it was;
    what the home kept before is set aside and never deleted.
    """
    if (to_url is None) == (from_url is None):
        usage = "agent-worker db migrate --to postgresql://user@host/agent_worker"
        raise BadInput("say where to: --to URL, or --from URL", hint=usage)
    from agent_worker.offline.moving import moved_from, moved_to

    moved = moved_to(to_url) if to_url is not None else moved_from(from_url or "")
    if as_json:
        kept = str(moved.kept) if moved.kept else None
        return tell_json({"rows": moved.rows, "source": moved.source, "kept": kept, "told": list(moved.told)})
    said = f"{plural(moved.rows['project'], 'project')}, {plural(moved.rows['message'], 'message')}"
    echo(f"moved {said}, {plural(moved.rows['run'], 'run')}; {plural(sum(moved.rows.values()), 'row')} in all")
    echo(f"{clean(moved.source)} is left as it was")
    if moved.kept:
        echo(f"what this home kept is set aside as {clean(str(moved.kept))}")
    for sentence in moved.told:
        echo(clean(sentence))
    if to_url is not None:
        echo(f"next, where the daemon is started: export {DATABASE_VARIABLE}=…the address you gave…")
    else:
        echo(f"next, where the daemon is started: unset {DATABASE_VARIABLE}")
