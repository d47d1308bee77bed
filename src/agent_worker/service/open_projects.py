"""The projects that are open: loaded when they are first named, read again when their files change."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import TypeAlias

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.errors import BadInput, NotFound, TooBusy, trouble_of
from agent_worker.core.later import dataclass
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.project_files import (
    AGENTS,
    PROJECT_FILES,
    WORKFLOWS,
    ProjectFiles,
    find_project,
    load_project,
)
from agent_worker.definitions.workflow import WorkflowDefinition
from agent_worker.trust.project_keys import FILE as ENV_FILE
from agent_worker.workflows.runtime import Runtime

Stamp: TypeAlias = tuple[tuple[str, int, int], ...]

_PERSONAL = ("memory", "notes", "conversations", "todo", ".index")  # folders in that of an agent


@dataclass(frozen=True, slots=True)
class ProjectValues:
    """Agents and teams of a project that programs have handed over: they are in no file."""

    agents: Mapping[str, AgentDefinition] = field(default_factory=dict)
    workflows: Mapping[str, WorkflowDefinition] = field(default_factory=dict)

    def beside(self, definitions: ProjectFiles) -> ProjectFiles:
        return definitions.with_values(self.agents, self.workflows)


@dataclass(slots=True)
class _OpenProject:
    loaded: LoadedProject
    definitions: ProjectFiles  #: as they were read, also those that cannot be used
    stamp: Stamp | None
    watched: tuple[Path, ...] = ()  #: beyond the folders of definitions
    values: ProjectValues = field(default_factory=ProjectValues)


@dataclass(frozen=True, slots=True)
class _ProjectLook:
    """What was seen of a project's files."""

    root: str  #: as it was asked for
    askers: int  #: who had asked when it began
    path: Path
    stamp: Stamp | None


