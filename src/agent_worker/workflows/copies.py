"""Working copies: an agent with `isolate: worktree` edits a checkout of its own, one for each workspace.

The copy is a local clone at the project's HEAD (or the files, where there is no Git), so the agent may do with its
`.git` what it likes. What it changed is told by a second, bare repository beside the copy that no agent writes to: Git
obeys what it finds in a repository, so we never run it on one an agent could have prepared. Before a copy is removed
its state is kept in the project's repository as a ref, or as a patch where there is none.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from agent_worker.errors import Refused
from agent_worker.processes.child import run_command
from agent_worker.processes.environment import safe_environment
from agent_worker.trust.shown import one_line

FOLDER = "copies"
REFS = "refs/agent-worker"
TIME = 120.0
PERSONAL = ".agents/*/**"  #: memories and notes of agents: not in a copy, and not in what it changed
LARGEST_PATCH = 4 * 1024 * 1024  #: that is offered; more is only counted
LARGEST_PROJECT = 256 * 1024 * 1024  #: of one without Git, which is copied file by file

_SETTINGS = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "safe.directory=*"),
    *("-c", "user.name=agent-worker", "-c", "user.email=agent-worker@localhost", "-c", "commit.gpgSign=false"),
    *("-c", "submodule.recurse=false", "-c", "gc.auto=0", "-c", "core.quotePath=false", "-c", "core.autocrlf=false"),
    *("-c", "init.defaultBranch=main", "-c", "advice.detachedHead=false"),
)


@dataclass(frozen=True, slots=True)
class Changes:
    files: tuple[str, ...]
    patch: str  #: '' when it is too large to be offered


@dataclass(frozen=True, slots=True)
class Copy:
    """One agent's checkout in one workspace."""

    agent: str  #: name
    project: Path
    place: Path  #: the folder of all copies of a workspace

    @property
    def files(self) -> Path:
        """Where the agent works."""
        return self.place / self.agent

    @property
    def _record(self) -> Path:
        return self.place / ".base" / f"{self.agent}.git"

    async def prepare(self) -> None:
        """Make it, unless it is there: then its agent goes on where it was."""
        if self._record.exists() and self.files.exists():
            return
        await asyncio.to_thread(self._clear)
        try:
            if await self._project_head():
                await self._clone()
            else:
                await self._take_files()
        except BaseException:
            await asyncio.to_thread(self._clear)
            raise

    async def changes(self) -> Changes:
        """What is different from where it began, files it added included."""
        tree = await self._tree()
        names = await self._own("diff", "--name-only", "--no-renames", "-z", "base", tree)
        files = tuple(filter(None, names.split("\0")))
        patch = self._record / "patch"
        await self._own("diff", "--binary", "--no-ext-diff", "--no-textconv", f"--output={patch}", "base", tree)
        return Changes(files, await asyncio.to_thread(_text_of, patch))

    async def keep(self, name: str) -> str:
        """Put its state where it outlives the copy; where that is, or '' when nothing was changed."""
        if not (await self.changes()).files:
            return ""
        if not await self._project_head():
            kept = self.place / f"{name.replace('/', '-')}.patch"
            await asyncio.to_thread(shutil.copyfile, self._record / "patch", kept)
            return str(kept)
        commit = await self._own(
            "commit-tree", "-p", "base", "-m", f"What {self.agent} had changed", await self._tree()
        )
        ref = f"{REFS}/{name}"
        await _git(self.project, "fetch", "--quiet", "--no-tags", str(self._record), f"+{commit}:{ref}")
        return ref

    async def remove(self) -> None:
        await asyncio.to_thread(self._clear)

    # --- how

    async def _clone(self) -> None:
        head = await self._project_head()
        await _git(self.place, "clone", "--quiet", "--local", "--no-hardlinks", str(self.project), str(self.files))
        await _git(self.files, "checkout", "--quiet", "-B", f"agent/{self.agent}", head)
        await _git(self.place, "clone", "--quiet", "--bare", "--shared", str(self.project), str(self._record))
        await self._own("update-ref", "refs/heads/base", head)
        await self._own("read-tree", "base")
        await asyncio.to_thread(self._take_out_personal)

    async def _take_files(self) -> None:
        size = await asyncio.to_thread(_size, self.project, self.place)
        if size > LARGEST_PROJECT:
            raise Refused(
                f"{self.project.name} has no Git, and its files are too many to copy ({size // 1024 // 1024} MiB)",
                hint="git init, or remove isolate: worktree",
            )
        await _git(self.place, "init", "--quiet", "--bare", str(self._record))
        ours = self.place.relative_to(self.project).parts[0]
        (self._record / "info" / "exclude").write_text(f"/{ours}\n/.git\n")
        tree = await self._tree(self.project)
        commit = await self._own("commit-tree", "-m", "Where it began", tree)
        await self._own("update-ref", "refs/heads/base", commit)
        self.files.mkdir(mode=0o700)
        await self._own("--work-tree", str(self.files), "checkout-index", "--all", "--force")

    async def _tree(self, files: Path | None = None) -> str:
        """The files as they are now, as an object of our record."""
        place = files or self.files
        await self._own("--work-tree", str(place), "add", "--all", "--", ".", f":(exclude,glob){PERSONAL}", cwd=place)
        return await self._own("write-tree")

    async def _own(self, *arguments: str, cwd: Path | None = None) -> str:
        return await _git(cwd or self._record, "--git-dir", str(self._record), *arguments)

    async def _project_head(self) -> str:
        """'' where there is no repository, or nothing in it yet."""
        if not (self.project / ".git").exists():
            return ""
        return await _git(self.project, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", may_fail=True)

    def _take_out_personal(self) -> None:
        """What agents remember may be in the repository; it is none of this agent's business."""
        for folder in self.files.glob(".agents/*/"):
            shutil.rmtree(folder)

    def _clear(self) -> None:
        for folder in (self.files, self._record):
            shutil.rmtree(folder, ignore_errors=True)
        (self.place / ".base").mkdir(mode=0o700, parents=True, exist_ok=True)


async def _git(cwd: Path, *arguments: str, may_fail: bool = False) -> str:
    env = safe_environment() | {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0"}
    env |= {"GIT_ALLOW_PROTOCOL": "file", "GIT_ATTR_NOSYSTEM": "1", "LC_ALL": "C"}
    done = await run_command(["/usr/bin/env", "git", *_SETTINGS, *arguments], cwd=cwd, env=env, timeout=TIME)
    if done.exit_code and not may_fail:
        raise Refused(f"git could not prepare a working copy: {one_line(done.output)}", hint="agent-worker doctor")
    return "" if done.exit_code else done.output.strip()


def _text_of(patch: Path) -> str:
    if patch.stat().st_size > LARGEST_PATCH:
        return ""
    return patch.read_bytes().decode(errors="replace")


def _size(project: Path, without: Path) -> int:
    total = 0
    for folder, names, files in os.walk(project):
        names[:] = [name for name in names if Path(folder, name) != without.parent and name != ".git"]
        total += sum(os.lstat(Path(folder, file)).st_size for file in files)
    return total
