"""Which processes are whose. Whatever a child of ours starts inherits a mark, and cannot lose it by accident.

On Linux the mark is a resource limit that limits nothing: the time in microseconds that a process with real-time
priority may compute without a pause, some thousand years. It outlasts a new session, a cleared environment, another
name, and the death of every parent. One that sets this very limit itself is found as long as a parent above it lives;
in the daemon for ever, because there orphans come to us (`adopt_orphans`). Elsewhere the mark is in the environment.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from agent_worker.core.later import module, pattern

if TYPE_CHECKING:
    import psutil
else:
    psutil = module("psutil")  # most processes never look at others

MARK = "AGENT_WORKER_CHILD"  #: the environment variable, where there is no such limit

# In a decimal number, because a shell looks for it too (sweeper.py): 2, whose namespace, whose process, which child.
_MARK = pattern(r"2([0-9]{5})([0-9]{7})([0-9]{5})")
_SET_SUBREAPER, _GET_SUBREAPER = 36, 37

held: set[int] = set()  #: children of this process that somebody waits for

if sys.platform == "linux":
    import resource


def owner() -> str:
    """How the marks of all children of this process begin."""
    return f"2{_namespace():05}{os.getpid():07}"


def new_mark() -> int:
    return int(f"{owner()}{secrets.randbelow(100_000):05}")


@contextmanager
def marking(mark: int) -> Iterator[dict[str, str]]:
    """What is started meanwhile bears the mark, given what is yielded in its environment."""
    if sys.platform != "linux":
        yield {MARK: str(mark)}
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_RTTIME)
    with suppress(ValueError):  # somebody has set a real limit for us, and less than a mark
        resource.setrlimit(resource.RLIMIT_RTTIME, (mark, hard))
    try:
        yield {}
    finally:
        resource.setrlimit(resource.RLIMIT_RTTIME, (soft, hard))


def family(pid: int, mark: int) -> list[psutil.Process]:
    """What is alive of it: descendants, its session, and whatever bears its mark."""
    found: dict[int, psutil.Process] = {}
    with suppress(psutil.Error):
        leader = psutil.Process(pid)
        if _is_alive(leader):  # else its children are somebody else's now
            found = {process.pid: process for process in [leader, *leader.children(recursive=True)]}
    for other in psutil.pids():
        with suppress(psutil.Error, OSError, ValueError):
            if other not in found and other != os.getpid() and (os.getsid(other) == pid or _mark_of(other) == mark):
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
        with suppress(psutil.Error, OSError, ValueError):
            if pid not in spared and _is_orphan(pid):
                psutil.Process(pid).kill()
                killed += 1
    return killed


def adopt_orphans() -> None:
    """Make a descendant whose parent died a child of this process, from now on. For a process that is all ours."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_SUBREAPER, 1, 0, 0, 0)


def end_strays() -> None:
    """Of what was adopted, let go of the dead, and end what bears no mark of ours any more.

    Such a process has changed the limit that is the mark, and left the session of the child that it comes from.
    """
    if not _adopts():
        return
    spared, session, here = set(held), os.getsid(0), owner()
    for pid in _children():
        with suppress(psutil.Error, OSError, ValueError):
            if pid in spared or (sid := os.getsid(pid)) == session or sid in spared:
                continue
            if not str(_mark_of(pid)).startswith(here):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            else:
                os.waitpid(pid, os.WNOHANG)


def _children() -> Iterator[int]:
    """The children of every thread. psutil would look at all processes there are."""
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError), open(f"/proc/self/task/{thread}/children") as file:
            yield from map(int, file.read().split())


def _adopts() -> bool:
    answer = ctypes.c_int(0)
    return sys.platform == "linux" and not (
        ctypes.CDLL(None).prctl(_GET_SUBREAPER, ctypes.byref(answer), 0, 0, 0) or not answer.value
    )


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _is_orphan(pid: int) -> bool:
    mark = _MARK.fullmatch(str(_mark_of(pid)))
    if mark is None or int(mark[1]) != _namespace():
        return False  # not ours, or numbered in another container: we cannot tell
    try:
        return psutil.Process(int(mark[2])).create_time() > psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return True


def _mark_of(pid: int) -> int:
    if sys.platform == "linux":
        return resource.prlimit(pid, resource.RLIMIT_RTTIME)[0]
    return int(psutil.Process(pid).environ().get(MARK, 0))


def _namespace() -> int:
    with suppress(OSError):
        return os.stat("/proc/self/ns/pid").st_ino % 100_000
    return 0
