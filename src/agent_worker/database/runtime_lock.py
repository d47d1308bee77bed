"""Kernel locks that a runtime holds for life: on its database, and on each project whose files it writes.

Two runtimes on one project would archive, tidy and order each other's files. The lock of a project is on its directory
itself: so it needs no file in the project, holds whatever path leads there, for other users and in other containers,
on a read-only disk too, and ends with the process however that ends. Who holds it is noted elsewhere, for the sentence
that refuses the second. Blocks for a moment: call it in a thread.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import stat
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import asdict, field
from pathlib import Path

from agent_worker.core.errors import InUse, NotRunning
from agent_worker.core.later import dataclass
from agent_worker.files.makers import is_alive, maker

log = logging.getLogger(__name__)

SUFFIX = ".lock"  #: of the file beside a database
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
#: What a disk says that has no such locks: a network disk, mostly.
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF, errno.EINVAL, errno.EISDIR, errno.EIO}
_SHARED = Path("/tmp")
_TRIES, _PAUSE = 50, 0.01  # a holder that is dying lets go in no time

Identity = tuple[int, int]  #: device and number of a directory


@dataclass(frozen=True, slots=True)
class RuntimeHolder:
    """Who holds a lock, as others are told of it."""

    mark: str = field(default_factory=maker)
    who: str = field(default_factory=lambda: os.path.basename(sys.argv[0]) or "python")
    reach: str = ""  #: the command by which a person reaches it; '' when there is none
    database: str = ""  #: where its state is
    shares: bool = False  #: with others that have the same database: they may work on the same project

    @property
    def pid(self) -> str:
        return self.mark.split(".")[1]


class ProjectLocks:
    """The locks that one runtime holds on projects."""

    def __init__(self, me: RuntimeHolder) -> None:
        self._me = me
        self._held: dict[Path, tuple[int, Identity]] = {}
        self._ending = threading.Lock()
        self._closed = False

    def take(self, root: Path) -> None:
        """Hold this project until the end; taken again, it is the same. Raises InUse."""
        identity = _identity(root)
        if root in self._held and self._held[root][1] != identity:
            self.release(root)  # another directory stands there now
        if root in self._held or identity is None:
            return
        for path, (_, held) in list(self._held.items()):
            if held == identity and _identity(path) != identity:
                self.release(path)  # it was moved
            elif held == identity:
                raise InUse(f"{root} is the directory that is open as {path}", hint=f"use it as {path}")
        descriptor = os.open(root, _DIRECTORY)
        try:
            self._lock(descriptor, root, identity)
        except BaseException:
            os.close(descriptor)
            raise
        with self._ending:
            self._held[root] = (descriptor, identity)
            if not self._closed:
                return
        self.release(root)  # the thread of somebody who was cancelled: all is closed by now
        raise NotRunning(f"the project {root} was not opened: everything here was closed meanwhile")

    def release(self, root: Path) -> None:
        descriptor, identity = self._held.pop(root)
        if not self._me.shares or _locked(descriptor, root):  # else others go by the note
            with suppress(OSError):
                _note_path(identity).unlink()
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # said: a fork of ours may still have it open
        os.close(descriptor)

    def close(self) -> None:
        with self._ending:
            self._closed = True
            roots = list(self._held)
        for root in roots:
            self.release(root)

    def _lock(self, descriptor: int, root: Path, identity: Identity) -> None:
        for _ in range(_TRIES):
            if _locked(descriptor, root):
                _note(identity, self._me)
                if not self._me.shares or _locked(descriptor, root, shared=True):
                    return
                continue  # between the two somebody else was faster
            holder = _noted(identity)
            if self._me.shares and holder and holder.database == self._me.database:
                if _locked(descriptor, root, shared=True):
                    return
            elif holder and is_alive(holder.mark):
                raise refusal(f"the project {root}", holder)
            time.sleep(_PAUSE)  # it is about to be gone, or to say who it is
        raise refusal(f"the project {root}", _seen(identity))


def holder_of(root: Path) -> RuntimeHolder | None:
    """Who works on a project; None when nobody does. The lock is not taken."""
    identity = _identity(root)
    if identity is None:
        return None
    descriptor = os.open(root, _DIRECTORY)
    try:
        if _locked(descriptor, root):
            return None
    finally:
        os.close(descriptor)
    holder = _noted(identity)
    return holder if holder and is_alive(holder.mark) else _seen(identity)


def hold_database(database: Path, me: RuntimeHolder) -> int:
    """Nobody else opens this database, or exchanges it, until the descriptor is closed. Raises InUse."""
    path = database.with_name(database.name + SUFFIX)
    descriptor = os.open(path, _FILE, 0o600)
    try:
        for _ in range(_TRIES):
            if _locked(descriptor, path):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, _dumped(me), 0)
                return descriptor
            holder = _loaded(os.pread(descriptor, 4096, 0))
            if holder and is_alive(holder.mark):
                break
            time.sleep(_PAUSE)
        raise refusal(f"the database {database}", holder)
    except BaseException:
        os.close(descriptor)
        raise


def refusal(what: str, holder: RuntimeHolder | None) -> InUse:
    """The error for whoever comes second, and what to do instead."""
    if holder is None:
        return InUse(f"another process works on {what}", hint="end it first; `lslocks` shows who holds locks")
    if holder.pid == str(os.getpid()) and holder.mark == maker():
        return InUse(f"this program has {what} open already", hint="use that one, or close it first")
    if holder.reach:
        told = f"the daemon, process {holder.pid}, works on {what}, and a second process would destroy its files"
        told = f"{told}; use that daemon: {holder.reach} send, ask or run; in Python, connect()"
        return InUse(told, hint=f"{holder.reach} status; or end it: {holder.reach} stop --all")
    told = f"another program ({holder.who}, process {holder.pid}) works on {what}"
    return InUse(told, hint=f"wait until it has ended, or end it: kill {holder.pid}")


def _locked(descriptor: int, path: Path, *, shared: bool = False) -> bool:
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        log.warning("%s is on a disk without locks: nothing keeps a second process away from it", path)
    return True


def _identity(path: Path) -> Identity | None:
    """The device and number of a directory; None when there is none: then there is nothing to keep either."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None