class OpenProjects:
    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.opening = False  #: after a restart: nobody is woken yet
        self._open: dict[Path, _OpenProject] = {}
        self._admitting = asyncio.Lock()
        self._askers = 0  # for a project, ever
        self._looked = _ProjectLook("", 0, Path(), None)  # the last time

    def all(self) -> list[LoadedProject]:
        return [known.loaded for known in self._open.values()]

    async def at(self, root: str | None) -> tuple[LoadedProject, bool]:
        """The project at this directory, and whether it was opened just now; without one, the only one there is."""
        if root is None:
            if len(self._open) != 1:
                raise BadInput("say which project by its directory", hint="project=/path/to/it")
            root = str(next(iter(self._open)))
        self._askers = asker = self._askers + 1
        async with self._admitting:
            path, seen = await self._look(root, asker)
            known = self._open.get(path)
            is_new = known is None
            if known is not None and seen is None:
                return known.loaded, False  # it cannot be looked at just now: what was known holds
            if known is None or known.stamp != seen:
                known = await self._read(path, known, seen)
                # A project has one directory here: where it was moved from, it is not any more.
                self._open = {at: each for at, each in self._open.items() if each.loaded.id != known.loaded.id}
                self._open[path] = known
                if not self.opening:
                    await self.runtime.supervisor.wake_all()
        return known.loaded, is_new

    async def unopened_at(self, root: str) -> ProjectFiles | None:
        """The files of the project at this directory; None when it is open here."""
        path = await asyncio.to_thread(_project_at, root)
        return None if path in self._open else await asyncio.to_thread(load_project, path)

    async def _look(self, root: str, asker: int) -> tuple[Path, Stamp | None]:
        """Find the project and see how its files are now: no earlier than the question, or a change would be missed.

        Questions that come while somebody looks are answered together, by the next look.
        """
        if self._looked.root != root or self._looked.askers < asker:
            askers = self._askers
            self._looked = _ProjectLook(root, askers, *await asyncio.to_thread(self._look_at, root))
        return self._looked.path, self._looked.stamp

    def _look_at(self, root: str) -> tuple[Path, Stamp | None]:
        known = self._open.get(path := Path(root))
        if known and known.definitions.agent_files and _stamp(path, known.watched) == known.stamp:
            return path, known.stamp  # with the same files in it, it is still the project that is asked for
        path = _project_at(root)
        known = self._open.get(path)
        # Before it is read: what changes meanwhile is seen the next time.
        return path, _stamp(path, known.watched if known else ())

    async def _read(self, path: Path, known: _OpenProject | None, seen: Stamp | None) -> _OpenProject:
        previous, quick = (known.loaded.project, known.loaded.quick) if known else (None, {})
        values = known.values if known else ProjectValues()
        definitions = await asyncio.to_thread(load_project, path, previous=previous)
        loaded = await self.runtime.loader.load(values.beside(definitions), quick)
        # The stamp does not know yet what else is to be watched: whatever of it is there is read once more.
        watched = (*definitions.elsewhere, *self._ailing(loaded, definitions))
        return _OpenProject(loaded, definitions, seen, watched, values)

    def _ailing(self, loaded: LoadedProject, definitions: ProjectFiles) -> Iterator[Path]:
        """The files, beside its own, that an agent which cannot be used depends on: a change in any of them may mend
        it.
        """
        for name, definition in definitions.agents.items():
            worker = self.runtime.registry.own(loaded.agents[name])
            if worker is not None and worker.trouble:
                files = [tool.name.rpartition(":")[0] for tool in definition.tools if ".py:" in tool.name]
                folders = [definition.personal_dir, *(f"{definition.personal_dir}/{part}" for part in _PERSONAL)]
                yield from (definitions.root / each for each in (*files, *folders, definition.cwd, *definition.skills))

    async def add_quick(self, loaded: LoadedProject, definition: AgentDefinition) -> None:
        async with self._admitting:
            known = self._open[loaded.project.root]
            await self._load_again(known, {**known.loaded.quick, definition.name: definition})

    async def drop_quick(self, loaded: LoadedProject, name: str) -> None:
        async with self._admitting:
            known = self._open[loaded.project.root]
            quick = {other: each for other, each in known.loaded.quick.items() if other != name}
            await self._load_again(known, quick)

    async def add_values(self, loaded: LoadedProject, values: ProjectValues, *, again: bool) -> None:
        async with self._admitting:
            known = self._open[loaded.project.root]
            before = known.values
            known.values = ProjectValues({**before.agents, **values.agents}, {**before.workflows, **values.workflows})
            await self._load_again(known, known.loaded.quick, again=again)

    async def remake_kit(self, loaded: LoadedProject) -> None:
        async with self._admitting:
            known = self._open[loaded.project.root]
            await self._load_again(known, known.loaded.quick, again=True)

    async def _load_again(
        self, known: _OpenProject, quick: Mapping[str, AgentDefinition], *, again: bool = False
    ) -> None:
        known.loaded = await self.runtime.loader.load(known.values.beside(known.definitions), quick, again=again)


# --- its files ---------------------------------------------------------------------------------------


def _project_at(directory: str) -> Path:
    if not os.path.isabs(directory):  # ours is not the directory that the caller is in
        raise BadInput(f"{directory!r} is not a full path", hint="project=/path/to/it")
    if not os.path.isdir(directory):
        raise NotFound(f"there is no directory {directory}")
    return find_project(Path(directory))


def _stamp(root: Path, watched: Iterable[Path] = ()) -> Stamp | None:
    """A stamp that changes whenever one of the files that define the project does. Asked at every request, of every
    file.

    None: the system has no descriptor left to look with.
    """
    found = []
    with suppress(OSError):
        status = os.stat(root)
        found.append(("", status.st_dev, status.st_ino))  # another directory may stand there now
    for path in (*(root / name for name in (*PROJECT_FILES, ENV_FILE)), *watched):
        with suppress(OSError, ValueError):
            status = os.stat(path)
            found.append((str(path), status.st_ctime_ns, status.st_size))  # by which a change of rights is seen too
    for folder in (AGENTS, WORKFLOWS):
        try:
            with os.scandir(root / folder) as entries:
                found += _stamps_in(entries)
        except OSError as error:
            if isinstance(trouble_of(error), TooBusy):
                return None
    return tuple(sorted(found))


def _stamps_in(entries: Iterable[os.DirEntry[str]]) -> Iterator[tuple[str, int, int]]:
    for entry in entries:
        if entry.name.endswith((".yaml", ".yml", ".md", ".txt")):
            try:
                status = entry.stat()
            except OSError:
                continue
            yield entry.path, status.st_ctime_ns, status.st_size
