"""Every file the daemon opens, by a path beneath a root: read, replace, swap, append, list, remove.

`Root` is the only way to the files. What it writes is whole or absent: temporary name, sync, rename,
sync of the directory. `swap` also compares first, because people edit the same files. New files are 0600, new
directories 0700. Raises BadInput, NotFound and Refused with a sentence; a full or broken disk stays an
OSError. Synchronous: call it in a thread. Below: folder.py. Beside: jsonl.py for files of records.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from agent_worker.core.errors import BadInput, NotFound, Refused
from agent_worker.core.failpoints import failpoint
from agent_worker.core.later import dataclass
from agent_worker.core.text import plural
from agent_worker.files.folder import Folder, alone_with, new_temporary, sync, taken_back, walked, write_all
from agent_worker.files.paths import LEVELS, acceptable, names_in, same_document, shown
from agent_worker.files.swap import Conflict, content_hash, swap, sweep

READ_LIMIT = 16 * 1024 * 1024
_TRIES = 10
_TURNS, _TURN = 400, 0.005  # tries, and seconds between them, until another host lets us write
_SENTENCES = {
    errno.ELOOP: "is a link, and links are not followed",
    errno.ENAMETOOLONG: "has a name that is too long for this disk",
    errno.EBUSY: "is a mounted disk",
    errno.EXDEV: "lies on another disk",
    errno.ENXIO: "is not a regular file",
}

#: Told of every file that this process has put in place or removed (None): what else changes was somebody else.
listeners: list[Callable[[Path, bytes | None], None]] = []


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """One thing in a directory."""

    name: str
    is_directory: bool
    size: int
    modified: float  #: seconds since 1970, for people


@dataclass(frozen=True, slots=True)
class Root:
    """A directory, and the only way to what lies beneath it."""

    path: Path  #: trusted; links above it are followed, it may not be one itself
    within: tuple[str, ...] = ()  #: walked like any path beneath the root, so not trusted

    @classmethod
    def private(cls, path: Path) -> Root:
        """A directory nobody else may look into or have prepared: ours, 0700, no link."""
        with _explained(str(path)), Folder.made_at(path.absolute()) as folder:
            status = os.fstat(folder.descriptor)
            if status.st_uid != os.geteuid():
                raise Refused(f"{path} belongs to another user", hint="choose another directory")
            if status.st_mode & 0o022:
                raise Refused(f"others can write to {path}", hint=f"check what is in it, then: chmod 700 {path}")
            os.fchmod(folder.descriptor, 0o700)
        return cls(path.absolute())

    def beneath(self, relative: str) -> Root:
        """A smaller root, still walked from the trusted one."""
        return Root(self.path, self.within + names_in(relative))

    def location(self, relative: str = "") -> Path:
        """The path for people and child processes to read. We ourselves never open it."""
        return self.path.joinpath(*self.within, *names_in(relative))

    @property
    def is_there(self) -> bool:
        """Whether the directory itself exists: a hint that saves a look, nothing is opened by it."""
        return self.location().is_dir()

    def may_hold(self, *names: str) -> bool:
        """Whether one of these names may be here, in any spelling: a hint that saves a look, nothing is opened."""
        try:
            there = os.listdir(os.path.join(self.path, *self.within))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # whoever looks is told why
            return True
        return not set(map(same_document, there)).isdisjoint(names)

    def open(self, relative: str, flags: int) -> int:
        """Open a regular file; its descriptor. O_CREAT makes missing directories too."""
        with (self._made if flags & os.O_CREAT else self._found)(relative) as (folder, name):
            return folder.open(name, flags)

    def read_bytes(self, relative: str, *, limit: int = READ_LIMIT, shared: bool = True) -> bytes:
        """All of a file; if `shared` is False, of none that has another name elsewhere."""
        with os.fdopen(self.open(relative, os.O_RDONLY), "rb") as file:
            if not shared and os.fstat(file.fileno()).st_nlink > 1:
                raise Refused(f"{shown(relative)} is a hard link to a file that has another name elsewhere")
            content = file.read(limit + 1)
        if len(content) > limit:
            raise Refused(f"{shown(relative)} is larger than {plural(limit, 'byte')}")
        return content

    def read_text(self, relative: str, *, limit: int = READ_LIMIT, shared: bool = True) -> str:
        """Exactly what is in the file, so that its `content_hash` is the file's. `shared` as in `read_bytes`."""
        try:
            return self.read_bytes(relative, limit=limit, shared=shared).decode()
        except UnicodeDecodeError as error:
            raise BadInput(f"{shown(relative)} is not UTF-8 text (byte {error.start + 1})") from None

    def replace(self, relative: str, text: str | bytes) -> str:
        """Put this content in place of whatever is there; returns its hash. Readers see old or new."""
        content = _encoded(relative, text)
        with self._made(relative) as (folder, name):
            folder.check(name, os.O_WRONLY)
            with folder.aside(content) as temporary, folder.alone():
                name = folder.actual(name)  # another spelling may have appeared while we wrote
                folder.check(name, os.O_WRONLY)
                failpoint("replace.rename")
                folder.rename(temporary, name)
            failpoint("replace.dirsync")
            folder.sync()
        self._tell(relative, content)
        return content_hash(content)

    def swap(self, relative: str, text: str | bytes, *, expected: str | None) -> str | Conflict:
        """Replace only what was read: `expected` is its content hash, None when there was no file.

        Returns the new hash. What another process saved by renaming, or finished writing before we looked, is
        never lost: it stays, or is put back, in place. If theirs equals ours there is no conflict.

        Not covered: an editor that writes into the file itself, having opened it before our exchange and not
        yet written when we looked. Where the disk knows no exchange (folder.py), a save between our look
        and our rename, some microseconds later, is not covered either.
        """
        content = _encoded(relative, text)
        with self._made(relative) as (folder, name):
            folder.check(name, os.O_WRONLY)
            conflict = swap(folder, name, content, expected=expected)
            failpoint("replace.dirsync")
            folder.sync()
        if conflict is None:
            self._tell(relative, content)
            return content_hash(content)
        directory, slash, _ = relative.rpartition("/")
        return replace(conflict, kept=directory + slash + conflict.kept)

    @contextmanager
    def among_hosts(self) -> Iterator[None]:
        """Keep out other processes that ask for the same while we write. Raises OSError when one never lets go."""
        with self._made("any") as (folder, _):
            for _ in range(_TURNS):
                try:
                    fcntl.flock(folder.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(_TURN)
            else:
                raise BlockingIOError(errno.EAGAIN, "another host writes here", str(self.location()))
            yield  # the lock goes with the folder's descriptor

    def append(self, relative: str, text: str | bytes) -> None:
        """Add text to the end of a file; it is on disk when this returns."""
        content = _encoded(relative, text)

        def write(descriptor: int) -> None:
            with taken_back(descriptor):
                write_all(descriptor, content)
                sync(descriptor)

        self.extend(relative, write)

    def extend(self, relative: str, write: Callable[[int], None]) -> None:
        """Let `write` add to a file, alone among our threads; again if the file was replaced meanwhile."""
        for _ in range(_TRIES):
            with self._made(relative) as (folder, name):
                descriptor = folder.open(name, os.O_RDWR | os.O_APPEND | os.O_CREAT)
                try:
                    with alone_with(descriptor):
                        if os.fstat(descriptor).st_size == 0:
                            folder.sync()  # whoever created it may have died before its name was safe
                        write(descriptor)
                    # Alone: a swap that is about to be undone must not be taken for a replacement.
                    with folder.alone():
                        if folder.holds(name, descriptor):
                            return
                finally:
                    os.close(descriptor)
        raise Refused(f"{shown(relative)} keeps being replaced by somebody else")

    def exists(self, relative: str) -> bool:
        """Whether there is a file or directory. Of a link or a pipe we do not say: Refused."""
        try:
            with self._found(relative) as (folder, name):
                if folder.is_directory(name):
                    return True
                folder.check(name, os.O_RDONLY)
                return folder.status(name) is not None
        except NotFound:
            return False

    def identity(self, relative: str) -> str:
        """What no copy of a file has in common with it, and all who see the same file see: its number, and when it was
        written. Raises NotFound."""
        with self._found(relative) as (folder, name):
            if (status := folder.status(name)) is None:
                raise NotFound(f"{shown(relative)} does not exist")
            return f"{status.st_ino} {status.st_mtime_ns}"

    def list(self, relative: str = "") -> tuple[DirectoryEntry, ...]:
        """Files and directories that can be opened from here, by name."""
        with self._walk(relative, names_in(relative)) as folder:
            return tuple(filter(None, (_entry(folder, name) for name in folder.names())))

    def make_dirs(self, relative: str = "") -> None:
        with self._walk_making(relative, names_in(relative)):
            pass

    def remove(self, relative: str) -> None:
        """Remove a file; of a link only the link goes."""
        with self._found(relative) as (folder, name):
            folder.unlink(name)
            folder.sync()
        self._tell(relative, None)

    def _tell(self, relative: str, content: bytes | None) -> None:
        for listener in listeners:
            listener(self.location(relative), content)

    def remove_tree(self, relative: str) -> None:
        """A directory and all beneath it, gone at once for every reader; of a link only the link goes."""
        with self._found(relative) as (folder, name):
            trash = new_temporary()
            folder.rename(name, trash)
            folder.sync()
            folder.discard(trash)

    def sweep(self, relative: str = "") -> tuple[str, ...]:
        """Tidy up after a crash, whoever else writes here; returns the conflicts that came to light."""
        found: list[str] = []
        waiting = [names_in(relative)]
        while waiting:
            names = waiting.pop()
            # What cannot be opened, and what lies deeper than we write, is not ours to tidy.
            with suppress(Refused, NotFound), self._walk("/".join(names), names) as folder:
                found += ["/".join((*names, kept)) for kept in sweep(folder)]
                if len(names) < LEVELS:
                    waiting += [(*names, name) for name in folder.names() if folder.is_directory(name)]
        return tuple(found)

    @contextmanager
    def _found(self, relative: str) -> Iterator[tuple[Folder, str]]:
        *parents, name = _names_of_file(relative)
        with self._walk(relative, parents) as folder:
            yield folder, folder.actual(name)

    @contextmanager
    def _made(self, relative: str) -> Iterator[tuple[Folder, str]]:
        *parents, name = _names_of_file(relative)
        with self._walk_making(relative, parents) as folder:
            yield folder, folder.actual(name)

    @contextmanager
    def _walk(self, relative: str, names: Sequence[str]) -> Iterator[Folder]:
        names = (*self.within, *names)
        with _explained(relative), walked(Folder.at(self.path), names, Folder.enter) as folder:
            yield folder

    @contextmanager
    def _walk_making(self, relative: str, names: Sequence[str]) -> Iterator[Folder]:
        names = (*self.within, *names)
        with _explained(relative), walked(Folder.made_at(self.path), names, Folder.enter_or_make) as folder:
            yield folder


@contextmanager
def _explained(relative: str) -> Iterator[None]:
    """What the system says about a path, as our errors. What it says about the disk passes through."""
    try:
        yield
    except FileNotFoundError:
        raise NotFound(f"{shown(relative)} does not exist") from None
    except FileExistsError:
        raise Refused(f"{shown(relative)} exists already") from None
    except PermissionError:
        told = f"this user may not open or change {shown(relative)}"
        raise Refused(told, hint="check who owns the directory: ls -la") from None
    except (NotADirectoryError, IsADirectoryError):
        raise Refused(f"{shown(relative)} is not what it should be: file and directory are mixed up") from None
    except OSError as error:
        if error.errno not in _SENTENCES:
            raise
        raise Refused(f"{shown(relative)} {_SENTENCES[error.errno]}") from None


def _names_of_file(relative: str) -> tuple[str, ...]:
    if names := names_in(relative):
        return names
    raise BadInput("a file needs a name, and this one is empty")


def _encoded(relative: str, text: str | bytes) -> bytes:
    try:
        return text.encode() if isinstance(text, str) else text
    except UnicodeEncodeError:
        raise BadInput(f"the text for {shown(relative)} cannot be written as UTF-8") from None


def _entry(folder: Folder, name: str) -> DirectoryEntry | None:
    status = folder.status(name)
    if status is None or not acceptable(name):
        return None
    if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
        return None
    return DirectoryEntry(name, stat.S_ISDIR(status.st_mode), status.st_size, status.st_mtime)
