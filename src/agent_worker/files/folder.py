"""One directory, held open by its descriptor, and what may be done with single names inside it.

A descriptor cannot be swapped for a link behind our back, so a path is walked folder by folder. No link is
ever followed, and only regular files are opened. Here are also the bytes themselves (write all of them, sync, take back
what did not arrive) and the two renames that Python lacks: swap two files in one step, and rename only onto a free
name; where the system has neither, they raise NotImplementedError and the caller does what is second best.
Below: the operating system. Above: root.py, which knows whole paths. Raises OSError as it comes; root.py turns it into
sentences.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import os
import secrets
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Self

from agent_worker.core.errors import Refused, trouble_of
from agent_worker.core.failpoints import failpoint
from agent_worker.files.makers import maker
from agent_worker.files.paths import TEMPORARY, same_document

_locks = tuple(threading.RLock() for _ in range(64))


def write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def alone_with(descriptor: int) -> threading.RLock:
    """The lock that our threads hold while they add to a file. Take it before a folder's, never after."""
    return _locks[os.fstat(descriptor).st_ino % len(_locks)]


@contextmanager
def taken_back(descriptor: int) -> Iterator[None]:
    """Cut off again what an append wrote that fails, also in its sync: nobody shall take it for stored."""
    before = os.fstat(descriptor).st_size
    try:
        yield
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, before)
        raise


def sync(descriptor: int) -> None:
    """Write a file through to the disk itself. A sync that failed is never tried again: the second one would lie."""
    if sys.platform == "darwin":  # fsync there only reaches the disk's own cache
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
        except OSError as error:
            if error.errno not in {errno.ENOTSUP, errno.EINVAL}:
                raise
    os.fsync(descriptor)


@contextmanager
def disk_explained() -> Iterator[None]:
    """Raise what a disk refused as a sentence that people and models understand."""
    try:
        yield
    except OSError as error:
        if (told := trouble_of(error)) is None:
            raise
        raise told from error


_EXCHANGE = 2
_ONLY_IF_FREE = 4 if sys.platform == "darwin" else 1
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}


def exchange(directory: int, one: str, other: str) -> None:
    """Exchange two files. Both names exist before and after; nobody ever sees one of them missing."""
    _rename(directory, one, other, how=_EXCHANGE)


def rename_if_free(directory: int, old: str, new: str) -> None:
    """Rename a file. Raises FileExistsError when `new` is taken, by whatever."""
    _rename(directory, old, new, how=_ONLY_IF_FREE)


def _rename(directory: int, old: str, new: str, *, how: int) -> None:
    call = _system_call()
    if call is None:
        raise NotImplementedError
    if call(directory, os.fsencode(old), directory, os.fsencode(new), how) == 0:
        return
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        raise NotImplementedError
    raise OSError(code, os.strerror(code), old, None, new)


@cache
def _system_call() -> Callable[..., int] | None:
    library = ctypes.CDLL(None, use_errno=True)
    call = getattr(library, "renameat2", None) or getattr(library, "renameatx_np", None)
    if call is None:
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    call.restype = ctypes.c_int
    found: Callable[..., int] = call
    return found


_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# A FIFO must not make us wait for its other end.
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_folder_locks = tuple(threading.RLock() for _ in range(64))


