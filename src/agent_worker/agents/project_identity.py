"""What two checkouts of one project have in common, so that several hosts know it for the same one.

What its own file says (`id:`), else the Git remote of the repository and where the project is in it, else the name of
the machine and the directory. The name of the project is no part of it: a project may be renamed. Git's configuration
is read as a text, and no git is run. With SQLite a project is its directory, whatever lies in it.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from agent_worker.core.control_files import is_there
from agent_worker.core.later import pattern
from agent_worker.definitions.project_files import ProjectFiles, load_project
from agent_worker.work.project_rows import SAID, Checkout

_READ = 256 * 1024  # bytes of a configuration
_POINTER = 4096  # of a file that holds one path
_SECTION = pattern(r'\[remote "([^"]+)"\]')
_URL = pattern(r'url\s*=\s*"?([^"#;\s]+)"?')
_SCP = pattern(r"(?:[^@/:\s]+@)?([^/:\s]{2,}):(?!/)(\S+)")
_SCHEMES = ("https", "http", "ssh", "git", "git+ssh")


def checkout_of(project: ProjectFiles, *, shared: bool) -> Checkout:
    """The checkout that a project's directory is. Reads files. `shared`: several hosts have the database."""
    root, name = str(project.root), project.definition.name
    if not shared:
        return Checkout(root, name)
    node = platform.node() or "unknown"
    said = f"{SAID}{project.definition.id}" if project.definition.id else ""
    return Checkout(root, name, said or _by_git(project.root) or f"node:{node} {root}", node)


def is_at(root: str, identity: str) -> bool:
    """Whether this directory is there, and a checkout of the project that hosts know by this. Reads files."""
    return os.path.isdir(root) and checkout_of(load_project(Path(root)), shared=True).identity == identity


def _by_git(root: Path) -> str:
    """What a project is known by if it has a Git remote; '' when it has none that is the same on every machine."""
    for folder in (root, *root.parents):
        if is_there(folder / ".git"):
            remote = _remote(_configuration(folder / ".git"))
            return f"git:{remote} {os.path.relpath(root, folder)}" if remote else ""
    return ""


def _configuration(git: Path) -> str:
    """The text of a repository's configuration; '' when it cannot be read. `git` may be a file that names it."""
    with suppress(OSError, ValueError):
        if git.is_file():
            git = git.parent / _read(git, _POINTER).removeprefix("gitdir:").strip()
            with suppress(OSError):
                git = git / _read(git / "commondir", _POINTER).strip()
        return _read(git / "config", _READ)
    return ""


def _read(path: Path, limit: int) -> str:
    with path.open("rb") as file:
        return file.read(limit).decode(errors="replace")


def _remote(configuration: str) -> str:
    """The address of the remote `origin`, or of the only remote."""
    found: dict[str, str] = {}
    for name, url in _remotes(configuration):
        found.setdefault(name, url)
    url = found.get("origin") or (next(iter(found.values())) if len(found) == 1 else "")
    return plain_remote(url)


def _remotes(configuration: str) -> Iterator[tuple[str, str]]:
    name = ""
    for line in map(str.strip, configuration.splitlines()):
        if line.startswith("["):
            name = found[1] if (found := _SECTION.match(line)) else ""
        elif name and (found := _URL.match(line)):
            yield name, found[1]


def plain_remote(url: str) -> str:
    """Host and path of a remote, however it is reached and by whom; '' for one on a disk, which differs by machine."""
    if "://" not in url:
        found = _SCP.fullmatch(url)
        return _joined(found[1], found[2]) if found else ""
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.scheme in _SCHEMES and parts.hostname:
            return _joined(parts.hostname + (f":{parts.port}" if parts.port else ""), parts.path)
    return ""


def _joined(host: str, path: str) -> str:
    return f"{host.lower()}/{path.strip('/').removesuffix('.git')}"
