"""A path may be written with or without `./` before it and `/` behind it, in every place of every file (SPEC §4.1)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import agent_worker
from agent_worker.core.clock import TestClock
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.project import ProjectDefinition
from agent_worker.definitions.project_files import ProjectFiles, load_project
from agent_worker.definitions.workflow import WorkflowDefinition

SPELLINGS = ("{}", "./{}", "{}/", "./{}/", ".//{}", "{}//", "././{}/./", "other/../{}")

AGENT = """\
backend: mock
context: {{ dir: {agent.context.dir} }}
cwd: {agent.cwd}
skills: [{agent.skills}]
"""
FILES = {
    ".agents/alice.yaml": AGENT + "prompt: {{ system_file: {agent.prompt.system_file} }}\n",
    ".agents/carl.yaml": "backend: mock\nsystem_prompt: {agent.system_prompt}\ntools: [{agent.tools}:look]\n",
    ".workflows/bound.yaml": "agents:\n  alice: {{ ref: alice }}\nworkspace: {{ bind: {workflow.workspace.bind} }}\n",
    ".workflows/free.yaml": (
        "agents:\n  dora: {{ backend: mock, cwd: {workflow.agents.cwd}, skills: [{workflow.agents.skills}] }}\n"
        "workspace: {{ dir: {workflow.workspace.dir} }}\n"
    ),
    ".workflows/older.yaml": "agents: {{ ann: {{ backend: mock }} }}\n"
    "context: {{ config: {{ dir: {workflow.workspace.config.dir} }} }}\n",
    ".workflows/plain.yaml": "agents:\n  alice: {{ ref: alice }}\n",
    "moniro.yaml": (
        "agents: ['{project.agents}', .agents/carl.yaml]\n"
        "workflows: {{ bound: '{project.workflows}', free: .workflows/free.yaml, "
        "older: .workflows/older.yaml, plain: .workflows/plain.yaml }}\n"
        "workspace: {{ base: {project.workspace.base} }}\n"
    ),
}
#: Every field that holds a path, and where it leads.
FIELDS = {
    "agent.context.dir": "folders/alice",
    "agent.cwd": "work",
    "agent.skills": "skills",
    "agent.tools": "tools/look.py",
    "agent.prompt.system_file": "be.md",
    "agent.system_prompt": "be.md",
    "workflow.workspace.bind": "data/kept",
    "workflow.workspace.dir": "data/moved",
    "workflow.workspace.config.dir": "data/configured",
    "workflow.agents.cwd": "work",
    "workflow.agents.skills": "skills",
    "project.agents": ".agents/alice.yaml",
    "project.workflows": ".workflows/bound.yaml",
    "project.workspace.base": "rooms",
}


def project(root: Path, spelling: str = "{}", *, of: Collection[str] = FIELDS) -> Path:
    """With these fields written so."""
    values = {name: spelling.format(path) if name in of else path for name, path in FIELDS.items()}
    for folder in ("work", "skills", "tools", "other", ".agents/other", ".agents", ".workflows"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / ".agents/be.md").write_text("Be kind.\n")
    (root / "tools/look.py").write_text('def look(at: str) -> str:\n    """Look at it."""\n    return at\n')
    for file, text in FILES.items():
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", value)
        (root / file).write_text(text.replace("{{", "{").replace("}}", "}"))
    return root


def said(found: ProjectFiles) -> dict[str, Any]:
    """Everything that the files say."""
    assert not found.problems, [str(problem) for problem in found.problems]
    agents = {name: agent.model_dump() for name, agent in found.agents.items()}
    for agent in agents.values():
        agent["prompt"].pop("system_file")  # as it was written; the text counts
    return {
        "agents": agents,
        "workflows": {name: workflow.model_dump() for name, workflow in found.workflows.items()},
        "project": found.definition.model_dump(exclude={"name"}),
        "files": {name: str(file.relative_to(found.root)) for name, file in found.agent_files.items()},
    }


@pytest.mark.parametrize("field", FIELDS)
def test_I7_a_path_means_the_same_however_it_is_written(tmp_path: Path, field: str) -> None:
    plainly = said(load_project(project(tmp_path / "a")))
    for spelling in SPELLINGS:
        assert said(load_project(project(tmp_path / "b", spelling, of={field}))) == plainly, spelling


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_I7_a_project_works_however_its_paths_are_written(tmp_path: Path, spelling: str) -> None:
    """All of them at once, each in its field."""
    root = project(tmp_path / "p", spelling)
    async with agent_worker.local(root, trust=True, clock=TestClock()) as opened:
        assert not await opened.problems()
        for agent in ("alice", "carl"):
            answer = await opened.ask(agent, "hello")
            assert answer.state == "done", answer.reason
        places = {"bound": "data/kept", "free": "data/moved", "older": "data/configured", "plain": "rooms/plain/main"}
        for workflow, place in places.items():
            team = await opened.start(workflow)
            assert team.directory == str(root / place)
            await team.stop()
    assert list((root / "folders/alice/conversations").iterdir())


def paths_in(model: type[BaseModel], above: str) -> Iterator[str]:
    """Every field that is declared to be a path, in a model and in those it is made of."""
    for name, field in model.model_fields.items():
        declared = f"{field.annotation} {field.metadata}"
        if "inside_path" in declared:
            yield f"{above}.{name}"
        for inner in _models_of(field.annotation):
            yield from paths_in(inner, f"{above}.{name}")


def _models_of(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models_of(argument)
    if origin := getattr(annotation, "__origin__", None):
        yield from _models_of(origin) if not isinstance(origin, type) else ()


def test_I7_every_field_that_holds_a_path_is_tried() -> None:
    models = {"agent": AgentDefinition, "workflow": WorkflowDefinition, "project": ProjectDefinition}
    declared = {path for name, model in models.items() for path in paths_in(model, name)}
    declared -= {path for path in declared if path.startswith("project.agents.")}  # those of an agent
    assert declared
    assert declared <= set(FIELDS), declared - set(FIELDS)
