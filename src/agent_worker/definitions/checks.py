"""What can only be seen with more than one file in hand: refs, prompt files, and where paths lead."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_worker.core.address import canonical
from agent_worker.core.control_files import CONTROL_NAMES
from agent_worker.core.errors import BadInput
from agent_worker.core.mentions import find_mentions
from agent_worker.definitions.agent import AgentDefinition, AgentSettings
from agent_worker.definitions.block import Broken, Where, entries
from agent_worker.definitions.paths import Outside, names_beneath
from agent_worker.definitions.placeholders import BUILT_IN, is_secret, malformed_in, names_in
from agent_worker.definitions.problems import did_you_mean, listed
from agent_worker.definitions.workflow import InlineMember, RefMember, WorkflowDefinition
from agent_worker.files import paths as storage_paths

#: Where nobody works and nothing is kept but what belongs there.
_NO_CWD = CONTROL_NAMES
_NO_HOME = tuple(name for name in CONTROL_NAMES if name != ".agents")
_DIRECTORIES = (("bind",), ("dir",), ("config", "dir"))  # in the block of a workspace
_NO_WORKSPACE = tuple(name for name in CONTROL_NAMES if name != ".workspace")


def check_members(
    written: Any, agents: Mapping[str, AgentDefinition], *, broken: Mapping[str, str]
) -> Iterator[Broken]:
    """Check the members of a workflow before its form is checked. `broken` are agents whose file has problems, with
    that file."""
    for name, member in entries(_get(written, "agents")):
        ref, known = member.get("ref"), canonical(str(name), agents)
        if "ref" not in member and known is not None:
            yield Broken(("agents", name), f"the project has an agent {known} already", f"write ref: {known}")
        if not isinstance(ref, str):
            continue
        if (agent := canonical(ref, agents)) is None:
            yield Broken(("agents", name, "ref"), *_unknown_agent(ref, agents, broken))
        elif agent.lower() != str(name).lower():
            yield Broken(("agents", name), f"an agent keeps its name: this is {agent}", f"write {agent}: as the key")


def check_overrides(workflow: WorkflowDefinition, agents: Mapping[str, AgentDefinition]) -> Iterator[Broken]:
    """Check that what an override makes of its agent is still able to work."""
    for name, member in workflow.agents.items():
        if not isinstance(member, RefMember) or (agent := canonical(member.ref, agents)) is None:
            continue
        merged = member.applied_to(agents[agent])
        if merged.backend == "sdk" and merged.model is None:
            yield Broken(("agents", name), "backend sdk needs a model, and the agent has none", "add model: here")
        if merged.backend == "acp" and merged.command is None:
            yield Broken(("agents", name), "backend acp needs a command, and the agent has none")


def check_checkouts(workflow: WorkflowDefinition, agents: Mapping[str, AgentDefinition]) -> Iterator[Broken]:
    """Report programs that edit the same files, unless somebody wanted it."""
    places: dict[str, list[str]] = {}
    for name, member in workflow.agents.items():
        if isinstance(member, RefMember):
            agent = canonical(member.ref, agents)
            settings: AgentSettings | None = member.applied_to(agents[agent]) if agent else None
        else:
            settings = member
        if settings and settings.edits_freely and settings.isolate is None:
            places.setdefault(os.path.normpath(settings.cwd), []).append(name)
    for names in places.values():
        if len(names) > 1:
            told = f"{' and '.join(names)} would edit the same checkout"
            hint = "isolate: worktree gives each its own, isolate: none lets them share, access: read lets them look"
            yield Broken(("agents", names[-1]), told, hint)


def _unknown_agent(ref: str, agents: Mapping[str, AgentDefinition], broken: Mapping[str, str]) -> tuple[str, str]:
    if (name := canonical(ref, broken)) is not None:
        return f"agent {name} has problems", f"fix {broken[name]} first"
    known = f"known agents: {listed(agents)}" if agents else "this project has no agents"
    near = did_you_mean(ref, list(agents))
    return f"there is no agent {ref}", f"{near} {known}" if near else known


def check_placeholders(written: Any) -> Iterator[Broken]:
    """Check, before the form of a workflow, that every `${{ name }}` asks for something that will be there."""
    known = known_names(written)
    outputs: set[str] = set()
    steps = [*entries(_get(written, "setup"))]
    later = {str(step.get("as")) for _, step in steps}
    for index, step in steps:
        yield from check_text(("setup", index, "shell"), step.get("shell"), known | outputs, later)
        outputs.add(str(step.get("as")))  # from here on
    for path, text in _texts(written):
        yield from check_text(path, text, known | outputs)
    for name, trigger in entries(_get(written, "triggers")):
        params = trigger.get("params")
        own = {f"params.{param}" for param in params} if isinstance(params, dict) else set()
        for key in ("group", "send"):
            yield from check_text(("triggers", name, key), trigger.get(key), own)


def known_names(written: Any) -> set[str]:
    """Names that can be filled in besides the outputs of the set-up."""
    variables = _get(written, "env")
    return {
        *BUILT_IN,
        *(f"params.{param.get('name')}" for _, param in entries(_get(written, "params"))),
        *(f"env.{variable}" for variable in (variables if isinstance(variables, list) else ())),
    }


def _texts(written: Any) -> Iterator[tuple[Where, Any]]:
    yield ("kickoff",), _get(written, "kickoff")
    for block in ("workspace", "context"):
        for where in _DIRECTORIES:
            yield (block, *where), _at(_get(written, block), where)
    for name, member in entries(_get(written, "agents")):
        yield ("agents", name, "system_prompt"), member.get("system_prompt")
        for key in ("append", "system"):
            yield ("agents", name, "prompt", key), _get(member.get("prompt"), key)


def _get(written: Any, key: str) -> Any:
    return written.get(key) if isinstance(written, dict) else None


def _at(written: Any, where: tuple[str, ...]) -> Any:
    for key in where:
        written = _get(written, key)
    return written


def check_text(path: Where, text: Any, known: set[str], later: Collection[str] = ()) -> Iterator[Broken]:
    if not isinstance(text, str):
        return
    for piece in malformed_in(text):
        yield Broken(path, f"{piece!r} names nothing", "write ${{ name }}, or $${{ for the characters")
    for name in names_in(text):
        if name in known:
            continue
        if name in later:
            yield Broken(
                path, f"{name} is only known after this step", "move the step that prints it up, or use it further down"
            )
        else:
            yield Broken(path, f"there is no {name} to fill in", _instead_of(name, known))


def _instead_of(name: str, known: set[str]) -> str:
    if name.startswith("env.") and is_secret(name.removeprefix("env.")):
        return "a prompt must not contain a secret; pass it to an agent through its `env`"
    if name.startswith("env."):
        return f"list {name.removeprefix('env.')} under env: to allow it"
    return did_you_mean(name, sorted(known)) or f"known: {listed(known)}"


def check_kickoff(workflow: WorkflowDefinition) -> Iterator[Broken]:
    """Check that a kickoff calls on members only. What a filled-in value will call on is not known yet."""
    members = list(workflow.agents)
    for name in find_mentions(workflow.kickoff or "", members, sender="user").unknown:
        hint = did_you_mean(name, members) or f"members: {', '.join(members)}; in `back-ticks` it calls on nobody"
        yield Broken(("kickoff",), f"nobody here is called {name}", hint)


def check_paths_of_agent(agent: AgentSettings, root: Path) -> Iterator[Broken]:
    for index, text in enumerate(agent.skills):
        yield from _check_path(("skills", index), text, root)
    for index, tool in enumerate(agent.tools):
        if ".py:" in tool.name:
            yield from _check_path(("tools", index), tool.name.rpartition(":")[0], root)
    yield from _check_path(("cwd",), agent.cwd, root, forbidden=_NO_CWD)
    if isinstance(agent, AgentDefinition):
        yield from _check_path(("context", "dir"), agent.personal_dir, root, forbidden=_NO_HOME, own=True)


def check_paths_of_workflow(workflow: WorkflowDefinition, root: Path) -> Iterator[Broken]:
    if workflow.workspace is not False:
        settings = workflow.workspace.model_dump()
        for where in _DIRECTORIES:
            if (text := _at(settings, where)) is not None:
                yield from check_own_path(("workspace", *where), text, root)
    for name, member in workflow.agents.items():
        if isinstance(member, InlineMember):
            for broken in check_paths_of_agent(member, root):
                yield broken.below("agents", name)


def check_own_path(path: Where, text: str, root: Path) -> Iterator[Broken]:
    """Check a directory that we will fill: it must not be an agent's, a definition's or git's."""
    yield from _check_path(path, text, root, forbidden=_NO_WORKSPACE, own=True)


