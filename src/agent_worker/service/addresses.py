"""Addresses as somebody typed them, in the project where they were typed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import TAG, Address, WorkspaceName, canonical, parse_address
from agent_worker.core.errors import BadInput, NotFound, Slip
from agent_worker.core.suggestion import slip_of
from agent_worker.database.database import ProjectDatabase
from agent_worker.workspaces import workspace_rows


def no_agent(name: str, known: Iterable[str], *, workflow: str | None = None) -> NotFound:
    """The error for whoever names an agent that is not there; `workflow` is the workflow or instance called this."""
    if workflow:
        channel = Slip(name, f"@{workflow}")
        return NotFound(f"{workflow} is a workflow, not an agent", hint=f"did you mean @{workflow}?", slip=channel)
    names = list(known)
    if member := canonical(name.partition("@")[0], names):
        told = f"{name} is at work in a workflow; this is about the agent itself"
        return NotFound(told, hint=f"did you mean {member}?", slip=Slip(name, member))
    slip = slip_of(name, names)
    here = f"agent-worker agent list (agents here: {', '.join(names)})" if names else "agent-worker init"
    told = f"did you mean {slip.meant}?" if slip else here
    return NotFound(f"there is no agent {name} in this project", hint=told, slip=slip)


def workflow_called(name: str, known: Collection[str]) -> str | None:
    """The workflow that somebody named, or an instance of it: `review`, `@review` or `review:pr-9`."""
    meant = WorkspaceName.parse(name)
    found = canonical(meant.workflow, known)
    return str(replace(meant, workflow=found)) if found else None


async def address_in(database: ProjectDatabase, loaded: LoadedProject, text: str) -> Address:
    """An address as somebody typed it. `@tag` and `alice@tag` lead to the only running instance with that tag."""
    agent, at, place = text.partition("@")
    tagged = await _tagged(database, loaded, place) if at else None
    address = parse_address(f"{agent}@{tagged.full}" if tagged else text)
    if address.workspace:
        await _check_known(database, loaded, address.workspace.workflow)
    return address


async def workspace_name_in(database: ProjectDatabase, loaded: LoadedProject, text: str) -> WorkspaceName:
    """`workflow`, `workflow:tag` or only the tag, as somebody typed it, with or without an `@`."""
    tagged = await _tagged(database, loaded, text.removeprefix("@"))
    name = tagged or WorkspaceName.parse(text)
    await _check_known(database, loaded, name.workflow)
    return name


async def _check_known(database: ProjectDatabase, loaded: LoadedProject, workflow: str) -> None:
    """Refuse a workflow that there is not and never was: nobody should be told to start it."""
    is_ours = canonical(workflow, loaded.project.workflows) is not None
    if not is_ours and not await database.read(workspace_rows.was_here, workflow):
        raise loaded.project.no_workflow(workflow)


async def _tagged(database: ProjectDatabase, loaded: LoadedProject, tag: str) -> WorkspaceName | None:
    """The running instance that has this tag, if no workflow has that name."""
    if not TAG.fullmatch(tag) or canonical(tag, loaded.project.workflows):
        return None
    found = await database.read(workspace_rows.running_with_tag, tag)
    if len(found) > 1:
        raise BadInput(f"several instances have the tag {tag}", hint=f"say which: {', '.join(f'@{n}' for n in found)}")
    return found[0] if found else None
