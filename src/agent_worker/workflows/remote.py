"""Fetches folders of Git repositories, and remembers which commit of each is used.

The system's git only carries objects into an empty repository that is thrown away afterwards; what is in them is read
by us, blob by blob. Nothing is checked out, so no hook, filter, link or submodule of a repository does anything. One on
this disk is read through a repository of ours (`opened`): its own git would obey its configuration. What a
branch or tag meant when it was first used is kept in a lock, and stays so until it is moved on purpose.
Limits: size of the transfer, number and size of files, time. What was begun and not finished leaves nothing.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path, PurePosixPath

from agent_worker.core.control_files import OURS
from agent_worker.core.errors import BadInput, NotFound, Refused
from agent_worker.core.later import dataclass
from agent_worker.core.remote import Fetched, Remote
from agent_worker.files.makers import scratch
from agent_worker.files.paths import acceptable, is_control
from agent_worker.files.root import Root
from agent_worker.processes.git import GitLimits, Repository
from agent_worker.trust.preview import one_line
from agent_worker.workflows.repositories import find, find_bare, opened

TRANSFER = 128 * 1024 * 1024  #: bytes of a repository's objects
FILES = 500  #: in the folder that is taken
FILE = 1024 * 1024  #: bytes
ALL_FILES = 8 * 1024 * 1024
TIME = 120.0  #: seconds for each word with the other side
LOCK = "lock.json"
TOKEN = "GITHUB_TOKEN"  #: from the daemon's environment; goes to github.com only

_LISTING = 16 * 1024 * 1024
_LEFT_OUT = "left-out.json"
_REGULAR = {"100644", "100755"}
_REASONS = {"120000": "a link", "160000": "a submodule"}


@dataclass(frozen=True, slots=True)
class Lock:
    """Which commit a source is, and since when."""

    source: str
    commit: str
    at: str


class Remotes:
    """What was fetched, below the daemon's home."""

    def __init__(self, home: Root) -> None:
        self._home = home
        self._busy = asyncio.Lock()

    async def get(self, remote: Remote, *, now: datetime, folder: str | None = None) -> Fetched:
        """A remote at the commit it is locked at; a new one is fetched and locked. `folder` is where its file lies."""
        async with self._busy:
            locks = await asyncio.to_thread(self._locks)
            known = locks.get(str(remote))
            found = await self._at(remote, known.commit if known else await self._resolve(remote), folder)
            if known is None and not remote.is_commit:
                locks[str(remote)] = Lock(str(remote), found.commit, now.isoformat(timespec="seconds"))
                await asyncio.to_thread(self._keep, locks)
            return found

    async def newest(self, remote: Remote, *, folder: str | None = None) -> Fetched:
        """The newest commit of a source; the lock stays as it was."""
        async with self._busy:
            return await self._at(remote, await self._resolve(remote), folder)

    async def move(self, remote: Remote, commit: str, *, now: datetime) -> None:
        """Lock a source to this commit from now on."""
        async with self._busy:
            locks = await asyncio.to_thread(self._locks)
            locks[str(remote)] = Lock(str(remote), commit, now.isoformat(timespec="seconds"))
            await asyncio.to_thread(self._keep, locks)

    async def locked(self) -> list[Lock]:
        return list((await asyncio.to_thread(self._locks)).values())

    def _locks(self) -> dict[str, Lock]:
        try:
            written = json.loads(self._home.read_text(LOCK))
        except NotFound:
            return {}
        except ValueError:
            raise Refused(f"{self._home.location(LOCK)} is damaged", hint="look at it, or delete it") from None
        return {source: Lock(source, entry["commit"], entry["at"]) for source, entry in written.items()}

    def _keep(self, locks: Mapping[str, Lock]) -> None:
        written = {source: {"commit": lock.commit, "at": lock.at} for source, lock in sorted(locks.items())}
        self._home.replace(LOCK, json.dumps(written, indent=1))

    async def _resolve(self, remote: Remote) -> str:
        """The commit that the version is now."""
        if remote.is_commit:
            return remote.ref
        names = [f"refs/heads/{remote.ref}", f"refs/tags/{remote.ref}"]
        with scratch("git") as place:
            git = await _Git.over(remote, place)
            listing = await git.run("ls-remote", "--", git.source, *names, f"{names[1]}^{{}}")
        lines = (line.partition("\t") for line in listing.decode(errors="replace").splitlines())
        found = {name: commit for commit, _, name in lines}
        if not found:
            raise NotFound(f"there is no branch or tag {remote.ref} in {remote.url}", hint="look at its releases")
        if names[0] in found and names[1] in found:
            raise BadInput(f"{remote.ref} is a branch and a tag there", hint="write the full commit id instead")
        return found.get(f"{names[1]}^{{}}") or found.get(names[1]) or found[names[0]]

    async def _at(self, remote: Remote, commit: str, folder: str | None) -> Fetched:
        folder = str(PurePosixPath(remote.path).parent) if folder is None else folder
        folder = "" if folder == "." else folder
        key = hashlib.sha256(json.dumps([remote.url, commit, folder]).encode()).hexdigest()[:32]
        root = self._home.location(key)
        if not root.is_dir():
            with scratch("git") as place:
                tree = await self._carried(place, remote, commit, folder)
                await asyncio.to_thread(self._shelve, tree, root)
        left_out = await asyncio.to_thread((root / _LEFT_OUT).read_text)
        return Fetched(remote, commit, root / "files", tuple(json.loads(left_out)))

    async def _carried(self, place: Path, remote: Remote, commit: str, folder: str) -> _Tree:
        git = await _Git.over(remote, place)
        options = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
        await git.run("fetch", *options, "--", git.source, commit)
        if (await git.run("cat-file", "-t", "--", commit)).strip() != b"commit":
            raise BadInput(f"{commit} is not a commit of {remote.url}")
        where = (f"{folder}/",) if folder else ()
        tree = _Tree.read(
            await git.run("ls-tree", "-r", "-z", "-l", "--full-tree", commit, "--", *where),
            folder,
        )
        if not tree.files:
            raise NotFound(f"there is no {remote.path} in {remote.url} at {commit}")
        oids = "\n".join(oid for oid, _ in tree.files.values()).encode() + b"\n"
        tree.fill(await git.run("cat-file", "--batch", stdin=oids))
        return tree

    def _shelve(self, tree: _Tree, root: Path) -> None:
        self._home.make_dirs()
        place = Path(tempfile.mkdtemp(prefix=".tmp-", dir=root.parent))
        try:
            files = Root(place / "files")
            files.make_dirs()
            for path, content in tree.contents.items():
                files.replace(path, content)
            Root(place).replace(_LEFT_OUT, json.dumps(tree.left_out))
            os.rename(place, root)
        finally:
            shutil.rmtree(place, ignore_errors=True)


