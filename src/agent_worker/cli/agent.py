"""`agent` and `new`: lasting agents and quick ones; what they keep is in agent_memory.py."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from agent_worker.cli.agent_memory import memory, notes, release, revert, todo
from agent_worker.cli.approval import can_ask
from agent_worker.cli.call import addresses, agents, call, here, part
from agent_worker.cli.choice import chosen_for_one
from agent_worker.cli.output import (
    ago,
    agreed,
    as_json_option,
    echo,
    paint_state,
    tell,
    tell_json,
    tell_table,
    usd,
    waits,
)
from agent_worker.cli.soul import soul
from agent_worker.core.errors import BadInput, Refused
from agent_worker.core.states import told
from agent_worker.core.text import clean, plural


@click.group()
def agent() -> None:
    """Create, show, edit and delete agents, their soul, memory, notes and todos."""


for part_of_it in (soul, memory, revert, release, notes, todo):
    agent.add_command(part_of_it)


@agent.command()
@click.argument("name")
@click.option("-m", "--model", help="provider/model")
@click.option("-b", "--backend", help="sdk, mock, … (default: sdk)")
@click.option("-s", "--system", help="Its system prompt: who it is.")
@click.option("--role", help="Its role, which becomes part of its soul.")
@click.option("--expertise", help="What it knows well, also part of its soul: typescript,testing")
@click.option("--from", "origin", help="Make a quick agent (`new`) a lasting one, with everything that was said to it.")
@as_json_option
def create(name: str, expertise: str | None, origin: str | None, as_json: bool, **given: Any) -> None:
    """Make a lasting agent: its file is written to .agents/NAME.yaml, and its folders beside it."""
    known = [each.strip() for each in expertise.split(",") if each.strip()] if expertise else None
    if origin is None:
        given |= _backend_of_one(f"agent-worker agent create {name}", given)
    made = call("POST", "/agents", name=name, expertise=known, origin=origin, project=here(), **given)
    if as_json:
        return tell_json(made)
    echo(f"created {made['name']}: {clean(made['file'])}")
    if origin:
        now = "a lasting agent" if origin.lower() == made["name"].lower() else made["name"]
        echo(f"  {clean(origin)} is now {now}, with everything that was said to it")
    if made["found"]:
        echo(
            f"  it takes over the folder of an earlier {made['name']}, with its memory, notes and conversations:\n"
            f"  {clean(made['found'])}\n"
            f"  for a fresh start:  agent-worker agent delete {made['name']} --files"
        )
    echo(f'  talk to it:  agent-worker ask {made["name"]} "hello"')


def _free_name() -> str:
    """A name for an agent that nobody here has."""
    taken = {one["name"].lower() for one in call("GET", "/agents", project=here())}
    return next((name for name in ("ada", "ben", "cleo", "dora") if name not in taken), f"agent-{len(taken) + 1}")


def _backend_of_one(command: str, given: Mapping[str, Any]) -> dict[str, str | None]:
    backend, model = chosen_for_one(command, given["backend"], given["model"])
    if model != given["model"]:
        echo(f"it uses {model}, because you have a key for it (to choose another: --model)", err=True)
    return {"backend": backend, "model": model}


@agent.command("list")
@as_json_option
def list_(as_json: bool) -> None:
    """List all agents of this project."""
    found = call("GET", "/agents", project=here())
    if as_json:
        return tell_json(found)
    rows = [
        (
            a["name"],
            told(a["state"], (a["waiting"] or {}).get("what", "")),
            a["kind"],
            a["backend"],
            a["model"],
            usd(a["usd_today"], a["estimated"]),
        )
        for a in found
    ]
    empty = "this project has no agents of its own yet: agent-worker init (members of its workflows: agent-worker ls)"
    tell_table(("agent", "state", "kind", "backend", "model", "today"), rows, empty=empty)


@agent.command()
@click.argument("name", shell_complete=agents)
@as_json_option
def info(name: str, as_json: bool) -> None:
    """Show one agent: its definition, what it remembers, where it works, its queue and what it said last."""
    found = call("GET", f"/agents/{part(name)}", project=here())
    if as_json:
        return tell_json(found)
    about = found["agent"]
    echo(f"{about['name']} {paint_state(about['state'], about['waiting'])}")
    if said := waits(about["reason"], about["waiting"]):
        echo(f"  {clean(said)}")
    if not about["backend"]:  # its file cannot be read
        return
    works_with = f"{about['backend']} {about['model']}".rstrip()
    echo(f"  {works_with}, {usd(about['usd_today'], about['estimated'])} today\n  {clean(found['directory'])}")
    _tell_definition(found)
    if found["queue"]:
        echo()
        tell_table(
            ("id", "lane", "state", "queued", "from", "work"),
            [
                (w["id"], w["lane"], told(w["state"], "person"), ago(w["queued_at"]), w["sender"], w["text"])
                for w in found["queue"]
            ],
        )
    for line in found["thread"]:
        echo(f"  {clean(line)[:300]}")


def _tell_definition(found: dict[str, Any]) -> None:
    if found["prompt"]:
        echo(f"  prompt: {clean(' '.join(found['prompt'].split()))[:300]}")
    for key, value in {**found["soul"], **found["limits"]}.items():
        echo(f"  {clean(key)}: {clean(', '.join(value) if isinstance(value, list) else str(value))}")
    echo(f"  works in: {clean(', '.join(found['works_in'])) or 'no workflow at the moment'}")
    if kept := found["keeps"]:
        memories = ", ".join(f"{count} {_FILES.get(file, f'in {file}')}" for file, count in kept["memories"].items())
        echo(f"  remembers: {clean(memories) or 'nothing yet'}")
        echo(f"  notes: {kept['notes']}\n  todos: {kept['todos']} open, {kept['done']} done")
    _tell_learned(found["learned"])
    _tell_judged(found["judged"])


def _tell_judged(judged: dict[str, Any] | None) -> None:
    """Print what a model decided about an agent; nothing where only rules decide."""
    if judged is None:
        return
    cost = f"{plural(judged['tokens'], 'token')}, {usd(judged['usd'], judged['estimated'])}"
    model = judged["with_model"] or "none now"
    asked = plural(judged["requests"], "small question")
    echo(f"  judged by a model in {plural(judged['days'], 'day')}: {asked} ({cost}; with {clean(model)})")
    for each in judged["examined"]:
        echo(f"    it {clean(each)}")
    for each in judged["questions"]:
        echo(f"    {clean(each)[:200]}")


def _tell_learned(learned: dict[str, Any] | None) -> None:
    """Print what an agent learned from its runs by itself; nothing for one that never did and does not."""
    if learned is None or not (learned["with_model"] or learned["count"]):
        return
    cost = f"{plural(learned['requests'], 'request')}, {usd(learned['usd'], learned['estimated'])}"
    count = plural(learned["count"], "thing")
    model = learned["with_model"] or "nothing now"
    echo(f"  learned in {plural(learned['days'], 'day')}: {count} ({cost}; with {clean(model)})")
    for each in learned["entries"]:
        held = ", held back" if each["file"] == "quarantine" else ""
        said = clean(each["value"])[:200] or "(forgotten or replaced since)"
        echo(f"    {clean(each['key'])}: {said} ({ago(each['at'])}{held})")


_FILES = {"archive": "archived"}


@agent.command()
@click.argument("name", shell_complete=agents)
@click.argument("settings", nargs=-1, metavar="[KEY=VALUE]...")
@as_json_option
def edit(name: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Edit the definition of an agent.

    It opens in your editor and is checked afterwards. Or set single keys:

    \b
    agent-worker agent edit alice model=anthropic/claude-sonnet-5-5 max_steps=30
    agent-worker agent edit alice soul.role=reviewer limits.usd_per_day=5
    agent-worker agent edit alice schedule=     (an empty value removes the key)
    """
    if settings:
        changes = dict(_setting(name, each) for each in settings)
        call("PATCH", f"/agents/{part(name)}", changes=changes, project=here())
        return tell("saved", as_json, agent=name, problems=[])
    found = call("GET", f"/agents/{part(name)}", project=here())
    chosen = os.environ.get("VISUAL") or os.environ.get("EDITOR")  # which may well be a script
    if not chosen and not (sys.stdin.isatty() and sys.stdout.isatty()):
        why = "an editor needs a terminal, and there is none here"
        raise BadInput(why, hint=f"set single keys: agent-worker agent edit {name} max_steps=20")
    click.edit(filename=found["agent"]["file"])
    problems = call("GET", "/status", project=here())["project"]["problems"]
    for problem in () if as_json else problems:
        echo(clean(problem), err=True)
    told = "saved, but there are mistakes; the last good version stays in use" if problems else "saved"
    tell(told, as_json, agent=name, problems=problems)


