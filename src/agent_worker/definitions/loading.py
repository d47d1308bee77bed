"""One agent or workflow file → its definition, with prompt files read and everything checked.

Each function raises DefinitionError with every problem of that file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from agent_worker.core.errors import BadInput, DefinitionError, Problem
from agent_worker.core.text import written_out
from agent_worker.definitions.agent import AgentDefinition, AgentSettings
from agent_worker.definitions.agent_blocks import PromptSettings
from agent_worker.definitions.block import Broken, Where
from agent_worker.definitions.checks import (
    check_checkouts,
    check_kickoff,
    check_members,
    check_overrides,
    check_paths_of_agent,
    check_paths_of_workflow,
    check_placeholders,
    check_text,
    known_names,
)
from agent_worker.definitions.paths import Outside, beneath
from agent_worker.definitions.problems import validate
from agent_worker.definitions.source import Source, parse_source, read_source, read_text
from agent_worker.definitions.workflow import InlineMember, RefMember, WorkflowDefinition

A = TypeVar("A", bound=AgentSettings)


def shown(path: Path, root: Path) -> str:
    """A file as messages name it. A name that is no text is written so that it can be shown and stored; and what would
    begin a line, or turn the words behind it round, is named.
    """
    name = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
    return written_out(name.encode(errors="backslashreplace").decode(), plain="")


def load_agent(path: Path, *, root: Path) -> AgentDefinition:
    return agent_of(read_source(path, shown_as=shown(path, root)), path, root=root)


def agent_in(text: str, *, file: str) -> AgentDefinition:
    """The agent that this text defines, whose file need not be there. Raises DefinitionError."""
    return validate(AgentDefinition, parse_source(text, file=file), defaults={})


def agent_of(source: Source, path: Path, *, root: Path) -> AgentDefinition:
    """The agent that a file at this path defines, or would define."""
    agent = validate(AgentDefinition, source, defaults={"name": path.stem})
    agent, wrong_prompt = with_prompt_read(agent, named_in=path, root=root)
    refuse(source, [*wrong_prompt, *check_paths_of_agent(agent, root)])
    return agent


def load_workflow(
    path: Path,
    agents: Mapping[str, AgentDefinition],
    *,
    root: Path,
    broken_agents: Mapping[str, str] | None = None,
    name: str | None = None,
) -> WorkflowDefinition:
    """A workflow file at any path. A file outside of the project may name prompt files beside it.

    `broken_agents` have problems of their own, told elsewhere: each with its file. `name` is used if the file has none.
    """
    source = read_source(path, shown_as=shown(path, root))
    return workflow_of(source, path, agents, root=root, broken_agents=broken_agents, name=name)


def workflow_of(
    source: Source,
    path: Path,
    agents: Mapping[str, AgentDefinition],
    *,
    root: Path,
    broken_agents: Mapping[str, str] | None = None,
    name: str | None = None,
) -> WorkflowDefinition:
    """The workflow that a file at this path defines, or would define."""
    broken = broken_agents or {}
    seen = [*check_members(source.data, agents, broken=broken), *check_placeholders(source.data)]
    workflow = validate(WorkflowDefinition, source, defaults={"name": name or path.stem}, also=located(source, seen))
    workflow, wrong = _with_prompts_read(workflow, source, named_in=path, root=root)
    wrong += check_overrides(workflow, agents)
    wrong += check_checkouts(workflow, agents)
    wrong += check_paths_of_workflow(workflow, root)
    wrong += check_kickoff(workflow)
    refuse(source, wrong)
    return workflow


def agent_value(name: str, written: Mapping[str, Any], *, root: Path) -> AgentDefinition:
    """The agent that a program hands over, written as its file would be."""
    source = Source(f"agent {name}", {**written, "name": name})
    agent = validate(AgentDefinition, source, defaults={})
    if agent.prompt and agent.prompt.system_file:
        raise BadInput(f"agent {name}: a value contains its own prompt", hint="system=Path(…).read_text()")
    refuse(source, check_paths_of_agent(agent, root))
    return agent


def workflow_value(
    name: str, written: Mapping[str, Any], agents: Mapping[str, AgentDefinition], *, root: Path
) -> WorkflowDefinition:
    """The workflow that a program hands over, written as its file would be."""
    source = Source(f"team {name}", {**written, "name": name})
    seen = [*check_members(source.data, agents, broken={}), *check_placeholders(source.data)]
    workflow = validate(WorkflowDefinition, source, defaults={}, also=located(source, seen))
    wrong = [*check_overrides(workflow, agents), *check_checkouts(workflow, agents)]
    refuse(source, [*wrong, *check_paths_of_workflow(workflow, root)])
    return workflow


def team_in(written: dict[str, Any], root: Path) -> WorkflowDefinition:
    """The workflow that a request describes instead of a file: its members are all defined in it."""
    source = Source("the request", written)
    definition = validate(WorkflowDefinition, source, defaults={}, also=located(source, check_placeholders(written)))
    refuse(source, check_paths_of_workflow(definition, root))
    for name, member in definition.agents.items():
        if not isinstance(member, InlineMember) or (member.prompt and member.prompt.system_file):
            raise BadInput(f"agents.{name}: define it here, without ref and system_file")
    return definition


def _with_prompts_read(
    workflow: WorkflowDefinition, source: Source, *, named_in: Path, root: Path
) -> tuple[WorkflowDefinition, list[Broken]]:
    home = root if named_in.resolve().is_relative_to(root.resolve()) else named_in.parent
    known = known_names(source.data) | {step.output for step in workflow.setup if step.output}
    members: dict[str, RefMember | InlineMember] = dict(workflow.agents)
    wrong: list[Broken] = []
    for name, member in workflow.agents.items():
        if isinstance(member, InlineMember) and member.prompt and member.prompt.system_file:
            ready, found = with_prompt_read(member, named_in=named_in, root=home)
            found += check_text(("prompt", "system_file"), ready.system, known)
            members[name] = ready
            wrong += [broken.below("agents", name) for broken in found]
    return workflow.model_copy(update={"agents": members}), wrong


def with_prompt_read(settings: A, *, named_in: Path, root: Path) -> tuple[A, list[Broken]]:
    """These settings with the text of `system_file` in `system`."""
    if settings.prompt is None or settings.prompt.system_file is None:
        return settings, []
    try:
        text = _prompt_text(settings.prompt.system_file, named_in, root)
    except DefinitionError as error:
        return settings, [Broken(("prompt", "system_file"), problem.message) for problem in error.problems]
    prompt = PromptSettings.model_construct(system=text, system_file=settings.prompt.system_file)
    return settings.model_copy(update={"prompt": prompt}), []


def prompt_files(written: Any) -> Iterator[str]:
    """Every file that is named as a prompt in something unchecked."""
    inner = written.items() if isinstance(written, dict) else enumerate(written) if isinstance(written, list) else ()
    for key, value in inner:
        if key in ("system_file", "system_prompt") and isinstance(value, str) and len(value) <= 1000:
            if "\n" not in value and "\0" not in value:
                yield value
        else:
            yield from prompt_files(value)


def located(source: Source, wrong: Iterable[Broken]) -> list[Problem]:
    return [source.problem(_as_written(broken.path, source.data), broken.message, hint=broken.hint) for broken in wrong]


def refuse(source: Source, wrong: Iterable[Broken]) -> None:
    """Raise DefinitionError if anything is wrong."""
    if problems := located(source, wrong):
        raise DefinitionError(sorted(problems, key=lambda problem: (problem.line, problem.column)))


def _prompt_text(name: str, named_in: Path, root: Path) -> str:
    try:
        path = beneath(root, name, start=named_in.parent)
    except Outside:
        raise DefinitionError([Problem(name, 1, 1, "", "must be a file inside the project")]) from None
    text = read_text(path, file=name)
    if "\0" in text:
        raise DefinitionError([Problem(name, 1, 1, "", "is not a text file")])
    if not text.strip():
        raise DefinitionError([Problem(name, 1, 1, "", "is empty")])
    return text


def _as_written(path: Where, data: Any) -> list[str | int]:
    """The path of a field by the spelling that the file uses where there are two."""
    written: list[str | int] = []
    for step in path:
        keys = data if isinstance(data, dict) else {}
        if step == "workspace" and step not in keys and "context" in keys:
            step = "context"
        if step == "prompt" and step not in keys and "system_prompt" in keys:
            return [*written, "system_prompt"]
        written.append(step)
        data = keys.get(step)
    return written
