"""One daemon per home: the kernel's lock, held for life, on a disk where locks can be relied on."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent_worker.client import discovery
from agent_worker.client.discovery import AlreadyRunning, DaemonFile, DaemonHolder
from agent_worker.core.errors import Refused

UNKNOWN = "unknown"  #: our own birth, where the system does not tell
_NETWORK_DISKS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "9p", "fuse.sshfs", "fuse.glusterfs"}


@contextmanager
def only_one(home: Path, instance: str) -> Iterator[None]:
    """The kernel's lock on this home, for life: it ends with the process, however that ends."""
    holder = DaemonHolder(os.getpid(), discovery.birth_of(os.getpid()) or UNKNOWN, instance)
    lock = discovery.open_private(home / discovery.LOCK_FILE, os.O_RDWR | os.O_CREAT)  # refuses a link with a sentence
    try:
        if not _locked(lock, home):
            raise already_running(home, _winner(home))
        discovery.write_holder(lock, holder)
        yield
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)  # said: a fork of ours may still have it open
        os.close(lock)


def _locked(lock: int, home: Path) -> bool:
    """Whether the lock is ours. Where the kernel has no locks this raises: a file that may be stale is no help."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # some disks say the latter when another has it
        return False
    status = os.fstat(lock)
    return lock_file(home) == (status.st_dev, status.st_ino)  # a file that is gone guards nothing


def lock_file(home: Path) -> tuple[int, int] | None:
    """The file that is the lock of a home now; None when there is none. Whoever holds a lock can see whether it is
    still that one."""
    try:
        status = os.stat(home / discovery.LOCK_FILE, follow_symlinks=False)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _winner(home: Path) -> DaemonHolder | None:
    for _ in range(100):
        holder = discovery.read_holder(home)
        if holder is not None and discovery.is_running(holder):
            return holder
        time.sleep(0.01)  # it has the lock since a moment ago, and is about to write its name
    return discovery.read_holder(home)


def already_running(home: Path, winner: DaemonHolder | DaemonFile | None) -> AlreadyRunning:
    who = f"process {winner.pid}, instance {winner.instance}" if winner else "its process is unknown"
    return AlreadyRunning(f"another daemon is running on {home}: {who}", hint="agent-worker daemon status")


def refuse_network_disk(home: Path) -> None:
    """Refuse a home on a network disk, where neither locks nor the database can be relied on."""
    device = os.stat(home).st_dev
    with suppress(OSError), open("/proc/self/mountinfo") as mounts:
        for line in mounts:
            before, _, after = line.partition(" - ")
            if before.split()[2] == f"{os.major(device)}:{os.minor(device)}" and after.split()[0] in _NETWORK_DISKS:
                told = f"{home} is on a network disk ({after.split()[0]}), and the database needs a local one"
                raise Refused(told, hint=f"set {discovery.HOME_VARIABLE} to a directory on this machine")
