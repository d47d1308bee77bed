"""What `doctor` looks at without asking the daemon: disk, database, files of the project, sandbox, git.

The command line loads it when it is asked for. What only the daemon knows is asked of it, in cli/setup.py.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from agent_worker.backends.models.keys import KeyRing
from agent_worker.client.discovery import DATABASE, DATABASE_VARIABLE, home_directory
from agent_worker.core.clock import SystemClock
from agent_worker.core.disk_space import Space, amount
from agent_worker.core.errors import AgentWorkerError, UnknownSchema
from agent_worker.core.redaction import Redactor
from agent_worker.core.text import plural
from agent_worker.database.recovery import look_at
from agent_worker.database.runtime_lock import holder_of, refusal
from agent_worker.definitions.project_files import find_project, load_project
from agent_worker.definitions.settings import read_settings, with_environment
from agent_worker.files.root import Root
from agent_worker.offline.stored import recovered
from agent_worker.processes.git import version as version_of_git
from agent_worker.trust.gate import Gate
from agent_worker.trust.project_keys import unread

SAFE_GIT = (2, 43, 7)


class Check(NamedTuple):
    """One thing that was looked at."""

    name: str
    ok: bool
    found: str
    cure: str = ""  #: what would mend it


def _space_of(home: Path) -> Space:
    chosen = with_environment(read_settings(home), os.environ)
    there = next(each for each in (home, *home.parents) if each.exists())
    return Space.of(there, chosen.warn_free, chosen.stop_free)


def disk() -> Check:
    home = home_directory()
    try:
        found = _space_of(home).look()
    except AgentWorkerError as error:
        return Check("settings", False, error.message, error.hint)
    if told := found.told():
        return Check("disk", False, told, "agent-worker gc")
    return Check("disk", True, "the free space is unknown" if found.free is None else f"{amount(found.free)} free")


def database(*, fix: bool) -> Check:
    """Read every page of the database; with `fix`, what can be read of a damaged one is put in its place."""
    if url := os.environ.get(DATABASE_VARIABLE, "").strip():
        return _postgres(url)
    path = home_directory() / DATABASE
    try:
        wrong = look_at(path)
    except UnknownSchema as error:  # nothing is wrong with it
        return Check("database", False, error.message, error.hint)
    if not wrong:
        if not path.exists():
            return Check("database", True, "there is none yet")
        return Check("database", True, f"whole, {amount(path.stat().st_size)}")
    if not fix:
        cure = "agent-worker stop --all, then agent-worker doctor --fix; for a backup: agent-worker restore --help"
        return Check("database", False, f"damaged: {wrong}", cure)
    try:
        complete, told = recovered()
    except AgentWorkerError as error:
        return Check("database", False, error.message, error.hint)
    cure = "look through it, or use a backup (agent-worker restore --help); it is whole now: the daemon starts again"
    return Check("database", complete, f"was damaged; {told}", cure)


def _postgres(url: str) -> Check:
    try:
        from agent_worker.database import postgres_look
    except ImportError:
        cure = "uv tool install '.[postgres]', or pip install '.[postgres]'"
        return Check("database", False, "PostgreSQL needs a library that is not installed here", cure)
    found = postgres_look.look_at(url)
    return Check("database", found.ok, found.found, found.cure)


def project(found_at_work: Callable[[Path], list[str]]) -> Check:
    """The files of the project we are in; and, if they are in order, what the daemon found when it used them."""
    found = load_project(find_project(Path.cwd()))
    if found.problems:
        return Check("files", False, _first_of([str(one) for one in found.problems]), "agent-worker validate")
    if problems := found_at_work(found.root):
        return Check("files", False, _first_of(problems), "agent-worker status")
    if not found.agents and not found.workflows:
        return Check("files", False, f"no agents in {found.root}", "agent-worker init")
    counted = f"{plural(len(found.agents), 'agent')}, {plural(len(found.workflows), 'workflow')}"
    return Check("files", True, f"{counted} in {found.root}")


def keys_of_a_start() -> list[dict[str, str]]:
    """The keys that agents of the project we are in could use if the daemon started here and now."""
    home, files = home_directory(), load_project(find_project(Path.cwd()))
    kept = Root.private(home) if home.is_dir() else None
    ring = KeyRing(os.environ, Redactor(), kept, Gate(kept, SystemClock()))
    ring.look_at(files)
    return [asdict(each) for each in ring.listing(files.root)]


def unread_env_file(path: Path | None = None) -> str:
    """Why the `.env` of the project at this path, or of the one we are in, gives no keys, as a sentence; else empty."""
    return unread(find_project(path or Path.cwd()))


def _first_of(problems: list[str]) -> str:
    return problems[0] + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else "")


def other_runtime(daemon: str) -> list[Check]:
    """Say who works on this project when that is not the daemon of this home, whose process id is given."""
    root = find_project(Path.cwd())
    holder = holder_of(root)
    if holder is None or holder.pid == daemon:
        return []
    error = refusal(f"the project {root}", holder)
    return [
        Check("project", False, f"{error.message}; the daemon of this home cannot use it in the meantime", error.hint)
    ]


def sandbox() -> list[Check]:
    """Whether there is a sandbox, and which limits it can hold on this machine."""
    if sys.platform == "linux" and shutil.which("bwrap") is None:
        return [Check("sandbox", False, "bubblewrap is missing: the bash tool is off", "apt-get install bubblewrap")]
    from agent_worker.tools.sandbox import NoSandbox, find_sandbox, limits_that_hold

    match find_sandbox():
        case NoSandbox(reason):
            return [
                Check("sandbox", False, f"bash is off: {reason}", "allow user namespaces, or mark bash as unsafe: true")
            ]
        case sandbox:
            cure = "run agent-worker as a user other than root"
            limits = [Check(f"sandbox, {each.name}", each.held, each.told, cure) for each in limits_that_hold(sandbox)]
            return [Check("sandbox", True, "bash runs sandboxed"), *limits]


def connected_tools() -> list[Check]:
    """Ask the AI tools that have an entry for us whether they know it, and reach us."""
    from agent_worker.offline.connecting import NAME, TOOLS, connected

    found = []
    for name, tool in TOOLS.items():
        if not connected(name):
            continue
        program = shutil.which(tool.asks[0]) if tool.asks else None
        if program is None:
            found.append(Check(tool.title, True, "connected in its settings; it cannot be asked here"))
            continue
        told = _told_by([program, *tool.asks[1:]])
        line = next((line.strip() for line in told.splitlines() if NAME in line), "")
        well = bool(line) and not any(word in line.lower() for word in ("fail", "error", "✗"))
        says = f"it says: {line[:200]}" if line else "it does not know the entry in its settings"
        found.append(Check(tool.title, well, says, f"agent-worker connect {name}"))
    return found


def _told_by(command: list[str]) -> str:
    """What a tool prints; its colours taken out."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", done.stdout + done.stderr)


def git() -> Check:
    """Check the version of Git, which fetches workflows and skills and makes working copies."""
    words = version_of_git().split()
    if not words:
        told = "not installed: no workflow or skill can be fetched, and no agent can have a working copy"
        return Check("git", True, told)
    version = tuple(int(part) for part in words[2].split(".")[:3] if part.isdigit()) if len(words) > 2 else ()
    old = f" (an update is advised: {'.'.join(map(str, SAFE_GIT))} or newer)" if version < SAFE_GIT else ""
    return Check("git", True, f"{'.'.join(map(str, version))}{old}")