def _setting(name: str, text: str) -> tuple[str, Any]:
    from agent_worker.offline.definitions import read_value

    key, equals, value = text.partition("=")
    if not key or not equals:
        raise BadInput(f"{clean(text)!r} is not KEY=VALUE", hint=f"agent-worker agent edit {name} {clean(text)}=…")
    read, wrong = read_value(value, name=key)
    if wrong:
        raise click.UsageError(f"{clean(key)}: {wrong}")
    return key, read


@agent.command()
@click.argument("name", shell_complete=agents)
@click.option("--files", is_flag=True, help="Delete its folder too: memory, notes, todos, conversations.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json_option
def delete(name: str, files: bool, yes: bool, as_json: bool) -> None:
    """Delete an agent.

    Its definition is removed, and its runs and conversations in the database. Its folder stays unless you add --files.
    Its messages and documents in a workflow stay: they are the team's.
    """
    if not yes:
        call("GET", f"/agents/{part(name)}", project=here())  # nobody is asked about an agent that is not there
    if not yes and not can_ask():
        files_too = " --files" if files else ""
        raise BadInput(
            f"there is nobody here to ask whether to delete {name}",
            hint=f"agent-worker agent delete {name} --yes{files_too}",
        )
    if not yes and not agreed(f"Delete {name}{' and all its files' if files else ' (its files stay)'}?"):
        raise Refused(f"{name} was not deleted", hint="")
    tell(call("DELETE", f"/agents/{part(name)}", files=files, project=here()), as_json, agent=name)


@agent.command()
@click.argument("name", shell_complete=addresses)
@as_json_option
def start(name: str, as_json: bool) -> None:
    """Start an agent (alice), or a member of a workflow (alice@review), that was stopped or failed."""
    set_agent(name, "start", as_json)


@agent.command()
@click.argument("name", shell_complete=addresses)
@as_json_option
def stop(name: str, as_json: bool) -> None:
    """Stop an agent (alice), or the work of one in a workflow (alice@review). What waits for it is kept."""
    set_agent(name, "stop", as_json)


@agent.command()
@click.argument("name", shell_complete=addresses)
@as_json_option
def pause(name: str, as_json: bool) -> None:
    """Pause an agent (alice), or a member of a workflow (alice@review): its work waits."""
    set_agent(name, "pause", as_json)


@agent.command()
@click.argument("name", shell_complete=addresses)
@as_json_option
def resume(name: str, as_json: bool) -> None:
    """The same as `start`; what a limit stopped gets a new allowance."""
    set_agent(name, "resume", as_json)


def set_agent(name: str, action: str, as_json: bool) -> None:
    """Start, stop, pause or resume an agent or a member, and say what it is then, with the way back."""
    found = call("POST", f"/agents/{part(name)}/{action}", project=here())
    if as_json:
        return tell_json(found)
    echo(f"{found['name']} is {paint_state(found['state'])}")
    if found["state"] == "waiting":
        echo(f"  for what:  agent-worker agent info {found['name']}")
    if action == "stop":
        echo(f"  start it again:  agent-worker agent start {found['name']}")
    if action == "pause":
        echo(f"  to go on:  agent-worker agent resume {found['name']}")


@click.command()
@click.argument("name", required=False)
@click.option("-m", "--model", help="provider/model")
@click.option("-b", "--backend", help="sdk, mock, … (default: sdk)")
@click.option("-s", "--system", help="Its system prompt: who it is.")
@click.option("--context", is_flag=True, hidden=True)
@click.option("--instance", hidden=True)
@as_json_option
def new(name: str | None, context: bool, instance: str | None, as_json: bool, **given: Any) -> None:
    """Make a quick agent that lives only in the daemon: no file is written."""
    if context or instance:
        option = "--context" if context else "--instance"
        raise BadInput(
            f"{option}: only workflows, and agents that are members of one, have a channel and documents",
            hint="agent-worker init makes such a workflow; or write the agent into its file, under agents:",
        )
    given |= _backend_of_one(" ".join(["agent-worker new", *([name] if name else [])]), given)
    made = call("POST", "/agents", name=name, lasting=False, project=here(), **given)
    if as_json:
        return tell_json(made)
    echo(f"created {made['name']}, which lives until the daemon stops")
    echo(f'  talk to it:  agent-worker ask {made["name"]} "hello"')
    echo(f"  keep it:     agent-worker agent create {_free_name()} --from {made['name']}")