# --- who it is


def _note_path(identity: Identity) -> Path:
    # Not by the environment: a daemon and a shell may have different ones.
    place = _SHARED if _SHARED.is_dir() else Path(tempfile.gettempdir())
    return place / f"agent-worker-{os.geteuid()}" / f"{identity[0]}-{identity[1]}.json"


def _note(identity: Identity, me: RuntimeHolder) -> None:
    """Write down who holds the lock. It is only a help: without it the refusal knows less."""
    path = _note_path(identity)
    with suppress(OSError):
        with suppress(FileExistsError):
            path.parent.mkdir(mode=0o700)
        if not _is_private(path.parent):
            return
        descriptor = os.open(path, _FILE | os.O_TRUNC, 0o600)
        try:
            os.write(descriptor, _dumped(me))
        finally:
            os.close(descriptor)


def _noted(identity: Identity) -> RuntimeHolder | None:
    path = _note_path(identity)
    with suppress(OSError):
        if _is_private(path.parent):
            return _loaded(path.read_bytes())
    return None


def _is_private(folder: Path) -> bool:
    status = os.lstat(folder)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _seen(identity: Identity) -> RuntimeHolder | None:
    """The holder that the system names, where it names one."""
    device, number = identity
    place = f"{os.major(device):02x}:{os.minor(device):02x}:{number}"
    with suppress(OSError), open("/proc/locks") as locks:
        for line in locks:
            words = line.split()
            if words[1] == "FLOCK" and words[5] == place and words[4] != "0":
                return RuntimeHolder(mark=f".{words[4]}.", who=_command(words[4]))
    return None


def _command(pid: str) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return "its name is not known"


def _dumped(holder: RuntimeHolder) -> bytes:
    return json.dumps({name: value for name, value in asdict(holder).items() if name != "shares"}).encode()


def _loaded(content: bytes) -> RuntimeHolder | None:
    with suppress(ValueError, RecursionError):
        match json.loads(content):
            case {"mark": str(mark), "who": str(who), "reach": str(reach), "database": str(database)}:
                return RuntimeHolder(mark, who, reach, database) if mark.count(".") == 2 else None
    return None
