"""Working copies: an agent with `isolate: worktree` edits a checkout of its own, one for each workspace.

The copy is a checkout of the project's HEAD with a repository of its own (or just the files, where there is no Git),
so the agent may do with its `.git` what it likes: we never run Git there, nor in the project. Beside the copy we
only remember the commit where it began; what was changed since is found by `trees`, which opens neither repository.
Before a copy is removed its state is kept in the project's repository as a ref, or as a patch where there is none.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from pathlib import Path

from agent_worker.core.errors import NotFound, Refused
from agent_worker.core.later import dataclass, pattern
from agent_worker.files.makers import scratch
from agent_worker.files.root import Root
from agent_worker.processes.git import BYTE_FOR_BYTE, GitLimits, GitResult, Repository
from agent_worker.trust.preview import one_line
from agent_worker.workflows import trees
from agent_worker.workflows.repositories import copy_objects, find, opened, take_shallow
from agent_worker.workflows.walk import FileSeen

FOLDER = "copies"
REFS = "refs/agent-worker"
HISTORY = 60.0  #: seconds to look through all of it; if that is not enough, a copy has none
NAMED = 8  #: files that are named in the channel
LARGEST_PATCH = 4 * 1024 * 1024  #: that is offered; more is only counted
LARGEST_PROJECT = 256 * 1024 * 1024  #: of one without Git, which is copied file by file

_PERSONAL = r"\.agents/[^/]+/"  # memories and notes of agents: not in a copy, and not in what it changed
_ID = pattern(r"[0-9a-f]{40}|[0-9a-f]{64}")
_HASHES = {40: "sha1", 64: "sha256"}  # by the length of an id
#: The agent's repository: ours in nothing but that files are taken byte for byte.
_CONFIG = """\
[core]
\trepositoryFormatVersion = {version}
\tbare = false
\tlogAllRefUpdates = true
\tautocrlf = false
"""


@dataclass(frozen=True, slots=True)
class CopyChanges:
    files: tuple[str, ...]
    patch: str  #: '' when it is too large to be offered
    notes: tuple[str, ...] = ()  #: what the person should know: what was left out, and why
    commit: str = field(default="", compare=False)  #: '' when nothing was changed


@dataclass(frozen=True, slots=True)
class TrialMerge:
    """What came of merging two states, which nobody sees: nothing of it is kept."""

    conflicts: tuple[str, ...]  #: paths; none when they fit together


@dataclass(frozen=True, slots=True)
class _Began:
    """The commit where a copy began, opened to compare with."""

    commit: str
    git: Repository
    objects: Path  #: where what is new is stored
    in_git: bool


@dataclass(frozen=True, slots=True)
class WorkingCopy:
    """One agent's checkout in one workspace."""

    agent: str  #: name
    project: Path
    place: Path  #: the folder of all copies of a workspace
    _ids: dict[FileSeen, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def files(self) -> Path:
        """The folder in which the agent works."""
        return self.place / self.agent

    @property
    def _root(self) -> Root:
        """The folder of the agent as a root, to which no link leads."""
        return Root(self.project).beneath(self.place.relative_to(self.project).as_posix())

    @property
    def _record(self) -> str:
        return f".base/{self.agent}"

    async def prepare(self) -> None:
        """Make the copy, unless it is there: then its agent goes on where it was."""
        if await asyncio.to_thread(self._is_there):
            return
        await asyncio.to_thread(self._clear)
        try:
            with scratch("copy") as place:
                await self._make(place)
        except BaseException as error:
            await asyncio.to_thread(self._clear)
            if isinstance(error, OSError):
                raise Refused(f"a working copy could not be made: {error}", hint="agent-worker doctor") from None
            raise

    async def changes(self) -> CopyChanges:
        """What is different from where the copy began, files it added included."""
        async with self._opened() as began:
            return await self._changes(began)

    async def keep(self, changes: CopyChanges, name: str) -> str:
        """Keep these changes where they outlive the copy; returns where that is, '' when nothing was changed."""
        if not changes.commit:
            return ""
        async with self._opened() as began:
            if not began.in_git:
                kept = f"{name.replace('/', '-')}.patch"
                patch = await _patch(began, changes.commit)
                await asyncio.to_thread(lambda: self._root.replace(kept, patch.read_bytes()))
                return str(self.place / kept)
            ref = f"{REFS}/{name}"
            _text(await began.git.run("check-ref-format", ref))
            # Not by Git: it would have to open the project's repository, where a hook hears of every ref.
            await asyncio.to_thread(Root(began.objects.parent).replace, ref, f"{changes.commit}\n")
            return ref

    async def try_merge(self, own: str, other: str) -> TrialMerge | None:
        """Merge two commits that were kept of copies, to see what comes of it; None when that cannot be tried."""
        async with self._opened() as began:
            if not began.in_git:
                return None
            done = await began.git.run("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", own, other)
            if done.exit_code not in (0, 1):  # an old Git, or objects that are not here
                return None
            _, *paths = filter(None, done.output.split(b"\0"))
            return TrialMerge(tuple(map(_shown, paths)) if done.exit_code else ())

    async def remove(self) -> None:
        await asyncio.to_thread(self._clear)

    # --- how

    async def _make(self, place: Path) -> None:
        found = await find(self.project, place=place)
        if found:
            source = await opened(place / "source.git", found, place=place)
            head = await source.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
            if not head.exit_code:
                return await self._clone(source, _text(head), place, objects=found.objects, with_git=True)
        await self._take_files(place)

    async def _changes(self, began: _Began) -> CopyChanges:
        base = await trees.files_of(began.git, began.commit)
        without = re.compile(_PERSONAL.encode())
        found = await trees.difference(began.git, self.files, base, without=without, ids=self._ids)
        if not found.paths:
            return CopyChanges((), "", _notes(found))
        message = f"What {self.agent} had changed"
        made = await trees.commit(
            began.git, self.files, found, base=began.commit, message=message, objects=began.objects
        )
        patch = await _patch(began, made)
        shown = await asyncio.to_thread(_offered, patch)
        return CopyChanges(tuple(map(_shown, found.paths)), shown, _notes(found), made)

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[_Began]:
        began = (await asyncio.to_thread(self._root.read_text, f"{self._record}/commit")).strip()
        if not _ID.fullmatch(began):
            raise Refused(f"{self.files} has lost the commit it began at", hint="stop the workflow, delete the folder")
        if not await asyncio.to_thread(self._root.exists, self.agent):
            raise NotFound(f"{self.files} is gone")
        with scratch("copy") as place:
            own = self._root.location(self._record) / "objects"
            in_git = not await asyncio.to_thread(self._root.exists, f"{self._record}/objects")
            found = await find(self.project, place=place) if in_git else None
            if in_git and found is None:
                raise NotFound(f"{self.project} is no longer a Git repository")
            objects = found.objects if found else own
            git = Repository.make(place / "own.git", hash=_HASHES[len(began)], borrow=[objects])
            if found:
                take_shallow(git, found)
            yield _Began(began, git, objects, in_git)

    async def _clone(self, source: Repository, head: str, place: Path, *, objects: Path, with_git: bool) -> None:
        """Clone the repository where nobody else writes, and move it when it is done."""
        copy = Repository.make(place / "copy.git", hash=source.hash)
        (copy.folder / "info/attributes").write_text(BYTE_FOR_BYTE)
        await asyncio.to_thread(copy_objects, objects, copy.folder / "objects")
        options = ("--quiet", "--update-shallow", "--no-write-fetch-head", str(source.folder))
        branches, tags = "+refs/heads/*:refs/remotes/origin/*", "refs/tags/*:refs/tags/*"
        whole = await copy.run("fetch", *options, branches, tags, "HEAD", limits=GitLimits(time=HISTORY))
        if whole.exit_code:  # of a partial clone there is no whole history, and of a giant it takes too long
            _text(await copy.run("fetch", *options, "--depth=1", "HEAD"))
        files = place / "files"
        files.mkdir(mode=0o700)
        _text(await copy.run("checkout", "--quiet", "-B", f"agent/{self.agent}", head, files=files))
        await asyncio.to_thread(_take_out_personal, files)
        if with_git:
            await asyncio.to_thread(_hand_over, copy, files / ".git")
        await asyncio.to_thread(_move, files, self.files)
        await asyncio.to_thread(self._root.replace, f"{self._record}/commit", head)  # last: then it is whole

    async def _take_files(self, place: Path) -> None:
        """Copy a project that has no commit to begin at: one is made of its files, in a store of ours."""
        size = await asyncio.to_thread(_size, self.project, self.place)
        if size > LARGEST_PROJECT:
            raise Refused(
                f"{self.project.name} has no Git, and its files are too many to copy ({size // 1024 // 1024} MiB)",
                hint="git init, or remove isolate: worktree",
            )
        await asyncio.to_thread(self._root.make_dirs, f"{self._record}/objects")
        ours = re.escape(self.place.relative_to(self.project).parts[0])
        without = re.compile(rf"{ours}/|{_PERSONAL}".encode())
        own = Repository.make(place / "own.git")
        found = await trees.difference(own, self.project, {}, without=without, ids={})
        objects = self._root.location(f"{self._record}/objects")
        first = await trees.commit(own, self.project, found, base="", message="Where it began", objects=objects)
        source = Repository.make(place / "files.git", borrow=[objects])
        (source.folder / "HEAD").write_text(f"{first}\n")
        await self._clone(source, first, place, objects=objects, with_git=False)

    def _is_there(self) -> bool:
        self._root.make_dirs(".base")
        return self._root.exists(self.agent) and self._root.exists(f"{self._record}/commit")

    def _clear(self) -> None:
        for folder in (self.files, self.place / self._record):
            shutil.rmtree(folder, ignore_errors=True)


def _text(done: GitResult) -> str:
    """The output of a git command that must succeed. Raises Refused."""
    if done.exit_code:
        raise Refused(f"git could not prepare a working copy: {one_line(done.complaint)}", hint="agent-worker doctor")
    return done.output.decode(errors="replace").strip()


async def _patch(began: _Began, commit: str) -> Path:
    patch = began.git.folder / "patch"
    options = ("-r", "-p", "-M", "--binary", "--no-ext-diff", "--no-textconv", f"--output={patch}")
    _text(await began.git.run("diff-tree", *options, began.commit, commit, objects=began.objects))
    return patch


def _offered(patch: Path) -> str:
    return patch.read_bytes().decode(errors="replace") if patch.stat().st_size <= LARGEST_PATCH else ""


def _notes(found: trees.Difference) -> tuple[str, ...]:
    left_out = (f"{_shown(path)} is left out ({why})" for path, why in sorted(found.left_out.items()))
    raw = (
        f"{_shown(path)} is kept as it is, without its filter {one_line(f)}"
        for path, f in sorted(found.filtered.items())
    )
    return (*left_out, *raw)


def listed(names: Sequence[str], separator: str = ", ") -> str:
    """The first of them, as the channel names them."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return separator.join(names[:NAMED]) + more


def _shown(path: bytes) -> str:
    return one_line(path.decode(errors="replace"))


def _hand_over(copy: Repository, place: Path) -> None:
    """Give the copy to the agent: from now on it is the agent's."""
    extension = "" if copy.hash == "sha1" else f"[extensions]\n\tobjectFormat = {copy.hash}\n"
    (copy.folder / "config").write_text(_CONFIG.format(version=1 if extension else 0) + extension)
    shutil.move(copy.folder, place)


def _take_out_personal(files: Path) -> None:
    """Remove the agents' folders from a copy: what agents remember may be in the repository, and is
    not for this agent.
    """
    agents = files / ".agents"
    if agents.is_symlink() or not agents.is_dir():
        return
    for entry in agents.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)


def _move(files: Path, to: Path) -> None:
    try:
        os.rename(files, to)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copytree(files, to, symlinks=True)
        shutil.rmtree(files)


def _size(project: Path, without: Path) -> int:
    total = 0
    for folder, names, files in os.walk(project):
        names[:] = [name for name in names if Path(folder, name) != without.parent and name != ".git"]
        total += sum(os.lstat(Path(folder, file)).st_size for file in files)
    return total
