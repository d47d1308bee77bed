"""What an agent keeps: `agent memory`, `revert`, `release`, `notes` and `todo`."""

from __future__ import annotations

import shlex
from typing import Any

import click

from agent_worker.cli.call import agents, call, here, part, run_ids
from agent_worker.cli.output import as_json_option, echo, tell, tell_json, tell_table
from agent_worker.cli.prose import tell_text
from agent_worker.cli.typed import TextCommand, wrong_words
from agent_worker.core.errors import BadInput, NotFound
from agent_worker.core.text import clean

_DEEPEST = 8  # levels of a tree that are drawn as such
_WHAT = {
    "memories": "memory",
    "proposals": "proposal for its soul",
    "todos": "todo ticked off",
    "for_you": "for you to judge",
}


@click.command(cls=TextCommand)
@click.argument("name", shell_complete=agents)
@click.argument("words", nargs=-1, metavar="[get KEY | set KEY VALUE | forget KEY]")
@click.option("--file", "file", default="core", show_default=True, help="Which file to set it in: core, working, …")
@click.option("--share/--private", default=None, help="Let colleagues look it up.")
@click.option("--public", is_flag=True, help="Also put it into a document of its teams: memory/NAME.md.")
@click.option("--rounds", is_flag=True, help="Tidy it now, as happens each night; nothing is deleted.")
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
                "--rounds is used alone, or with --dry-run", hint=f"agent-worker agent memory {name} --rounds"
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
            raise wrong_words(f"agent memory {name}", words, {1: "get", 2: "set"}, "get KEY, set KEY VALUE, forget KEY")


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
    """What else a round changes in an entry, beside its place and its words."""
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
        hint = f"agent-worker agent memory {name} (it lists everything)"
        raise NotFound(f"{name} remembers nothing under {key!r}", hint=hint)
    if as_json:
        return tell_json(found)
    for each in found:
        echo(clean(each["value"]))


@click.command()
@click.argument("name", shell_complete=agents)
@click.option("--since", metavar="DAY", help="Everything since this day, such as 2026-01-31.")
@click.option(
    "--source",
    metavar="RUN",
    shell_complete=run_ids,
    help="Everything from this run; `agent memory` and `audit` name it.",
)
@click.option("--show", is_flag=True, help="Only show which runs would go.")
@as_json_option
def revert(name: str, since: str | None, source: str | None, show: bool, as_json: bool) -> None:
    """Take back what NAME was told, said and learned.

    All of it since a day, or from one run, with everything it led to: later runs of any agent that saw its words go
    too. What it had replaced is restored.
    """
    where = f"/agents/{part(name)}/memory/revert"
    taken = call("POST", where, since=since, source=source, show=show, project=here())
    if as_json:
        return tell_json(taken)
    rows = [("run", f"{'  ' * min(each['depth'], _DEEPEST)}{_run(each)}") for each in taken["runs"]]
    rows += [(_WHAT.get(what, what), each) for what, found in taken.items() if what != "runs" for each in found]
    tell_table(("what", "which"), rows, empty="there is nothing to take back")
    if taken["memories"]:
        whose, _, key = str(taken["memories"][0]).partition(": ")
        echo(f"held back, not deleted. To give one back: agent-worker agent release {clean(shlex.join([whose, key]))}")


def _run(each: dict[str, Any]) -> str:
    return f"{each['run']} ({each['agent']}{', saw it' if each['saw'] else ''})"


@click.command()
@click.argument("name", shell_complete=agents)
@click.argument("key", required=False)
@click.option(
    "--run",
    metavar="RUN",
    shell_complete=run_ids,
    help="Restore your own edits that were undone while its program worked.",
)
@as_json_option
def release(name: str, key: str | None, run: str | None, as_json: bool) -> None:
    """Give NAME the memory that was held back under KEY, or restore your edits that were undone during a RUN."""
    if (key is None) == (run is None):
        raise click.UsageError("name a KEY, or a run with --run")
    if run is not None:
        taken = call("POST", f"/agents/{part(name)}/held/{part(run)}/release", project=here())
        if as_json:
            return tell_json(taken)
        echo(f"restored as you wrote it: {', '.join(map(clean, taken['files']))} of {clean(name)}")
        return echo(f"to undo it: agent-worker agent release {clean(name)} --run {clean(taken['undo'])}")
    tell(call("POST", f"/agents/{part(name)}/memory/release", key=key, project=here()), as_json, agent=name, key=key)


@click.command(cls=TextCommand)
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
        case ("show" | "read" | "get" | "cat" | "view", note):
            line = shlex.join(["agent-worker", "agent", "notes", name, note])
            raise BadInput("a note is named, and shown", hint=f"did you mean: {line}")
        case (note,) if "." not in note and note != "add":
            raise NotFound(f"{name} has no note {note}", hint=f"agent-worker agent notes {name} (it lists all of them)")
        case (note,) if note != "add":
            text = call("GET", f"{path}/{part(note)}", project=here())
            tell_json(text) if as_json else tell_text(text)
        case _:
            raise wrong_words(f"agent notes {name}", words, {}, "add TEXT")


@click.command(cls=TextCommand)
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
            raise wrong_words(f"agent todo {name}", words, {}, "add TEXT, done NUMBER")
    if as_json:
        return tell_json(found)
    for item in found:
        echo(f"{item['number']:>3} [{'x' if item['done'] else ' '}] {clean(item['text'])}")
    if not found:
        echo("nothing to do")
