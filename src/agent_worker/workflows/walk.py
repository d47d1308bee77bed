"""The files in a folder that an agent may have prepared, found without Git ever looking into it.

There may be a nested repository with a configuration of its own, a pipe where a file should be, links to anywhere. So
we walk ourselves, level by level, and no link is followed. What is ignored is Git's to say: it is asked in an empty
tree of ours, which holds nothing but folders and copies of the `.gitignore` and `.gitattributes` that were met.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Self

from agent_worker.core.errors import Refused
from agent_worker.core.later import dataclass, pattern
from agent_worker.processes.git import Repository

MOST = 1_000_000  #: files and folders that are looked at
LONGEST = 3000  #: bytes of a path
DEEPEST = 100  #: folders in one another
RULES = 1024 * 1024  #: bytes of a .gitignore or .gitattributes that is obeyed

LINK = "120000"
FOLDER = "040000"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY  # a pipe must not make us wait
_RULES = {b".gitignore", b".gitattributes"}
#: What some file system takes for `.git`: in any case, by its short name, with dots, blanks or a stream after it.
_GIT = pattern(rb"(?i:\.git|git~1)[ .]*(:.*)?", re.DOTALL)
_UNSEEN_BY_MACS = pattern("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


@dataclass(frozen=True, slots=True)
class FileSeen:
    """One file, link or folder."""

    path: bytes
    mode: str  #: as Git writes it
    size: int
    stamp: tuple[int, int, int]  #: changes whenever the content does: nobody can set the last of them


@dataclass(frozen=True, slots=True)
class KnownPaths:
    """Paths of the base commit: they count whatever the ignore rules say."""

    files: frozenset[bytes]
    folders: frozenset[bytes]
    modules: frozenset[bytes]  #: places of submodules: nobody's business but their own

    @classmethod
    def of(cls, files: Iterable[bytes], modules: Iterable[bytes]) -> KnownPaths:
        files, modules, folders = frozenset(files), frozenset(modules), set[bytes]()
        for path in (*files, *modules):
            while (path := path.rpartition(b"/")[0]) and path not in folders:
                folders.add(path)
        return cls(files, frozenset(folders), modules)

    def __contains__(self, path: bytes) -> bool:
        return path in self.files or path in self.folders or path in self.modules


class Beneath:
    """Opens what lies beneath a folder. Raises OSError as it comes."""

    def __init__(self, folder: Path) -> None:
        self._root = os.open(folder, _DIRECTORY)
        self._path, self._descriptor = b"", os.dup(self._root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
        os.close(self._root)

    def folder(self, path: bytes) -> int:
        """The descriptor of a folder, good until the next question."""
        if path != self._path:
            descriptor = os.dup(self._root)
            for name in filter(None, path.split(b"/")):
                outer = descriptor
                try:
                    descriptor = os.open(name, _DIRECTORY, dir_fd=outer)
                finally:
                    os.close(outer)
            os.close(self._descriptor)
            self._path, self._descriptor = path, descriptor
        return self._descriptor

    def file(self, path: bytes) -> BinaryIO:
        folder, _, name = path.rpartition(b"/")
        descriptor = os.open(name, _FILE, dir_fd=self.folder(folder))
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "not a regular file")
        return os.fdopen(descriptor, "rb")

    def link(self, path: bytes) -> bytes:
        folder, _, name = path.rpartition(b"/")
        return os.readlink(name, dir_fd=self.folder(folder))


@dataclass(frozen=True, slots=True)
class Walked:
    files: tuple[FileSeen, ...]
    left_out: dict[bytes, str]  #: path → why; what is known there counts as unchanged


async def walk(folder: Path, known: KnownPaths, rules: IgnoreRules, *, without: re.Pattern[bytes]) -> Walked:
    """Every file that is not ignored. `without` matches paths that are not looked at; those of folders end in a
    slash."""
    level, files, looked_at = [b""], list[FileSeen](), 0
    left_out: dict[bytes, str] = {}
    while level:
        found = await asyncio.to_thread(_look, folder, level, known, left_out)
        looked_at += len(found)
        if looked_at > MOST:
            raise Refused(f"{folder} holds more than {MOST:,} files", hint="remove what is not needed")
        found = [seen for seen in found if not without.match(seen.path + b"/" * (seen.mode == FOLDER))]
        await asyncio.to_thread(rules.meet, folder, found, known)
        ignored = await rules.ignored(seen.path for seen in found if seen.path not in known)
        found = [seen for seen in found if seen.path not in ignored]
        files += [seen for seen in found if seen.mode != FOLDER]
        level = [seen.path for seen in found if seen.mode == FOLDER]
    return Walked(tuple(files), left_out)


class IgnoreRules:
    """What is ignored or has a filter, by the rules that were met on the way."""

    def __init__(self, git: Repository, folder: Path) -> None:
        """`folder` is an empty one of ours."""
        self._git = git
        self._folder = folder
        self._met: set[bytes] = set()  # which kinds of rules there are

    def meet(self, folder: Path, found: Iterable[FileSeen], known: KnownPaths) -> None:
        """Copy what decides about these files into our empty tree: the ignore files, and each new folder."""
        with Beneath(folder) as beneath:
            for seen in found:
                place = os.path.join(os.fsencode(self._folder), seen.path)
                kind = seen.path.rpartition(b"/")[2]
                if seen.mode == FOLDER and seen.path not in known.folders:
                    os.makedirs(place, exist_ok=True)
                elif kind in _RULES and seen.mode not in (FOLDER, LINK):
                    os.makedirs(os.path.dirname(place), exist_ok=True)
                    with suppress(OSError), beneath.file(seen.path) as file, open(place, "xb") as copy:
                        copy.write(file.read(RULES))
                        self._met.add(kind)

    async def ignored(self, paths: Iterable[bytes]) -> frozenset[bytes]:
        if b".gitignore" not in self._met:
            return frozenset()
        here = b"./"  # or a name that begins with a colon would be more than a name
        done = await self._ask((here + path for path in paths), "check-ignore", "--no-index", "-z", "--stdin")
        return frozenset(path.removeprefix(here) for path in done.split(b"\0"))

    async def filters(self, paths: Iterable[bytes]) -> dict[bytes, str]:
        """Paths that have a filter, and which."""
        if b".gitattributes" not in self._met:
            return {}
        words = (await self._ask(paths, "check-attr", "-z", "--stdin", "filter")).split(b"\0")
        found = zip(words[0::3], words[2::3], strict=False)
        return {path: name.decode(errors="replace") for path, name in found if name not in (b"unspecified", b"unset")}

    async def _ask(self, paths: Iterable[bytes], question: str, *options: str) -> bytes:
        asked = b"".join(path + b"\0" for path in paths)
        if not asked:
            return b""
        done = await self._git.run(question, *options, stdin=asked, files=self._folder)
        if done.exit_code not in (0, 1):  # 1: to none of them it applies
            raise Refused(f"git could not read .gitignore or .gitattributes: {done.complaint.strip()}")
        return done.output


def is_git(name: bytes) -> bool:
    """Whether some file system would open this as `.git`."""
    if name.isascii():
        return _GIT.fullmatch(name) is not None
    return _GIT.fullmatch(_UNSEEN_BY_MACS.sub("", name.decode(errors="replace")).encode()) is not None


def _look(folder: Path, level: Iterable[bytes], known: KnownPaths, left_out: dict[bytes, str]) -> list[FileSeen]:
    """What is in these folders, and what of it is left out."""
    found: list[FileSeen] = []
    with Beneath(folder) as beneath:
        for path in level:
            try:
                inside = [_seen(path, entry) for entry in os.scandir(beneath.folder(path))]
            except OSError as error:
                left_out[path] = f"cannot be read: {error.strerror}"
                continue
            if why := _why_left_out(path, inside, known):
                left_out[path] = why
                continue
            reasons = {seen.path: _why_not_taken(seen, known) for seen in inside}
            left_out |= {taken: why for taken, why in reasons.items() if why and taken != b".git"}
            found += [seen for seen in inside if seen.mode and not reasons[seen.path]]
    return found


def _seen(folder: bytes, entry: os.DirEntry[str]) -> FileSeen:
    name = os.fsencode(entry.name)
    status = entry.stat(follow_symlinks=False)
    stamp = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
    return FileSeen(folder + b"/" + name if folder else name, _mode(status.st_mode), status.st_size, stamp)


def _mode(mode: int) -> str:
    """The mode as Git writes it; empty for pipes, sockets and devices, for which Git has no word."""
    if stat.S_ISREG(mode):
        return "100755" if mode & stat.S_IXUSR else "100644"
    return LINK if stat.S_ISLNK(mode) else FOLDER if stat.S_ISDIR(mode) else ""


def _why_left_out(path: bytes, inside: Iterable[FileSeen], known: KnownPaths) -> str:
    """Why nothing in this folder is taken; empty when it is."""
    kinds = {seen.path.rpartition(b"/")[2]: seen.mode for seen in inside}
    if path in known.modules:
        return "a submodule" if kinds else ""
    if not path or path in known.folders:
        return ""
    bare = (kinds.get(b"HEAD"), kinds.get(b"objects"), kinds.get(b"refs")) == ("100644", FOLDER, FOLDER)
    return "a repository of its own" if bare or any(map(is_git, kinds)) else ""


def _why_not_taken(seen: FileSeen, known: KnownPaths) -> str:
    if is_git(seen.path.rpartition(b"/")[2]):
        return "Git's own"
    if seen.path in known.modules and seen.mode != FOLDER:
        return "a submodule"
    return "too deep" if len(seen.path) > LONGEST or seen.path.count(b"/") > DEEPEST else ""
