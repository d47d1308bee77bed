"""Which processes are whose. Whatever a child of ours starts inherits a mark in its environment.

So a grandchild that left the session is found too. One that left it and cleared its environment is found only as long
as the parent above it still lives.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress

import psutil

MARK = "AGENT_WORKER_CHILD"  #: environment variable of all our children: whose they are

_MARKED = re.compile(rf"(?:^|\0){MARK}=([0-9]+\.[0-9]+\.[0-9a-f]+)".encode())


def new_mark() -> str:
    return f"{_namespace()}.{os.getpid()}.{secrets.token_hex(8)}"


def family(pid: int, mark: str) -> list[psutil.Process]:
    """What is alive of it: descendants, its session, and whatever bears its mark."""
    found: dict[int, psutil.Process] = {}
    with suppress(psutil.Error):
        leader = psutil.Process(pid)
        if _is_alive(leader):  # else its children are somebody else's now
            found = {process.pid: process for process in [leader, *leader.children(recursive=True)]}
    for other in psutil.pids():
        with suppress(psutil.Error, OSError):
            if other not in found and (os.getsid(other) == pid or _mark_of(other) == mark):
                found[other] = psutil.Process(other)
    return list(filter(_is_alive, found.values()))


def tell(processes: Iterable[psutil.Process], number: int) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.send_signal(number)
            process.send_signal(signal.SIGCONT)  # a stopped process cannot even hear that it should end


def any_alive(processes: Iterable[psutil.Process]) -> bool:
    return any(map(_is_alive, processes))


def kill_orphans() -> int:
    """End what the children of a daemon left behind that died without a word. For the start of the next one.

    Goes by the mark and by ages, never by name: the parent named in the mark is dead if nobody has its number, or
    somebody younger than the child.
    """
    ours = psutil.Process()
    spared = {ours.pid, *(parent.pid for parent in ours.parents())}
    killed = 0
    for pid in psutil.pids():
        with suppress(psutil.Error, OSError):
            if pid not in spared and (mark := _mark_of(pid)) and _is_orphan(pid, mark):
                psutil.Process(pid).kill()
                killed += 1
    return killed


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _is_orphan(pid: int, mark: str) -> bool:
    namespace, parent, _ = mark.split(".")
    if namespace != _namespace():
        return False  # numbered in another container: we cannot tell
    try:
        return psutil.Process(int(parent)).create_time() > psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return True


def _mark_of(pid: int) -> str:
    if sys.platform != "linux":
        return psutil.Process(pid).environ().get(MARK, "")
    with open(f"/proc/{pid}/environ", "rb") as file:  # asked of every process there is: psutil takes ten times as long
        found = _MARKED.search(file.read())
    return found[1].decode() if found else ""


def _namespace() -> str:
    with suppress(OSError):
        return str(os.stat("/proc/self/ns/pid").st_ino)
    return "0"
