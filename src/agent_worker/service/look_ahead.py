"""What would go wrong when agents and workflows are run, found in their files without running anything.

The daemon finds the same when it makes an agent ready, or too late; `validate` says it with the line and a suggestion.
That a file has the right form was checked before (definitions/).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from agent_worker.backends.models.providers import Endpoint, check_model
from agent_worker.core.address import as_written, canonical
from agent_worker.core.errors import BadInput, DefinitionError, NotFound, Problem
from agent_worker.core.later import pattern
from agent_worker.core.mentions import find_mentions
from agent_worker.definitions.agent import MODEL_SETTINGS, AgentDefinition, AgentSettings
from agent_worker.definitions.block import Broken
from agent_worker.definitions.loading import located, shown
from agent_worker.definitions.problems import did_you_mean, listed
from agent_worker.definitions.project_files import PROJECT_FILES, ProjectFiles
from agent_worker.definitions.schedule import Schedule, Timing
from agent_worker.definitions.source import Source, read_source
from agent_worker.definitions.workflow import InlineMember, RefMember, WorkflowDefinition
from agent_worker.files.root import Root
from agent_worker.tools.person import ask_user
from agent_worker.tools.recall import HISTORY, OWN
from agent_worker.tools.skills import find_skills
from agent_worker.tools.toolbox import TASK, TEAM
from agent_worker.trust.powers import python_tree

_TOOLS = ("bash", *TASK)
_BRACES = pattern(r"(?<![$\w])(?:\$\{\s*([\w.-]+)\s*\}|\{\{\s*([\w.-]+)\s*\}\})")
_DYNAMIC = "@${{"  # whom this calls on is known when it is filled in


def wrong_in_agent(agent: AgentDefinition, file: Path, root: Path, source: Source | None = None) -> list[Problem]:
    """What is wrong in an agent's file, or in the `source` that is to become it."""
    return _located(file, root, [*_of_agent(agent, root), *_of_own(agent)], source)


def wrong_in_workflow(
    workflow: WorkflowDefinition, file: Path, project: ProjectFiles, source: Source | None = None
) -> list[Problem]:
    found = list(_of_kickoff(workflow))
    for name, member in workflow.agents.items():
        of_member = _of_agent(member, project.root) if isinstance(member, InlineMember) else _of_ref(member, project)
        found += [broken.below("agents", name) for broken in of_member]
    if workflow.guard.model:
        found += _of_model(workflow.guard.model, Endpoint(), ("guard", "model"))
    return _located(file, project.root, found, source)


def wrong_in_project(project: ProjectFiles) -> list[Problem]:
    """What is wrong in the project's own file, and in all agents and workflows whose files have the right form."""
    found, judge = list[Problem](), project.definition.guard.model
    file = next((project.root / name for name in PROJECT_FILES if (project.root / name).is_file()), None)
    if file and judge:
        found += _located(file, project.root, list(_of_model(judge, Endpoint(), ("guard", "model"))), None)
    for name, agent in project.agents.items():
        found += wrong_in_agent(agent, project.agent_files[name], project.root)
    for name, workflow in project.workflows.items():
        found += wrong_in_workflow(workflow, project.workflow_files[name], project)
    return found


def remarks_on(project: ProjectFiles, now: datetime) -> list[str]:
    """What is right as it is written, and yet hardly meant: each begins with the file that it is in."""
    return [*_of_schedules(project, now), *_of_braces(project), *_of_settings(project)]


def _of_schedules(project: ProjectFiles, now: datetime) -> Iterator[str]:
    found: list[tuple[Timing | None, Path]] = []
    found += [(agent.schedule, project.agent_files[name]) for name, agent in project.agents.items()]
    found += [(each.schedule, project.workflow_files[name]) for name, each in project.workflows.items()]
    for schedule, file in found:
        if schedule is None:
            continue
        where = shown(file, project.root)
        if schedule.moment is not None and schedule.moment < now:
            yield f"{where}: schedule.at: {schedule.at:%Y-%m-%d} has passed, so this is no longer due"
        if isinstance(schedule, Schedule) and schedule.workspace:
            name, _ = as_written(schedule.workspace)
            if not canonical(name, project.workflows):
                near = did_you_mean(name, list(project.workflows))
                told = f"{where}: schedule.workspace: no workflow is called {name} here"
                yield f"{told} ({near or 'it wakes up in its direct conversation instead'})"


