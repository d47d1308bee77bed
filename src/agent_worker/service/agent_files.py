"""The files of agents: a lasting agent is made, changed and deleted with its definition and its folder."""

from __future__ import annotations

import asyncio
import itertools
import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import canonical, check_name, check_no_secret
from agent_worker.core.errors import BadInput, DefinitionError, NotFound, Problem, Refused
from agent_worker.core.later import dataclass
from agent_worker.core.signature import Flat
from agent_worker.database.database import Row, Transaction
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.loading import agent_in, agent_of
from agent_worker.definitions.project_files import AGENTS, PROJECT_FILES
from agent_worker.definitions.rewriting import rewritten_within
from agent_worker.definitions.source import parse_source
from agent_worker.files.root import Root
from agent_worker.files.swap import Conflict
from agent_worker.memory.edits import rewrite
from agent_worker.service.agent_deletion import remove_files, take_leave
from agent_worker.service.agents import AgentView, agent_info, queue_of
from agent_worker.service.look_ahead import wrong_in_agent
from agent_worker.service.messages import agent_id
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.trust.powers import powers_of_agent
from agent_worker.work import agent_rows, threads
from agent_worker.workspaces import workspace_rows

#: Keys that hold others, and the one of those that is set most.
_WITHIN = {"prompt": "system", "soul": "role", "limits": "usd_per_day", "provider": "base_url"}
FOLDERS = ("memory", "notes", "conversations", "todo")  #: of an agent, in its own


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """An agent to make, as somebody asks for it. Its fields are the arguments of `agent_create`."""

    name: str | None = None
    project: str | None = None
    backend: str | None = None
    model: str | None = None
    system: str | None = None
    role: str | None = None
    expertise: list[str] | None = None
    lasting: bool = True
    origin: str | None = None


@operation("POST", "/agents")
async def agent_create(service: Service, request: Flat[AgentRequest]) -> AgentView:
    """Make an agent: a lasting one is a file in the project, any other lives only in the daemon.

    `origin` names a quick agent that becomes a lasting one under the new name, with what was said to it.
    """
    loaded = await service.project(request.project)
    name = check_name(request.name or await _free_name(service, loaded))
    check_no_secret(name, service.runtime.database.redact, of="an agent")
    quick = await _quick(service, loaded, request.origin) if request.origin is not None else None
    stays = (
        quick is not None and request.lasting and name.lower() == quick.name.lower()
    )  # the same agent, from now on a file
    if stays and quick is not None:
        name = quick.name
    elif canonical(name, loaded.agents):
        raise Refused(f"there is already an agent {name}", hint=f"agent-worker agent info {name}")
    soul = {key: value for key, value in (("role", request.role), ("expertise", request.expertise)) if value}
    given = {"backend": request.backend, "model": request.model, "system": request.system}
    text = _written(name, quick, soul, **given)
    definition = await asyncio.to_thread(_given, text, loaded.project.root, name)
    before = await service.read(loaded, agent_rows.known, name)
    found = ""
    if stays:
        await service.write(loaded, agent_rows.make_lasting, loaded.agents[name])
        await _write_file(service, loaded, name, text)
        await asyncio.to_thread(_make_folders, Root(loaded.project.root), definition.personal_dir)
    elif request.lasting:
        found = await asyncio.to_thread(_folder_of, Root(loaded.project.root), definition.personal_dir)
        if before is not None:  # its file was taken away by hand: who begins now is somebody else
            await take_leave(service, loaded, before, definition)
        await _write_file(service, loaded, name, text)
        await asyncio.to_thread(_make_folders, Root(loaded.project.root), definition.personal_dir)
        if quick is not None:
            await _take_over(service, str(loaded.project.root), quick, name)
    elif before is not None:
        raise Refused(
            f"there was a lasting agent {name} here, and its record is kept",
            hint=f"choose another name, or let a new one take its place: agent-worker agent create {name}",
        )
    else:
        await service.add_quick(loaded, definition)
    return replace((await agent_info(service, name, project=str(loaded.project.root))).agent, found=found)


def _given(text: str, root: Path, name: str) -> AgentDefinition:
    """The agent that a command describes. What `validate` would find wrong in its file is not written into one."""
    file = f"{AGENTS}/{name}.yaml"
    try:
        agent = agent_in(text, file=file)
    except DefinitionError as error:
        raise _unsaved(error.problems) from None
    if wrong := wrong_in_agent(agent, root / file, root, parse_source(text, file=file)):
        raise _unsaved(wrong)
    return agent


