"""Where something outside this machine's project is: a repository, a version of it, and a path in it.

    github:owner/repo@ref/path              the version has no slash in its name
    github:owner/repo@release/1.2//path     it has one: two slashes end it
    git+file:///directory@ref//path         a repository on this disk

Decided from the text alone: what is not clearly one of these is refused, so that no part of it can be read as an
option, another protocol or a way out of the repository. Who fetches it: workflows/remote.py.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Literal

from agent_worker.core.errors import BadInput
from agent_worker.core.later import dataclass, pattern

_OWNER = pattern(r"[A-Za-z0-9](?:-?[A-Za-z0-9]){0,38}")
_REPOSITORY = pattern(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_DIRECTORY = pattern(r"(?:/[A-Za-z0-9._+][A-Za-z0-9._+-]{0,254}){1,40}")
_REF = pattern(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,99}(?:/[A-Za-z0-9_][A-Za-z0-9._+-]{0,99}){0,10}")
_PATH = pattern(r"[A-Za-z0-9._][A-Za-z0-9._+-]{0,99}(?:/[A-Za-z0-9._][A-Za-z0-9._+-]{0,99}){0,20}")
_COMMIT = pattern(r"[0-9a-f]{40}|[0-9a-f]{64}")
_FORM = "github:owner/repo@version/path"
_PREFIXES = {"github": "github:", "file": "git+file://"}
_ALIKE = str.maketrans({"0": "o", "1": "l", "i": "l", "5": "s", "-": None, "_": None, ".": None})


@dataclass(frozen=True, slots=True)
class Remote:
    """One file or folder in a version of a repository."""

    kind: Literal["github", "file"]
    repository: str  #: owner/repo, or a directory
    ref: str  #: a branch, a tag or a full commit id
    path: str

    def __str__(self) -> str:
        return f"{_PREFIXES[self.kind]}{self.repository}@{self.ref}{'//' if '/' in self.ref else '/'}{self.path}"

    @property
    def url(self) -> str:
        """The address for git. Holds no name and no secret of the user."""
        return f"https://github.com/{self.repository}.git" if self.kind == "github" else f"file://{self.repository}"

    @property
    def unversioned(self) -> str:
        """The address without its version: the same in every version."""
        return f"{_PREFIXES[self.kind]}{self.repository}//{self.path}"

    @property
    def is_commit(self) -> bool:
        """Whether the version is a full commit id, which nobody can change. A short one does not count: a branch may be
        called so.
        """
        return _COMMIT.fullmatch(self.ref) is not None

    @property
    def namespace(self) -> str:
        """owner/repo; of a repository on this disk, local and the name of its directory."""
        return self.repository if self.kind == "github" else f"local/{PurePosixPath(self.repository).name}"

    def at(self, commit: str) -> Remote:
        return replace(self, ref=commit)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A folder of a repository as it was in one commit, on this machine."""

    remote: Remote  #: as it was asked for
    commit: str
    root: Path
    left_out: tuple[str, ...] = ()  #: what was not taken along, each with the reason

    @property
    def pinned(self) -> str:
        """The address with its commit: what can be fetched again, and is the same then."""
        return str(self.remote.at(self.commit))


def is_remote(text: str) -> bool:
    """Whether a text is meant as the address of a remote, well-formed or not."""
    return text.lower().startswith(("github:", "git+"))


def parse_remote(text: str) -> Remote:
    """Read the address of a remote. Raises BadInput that shows the form."""
    for kind, prefix in _PREFIXES.items():
        if text.startswith(prefix):
            return _parsed(text, kind, text.removeprefix(prefix))
    raise _refused(text, "it must begin with github: or git+file://")


def looks_like(one: str, other: str) -> bool:
    """Whether a hasty reader may take one of these names for the other."""
    return one != other and _skeleton(one) == _skeleton(other)


def _skeleton(name: str) -> str:
    return name.lower().replace("rn", "m").replace("vv", "w").translate(_ALIKE)


def _parsed(text: str, kind: str, rest: str) -> Remote:
    repository, at, version = rest.rpartition("@")
    if not at:
        raise _refused(text, "it names no version")
    ref, slash, path = version.partition("//" if "//" in version else "/")
    owner, _, name = repository.partition("/")
    if kind == "github" and not (_OWNER.fullmatch(owner) and _REPOSITORY.fullmatch(name) and ".." not in name):
        raise _refused(text, "there is no such owner or repository")
    if kind == "file" and not (_DIRECTORY.fullmatch(repository) and _is_plain(repository)):
        raise _refused(text, "write the directory in full, without spaces")
    if not _REF.fullmatch(ref) or ".." in ref or ref.endswith((".lock", ".")):
        raise _refused(text, "its version must be a branch, a tag or a full commit id")
    if not slash or not _PATH.fullmatch(path) or not _is_plain(path):
        raise _refused(text, "its path must lead to a file or folder in the repository")
    return Remote("github" if kind == "github" else "file", repository, ref, path)


def _is_plain(path: str) -> bool:
    return not any(part in (".", "..") or part.lower() == ".git" for part in path.split("/"))


def _refused(text: str, why: str) -> BadInput:
    shown = text if len(text) <= 120 else f"{text[:119]}…"
    return BadInput(f"{shown!r} cannot be fetched from: {why}", hint=f"such as {_FORM}")
