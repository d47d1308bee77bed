"""Control groups: a ceiling for the memory and the number of processes of one command, all of them together.

Only where the machine lets us make such groups: as root, or in a session whose groups systemd has delegated to the
user. Both versions of the interface; one that lacks a controller holds the other one only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path

from agent_worker.core.later import dataclass

MEMORY, PROCESSES = "memory", "pids"

_PREFIX = "agent-worker-"
_FILES = {  # by controller and version: what is written where
    (MEMORY, 1): ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
    (MEMORY, 2): ("memory.max",),
    (PROCESSES, 1): ("pids.max",),
    (PROCESSES, 2): ("pids.max",),
}
_numbers = count(1)
_left: set[Path] = set()


@dataclass(frozen=True, slots=True)
class Place:
    """Where groups can be made for one controller."""

    controller: str
    version: int
    parent: Path


@contextmanager
def group(where: Iterable[Place], ceilings: Mapping[str, int]) -> Iterator[list[Path]]:
    """A new group: a process joins by writing its number into each of these files. All must have ended at the end."""
    name = f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
    made: list[Path] = []
    _tidy(list(_left))
    try:
        for place in where:
            folder = place.parent / name
            if folder not in made:
                folder.mkdir()
                made.append(folder)
            _limit(folder, place, ceilings[place.controller])
        yield [folder / "cgroup.procs" for folder in made]
    finally:
        _tidy(made)


@cache
def usable_places() -> tuple[Place, ...]:
    """Places where groups can be made, tried once for real. What an earlier process left behind goes, too."""
    return tuple(place for place in _candidates() if _works(place))


def _works(place: Place) -> bool:
    folder = place.parent / f"{_PREFIX}{os.getpid()}-try-{place.controller}"
    with suppress(OSError):
        for left in place.parent.glob(f"{_PREFIX}*"):
            if not Path(f"/proc/{left.name.removeprefix(_PREFIX).partition('-')[0]}").exists():
                left.rmdir()
    try:
        folder.mkdir()
    except OSError:
        return False
    try:
        _limit(folder, place, 1024**2)
        return os.access(folder / "cgroup.procs", os.W_OK) and _may_leave(place)
    except OSError:
        return False
    finally:
        _tidy([folder])


def _may_leave(place: Place) -> bool:
    """Whether we may move a process: in version 2, one must be allowed to change the group that both groups lie in."""
    return place.version == 1 or os.access(place.parent / "cgroup.procs", os.W_OK)


def _limit(folder: Path, place: Place, amount: int) -> None:
    first, *others = _FILES[place.controller, place.version]
    (folder / first).write_text(str(amount))
    for other in others:
        with suppress(OSError):  # swap may not be counted
            (folder / other).write_text(str(amount))


def _tidy(folders: list[Path]) -> None:
    """The dead leave a group a moment later: what cannot go yet goes when the next group is made."""
    for folder in folders:
        _left.add(folder)
        with suppress(OSError):
            folder.rmdir()
            _left.discard(folder)


def _candidates() -> Iterator[Place]:
    try:
        ours = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    except OSError:
        return
    for controller in (MEMORY, PROCESSES):
        for _, held, path in ours:
            if controller in held.split(","):
                found = (m[1] for m in mounts if m[2] == "cgroup" and controller in m[3].split(","))
                yield from (Place(controller, 1, Path(f"{mount}{path}")) for mount in found)
            elif not held:
                unified = (Path(f"{m[1]}{path}") for m in mounts if m[2] == "cgroup2")
                # Where processes are there can be no groups with limits beneath, so beside ours, if not beneath it.
                both = [each for mount in unified for each in (mount, mount.parent)]
                fit = next((each for each in both if controller in _passed_on(each)), None)
                if fit:
                    yield Place(controller, 2, fit)


def _passed_on(folder: Path) -> list[str]:
    try:
        return (folder / "cgroup.subtree_control").read_text().split()
    except OSError:
        return []