def _unsaved(problems: Sequence[Problem]) -> BadInput:
    """What is wrong with values that a command gave: they are in no file yet, so `validate` would find nothing."""
    told = "\n".join(str(each).partition(": ")[2] for each in problems)
    fields = {each.field for each in problems}
    field = fields.pop() if len(fields) == 1 else ""
    hint = {"backend": "agent-worker backends", "model": "agent-worker providers"}.get(field, "")
    if field in _WITHIN and "must be a mapping" in told:
        hint = f"write {field}.{_WITHIN[field]}=…; every key is explained in: agent-worker schema agent"
    return BadInput(told, hint=hint or "every key is explained in: agent-worker schema agent")


def _folder_of(root: Root, folder: str) -> str:
    """The folder of an earlier agent, if there is anything in it."""
    return str(root.location(folder)) if _holds_files(root, folder) else ""


def _holds_files(root: Root, folder: str) -> bool:
    try:
        there = root.list(folder)
    except NotFound:
        return False
    return any(not each.is_directory or _holds_files(root, f"{folder}/{each.name}") for each in there)


def _make_folders(root: Root, folder: str) -> None:
    """Make the folders of a new agent, so that a person sees from the start what it can keep."""
    for part in FOLDERS:
        root.make_dirs(f"{folder}/{part}")


async def _quick(service: Service, loaded: LoadedProject, origin: str) -> AgentDefinition:
    """The quick agent that shall last. One that is at work is not torn away from it."""
    known = canonical(origin, loaded.quick)
    if known is None:
        here = f"agent-worker agent list (quick agents: {', '.join(loaded.quick)})"
        there = here if loaded.quick else "agent-worker new --backend mock"
        raise NotFound(f"there is no quick agent {origin}", hint=there)
    if await service.read(loaded, queue_of, loaded.agents[known]):
        raise Refused(f"{known} is at work", hint=f"wait until it is done: agent-worker agent info {known}")
    return loaded.quick[known]


async def _take_over(service: Service, project: str, quick: AgentDefinition, name: str) -> None:
    """What was said to the quick agent is said to the lasting one, and the quick one ends."""
    loaded = await service.project(project)
    before = await service.read(loaded, agent_rows.identity, loaded.agents[quick.name])
    await service.write(loaded, threads.take_over, before["id"], loaded.agents[name])
    await take_leave(service, loaded, before, quick)
    await service.drop_quick(loaded, quick.name)


def _default_prompt(name: str) -> str:
    return f"You are {name}, a helpful colleague."


def _written(name: str, quick: AgentDefinition | None, soul: dict[str, Any], **given: str | None) -> str:
    """The definition as its file says it."""
    values: dict[str, Any] = {"name": name}
    if quick is not None:
        values |= quick.model_dump(mode="json", exclude_unset=True, exclude={"name", "soul"})
        if quick.system == _default_prompt(quick.name):
            del values["prompt"]
    values |= {key: value for key, value in given.items() if value is not None and key != "system"}
    if given["system"] or "prompt" not in values:
        values["prompt"] = {"system": given["system"] or _default_prompt(name)}
    if soul:
        values["soul"] = soul
    # JSON is YAML: quoting and special characters need no thought.
    return "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())


async def _write_file(service: Service, loaded: LoadedProject, name: str, text: str) -> None:
    root, path = Root(loaded.project.root), f"{AGENTS}/{name}.yaml"
    definition = agent_in(text, file=path)
    # What our own command writes for the user is approved.
    powers = await asyncio.to_thread(powers_of_agent, definition, loaded.project.root)
    await asyncio.to_thread(service.runtime.gate.approve, loaded.project.root, powers)
    if isinstance(await asyncio.to_thread(root.swap, path, text, expected=None), Conflict):
        raise Refused(f"{path} already exists", hint=f"agent-worker agent info {name}")
    await service.project(str(loaded.project.root))


async def _free_name(service: Service, loaded: LoadedProject) -> str:
    """A name that no agent has, or had when its file was last seen."""
    taken = set(loaded.agents) | {row["name"] for row in await service.read(loaded, _names)}
    return next(f"agent-{n}" for n in itertools.count(1) if f"agent-{n}" not in taken)


