"""Where a project is, and whether one of the files that define it has changed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from agent_worker.core.errors import BadInput, NotFound, TooBusy, trouble_of
from agent_worker.definitions.project import AGENTS, PROJECT_FILES, WORKFLOWS, find_project
from agent_worker.trust.project_keys import FILE as ENV_FILE

Stamp: TypeAlias = tuple[tuple[str, int, int], ...]


def project_at(directory: str) -> Path:
    if not os.path.isabs(directory):  # ours is not the directory that the caller is in
        raise BadInput(f"{directory!r} is not a full path", hint="project=/path/to/it")
    if not os.path.isdir(directory):
        raise NotFound(f"there is no directory {directory}")
    return find_project(Path(directory))


def stamp(root: Path, watched: Iterable[Path] = ()) -> Stamp | None:
    """Changes whenever one of the files that define the project does. Asked at every request, of every file.

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
                found += _stamps(entries)
        except OSError as error:
            if isinstance(trouble_of(error), TooBusy):
                return None
    return tuple(sorted(found))


def _stamps(entries: Iterable[os.DirEntry[str]]) -> Iterator[tuple[str, int, int]]:
    for entry in entries:
        if entry.name.endswith((".yaml", ".yml", ".md", ".txt")):
            try:
                status = entry.stat()
            except OSError:
                continue
            yield entry.path, status.st_ctime_ns, status.st_size