def check_personal_dirs(agents: Mapping[str, AgentDefinition], root: Path) -> dict[str, Broken]:
    """The agents whose folder overlaps that of another; of two, the one whose file chose the folder."""
    taken: dict[tuple[str, ...], str] = {}  # a folder → whose it is
    above: dict[tuple[str, ...], str] = {}  # what such folders lie in → whose is the first there
    found: dict[str, Broken] = {}
    for name, agent in sorted(agents.items(), key=lambda item: item[1].context.dir is not None):
        try:
            mine = names_beneath(root, agent.personal_dir)
        except Outside:  # it leads out of the project by now: refused where it is used
            continue
        parents = [mine[:depth] for depth in range(len(mine))]
        other = above.get(mine) or next((taken[path] for path in (mine, *parents) if path in taken), None)
        if other is None:
            taken[mine] = name
            for path in parents:
                above.setdefault(path, name)
        else:
            found[name] = Broken(("context", "dir"), f"is, or overlaps, the folder of agent {other}")
    return found


def _check_path(
    path: Where, text: str, root: Path, *, forbidden: tuple[str, ...] = (), own: bool = False
) -> Iterator[Broken]:
    """Check a path that a file names. `own` is a directory that we will fill, and that must not hold other things of
    the project.
    """
    try:
        names = names_beneath(root, text)
        if own and text != ".":
            storage_paths.names_in(text)  # what will open it asks the same, when it is too late to say so here
    except Outside:
        yield Broken(path, "points outside the project")
        return
    except BadInput as error:
        yield Broken(path, error.message, error.hint)
        return
    if any(part.lower() in forbidden for part in names[:1]) or (own and names in ((), (".agents",))):
        yield Broken(path, "must be a separate directory inside the project", "not one that holds other things")
