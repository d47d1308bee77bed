"""`agent` and `new`: lasting agents and quick ones; their memory, notes and todos."""

from __future__ import annotations

from typing import Any

import click

from agent_worker.cli.call import agents, call, here, part
from agent_worker.cli.output import ago, as_json_option, clean, paint_state, tell_json, tell_table, usd, waits


@click.group()
def agent() -> None:
    """Create, show, edit and delete agents, their memory, notes and todos."""


@agent.command()
@click.argument("name")
@click.option("-m", "--model", help="provider/model")
@click.option("-b", "--backend", help="sdk, mock, … (default: sdk)")
@click.option("--system", help="Its system prompt: who it is.")
@click.option("--from", "origin", help="Make a quick agent (`new`) a lasting one.")
@as_json_option
def create(
    name: str, model: str | None, backend: str | None, system: str | None, origin: str | None, as_json: bool
) -> None:
    """Make a lasting agent: its file is written to .agents/NAME.yaml."""
    made = call(
        "POST", "/agents", name=name, model=model, backend=backend, system=system, origin=origin, project=here()
    )
    if as_json:
        return tell_json(made)
    click.echo(f"created {made['name']}: {clean(made['file'])}")
    if made["found"]:
        click.echo(
            f"  it takes over the folder of an earlier {made['name']}, with its memory, notes and conversations:\n"
            f"  {clean(made['found'])}\n"
            f"  for a fresh start:  agent-worker agent delete {made['name']} --files"
        )
    click.echo(f'  talk to it:  agent-worker ask {made["name"]} "hello"')


@agent.command("list")
@as_json_option
def list_(as_json: bool) -> None:
    """List all agents of this project."""
    found = call("GET", "/agents", project=here())
    if as_json:
        return tell_json(found)
    rows = [
        (a["name"], a["state"], a["kind"], a["backend"], a["model"], usd(a["usd_today"], a["estimated"])) for a in found
    ]
    tell_table(("agent", "state", "kind", "backend", "model", "today"), rows, empty="no agents yet: agent-worker init")


@agent.command()
@click.argument("name", shell_complete=agents)
@as_json_option
def info(name: str, as_json: bool) -> None:
    """Show one agent: state, soul, queue, last words."""
    found = call("GET", f"/agents/{part(name)}", project=here())
    if as_json:
        return tell_json(found)
    about = found["agent"]
    click.echo(f"{about['name']} {paint_state(about['state'])}")
    if said := waits(about["reason"], about["waiting"]):
        click.echo(f"  {clean(said)}")
    if not about["backend"]:  # its file cannot be read
        return
    works_with = f"{about['backend']} {about['model']}".rstrip()
    click.echo(f"  {works_with}, {usd(about['usd_today'], about['estimated'])} today\n  {clean(found['directory'])}")
    for key, value in found["soul"].items():
        click.echo(f"  {clean(key)}: {clean(', '.join(value) if isinstance(value, list) else str(value))}")
    if found["queue"]:
        click.echo()
        tell_table(
            ("id", "lane", "state", "queued", "from", "work"),
            [(w["id"], w["lane"], w["state"], ago(w["queued_at"]), w["sender"], w["text"]) for w in found["queue"]],
        )
    for line in found["thread"]:
        click.echo(f"  {clean(line)[:300]}")


@agent.command()
@click.argument("name", shell_complete=agents)
@click.argument("settings", nargs=-1, metavar="[KEY=VALUE]...")
def edit(name: str, settings: tuple[str, ...]) -> None:
    """Edit the definition of an agent.

    It is opened in your editor and checked afterwards; or set single keys of it:

    \b
    agent-worker agent edit alice model=anthropic/claude-sonnet-5-5 max_steps=30
    agent-worker agent edit alice limits='{usd_per_day: 5}' schedule=     (an empty value removes the key)
    """
    if settings:
        changes = dict(_setting(each) for each in settings)
        call("PATCH", f"/agents/{part(name)}", changes=changes, project=here())
        return click.echo("saved")
    found = call("GET", f"/agents/{part(name)}", project=here())
    click.edit(filename=found["agent"]["file"])
    problems = call("GET", "/status", project=here())["project"]["problems"]
    for problem in problems:
        click.echo(clean(problem), err=True)
    click.echo("saved, but there are mistakes; the last good version stays in use" if problems else "saved")


_WHAT = {"memories": "memory", "todos": "todo ticked off", "for_you": "for you to judge"}


def _setting(text: str) -> tuple[str, Any]:
    from agent_worker.local.definitions import read_value

    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.UsageError(f"{clean(text)!r} is not KEY=VALUE")
    read, wrong = read_value(value, name=key)
    if wrong:
        raise click.UsageError(f"{clean(key)}: {wrong}")
    return key, read


