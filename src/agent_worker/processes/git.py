"""Git, as we run it: only ever in a repository that we have just made ourselves.

Git obeys what it finds. The configuration of a repository can name programs in some fifty places, and so can that of a
repository nested in a work tree. There is no switch that turns all of it off, so nobody's repository is opened here:
`Repository` has a folder of ours, a configuration that we wrote, and at most borrows objects and refs, which are data.
Nothing else in this package starts git. Not here: where other people's repositories lie (workflows/repositories.py).
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent_worker.core.errors import Refused
from agent_worker.core.later import dataclass
from agent_worker.processes.child import start
from agent_worker.processes.environment import path_of_ours, safe_environment
from agent_worker.processes.streams import Ends

TIME = 120.0  #: seconds for one call
#: All that we ask of git: tests/attacks/test_git_traps.py tries each with every setting that git knows.
COMMANDS = frozenset(
    {
        *("cat-file", "check-attr", "check-ignore", "check-ref-format", "checkout", "config", "diff-tree"),
        *("fast-import", "fetch", "ls-remote", "ls-tree", "merge-tree", "rev-parse"),
    }
)
_TIMED_OUT = 124  # as `timeout` says it
_COMPLAINT = 4096  # bytes kept of what git says to a person

_CONFIG = """\
[core]
	repositoryFormatVersion = {version}
	bare = true
	hooksPath = /dev/null
	fsmonitor = false
	alternateRefsCommand = true
	attributesFile = /dev/null
	excludesFile = /dev/null
	autocrlf = false
	quotePath = false
	protectHFS = true
	protectNTFS = true
	useReplaceRefs = false
	logAllRefUpdates = false
[gc]
	auto = 0
[maintenance]
	auto = false
[submodule]
	recurse = false
[fetch]
	recurseSubmodules = false
	unpackLimit = 1
[credential]
	helper =
[http]
	followRedirects = false
	lowSpeedLimit = 1000
	lowSpeedTime = 30
"""
#: Whatever a tree says about its files: they are written and read byte for byte.
BYTE_FOR_BYTE = "* !text !eol !crlf !ident !filter !working-tree-encoding\n"


@dataclass(frozen=True, slots=True)
class GitResult:
    exit_code: int
    output: bytes
    complaint: str


@dataclass(frozen=True, slots=True)
class GitLimits:
    time: float = TIME
    output: int = 256 * 1024 * 1024
    file: int | None = None  #: bytes of each file that git writes


@dataclass(frozen=True, slots=True)
class Repository:
    """A bare repository of ours. Make one with `make`, in a place where nobody else writes, and throw it away."""

    folder: Path
    hash: str  #: sha1 or sha256

    @classmethod
    def make(
        cls, folder: Path, *, hash: str = "sha1", borrow: Sequence[Path] = (), check_fetched: bool = False
    ) -> Repository:
        """Make an empty repository of ours. `borrow` are stores whose objects can be read as if they were here."""
        folder.mkdir(mode=0o700)  # it is there already: then it is not ours, and this raises
        for name in ("refs", "info", "objects", "objects/info"):
            (folder / name).mkdir()
        extension = "" if hash == "sha1" else f"[extensions]\n\tobjectFormat = {hash}\n"
        checks = "[transfer]\n\tfsckObjects = true\n" if check_fetched else ""
        (folder / "config").write_text(_CONFIG.format(version=1 if extension else 0) + extension + checks)
        (folder / "HEAD").write_text("ref: refs/heads/main\n")
        (folder / "objects/info/alternates").write_bytes(b"".join(quoted(os.fsencode(each)) + b"\n" for each in borrow))
        return cls(folder, hash)

    async def run(
        self,
        command: str,
        *arguments: str,
        stdin: bytes | int | None = None,
        files: Path | None = None,
        objects: Path | None = None,
        protocol: str = "file",
        more: Mapping[str, str] | None = None,
        limits: GitLimits | None = None,
    ) -> GitResult:
        """Call git once. `files` is a work tree of ours, `objects` a store to write to, `more` further variables."""
        if command not in COMMANDS:
            raise ValueError(f"nobody has tried what a hostile repository makes of git {command}")
        limits = limits or GitLimits()
        env = {**environment(self.folder, protocol=protocol), **(more or {})}
        env |= {"GIT_WORK_TREE": str(files)} if files else {}
        if objects:
            here = os.fsdecode(quoted(os.fsencode(self.folder / "objects")))
            env |= {"GIT_OBJECT_DIRECTORY": str(objects), "GIT_ALTERNATE_OBJECT_DIRECTORIES": here}
        said, complaint = bytearray(), Ends(_COMPLAINT)
        try:
            async with (
                asyncio.timeout(limits.time),
                start(
                    _limited(limits.file, (command, *arguments)),
                    cwd=files or self.folder,
                    env=env,
                    stdin=stdin,
                    stderr=subprocess.PIPE,
                ) as child,
            ):
                await asyncio.gather(_take(child.stdout, said, limits.output), complaint.take_all(child.stderr))
                return GitResult(await child.wait(), bytes(said), complaint.text())
        except TimeoutError:
            return GitResult(_TIMED_OUT, b"", f"it took longer than {limits.time:.0f} s and was given up")


def environment(folder: Path, *, protocol: str = "file", source: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of git: no configuration of the user or of the system, and nobody to ask."""
    return safe_environment((), source=source) | {
        "PATH": path_of_ours(source),
        "GIT_DIR": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": "true",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_ALLOW_PROTOCOL": protocol,
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        "LC_ALL": "C",
    }


def version() -> str:
    """What `git --version` says, without looking at any repository; empty when there is no git."""
    env = safe_environment() | {"PATH": path_of_ours(), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    try:
        return subprocess.run(["git", "--version"], cwd="/", env=env, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


def _limited(size: int | None, arguments: Sequence[str]) -> list[str]:
    if size is None:
        return ["git", *arguments]
    # A shell sets the limit, and becomes git: the words of the command stay words.
    return ["/bin/sh", "-c", f'ulimit -f {size // 512}; exec git "$@"', "git", *arguments]


async def _take(stream: asyncio.StreamReader, said: bytearray, most: int) -> None:
    while piece := await stream.read(64 * 1024):
        said += piece
        if len(said) > most:
            raise Refused("the repository lists or holds more than we take")


def quoted(name: bytes) -> bytes:
    """A path as git reads it inside double quotes, whatever bytes are in it."""
    return b'"%s"' % b"".join(b"\\%03o" % byte if byte < 32 or byte in b'"\\' else bytes((byte,)) for byte in name)