def _of_braces(project: ProjectFiles) -> Iterator[str]:
    """Values that are known and would not be filled in, because they are written as other programs want it."""
    for name, workflow in project.workflows.items():
        where = shown(project.workflow_files[name], project.root)
        outputs = {step.output for step in workflow.setup if step.output}
        known = {*outputs, *(f"params.{param.name}" for param in workflow.params)}
        for found in _BRACES.finditer(workflow.kickoff or ""):
            if (found[1] or found[2]) in known:
                yield f"{where}: kickoff: {found[0]} is not filled in; write ${{{{ {found[1] or found[2]} }}}}"
                break


def _of_settings(project: ProjectFiles) -> Iterator[str]:
    """Parameters of a model that are sent as written, and are called nearly like one that models know."""
    for name, agent in project.agents.items():
        for key in sorted(agent.settings.keys() - MODEL_SETTINGS):
            if near := did_you_mean(key, sorted(MODEL_SETTINGS)):
                where = shown(project.agent_files[name], project.root)
                yield f"{where}: settings.{key}: is sent to the model as it is written ({near})"


def unplayable_in(workflow: WorkflowDefinition, file: Path, project: ProjectFiles) -> list[Problem]:
    """The scripts of its mock members that cannot be played: such a team is not started at all."""
    own, of_agents = list[Broken](), list[Problem]()
    for name, member in workflow.agents.items():
        ref = canonical(member.ref, project.agents) if isinstance(member, RefMember) else None
        if isinstance(member, InlineMember):
            own += [broken.below("agents", name) for broken in _of_script(member)]
        elif ref and member.script is not None:
            merged = member.applied_to(project.agents[ref])
            own += [broken.below("agents", name) for broken in _of_script(merged)]
        elif ref and ref in project.agent_files:
            of_agents += _located(project.agent_files[ref], project.root, list(_of_script(project.agents[ref])), None)
    return [*_located(file, project.root, own, None), *of_agents]


def _located(file: Path, root: Path, found: list[Broken], source: Source | None) -> list[Problem]:
    if not found:
        return []
    try:
        return located(source or read_source(file, shown_as=shown(file, root)), found)
    except DefinitionError as error:  # it was changed in this moment
        return error.problems


def _of_agent(agent: AgentSettings, root: Path) -> Iterator[Broken]:
    if agent.backend == "sdk" and agent.model is not None:
        is_named_apart = agent.provider is not None and agent.provider.name is not None
        yield from _of_model(agent.model, _endpoint(agent), ("provider",) if is_named_apart else ("model",))
    for index, tool in enumerate(agent.tools):
        if ".py:" in tool.name:
            yield from _of_python(tool.name, root, index)
        elif tool.name not in _TOOLS:
            hint = did_you_mean(tool.name, _TOOLS) or f"tools: {', '.join(_TOOLS)}, ./file.py:function"
            yield Broken(("tools", index), f"there is no tool {tool.name}", hint)
    for index, folder in enumerate(agent.skills):
        if not (root / folder).is_dir():
            yield Broken(("skills", index), "there is no such folder in the project", _near(folder, root))
        elif not find_skills([root / folder]):
            yield Broken(("skills", index), "there is no skill in this folder", "a skill is a folder with a SKILL.md")
    if not (root / agent.cwd).is_dir():
        yield Broken(("cwd",), "there is no such folder in the project", _near(agent.cwd, root))
    yield from _of_script(agent)


