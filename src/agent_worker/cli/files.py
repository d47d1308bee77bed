"""`validate` and `schema`: files are checked, nothing is run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import click

from agent_worker.cli.call import call, here
from agent_worker.cli.output import echo, is_json_option, paint
from agent_worker.client.discovery import DATABASE_VARIABLE
from agent_worker.core.errors import Problem
from agent_worker.core.remote import is_remote
from agent_worker.core.text import clean, plural


@click.command()
@click.argument("path", default=".")
@click.option("--json", "as_json", is_flag=True, help="Print the problems as JSON.")
def validate(path: str, as_json: bool) -> None:
    """Check the files of the project at PATH, or one agent, workflow or project file, without running anything.

    PATH may also be a workflow elsewhere, such as github:owner/repo@v1/review.yaml.
    """
    problems, counted, remarks = _check_elsewhere(path) if is_remote(path) else _check(Path(path))
    if as_json:
        fields = ("file", "line", "column", "field", "message", "hint")
        click.echo(json.dumps([{name: getattr(p, name) for name in fields} for p in problems], indent=2))
    else:
        for problem in problems:
            echo(clean(str(problem)), err=True)
        if not problems and not counted:
            echo("there is nothing to check here yet: agent-worker init")
        elif not problems:
            echo(f"{paint('ok', 'green')}: {counted}")
        for note in () if is_remote(path) else _limits_that_wait(Path(path)):
            echo(f"{clean(note)}, once you approve it (agent-worker trust)")
        for remark in remarks:
            echo(f"{paint('remark', 'yellow')}: {clean(remark)}", err=True)
    sys.exit(2 if problems else 0)


def _check(path: Path) -> tuple[list[Problem], str, list[str]]:
    from agent_worker.offline.checks import unread_env_file
    from agent_worker.offline.definitions import checked

    if not path.exists():
        return [Problem(str(path), 1, 1, "", "does not exist", hint="name a directory or a YAML file")], "", []
    found = checked(path)
    unused = [
        f"{name}: {sentence}"
        for name, workflow in found.project.workflows.items()
        if workflow.workspace
        for sentence in workflow.workspace.unused
    ]
    env_file = [told] if path.is_dir() and (told := unread_env_file(path)) else []
    kept = _too_short(found.project.secret_variables)
    return found.problems, found.what, [*found.remarks, *kept, *unused, *env_file]


def _limits_that_wait(path: Path) -> list[str]:
    """Limits that do not hold yet, because nobody approved them. A daemon that runs knows what was approved; it is not
    started, and what is kept in a database that hosts share nobody else looks up."""
    from agent_worker.client.connection import find
    from agent_worker.offline.definitions import limits_that_wait

    if not path.exists():
        return []
    if find() is not None:
        waiting = call("GET", "/trust", project=str(path.resolve() if path.is_dir() else path.resolve().parent))
        return [each["what"] for each in waiting if each["kind"] == "limits"]
    return [] if os.environ.get(DATABASE_VARIABLE, "").strip() else limits_that_wait(path)


def _too_short(variables: Iterable[str]) -> list[str]:
    """A sentence for each secret that is too short to be recognised, and so is not taken out of texts."""
    from agent_worker.core.redaction import SHORTEST

    short = [name for name in sorted(variables) if 0 < len(os.environ.get(name, "").strip()) < SHORTEST]
    return [
        f"${name} is shorter than {SHORTEST} characters: it is not recognised, and not removed from what is stored"
        for name in short
    ]


def _check_elsewhere(source: str) -> tuple[list[Problem], str, list[str]]:
    """Check a workflow that is not on this machine: the daemon fetches it, and keeps what it fetches."""
    found = call("GET", "/workflows", project=here(), file=source)[-1]
    return (
        [],
        f"workflow {clean(found['name'])} with {plural(len(found['members']), 'agent')} from {clean(found['file'])}",
        [],
    )


@click.command()
@click.argument("kind", type=click.Choice(["agent", "workflow", "project"]))
@is_json_option
def schema(kind: Literal["agent", "workflow", "project"]) -> None:
    """Print the JSON Schema of an agent, workflow or project file."""
    from agent_worker.offline.definitions import schema_of

    click.echo(json.dumps(schema_of(kind), indent=2))
