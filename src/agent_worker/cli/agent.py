"""`agent` and `new`: lasting agents and quick ones; their memory, notes and todos."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import click

from agent_worker.cli.approval import can_ask
from agent_worker.cli.call import addresses, agents, call, here, part, run_ids
from agent_worker.cli.choice import chosen_for_one
from agent_worker.cli.output import (
    ago,
    as_json_option,
    clean,
    echo,
    paint_state,
    tell,
    tell_json,
    tell_table,
    usd,
    waits,
)
from agent_worker.cli.prose import tell_text
from agent_worker.cli.soul import soul
from agent_worker.cli.typed import TextCommand
from agent_worker.core.errors import BadInput, NotFound
from agent_worker.core.states import told
from agent_worker.core.text import plural


@click.group()
def agent() -> None:
    """Create, show, edit and delete agents, their soul, memory, notes and todos."""


agent.add_command(soul)


@agent.command()
@click.argument("name")
@click.option("-m", "--model", help="provider/model")
@click.option("-b", "--backend", help="sdk, mock, … (default: sdk)")
@click.option("-s", "--system", help="Its system prompt: who it is.")
@click.option("--role", help="What it does, in its soul: who it always is.")
@click.option("--expertise", help="What it knows, in its soul: typescript,testing")
@click.option("--from", "origin", help="Make a quick agent (`new`) a lasting one, with what was said to it.")
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
        echo(f"  {clean(origin)} is {made['name']} from now on, with what was said to it")
    if made["found"]:
        echo(
            f"  it takes over the folder of an earlier {made['name']}, with its memory, notes and conversations:\n"
            f"  {clean(made['found'])}\n"
            f"  for a fresh start:  agent-worker agent delete {made['name']} --files"
        )
    echo(f'  talk to it:  agent-worker ask {made["name"]} "hello"')


def _backend_of_one(command: str, given: Mapping[str, Any]) -> dict[str, str | None]:
    backend, model = chosen_for_one(command, given["backend"], given["model"])
    if model != given["model"]:
        echo(f"it uses {model}: there is a key for it (another: --model)", err=True)
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
    tell_table(("agent", "state", "kind", "backend", "model", "today"), rows, empty="no agents yet: agent-worker init")


@agent.command()
@click.argument("name", shell_complete=agents)
@as_json_option
def info(name: str, as_json: bool) -> None:
    """Show one agent: its definition, what it remembers, where it works, its queue and its last words."""
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
        memories = ", ".join(f"{count} {_FILES.get(file, file)}" for file, count in kept["memories"].items())
        echo(f"  remembers: {clean(memories) or 'nothing yet'}")
        echo(f"  notes: {kept['notes']}\n  todos: {kept['todos']} open, {kept['done']} done")
    _tell_learned(found["learned"])
    _tell_judged(found["judged"])


def _tell_judged(judged: dict[str, Any] | None) -> None:
    """What a model decided about it; nothing is said where rules do."""
    if judged is None:
        return
    cost = f"{plural(judged['tokens'], 'token')}, {usd(judged['usd'], judged['estimated'])}"
    model = judged["with_model"] or "none now"
    asked = plural(judged["requests"], "small question")
    echo(f"  judged by a model in {plural(judged['days'], 'day')}: {asked} ({cost}; with {clean(model)})")
    for each in judged["questions"]:
        echo(f"    {clean(each)[:200]}")


def _tell_learned(learned: dict[str, Any] | None) -> None:
    """What it drew from its runs by itself; nothing is said of one that never did and does not."""
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

    It is opened in your editor and checked afterwards; or set single keys of it:

    \b
    agent-worker agent edit alice model=anthropic/claude-sonnet-5-5 max_steps=30
    agent-worker agent edit alice limits='{usd_per_day: 5}' schedule=     (an empty value removes the key)
    """
    if settings:
        changes = dict(_setting(each) for each in settings)
        call("PATCH", f"/agents/{part(name)}", changes=changes, project=here())
        return tell("saved", as_json, agent=name, problems=[])
    found = call("GET", f"/agents/{part(name)}", project=here())
    click.edit(filename=found["agent"]["file"])
    problems = call("GET", "/status", project=here())["project"]["problems"]
    for problem in () if as_json else problems:
        echo(clean(problem), err=True)
    told = "saved, but there are mistakes; the last good version stays in use" if problems else "saved"
    tell(told, as_json, agent=name, problems=problems)


_WHAT = {
    "memories": "memory",
    "proposals": "proposal for its soul",
    "todos": "todo ticked off",
    "for_you": "for you to judge",
}


