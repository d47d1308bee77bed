"""Where a project's repository lies, and a repository of ours that sees its commits without obeying it.

Of somebody's repository only data is used: objects, refs, where HEAD is, and three words of its configuration, read as
those of a file: how ids are made, how refs are kept, where its checkout is. Links are not followed, and a `.git` file
counts only where the repository it names also names this checkout: else a stranger's folder could show an agent any
repository of the user.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import suppress
from pathlib import Path

from agent_worker.core.errors import Refused
from agent_worker.core.later import dataclass, pattern
from agent_worker.processes.git import Repository
from agent_worker.trust.preview import one_line
from agent_worker.workflows.walk import Beneath

_HASHES = ("sha1", "sha256")
_WANTED = r"^(extensions\.(objectformat|refstorage)|core\.worktree)$"
_STORE = pattern(r"pack|[0-9a-f]{2}")
_STORED = pattern(r"pack-[0-9a-f]+\.(pack|idx|rev)|[0-9a-f]{38}|[0-9a-f]{62}")
_CHUNK = 1024 * 1024
_POINTER = 4096  # bytes of a file that holds one path or one ref


@dataclass(frozen=True, slots=True)
class Found:
    """Somebody's repository on this disk."""

    head: Path  #: the file that says which commit this checkout is at
    common: Path  #: the folder of its objects and refs
    is_proven: bool = True  #: that it belongs to the folder where it was found

    @property
    def objects(self) -> Path:
        return self.common / "objects"


async def find(folder: Path, *, place: Path) -> Found | None:
    """The repository whose checkout this folder is; `place` is a folder of ours, to read its settings from."""
    found = await asyncio.to_thread(_found, folder / ".git")
    if found and not found.is_proven:
        work_tree = (await _settings(found.common, place)).get("core.worktree")
        if not work_tree or not await asyncio.to_thread(_is_same, found.common / work_tree, folder):
            hint = f"if it is yours: git config core.worktree {folder}"
            raise _unfit(folder / ".git", "names a repository that does not know this checkout", hint=hint)
    return found


def find_bare(folder: Path) -> Found | None:
    """The repository that this folder itself is."""
    return _checked(Found(folder / "HEAD", folder))


async def opened(ours: Path, found: Found, *, place: Path) -> Repository:
    """Ours, with its commits, branches and tags. Only to read: what is written to its refs would be theirs."""
    settings = await _settings(found.common, place)
    hash, refs = settings.get("extensions.objectformat", "sha1"), settings.get("extensions.refstorage", "files")
    if hash not in _HASHES or refs != "files":
        raise _unfit(found.common, f"is stored in a form that we do not read ({one_line(hash)}, {one_line(refs)})")
    repository = Repository.make(ours, hash=hash, borrow=[found.objects])
    await asyncio.to_thread(_link_refs, repository, found)
    return repository


def take_shallow(ours: Repository, found: Found) -> None:
    """Take over where the history was cut off, so that nobody misses what came before."""
    if (found.common / "shallow").is_file():
        shutil.copyfile(found.common / "shallow", ours.folder / "shallow", follow_symlinks=False)


def copy_objects(theirs: Path, ours: Path) -> None:
    """What a fetch then need not carry over one by one. Only files, by their names: links stay where they are."""
    with Beneath(theirs) as beneath:
        for folder in filter(_STORE.fullmatch, os.listdir(theirs)):
            if not (names := _names_in(beneath, folder)):
                continue
            (ours / folder).mkdir()
            for name in names:
                # Git may be tidying up: what is gone by now is in another file.
                with (
                    suppress(FileNotFoundError),
                    beneath.file(f"{folder}/{name}".encode()) as file,
                    (ours / folder / name).open("xb") as copy,
                ):
                    shutil.copyfileobj(file, copy, _CHUNK)


def _names_in(beneath: Beneath, folder: str) -> list[str]:
    try:
        entries = os.scandir(beneath.folder(folder.encode()))
    except OSError:
        return []
    return [entry.name for entry in entries if _STORED.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)]


def _link_refs(ours: Repository, found: Found) -> None:
    (ours.folder / "HEAD").write_bytes(_read(found.head))
    (ours.folder / "refs").rmdir()
    for name in ("refs", "packed-refs"):
        (ours.folder / name).symlink_to(found.common / name)
    take_shallow(ours, found)


def _found(dot: Path) -> Found | None:
    """A repository of its own, a linked worktree, a submodule, or one that was set up apart from its files."""
    if dot.is_symlink():
        raise _unfit(dot, "is a link, and links are not followed")
    if not dot.is_file():
        return _checked(Found(dot / "HEAD", dot)) if dot.is_dir() else None
    words = _text(dot)
    git = dot.parent / words.removeprefix("gitdir:").strip()
    if not words.startswith("gitdir:") or not git.is_dir():
        raise _unfit(dot, "names no repository")
    if not (git / "commondir").is_file():
        return _checked(Found(git / "HEAD", git, is_proven=False))
    common = (git / _text(git / "commondir")).resolve()
    if git.resolve().parent != common / "worktrees" or not _is_same(git / _text(git / "gitdir"), dot):
        raise _unfit(dot, "names a repository that does not know this checkout", hint="git worktree repair")
    return _checked(Found(git / "HEAD", common))


def _checked(found: Found) -> Found | None:
    """A repository that can be used; None where it is no repository after all."""
    for path in (found.head, *(found.common / name for name in ("objects", "refs", "packed-refs", "shallow"))):
        if path.is_symlink():
            raise _unfit(path, "is a link, and links are not followed")
    is_one = found.head.is_file() and found.objects.is_dir() and (found.common / "refs").is_dir()
    return found if is_one else None


async def _settings(common: Path, place: Path) -> dict[str, str]:
    """The few settings of a repository that are wanted. It is read as a file: includes are not read, and nothing is
    obeyed."""
    if not await asyncio.to_thread((common / "config").is_file):
        return {}
    reader = Repository.make(place / "reader.git")
    options = ("--file", str(common / "config"), "--no-includes", "-z", "--get-regexp", _WANTED)
    done = await reader.run("config", *options)
    await asyncio.to_thread(shutil.rmtree, reader.folder)
    lines = filter(None, done.output.decode(errors="replace").split("\0"))
    return {name: value for name, _, value in (line.partition("\n") for line in lines)}


def _text(path: Path) -> str:
    return _read(path).decode(errors="surrogateescape").strip()


def _read(path: Path) -> bytes:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            return file.read(_POINTER)
    except OSError as error:
        raise _unfit(path, f"cannot be read: {error.strerror}") from None


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False


def _unfit(path: Path, why: str, *, hint: str = "") -> Refused:
    return Refused(f"{path} {why}", hint=hint or "make a plain clone of the project, and work there")