class _Tree:
    """The files of one folder in one commit, and what is left out of them."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[str, int]] = {}  # path in the folder → object id and size
        self.contents: dict[str, bytes] = {}
        self.left_out: list[str] = []

    @classmethod
    def read(cls, listing: bytes, folder: str) -> _Tree:
        tree = cls()
        total = 0
        for line in filter(None, listing.split(b"\0")):
            about, _, path = line.partition(b"\t")
            mode, _, oid, size = about.decode().split()
            name = path.decode(errors="replace").removeprefix(f"{folder}/" if folder else "")
            if why := _unfit(mode, size, path):
                tree.left_out.append(f"{one_line(name)} ({why})")
                continue
            tree.files[name] = (oid, int(size))
            total += int(size)
            if len(tree.files) + len(tree.left_out) > FILES or total > ALL_FILES:
                raise Refused(
                    f"its folder holds more than {FILES} files or {ALL_FILES // 1024 // 1024} MiB",
                    hint="what you fetch should have its own folder in the repository",
                )
        return tree

    def fill(self, batch: bytes) -> None:
        """Fill in the files from what `cat-file --batch` prints, in the order of `files`."""
        at = 0
        for path, (oid, size) in self.files.items():
            head = f"{oid} blob {size}\n".encode()
            if not batch.startswith(head, at):
                raise Refused(f"{path} could not be read from the repository")
            at += len(head)
            self.contents[path] = batch[at : at + size]
            at += size + 1


def _unfit(mode: str, size: str, path: bytes) -> str:
    """Why this is not taken along; empty when it is."""
    if mode not in _REGULAR:
        return _REASONS.get(mode, "not a regular file")
    if int(size) > FILE:
        return f"larger than {FILE:,} bytes"
    try:
        parts = path.decode().split("/")
    except UnicodeDecodeError:
        return "an odd name"
    if not all(map(acceptable, parts)):
        return "an odd name"
    # Ours are what a remote is for; they count only where somebody approved them.
    return "other programs obey it" if is_control(part for part in parts if part not in OURS) else ""


@dataclass(frozen=True, slots=True)
class _Git:
    """An empty repository of ours, and where it fetches from."""

    remote: Remote
    repository: Repository
    source: str

    @classmethod
    async def over(cls, remote: Remote, place: Path) -> _Git:
        source, hash = remote.url, "sha1"
        if remote.kind == "file":
            folder = Path(remote.repository)
            found = await find(folder, place=place) or await asyncio.to_thread(find_bare, folder)
            if found is None:
                raise Refused(f"git could not read {remote.url}: it is not a Git repository", hint=_hint(remote))
            theirs = await opened(place / "theirs.git", found, place=place)
            source, hash = str(theirs.folder), theirs.hash
        return cls(remote, Repository.make(place / "ours.git", hash=hash, check_fetched=True), source)

    async def run(self, command: str, *arguments: str, stdin: bytes | None = None) -> bytes:
        """Run git; what it printed. Its files cannot grow past the limit, nor its time."""
        done = await self.repository.run(
            command,
            *arguments,
            stdin=stdin,
            protocol="https" if self.remote.kind == "github" else "file",
            more={"GIT_LITERAL_PATHSPECS": "1", **credentials(self.remote, os.environ)},
            limits=GitLimits(TIME, _LISTING, TRANSFER),
        )
        if done.exit_code and _is_full(self.repository.folder):
            raise Refused(f"{self.remote.url} is larger than {TRANSFER // 1024 // 1024} MiB: it was not fetched")
        if done.exit_code:
            complaint = one_line(done.complaint)
            raise Refused(f"git could not read {self.remote.url}: {complaint}", hint=_hint(self.remote))
        return done.output


def _is_full(place: Path) -> bool:
    return any(file.stat().st_size >= TRANSFER for file in place.glob("objects/pack/*"))


def _hint(remote: Remote) -> str:
    if remote.kind == "file":
        return "is it one of your Git repositories?"
    return f"does it exist? For a private one, set {TOKEN} where the daemon is started"


def credentials(remote: Remote, source: Mapping[str, str]) -> dict[str, str]:
    """Variables with the token: only for its own host, and never as a word of the command."""
    token = source.get(TOKEN)
    if remote.kind != "github" or not token:
        return {}
    secret = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    # By variables: no other user sees them, and no file keeps them.
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "http.https://github.com/.extraHeader",
        "GIT_CONFIG_VALUE_0": f"Authorization: Basic {secret}",
    }