def _setting(text: str) -> tuple[str, Any]:
    from agent_worker.offline.definitions import read_value

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
@as_json_option
def delete(name: str, files: bool, yes: bool, as_json: bool) -> None:
    """Delete an agent.

    Its definition goes, and its runs and conversations in the database. Its folder stays unless you say --files.
    Its messages and documents in a workflow stay: they are the team's.
    """
    if not yes and not can_ask():
        files_too = " --files" if files else ""
        raise BadInput(
            f"nobody can be asked here whether {name} shall go",
            hint=f"agent-worker agent delete {name} --yes{files_too}",
        )
    if not yes:
        click.confirm(f"Delete {name}{' and all its files' if files else ' (its files stay)'}?", abort=True)
    tell(call("DELETE", f"/agents/{part(name)}", files=files, project=here()), as_json, agent=name)


@agent.command(cls=TextCommand)
@click.argument("name", shell_complete=agents)
@click.argument("words", nargs=-1, metavar="[get KEY | set KEY VALUE | forget KEY]")
@click.option("--file", "file", default="core", show_default=True, help="Which file it is set in: core, working, …")
@click.option("--share/--private", default=None, help="May colleagues look it up?")
@click.option("--public", is_flag=True, help="Also put it into a document of its teams: memory/NAME.md.")
@click.option("--rounds", is_flag=True, help="Tidy it now, as each night; nothing is deleted.")
@click.option("--dry-run", is_flag=True, help="With --rounds: only show what would change.")
@as_json_option
def memory(
    name: str,
    words: tuple[str, ...],
    file: str,
    share: bool | None,
    public: bool,
    rounds: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Show what NAME remembers; get, set or forget one entry. What is forgotten goes into the archive."""
    path = f"/agents/{part(name)}/memory"
    if rounds or dry_run:
        if words or not rounds:
            raise BadInput(
                "--rounds stands alone, or with --dry-run", hint=f"agent-worker agent memory {name} --rounds"
            )
        return _tell_round(name, call("POST", f"{path}/rounds", dry_run=dry_run, project=here()), as_json)
    match words:
        case ():
            _show_memory(call("GET", path, project=here()), as_json)
        case ("get", key):
            _show_entries(name, key, call("GET", path, project=here())["entries"], as_json)
        case ("set", key, value) if value:
            if public and share is False:
                raise BadInput("--public and --private are opposites", hint="keep one of them")
            seen_by = "public" if public else None if share is None else "shareable" if share else "private"
            kept = call("PUT", path, key=key, value=value, file=file, visibility=seen_by, project=here())
            tell(kept, as_json, agent=name, key=key)
        case ("forget", key):
            tell(call("PUT", path, key=key, value="", project=here()), as_json, agent=name, key=key)
        case _:
            raise _wrong_words(
                f"agent memory {name}", words, {1: "get", 2: "set"}, "get KEY, set KEY VALUE, forget KEY"
            )


def _tell_round(name: str, made: dict[str, Any], as_json: bool) -> None:
    """The diff of a round."""
    if as_json:
        return tell_json(made)
    for each in made["changes"]:
        before, after = each["before"], each["after"]
        echo(f"{each['what']}: {clean(each['why'])}")
        echo(f"  - {before['file']}  {clean(before['key'])}: {clean(before['value'])[:200]}")
        echo(f"  + {after['file']}  {clean(after['key'])}: {clean(after['value'])[:200]}{_marks(before, after)}")
    for key in made["check"]:
        echo(f"does it still hold? {clean(key)}: agent-worker inbox")
    if not made["changes"]:
        return echo("nothing to tidy")
    if made["id"]:
        echo(f"to take it back: agent-worker agent revert {clean(name)} --source {made['id']}")
    else:
        echo(f"nothing was changed; to do it: agent-worker agent memory {clean(name)} --rounds")


def _marks(before: dict[str, Any], after: dict[str, Any]) -> str:
    """What else is different, beside where it stands and what it says."""
    skip = ("file", "key", "value")
    new = {name: value for name, value in after.items() if value != before[name] and name not in skip}
    told = [f"{name} {', '.join(value) if isinstance(value, list) else value}".rstrip() for name, value in new.items()]
    return f"  ({clean('; '.join(told))})" if told else ""


def _show_memory(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        return tell_json(found["entries"])
    rows = [
        (e["file"], e["key"], e["value"], e["visibility"], e["by"], ", ".join(e["source"][:1]))
        for e in found["entries"]
    ]
    tell_table(("file", "key", "value", "seen by", "says", "learned in"), rows, empty="nothing is remembered")
    for problem in found["problems"]:
        echo(clean(problem), err=True)


def _show_entries(name: str, key: str, entries: list[dict[str, Any]], as_json: bool) -> None:
    found = [each for each in entries if each["key"] == key]
    if not found:
        hint = f"agent-worker agent memory {name} (it lists all that there is)"
        raise NotFound(f"{name} remembers nothing under {key!r}", hint=hint)
    if as_json:
        return tell_json(found)
    for each in found:
        echo(clean(each["value"]))


def _wrong_words(command: str, words: tuple[str, ...], meant: dict[int, str], forms: str) -> BadInput:
    """Neither of the `forms`. Where only the verb is missing, it is the one that so many words go with."""
    verbs = [form.split()[0] for form in forms.split(", ")]
    if words[0] in verbs:
        form = next(form for form in forms.split(", ") if form.startswith(words[0]))
        return BadInput(f"that is not how {words[0]} is typed", hint=f"agent-worker {command} {form}")
    verb = f"{meant[len(words)]} " if len(words) in meant else ""
    example = shlex.join(words) if verb else forms
    return BadInput(f"say what to do: {forms}", hint=f"agent-worker {command} {verb}{example}")


@agent.command()
@click.argument("name", shell_complete=agents)
@click.option("--since", metavar="DAY", help="Since this day, such as 2026-01-31.")
@click.option(
    "--source", metavar="RUN", shell_complete=run_ids, help="In this run; `agent memory` and `audit` name it."
)
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
        echo(f"held back, not deleted. To give one back: agent-worker agent release {clean(name)} KEY")


@agent.command()
@click.argument("name", shell_complete=agents)
@click.argument("key", required=False)
@click.option(
    "--run", metavar="RUN", shell_complete=run_ids, help="Your own edits that were put back while its program worked."
)
@as_json_option
def release(name: str, key: str | None, run: str | None, as_json: bool) -> None:
    """Give back to NAME what was held back from its memory under KEY, or the files that were put back in a RUN."""
    if (key is None) == (run is None):
        raise click.UsageError("name a KEY, or a run with --run")
    if run is not None:
        taken = call("POST", f"/agents/{part(name)}/held/{part(run)}/release", project=here())
        if as_json:
            return tell_json(taken)
        echo(f"{', '.join(map(clean, taken['files']))} of {clean(name)}: as you wrote it")
        return echo(f"to undo it: agent-worker agent release {clean(name)} --run {clean(taken['undo'])}")
    tell(call("POST", f"/agents/{part(name)}/memory/release", key=key, project=here()), as_json, agent=name, key=key)


@agent.command(cls=TextCommand)
@click.argument("name", shell_complete=agents)
@click.argument("words", nargs=-1, metavar="[NOTE | add TEXT]")
@as_json_option
def notes(name: str, words: tuple[str, ...], as_json: bool) -> None:
    """List the notes of NAME; show one of them, or add one."""
    path = f"/agents/{part(name)}/notes"
    match words:
        case ():
            found = call("GET", path, project=here())
            tell_json(found) if as_json else echo("\n".join(map(clean, found)) or "no notes yet")
        case ("add", text):
            kept = call("POST", path, text=text, project=here())
            tell_json(kept) if as_json else echo(f"kept as {clean(kept)}")
        case (note,) if note != "add":
            text = call("GET", f"{path}/{part(note)}", project=here())
            tell_json(text) if as_json else tell_text(text)
        case _:
            raise _wrong_words(f"agent notes {name}", words, {}, "add TEXT")


@agent.command(cls=TextCommand)
@click.argument("name", shell_complete=agents)
@click.argument("words", nargs=-1, metavar="[add TEXT | done NUMBER]")
@as_json_option
def todo(name: str, words: tuple[str, ...], as_json: bool) -> None:
    """Show the todos of NAME, add one, or tick one off by its number."""
    path = f"/agents/{part(name)}/todos"
    match words:
        case ():
            found = call("GET", path, project=here())
        case ("add", text):
            found = call("POST", path, text=text, project=here())
        case ("done", number) if number.isdecimal():
            found = call("DELETE", f"{path}/{number}", project=here())
        case _:
            raise _wrong_words(f"agent todo {name}", words, {}, "add TEXT, done NUMBER")
    if as_json:
        return tell_json(found)
    for item in found:
        echo(f"{item['number']:>3} [{'x' if item['done'] else ' '}] {clean(item['text'])}")
    if not found:
        echo("nothing to do")


@agent.command()
@click.argument("name", shell_complete=addresses)
@as_json_option
def start(name: str, as_json: bool) -> None:
    """Let an agent go on (alice), or a member of a workflow (alice@review), after it was stopped or failed."""
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
    """Let the work of an agent (alice), or of a member of a workflow (alice@review), wait."""
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
    if action in ("stop", "pause"):
        back = {"stop": "start", "pause": "resume"}[action]
        echo(f"  let it go on:  agent-worker agent {back} {found['name']}")


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
            f"{option}: channel and documents are of workflows, and of an agent that is a member of one",
            hint="write it into a workflow's file under agents: and run that: agent-worker run FILE",
        )
    given |= _backend_of_one(" ".join(["agent-worker new", *([name] if name else [])]), given)
    made = call("POST", "/agents", name=name, lasting=False, project=here(), **given)
    if as_json:
        return tell_json(made)
    echo(f"created {made['name']}, which lives until the daemon stops")
    echo(f'  talk to it:  agent-worker ask {made["name"]} "hello"')
    echo(f"  keep it:     agent-worker agent create NAME --from {made['name']}")
