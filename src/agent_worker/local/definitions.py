"""`validate`, `schema` and `init`: files that people write are read and checked here; nothing runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from agent_worker.client.discovery import home_directory, make_home
from agent_worker.core.clock import SystemClock
from agent_worker.core.errors import DefinitionError, Problem
from agent_worker.definitions.project import ProjectFiles, find_project, load_project
from agent_worker.definitions.schema import json_schema
from agent_worker.definitions.source import parse_source
from agent_worker.files.root import Root
from agent_worker.trust.allowances import allowances_of
from agent_worker.trust.gate import Gate
from agent_worker.trust.powers import powers_of
from agent_worker.trust.store import TrustStore

_MOCK = "backend: mock\n"
_SCRIPT = re.compile(r"^(  \w+):\n    ref: (\w+)\n    script:.*\n(?:      .*\n)+", re.MULTILINE)  # of a template


def checked(path: Path) -> tuple[ProjectFiles, list[Problem]]:
    """The project that this directory or workflow file belongs to, and what is wrong in its files."""
    project = load_project(find_project(path))
    problems = list(project.problems)
    if path.is_file() and path.resolve() not in map(Path.resolve, project.workflow_files.values()):
        try:
            project.load_workflow(path)
        except DefinitionError as error:
            problems += error.problems
    return project, problems


def limits_that_wait(path: Path) -> list[str]:
    """Limits that are written correctly and do not hold yet, because nobody approved them: a sentence for each."""
    project, home = load_project(find_project(path)), home_directory()
    store = TrustStore(Root.private(home) if home.is_dir() else None, project.root, clock=SystemClock())
    held = store.held_back(allowances_of(project))
    return [
        f"{each.of} may use {each.told(each.value)} once you approve it (agent-worker trust); until then"
        f" {each.told(held[each.of, each.name])}"
        for each in allowances_of(project)
        if (each.of, each.name) in held
    ]


def schema_of(kind: Literal["agent", "workflow", "project"]) -> dict[str, Any]:
    return json_schema(kind)


def read_value(text: str, *, name: str) -> tuple[Any, str]:
    """A value as it would be read from a YAML file, and what is wrong with it, if anything."""
    source = parse_source(text, file=name)
    return source.data, source.problems[0].message if source.problems else ""


def write_new(source: Path, target: Path, settings: str) -> tuple[list[str], list[str]]:
    """Copy a template's files into a project, with these settings for its agents; the names of those written, and of
    those that were there already. Of these the mock agents that we wrote and nobody changed are made real."""
    written, kept, files = [], [], Root(target)
    for file in sorted(p for p in source.rglob("*") if p.is_file()):
        name, mock = str(file.relative_to(source)), file.read_text("utf-8")
        wanted = mock if settings == _MOCK else _SCRIPT.sub(r"\1: { ref: \2 }\n", mock).replace(_MOCK, settings)
        if files.exists(name) and not (wanted != mock and files.read_bytes(name) == mock.encode()):
            kept.append(name)
        else:
            files.replace(name, wanted)
            written.append(name)
    return written, kept


def approve(root: Path) -> None:
    """Approve a project that we wrote for the user: they need not approve it again."""
    project = load_project(root)
    gate = Gate(Root.private(make_home(home_directory())), SystemClock())
    for workflow in (None, *project.workflows.values()):
        gate.approve(project.root, powers_of(project, workflow))