class Folder:
    """One open directory. Close it, or use it in a `with`."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def at(cls, path: Path) -> Folder:
        try:
            return cls(os.open(path, _DIRECTORY))
        except OSError:
            if path.is_symlink():
                told = f"{path} is a link, and links are not followed"
                raise Refused(told, hint=f"name {path.resolve()} instead") from None
            raise

    @classmethod
    def made_at(cls, path: Path) -> Folder:
        with suppress(FileNotFoundError):  # nearly always it is there
            return cls.at(path)
        make_directories(path)
        return cls.at(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self.descriptor)

    def alone(self) -> threading.RLock:
        """The lock to hold while a name is looked at and then given away. It orders our threads,
        not other processes.
        """
        return _folder_locks[os.fstat(self.descriptor).st_ino % len(_folder_locks)]

    def names(self) -> list[str]:
        return sorted(os.listdir(self.descriptor))

    def status(self, name: str) -> os.stat_result | None:
        """The status of the file itself, never of what it points to; None when there is none."""
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def actual(self, name: str) -> str:
        """The name under which this document already stands here, however its letters are cased."""
        if self.status(name) is not None:
            return name
        wanted = same_document(name)
        there = os.listdir(self.descriptor)
        listed = "/".join(("", *there, ""))
        if listed.isascii() and f"/{wanted}/" not in listed.lower():
            return name  # as nearly always, seen without a look at each of what may be thousands
        return min((found for found in there if same_document(found) == wanted), default=name)

    def is_directory(self, name: str) -> bool:
        status = self.status(name)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def enter(self, name: str) -> Folder:
        with suppress(OSError):  # nearly always it is a directory of just this name; else we look at what it is
            return Folder(os.open(name, _DIRECTORY, dir_fd=self.descriptor))
        name = self.actual(name)
        status = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            raise Refused(f"{name!r} is {_kind(status)}, not a directory")
        return Folder(os.open(name, _DIRECTORY, dir_fd=self.descriptor))

    def enter_or_make(self, name: str) -> Folder:
        with self.alone():  # one of our threads that has just made it has also synced it
            with suppress(FileNotFoundError):
                return self.enter(name)
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=self.descriptor)
            self.sync()
            return self.enter(name)

    def open(self, name: str, flags: int) -> int:
        """Open a regular file, created 0600 if the flags say so; its descriptor."""
        if not flags & os.O_CREAT:
            return self._open(name, flags)
        with self.alone():
            name = self.actual(name)
            if not flags & os.O_EXCL:
                with suppress(FileNotFoundError):
                    return self._open(name, flags & ~os.O_CREAT)
            descriptor = self._open(name, flags | os.O_EXCL)
            self.sync()
            return descriptor

    def _open(self, name: str, flags: int) -> int:
        self.check(name, flags)  # before opening: opening a device may already do something
        descriptor = os.open(name, flags & ~os.O_TRUNC | _FILE, 0o600, dir_fd=self.descriptor)
        try:
            _refuse_unsuitable(name, os.fstat(descriptor), flags)
            if flags & os.O_TRUNC:
                os.ftruncate(descriptor, 0)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def check(self, name: str, flags: int) -> None:
        """Refuse flags that do not suit what stands there; nothing there is fine."""
        if (status := self.status(name)) is not None:
            _refuse_unsuitable(name, status, flags)

    def digest(self, name: str) -> str | None:
        """The content hash of a file; None when there is none."""
        try:
            with os.fdopen(self.open(name, os.O_RDONLY), "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            return None

    def holds(self, name: str, descriptor: int) -> bool:
        """Whether the name still leads to this open file."""
        status = self.status(name)
        return status is not None and os.path.samestat(status, os.fstat(descriptor))

    @contextmanager
    def aside(self, content: bytes) -> Iterator[str]:
        """A temporary file with this content, already on the disk. Whoever wants to keep it renames it."""
        name = new_temporary()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        descriptor = os.open(name, flags, 0o600, dir_fd=self.descriptor)
        try:
            try:
                failpoint("replace.tmp")
                write_all(descriptor, content)
                sync(descriptor)
            finally:
                os.close(descriptor)
            yield name
        finally:
            with suppress(FileNotFoundError):
                self.unlink(name)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def rename_if_free(self, old: str, new: str) -> None:
        """Rename a file. Raises FileExistsError when `new` is taken."""
        try:
            rename_if_free(self.descriptor, old, new)
        except NotImplementedError:
            if self.status(new) is not None:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new) from None
            self.rename(old, new)

    def unlink(self, name: str) -> None:
        os.unlink(name, dir_fd=self.descriptor)

    def discard(self, name: str) -> None:
        """Delete a file, or a directory and all beneath it; of links only the link, of mounted disks nothing.

        Each subdirectory is first moved up to here: so depth costs neither memory nor descriptors, and a
        mounted one gives itself away, because the system refuses to move it.
        """
        if not self.is_directory(name):
            return self.unlink(name)
        waiting = [name]
        while waiting:
            current = waiting.pop()
            with self.enter(current) as inner:
                for entry in inner.names():
                    if not inner.is_directory(entry):
                        inner.unlink(entry)
                        continue
                    hoisted = new_temporary()
                    os.rename(entry, hoisted, src_dir_fd=inner.descriptor, dst_dir_fd=self.descriptor)
                    waiting.append(hoisted)
            os.rmdir(current, dir_fd=self.descriptor)

    def sync(self) -> None:
        sync(self.descriptor)


def new_temporary() -> str:
    """A free name for what is being written or deleted. It says who does: nobody else may tidy it away."""
    return f"{TEMPORARY}{maker()}-{secrets.token_hex(8)}"


def make_directories(path: Path) -> None:
    """Make all missing directories, 0700; what exists stays as it is."""
    if path.is_dir():
        return
    make_directories(path.parent)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    with Folder(os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)) as parent:
        parent.sync()


@contextmanager
def walked(folder: Folder, names: Sequence[str], step: Callable[[Folder, str], Folder]) -> Iterator[Folder]:
    """Walk from an open folder down to another, one step per name; never more than two descriptors."""
    try:
        for name in names:
            inner = step(folder, name)
            folder.close()
            folder = inner
        yield folder
    finally:
        folder.close()


def _refuse_unsuitable(name: str, status: os.stat_result, flags: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"{name!r} is {_kind(status)}, not a regular file")
    writing = bool(flags & (os.O_WRONLY | os.O_RDWR))
    if status.st_nlink > 1 and (writing or status.st_uid != os.geteuid()):
        # The other name may lie outside every root of ours.
        raise Refused(f"{name!r} is a hard link to a file that has another name elsewhere")


def _kind(status: os.stat_result) -> str:
    kinds = {
        stat.S_IFLNK: "a link",
        stat.S_IFDIR: "a directory",
        stat.S_IFREG: "a file",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
    }
    return kinds.get(stat.S_IFMT(status.st_mode), "a device")
