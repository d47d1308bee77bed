"""The files of agents and workflows as a person edits them: their text, what is wrong in it, what saving would change.

The file is the truth: what is saved here is what an editor would have saved. What it may then execute is approved as if
it had been written by hand.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from agent_worker.core.difference import changed_lines
from agent_worker.core.errors import BadInput, DefinitionError, NotFound, Problem, Stale
from agent_worker.core.later import dataclass, pattern
from agent_worker.definitions.loading import agent_of, workflow_of
from agent_worker.definitions.project_files import AGENTS, ProjectFiles
from agent_worker.definitions.source import parse_source
from agent_worker.files.root import Root
from agent_worker.memory.edits import rewrite
from agent_worker.service.look_ahead import wrong_in_agent, wrong_in_workflow
from agent_worker.service.operation import operation
from agent_worker.service.service import Service

LARGEST = 256 * 1024
_FILE = pattern(r"\.(agents|workflows)/[A-Za-z0-9][A-Za-z0-9_-]{0,62}\.ya?ml")


@dataclass(frozen=True, slots=True)
class DefinitionText:
    """A file that defines an agent or a workflow."""

    file: str  #: beneath the project
    text: str
    problems: list[str]  #: as `agent-worker validate` tells them
    diff: list[str]  #: what saving this text would change, as the lines of a unified diff


@operation("GET", "/definition")
async def definition_show(service: Service, file: str, project: str | None = None) -> DefinitionText:
    """The text of an agent's or a workflow's file, and what is wrong in it."""
    known = (await service.project(project)).project
    text = await asyncio.to_thread(_text, known.root, _checked(file))
    if text is None:
        raise NotFound(f"there is no file {file}", hint="agent-worker agent list")
    return DefinitionText(file, text, await asyncio.to_thread(_problems, known, file, text), [])


@operation("POST", "/definition")
async def definition_check(service: Service, file: str, text: str, project: str | None = None) -> DefinitionText:
    """What would be wrong in a file with this text, and what it would change. Saves nothing."""
    known = (await service.project(project)).project
    before = await asyncio.to_thread(_text, known.root, _checked(file))
    problems = await asyncio.to_thread(_problems, known, file, text)
    old, new = (before or "").splitlines(), text.splitlines()
    return DefinitionText(file, text, problems, await asyncio.to_thread(changed_lines, old, new, around=2))


@operation("PUT", "/definition")
async def definition_write(
    service: Service, file: str, text: str, was: str = "", project: str | None = None
) -> DefinitionText:
    """Save the file of an agent or a workflow, if it is valid and still what it `was`; for a new file, empty."""
    known = (await service.project(project)).project
    if problems := await asyncio.to_thread(_problems, known, _checked(file), text):
        raise BadInput(problems[0], hint=f"{len(problems)} to fix before it can be saved")

    def changed(before: str) -> str:
        if before != was:
            raise Stale(f"{file} was changed in the meantime", hint="look at it again, then save")
        return text

    await asyncio.to_thread(rewrite, Root(known.root), file, changed)
    await service.project(str(known.root))
    return DefinitionText(file, text, [], [])


def _checked(file: str) -> str:
    if not _FILE.fullmatch(file):
        raise BadInput(f"{file[:100]!r} is not a file of an agent or a workflow", hint=f"such as {AGENTS}/alice.yaml")
    return file


def _text(root: Path, file: str) -> str | None:
    beneath = Root(root)
    return beneath.read_text(file, limit=LARGEST) if beneath.exists(file) else None


def _problems(known: ProjectFiles, file: str, text: str) -> list[str]:
    """What `validate` would find in a text that is not saved yet."""
    try:
        return [str(problem) for problem in _wrong(known, file, text)]
    except DefinitionError as error:
        return [str(problem) for problem in error.problems]


def _wrong(known: ProjectFiles, file: str, text: str) -> list[Problem]:
    path = known.root / file
    source = parse_source(text, file=file)
    if file.startswith(AGENTS):
        return wrong_in_agent(agent_of(source, path, root=known.root), path, known.root, source)
    broken = {name: str(at.relative_to(known.root)) for name, at in known.broken.items()}
    workflow = workflow_of(source, path, known.agents, root=known.root, broken_agents=broken)
    return wrong_in_workflow(workflow, path, known, source)
