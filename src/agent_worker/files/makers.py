"""Which process made a thing on the disk: so that what a dead one left behind is told from what a living one needs.

The mark is part of a name, so it holds across threads, runtimes and restarts, and needs no other file. A process is
known by its number and the moment it began, within what numbers it (a container has numbers of its own).
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache


def maker() -> str:
    """The mark of this process: figures and dots."""
    return _mark(os.getpid())  # asked each time: a fork is another process


def is_alive(mark: str) -> bool:
    """Whether a process with this mark runs, as far as can be seen from here."""
    namespace, pid, birth = _parts(mark)
    return namespace == _namespace() and _birth(pid) == birth


def is_dead(mark: str) -> bool:
    """Whether it surely does not: of one that was numbered in another container we cannot tell."""
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
