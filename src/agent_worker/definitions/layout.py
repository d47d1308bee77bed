"""Where a project keeps what is ours to write: the folders that the daemon fills, and the files that define it all.

Agents may read them, and change them only through their tools (memory, documents), which go through the daemon.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from agent_worker.core.later import dataclass
from agent_worker.definitions.agent import AgentSettings
from agent_worker.definitions.paths import Outside, beneath
from agent_worker.definitions.placeholders import PLACEHOLDER
from agent_worker.definitions.project_files import ProjectFiles
from agent_worker.definitions.workflow import InlineMember, WorkflowDefinition


@dataclass(frozen=True, slots=True)
class OwnPlaces:
    folders: tuple[Path, ...] = ()  #: of workspaces and agents: the daemon writes there while agents work
    homes: tuple[Path, ...] = ()  #: those of the folders that each belong to one agent
    files: tuple[Path, ...] = ()  #: definitions, and the prompts and skills they name; some may be missing


def own_places(project: ProjectFiles) -> OwnPlaces:
    """What is ours in a project, as real paths. Looks at the disk: a workspace with placeholders is found there."""
    homes = [agent.personal_dir for agent in project.agents.values()]
    workspaces = [project.definition.workspace.base]
    for workflow in project.workflows.values():
        workspaces += _workspaces(project.root, workflow)
    return OwnPlaces(
        folders=tuple(_real(project.root, [*workspaces, *homes])),
        homes=tuple(_real(project.root, homes)),
        files=tuple(dict.fromkeys(_definitions(project))),
    )


def _workspaces(root: Path, workflow: WorkflowDefinition) -> Iterator[str]:
    if workflow.workspace is False or not (place := workflow.workspace.directory):
        return
    if not PLACEHOLDER.search(place):
        yield place
        return
    pattern = PLACEHOLDER.sub("*", place).removeprefix("./").rstrip("/")
    with suppress(ValueError, OSError):
        yield from (str(path.parent.relative_to(root)) for path in root.glob(f"{pattern}/channel.jsonl"))


def _definitions(project: ProjectFiles) -> Iterator[Path]:
    for file in (*project.agent_files.values(), *project.workflow_files.values(), *project.elsewhere):
        yield from _spellings(project.root, file)
    for name, agent in project.agents.items():
        yield from _named_by(agent, project.agent_files.get(name, project.root), project.root)
    for name, workflow in project.workflows.items():
        for member in workflow.agents.values():
            if isinstance(member, InlineMember):
                yield from _named_by(member, project.workflow_files.get(name, project.root), project.root)


def _named_by(agent: AgentSettings, file: Path, root: Path) -> Iterator[Path]:
    for name in agent.skills:
        yield from _spellings(root, root / name)
    if agent.prompt and agent.prompt.system_file:
        yield from _spellings(root, file.parent / agent.prompt.system_file)


def _spellings(root: Path, path: Path) -> Iterator[Path]:
    """A path as it is written, and where it leads: of a link both could be changed. Nothing if there can be no such
    file."""
    written = Path(os.path.normpath(path))
    if written.is_relative_to(root) and _is_possible(written):
        yield written
        with suppress(Outside):
            yield beneath(root, str(written.relative_to(root)))


def _is_possible(path: Path) -> bool:
    try:
        os.lstat(path)
    except ValueError:  # a NUL in it
        return False
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG
    return True


def _real(root: Path, names: list[str] | tuple[str, ...]) -> Iterator[Path]:
    for name in dict.fromkeys(names):
        with suppress(Outside):  # refused where it is used
            yield beneath(root, name)
