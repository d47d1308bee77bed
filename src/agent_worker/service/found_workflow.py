"""A workflow that somebody named: by its name, by its file, or by where it is fetched from."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import canonical
from agent_worker.core.errors import BadInput, DefinitionError, NotFound, Refused
from agent_worker.core.later import dataclass
from agent_worker.core.remote import Fetched, Remote, is_remote, parse_remote
from agent_worker.database.database import Row
from agent_worker.definitions.workflow import WorkflowDefinition, alone, together, with_model
from agent_worker.service.addresses import no_agent
from agent_worker.workflows.placeholder_values import MODEL
from agent_worker.workflows.remote import Remotes
from agent_worker.workflows.runtime import Runtime

SESSION = "agent:"  #: before the name of an agent: a workflow that no file describes, with it alone
TOGETHER = "team:"  #: before the names of agents: a workflow that no file describes, with these


@dataclass(frozen=True, slots=True)
class FoundWorkflow:
    """A workflow, and what it is read from again after a restart."""

    definition: WorkflowDefinition
    file: str
    fetched: Fetched | None = None


async def find_workflow(runtime: Runtime, loaded: LoadedProject, name: str) -> FoundWorkflow:
    """A workflow by its name, by the path of its file, or by where it is fetched from."""
    project = loaded.project
    if name in project.workflows:
        return FoundWorkflow(project.workflows[name], str(project.workflow_files.get(name, "")))
    if name.startswith(SESSION):
        if (whose := name.removeprefix(SESSION)) not in loaded.agents:
            raise no_agent(whose, loaded.agents)
        return FoundWorkflow(alone(whose), name)
    if name.startswith(TOGETHER):
        return FoundWorkflow(_called_together(loaded, name.removeprefix(TOGETHER).split("+")), name)
    if is_remote(name):
        fetched = await remotes_of(runtime).get(workflow_source(name), now=runtime.clock.now())
        return await asyncio.to_thread(read_fetched, loaded, fetched)
    if name.endswith((".yaml", ".yml")):
        path = project.workflow_path(name)
        return FoundWorkflow(project.load_workflow(path), str(path))
    if agent := canonical(name, loaded.agents):
        told = f'ask it: agent-worker ask {agent} "…"; after a stop: agent-worker agent start {agent}'
        raise NotFound(f"{agent} is an agent, not a workflow", hint=told)
    raise project.no_workflow(name)


def as_started(found: FoundWorkflow, loaded: LoadedProject, workspace: Row) -> WorkflowDefinition:
    """The workflow with the model that an instance of it was started with."""
    model = json.loads(workspace["given"]).get(MODEL)
    return with_model(found.definition, loaded.project.agents, model) if model else found.definition


def _called_together(loaded: LoadedProject, names: Sequence[str]) -> WorkflowDefinition:
    known = {name: canonical(name, loaded.agents) for name in names}
    if missing := [name for name, found in known.items() if found is None]:
        told = f"there is no agent {missing[0][:100]} in this project"
        raise NotFound(told, hint=f"agents here: {', '.join(loaded.agents)}" if loaded.agents else "agent-worker init")
    return together(TOGETHER.removesuffix(":"), list(dict.fromkeys(filter(None, known.values()))))


def remotes_of(runtime: Runtime) -> Remotes:
    if runtime.remotes is None:
        raise Refused("nothing is fetched here: there is no home to keep it in", hint="use the daemon")
    return runtime.remotes


def workflow_source(text: str) -> Remote:
    remote = parse_remote(text)
    if not remote.path.endswith((".yaml", ".yml")):
        raise BadInput(f"{text} does not point to a workflow", hint="its path must end in .yaml")
    return remote


def read_fetched(loaded: LoadedProject, fetched: Fetched) -> FoundWorkflow:
    """The workflow for the agents of this project."""
    path = fetched.root / PurePosixPath(fetched.remote.path).name
    if not path.is_file():
        raise NotFound(f"there is no {fetched.remote.path} in {fetched.remote.url} at {fetched.commit}")
    try:
        return FoundWorkflow(loaded.project.load_workflow(path), fetched.pinned, fetched)
    except DefinitionError as error:  # whoever reads it knows the source, not where we keep it
        raise DefinitionError([replace(one, file=str(fetched.remote)) for one in error.problems]) from None
