"""`agent soul`: who an agent is, how it became so, and whether it still is."""

from __future__ import annotations

import shlex
from typing import Any

import click

from agent_worker.cli.call import agents, call, here, part
from agent_worker.cli.output import as_json_option, echo, paint, tell_json, tell_table
from agent_worker.cli.typed import TextCommand, wrong_words
from agent_worker.core.errors import BadInput
from agent_worker.core.text import clean

FORMS = "log, diff NUMBER, proposals, approve ID, reject ID [REASON], rollback NUMBER, drift"


@click.command(cls=TextCommand)
@click.argument("name", shell_complete=agents)
@click.argument("words", nargs=-1, metavar=f"[{' | '.join(FORMS.split(', '))}]")
@as_json_option
def soul(name: str, words: tuple[str, ...], as_json: bool) -> None:
    """Show who NAME is and the changes that wait for you; decide on them, look back, or go back."""
    path = f"/agents/{part(name)}/soul"
    match words:
        case ():
            _show(name, call("GET", path, project=here()), as_json)
        case ("log",):
            _log(call("GET", f"{path}/versions", project=here()), as_json)
        case ("diff", number) if number.isdecimal():
            _diff(call("GET", f"{path}/versions/{number}", project=here()), as_json)
        case ("proposals",):
            _proposals(call("GET", f"{path}/proposals", project=here()), as_json)
        case ("approve", id):
            _decide(path, id, "approve", "", as_json)
        case ("reject", id, *reason) if len(reason) < 2:
            _decide(path, id, "reject", "".join(reason), as_json)
        case ("rollback", number) if number.isdecimal():
            found = call("POST", f"{path}/versions/{number}", project=here())
            if as_json:
                return tell_json(found)
            echo(f"the soul of {clean(name)} is back to that of version {number}, as version {found['version']}")
        case ("drift",):
            _drift(call("GET", f"{path}/drift", project=here()), as_json)
        case ("approve" | "reject",):
            raise BadInput("which proposal?", hint=f"agent-worker agent soul {name} proposals")
        case ("set" | "edit" | "change", *given):
            keys = [f"soul.{each}" for each in given if "=" in each] or ["soul.role=…"]
            line = shlex.join(["agent-worker", "agent", "edit", name, *keys])
            raise BadInput("the soul that you write is part of the definition", hint=line)
        case _:
            raise wrong_words(f"agent soul {name}", words, {}, FORMS)


def _show(name: str, found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        return tell_json(found)
    echo(paint(f"version {found['version']}, soul_evolution: {found['evolution']}", "bright_black"))
    click.echo(clean(found["text"]).rstrip("\n") or "nothing is written")
    for problem in found["problems"]:
        echo(clean(problem), err=True)
    for each in found["proposals"]:
        echo(f"\n{paint(clean(each['id']), 'cyan')}  {each['risk']}, by {each['by']}, until {each['expires']}")
        _tell_change(each)
        echo(paint(f"    agent-worker agent soul {clean(name)} approve {clean(each['id'])}", "bright_black"))


def _tell_change(each: dict[str, Any]) -> None:
    for line in clean(each["diff"]).splitlines():
        echo("    " + paint(line, "green" if line.startswith("+") else "red"))
    for piece in each["evidence"]:
        echo(f"    {piece.get('day', '')} {clean(piece['run'])}: {clean(piece.get('quote', ''))}")


def _log(found: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        return tell_json(found)
    tell_table(("version", "when", "by", "why"), [(v["number"], v["at"], v["by"], v["reason"]) for v in found])


def _diff(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        return tell_json(found)
    echo(paint(f"version {found['number']}, by {found['by']}: {clean(found['reason'])}", "bright_black"))
    _tell_change(found)
    if not found["diff"]:
        click.echo(clean(found["text"]), nl=False)


def _proposals(found: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        return tell_json(found)
    rows = [(p["id"], p["state"], p["by"], p["at"][:10], p["diff"].replace("\n", "  ")) for p in found]
    tell_table(("id", "state", "by", "made", "change"), rows, empty="nothing has been proposed yet")


def _decide(path: str, id: str, verdict: str, reason: str, as_json: bool) -> None:
    made = call("POST", f"{path}/proposals/{part(id)}", verdict=verdict, reason=reason, project=here())
    tell_json(made) if as_json else echo(clean(made["told"]))


def _drift(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        return tell_json(found)
    rows = [(p["principle"], _share(p), _weeks(p["weeks"]), p["probe"] or "not measured") for p in found["principles"]]
    tell_table(("principle", "kept lately", "by week", "measured by"), rows, empty="there are no principles to keep")
    if found["changed"]:
        echo(f"{found['changed']:.0%} of the soul has changed within 30 days")


def _share(principle: dict[str, Any]) -> str:
    if not principle["of"]:
        return "-"
    told = f"{principle['kept']} of {principle['of']} ({principle['share']:.0%})"
    return f"{told}, fell" if principle["fell"] else told


def _weeks(weeks: list[dict[str, Any]]) -> str:
    return "  ".join(f"{week['week'][5:]} {week['kept'] / week['of']:.0%}" for week in weeks[-4:])