def _of_ref(member: RefMember, project: ProjectFiles) -> Iterator[Broken]:
    """What a workflow changes of an agent; the rest is told with the agent's own file."""
    name = canonical(member.ref, project.agents)
    merged = member.applied_to(project.agents[name]) if name else None
    if merged and member.model and merged.backend == "sdk":
        yield from _of_model(member.model, _endpoint(merged), ("model",))
    if merged and member.script is not None:
        yield from _of_script(merged)


def _of_own(agent: AgentDefinition) -> Iterator[Broken]:
    if agent.auto_memory and agent.auto_memory.model:
        yield from _of_model(agent.auto_memory.model, _endpoint(agent), ("auto_memory", "model"))


def _endpoint(agent: AgentSettings) -> Endpoint:
    provider = agent.provider
    return Endpoint(agent.served_by, provider.base_url or "") if provider else Endpoint()


def _of_model(model: str, endpoint: Endpoint, path: tuple[str, ...]) -> Iterator[Broken]:
    try:
        check_model(model, endpoint)
    except BadInput as error:
        yield Broken(path, error.message, error.hint)


def _of_python(reference: str, root: Path, index: int) -> Iterator[Broken]:
    path, _, name = reference.rpartition(":")
    relative = path.removeprefix("./")
    try:
        tree = python_tree(Root(root.resolve()).read_text(relative))
    except NotFound:
        yield Broken(("tools", index), f"there is no file {relative} in the project", _near(relative, root))
        return
    except (BadInput, SyntaxError, ValueError, RecursionError) as error:
        yield Broken(("tools", index), f"{relative} cannot be read: {error}")
        return
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    names = {node.name: node for node in functions}
    if name not in names:
        imports = any(isinstance(node, ast.Import | ast.ImportFrom | ast.If | ast.Try) for node in tree.body)
        if not imports or not functions:  # else it may come from there
            hint = did_you_mean(name, list(names)) or f"functions: {listed(names) or 'none'}"
            yield Broken(("tools", index), f"there is no function {name} in {relative}", hint)
    elif not ast.get_docstring(names[name]):
        yield Broken(("tools", index), f"{name} has no docstring", "write what the tool does there: the model reads it")


def _of_script(agent: AgentSettings) -> Iterator[Broken]:
    """A script that cannot be played: nothing in it, nothing before `again`, or a tool that the agent has not."""
    if agent.script is None or agent.backend != "mock":
        return
    if not agent.script or agent.script[0].again:
        yield Broken(("script",), "has nothing to play", "begin it with an entry such as say: hello")
    known = _tools_of(agent)
    for index, entry in enumerate(agent.script):
        for call in entry.call or ():
            if not agent.mcp_servers and call.tool not in known:
                hint = did_you_mean(call.tool, sorted(known)) or "name it under tools:"
                yield Broken(("script", index, "call"), f"the agent has no tool {call.tool}", hint)


def _tools_of(agent: AgentSettings) -> set[str]:
    own = (*OWN, *HISTORY) if isinstance(agent, AgentDefinition) else HISTORY
    named = {tool.name.rpartition(":")[2] for tool in agent.tools}
    return (
        {tool.name for tool in (*TEAM, *own, ask_user)}
        | named
        | ({"skill_list", "skill_read"} if agent.skills else set())
    )


def _of_kickoff(workflow: WorkflowDefinition) -> Iterator[Broken]:
    text, members = workflow.kickoff or "", list(workflow.agents)
    if not text.strip():
        return
    called = find_mentions(text, members, sender="user").names
    if not called and _DYNAMIC not in text and not workflow.has_desk:
        hint = f"name a member in it: @{members[0]}; or say who gets it: desk: {members[0]}"
        yield Broken(("kickoff",), "calls on nobody, so nobody would start working", hint)


def _near(path: str, root: Path) -> str:
    """A folder or file of the project that may have been meant."""
    above = (root / path).parent
    try:
        names = [entry.name for entry in above.iterdir()] if above.is_dir() else []
    except OSError:
        names = []
    return did_you_mean(Path(path).name, names)