@operation("PATCH", "/agents/{name}")
async def agent_edit(service: Service, name: str, changes: dict[str, Any], project: str | None = None) -> AgentView:
    """Set keys of an agent's definition, or remove them with null. The rest of the file stays as it is.

    A key with dots is one within another: `soul.role`.
    """
    loaded = await service.project(project)
    found, file = _own_file(loaded, name)
    root, before = loaded.project.root, loaded.project.agents[found]
    if "name" in changes:
        raise Refused(
            "an agent's name is its identity: it cannot be changed",
            hint=f"make another one like it: {_create_line(str(changes['name']), before)}",
        )

    changed_keys = {key.partition(".")[0] for key in changes}

    def changed(text: str) -> str:
        after = rewritten_within(text, changes, file=file)
        try:
            agent, wrong = _read(after, file, root)
        except DefinitionError as error:
            _read(text, file, root)  # what was wrong with the file before is told as such
            raise _unsaved(error.problems) from None
        if new := [each for each in wrong if each.field.partition("[")[0].partition(".")[0] in changed_keys]:
            raise _unsaved(new)
        _approve_new(service, root, before, agent)
        return after

    await asyncio.to_thread(rewrite, Root(root), file, changed)
    return (await agent_info(service, found, project=str(root))).agent


def _create_line(name: str, like: AgentDefinition) -> str:
    """The command that makes an agent of this name with the same backend and model."""
    model = ["--model", like.model] if like.model else []
    return shlex.join(["agent-worker", "agent", "create", name, "--backend", like.backend, *model])


def _read(text: str, file: str, root: Path) -> tuple[AgentDefinition, list[Problem]]:
    """The agent that this text would define, and what could not work in it."""
    source = parse_source(text, file=file)
    agent = agent_of(source, root / file, root=root)
    return agent, wrong_in_agent(agent, root / file, root, source)


def _approve_new(service: Service, root: Path, before: AgentDefinition, after: AgentDefinition) -> None:
    """What the user's own command adds is approved; what was in the file before is not approved by the way."""
    known = {power.digest for power in powers_of_agent(before, root)}
    service.runtime.gate.approve(root, [power for power in powers_of_agent(after, root) if power.digest not in known])


def _own_file(loaded: LoadedProject, name: str) -> tuple[str, str]:
    """Name and file of an agent that has a file to itself."""
    id = agent_id(loaded, name)
    found = next(n for n, i in loaded.agents.items() if i == id)
    if found in loaded.quick:
        raise Refused(f"{found} has no file: it ends with the daemon", hint=f"agent-worker stop {found}")
    if found not in loaded.project.agent_files:
        raise Refused(f"{found} has no file: it is a value in a Python program", hint="change it there")
    file = loaded.project.agent_files[found].relative_to(loaded.project.root)
    if str(file) in PROJECT_FILES:
        raise Refused(f"{found} is defined in {file}, with the rest of the project", hint=f"edit {file}")
    return found, str(file)


@operation("DELETE", "/agents/{name}")
async def agent_delete(service: Service, name: str, project: str | None = None, files: bool = False) -> str:
    """Remove an agent: its definition, its queue, its conversations and runs in the database.

    With `files` its folder goes too: memory, notes, todos and conversations. What it said in a team's channel and wrote
    into a team's documents is the team's, and stays; so do its costs, and backups that were made before.
    """
    loaded = await service.project(project)
    if canonical(name, loaded.agents) is None and (broken := canonical(name, loaded.project.broken)) is not None:
        return await _delete_broken(service, loaded, broken)
    found, file = _own_file(loaded, name)
    id, definition, root = loaded.agents[found], loaded.project.agents[found], Root(loaded.project.root)
    if workspaces := await service.read(loaded, workspace_rows.at_work_with, id):
        at = " and ".join(f"@{workspace_rows.name_of(workspace)}" for workspace in workspaces)
        raise Refused(f"{found} takes part in {at}", hint=f"agent-worker stop @{workspace_rows.name_of(workspaces[0])}")
    me = await service.read(loaded, agent_rows.identity, id)
    logs = await service.read(loaded, workspace_rows.workspaces_of, id) if files else []
    await asyncio.to_thread(root.remove, file)
    await take_leave(service, loaded, me, definition)
    if files:
        await asyncio.to_thread(remove_files, root, definition.personal_dir, logs)
    await service.project(str(loaded.project.root))
    left = await asyncio.to_thread(_folder_of, root, definition.personal_dir)
    return f"{found} was deleted" + (" with its files" if files else f"; its files are still in {left}" if left else "")


async def _delete_broken(service: Service, loaded: LoadedProject, name: str) -> str:
    """Remove the file of an agent that cannot be had. What else there may be of it is not known, and stays."""
    file = loaded.project.broken[name].relative_to(loaded.project.root)
    if str(file) in PROJECT_FILES:
        raise Refused(f"{name} is defined in {file}, with the rest of the project", hint=f"edit {file}")
    await asyncio.to_thread(Root(loaded.project.root).remove, str(file))
    await service.project(str(loaded.project.root))
    return f"{name} was deleted: only {file} is gone"


def _names(tx: Transaction) -> list[Row]:
    return tx.all("select name from agent where project = :project and home = ''")