@agent.command()
@click.argument("name", shell_complete=agents)
@click.option("--files", is_flag=True, help="Its folder too: memory, notes, todos, conversations.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(name: str, files: bool, yes: bool) -> None:
    """Delete an agent.

    Its definition goes, and its runs and conversations in the database. Its folder stays unless you say --files.
    Its messages and documents in a workflow stay: they are the team's.
    """
    if not yes:
        click.confirm(f"Delete {name}{' and all its files' if files else ''}?", abort=True)
    click.echo(call("DELETE", f"/agents/{part(name)}", files=files, project=here()))


@agent.command()
@click.argument("name", shell_complete=agents)
@click.argument("key", required=False)
@click.argument("value", required=False)
@click.option("--file", "file", default="core", show_default=True, help="Which file: core, working, …")
@click.option("--share/--private", default=None, help="May colleagues look it up?")
@as_json_option
def memory(name: str, key: str | None, value: str | None, file: str, share: bool | None, as_json: bool) -> None:
    """Show or set what NAME remembers.

    With KEY, one entry is shown; with VALUE too, it is set. An empty value archives it.
    """
    if key is not None and value is not None:
        seen_by = None if share is None else "shareable" if share else "private"
        path = f"/agents/{part(name)}/memory"
        return click.echo(call("PUT", path, key=key, value=value, file=file, visibility=seen_by, project=here()))
    found = call("GET", f"/agents/{part(name)}/memory", project=here())
    entries = [e for e in found["entries"] if key is None or e["key"] == key]
    if as_json:
        return tell_json(entries)
    rows = [(e["file"], e["key"], e["value"], e["visibility"], e["source"]) for e in entries]
    tell_table(("file", "key", "value", "seen by", "learned in"), rows, empty="nothing is remembered")
    for problem in found["problems"]:
        click.echo(clean(problem), err=True)


@agent.command()
@click.argument("name", shell_complete=agents)
@click.option("--since", metavar="DAY", help="Since this day, such as 2026-01-31.")
@click.option("--source", metavar="RUN", help="In this run; `agent memory` and `audit` name it.")
@click.option("--show", is_flag=True, help="Only show which runs that would be.")
@as_json_option
def revert(name: str, since: str | None, source: str | None, show: bool, as_json: bool) -> None:
    """Take back what NAME was told, said and learned.

    Since a day, or in one run, with all that came of it: later runs, of any agent, that were shown its words, go too.
    What it had replaced is restored.
    """
    where = f"/agents/{part(name)}/memory/revert"
    taken = call("POST", where, since=since, source=source, show=show, project=here())
    if as_json:
        return tell_json(taken)
    rows = [(_WHAT.get(what, what), each) for what, found in taken.items() for each in found]
    tell_table(("what", "which"), rows, empty="there is nothing to take back")
    if taken["memories"]:
        click.echo(f"held back, not deleted. To give one back: agent-worker agent release {clean(name)} KEY")


@agent.command()
@click.argument("name", shell_complete=agents)
@click.argument("key")
def release(name: str, key: str) -> None:
    """Give back to NAME what was held back from its memory."""
    click.echo(call("POST", f"/agents/{part(name)}/memory/release", key=key, project=here()))


@agent.command()
@click.argument("name", shell_complete=agents)
@click.argument("note", required=False)
@as_json_option
def notes(name: str, note: str | None, as_json: bool) -> None:
    """List the notes of NAME; with NOTE, show that one."""
    if note:
        text = call("GET", f"/agents/{part(name)}/notes/{part(note)}", project=here())
        return tell_json(text) if as_json else click.echo(clean(text), nl=False)
    found = call("GET", f"/agents/{part(name)}/notes", project=here())
    tell_json(found) if as_json else click.echo("\n".join(map(clean, found)) or "no notes yet")


@agent.command()
@click.argument("name", shell_complete=agents)
@click.option("--add", help="Put something on the list.")
@click.option("--done", type=int, help="Tick off by number.")
@as_json_option
def todo(name: str, add: str | None, done: int | None, as_json: bool) -> None:
    """Show the todos of NAME, add one, or tick one off."""
    path = f"/agents/{part(name)}/todos"
    if add:
        found = call("POST", path, text=add, project=here())
    elif done:
        found = call("DELETE", f"{path}/{done}", project=here())
    else:
        found = call("GET", path, project=here())
    if as_json:
        return tell_json(found)
    for item in found:
        click.echo(f"{item['number']:>3} [{'x' if item['done'] else ' '}] {clean(item['text'])}")
    if not found:
        click.echo("nothing to do")


@click.command()
@click.argument("name", required=False)
@click.option("-m", "--model", help="provider/model")
@click.option("-b", "--backend", help="sdk, mock, … (default: sdk)")
@click.option("--system", help="Its system prompt: who it is.")
@as_json_option
def new(name: str | None, model: str | None, backend: str | None, system: str | None, as_json: bool) -> None:
    """Make a quick agent that lives only in the daemon: no file is written."""
    made = call(
        "POST", "/agents", name=name, model=model, backend=backend, system=system, lasting=False, project=here()
    )
    if as_json:
        return tell_json(made)
    click.echo(f"created {made['name']}, which lives until the daemon stops")
    click.echo(f'  talk to it:  agent-worker ask {made["name"]} "hello"')
    click.echo(f"  keep it:     agent-worker agent create NAME --from {made['name']}")
