"""Which process made a thing on the disk: so that what a dead one left behind is told from what a living one needs.

The mark is part of a name, so it holds across threads, runtimes and restarts, and needs no other file. A process is
known by its number and the moment it began, within what numbers it (a container has numbers of its own). Folders that
last as long as a piece of work are named so (`scratch`): the daemon removes abandoned ones at its start; `gc` shows
them.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from agent_worker.core.later import pattern


def maker() -> str:
    """The mark of this process: digits and dots."""
    return _mark(os.getpid())  # asked each time: a fork is another process


def is_alive(mark: str) -> bool:
    """Whether a process with this mark runs, as far as can be seen from here."""
    namespace, pid, birth = _parts(mark)
    return namespace == _namespace() and _birth(pid) == birth


def is_dead(mark: str) -> bool:
    """Whether the process with this mark surely does not run: of one in another container we cannot tell."""
    namespace, pid, birth = _parts(mark)
    return namespace == _namespace() and _birth(pid) != birth


@cache
def _mark(pid: int) -> str:
    return f"{_namespace()}.{pid}.{_birth(pid)}"


def _parts(mark: str) -> tuple[str, int, str]:
    parts = mark.split(".")
    if len(parts) != 3 or not parts[1].isdecimal():
        return "", 0, ""  # nobody's
    return parts[0], int(parts[1]), parts[2]


def _birth(pid: int) -> str:
    """When a process began, as the system counts it; where it does not tell, whether it is there."""
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
        return "dead" if fields[0] in (b"Z", b"X") else fields[19].decode()
    if os.path.exists("/proc/self/stat"):
        return "dead"
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return "dead"
    except PermissionError:
        pass
    return "0"


def _namespace() -> str:
    with suppress(OSError):
        return str(os.stat("/proc/self/ns/pid").st_ino)
    return "0"


_NAMED = pattern(r"agent-worker-[a-z]+-([0-9]+\.[0-9]+\.[0-9]+)-")


@contextmanager
def scratch(kind: str) -> Iterator[Path]:
    """A temporary folder that only this process uses, removed when the block is left."""
    with tempfile.TemporaryDirectory(prefix=f"agent-worker-{kind}-{maker()}-") as folder:
        yield Path(folder)


def abandoned() -> list[Path]:
    """Our folders whose maker is dead. Of one made in another container we cannot tell: it is left alone."""
    found = []
    with suppress(OSError):
        for entry in os.scandir(tempfile.gettempdir()):
            named = _NAMED.match(entry.name)
            if named and is_dead(named[1]) and _is_ours(entry):
                found.append(Path(entry.path))
    return sorted(found)


def _is_ours(entry: os.DirEntry[str]) -> bool:
    status = entry.stat(follow_symlinks=False)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
