"""One agent's coding program: what its definition says, and what this host gives it to work with.

Everything that starts a program goes by these values: where it is, whose account it uses, what it may see of our
environment. Knows no command line of any program (claude.py, codex.py …).
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Protocol

from agent_worker.backends.backend import Usage
from agent_worker.backends.models.providers import AS_NAMED, NOTHING_APPROVED, PROVIDERS, Approval, Endpoint, route
from agent_worker.core.errors import Permanent
from agent_worker.core.later import dataclass
from agent_worker.definitions.agent import Access
from agent_worker.files.root import Root
from agent_worker.processes.environment import safe_environment, search_path
from agent_worker.tools.tool import Call

SERVER = "team"  #: what our tools are called among a program's servers
TOKEN = "AGENT_WORKER_RUN_TOKEN"  #: variable by which a program learns the token of its run
URL = "AGENT_WORKER_RUN_URL"  #: and where our tools are
TOOLS_PATH = "/mcp"  #: of our tools, on the daemon
MODEL_PATH = "/model"  #: what requests to a program's model begin with there


def owner_of(name: str, root: Path, who: str) -> str:
    """An agent, unlike any other on this host: the same name in another project, or inline, is somebody else."""
    place = hashlib.sha256(f"{root.resolve()}\0{who}".encode()).hexdigest()[:12]
    return re.sub(r"[^A-Za-z0-9_-]", "-", f"{name}-{place}")


def without_provider(model: str, *providers: str) -> str:
    """A model as its own program calls it: `opus` for `anthropic/opus` or `anthropic:opus`; others stay as they are."""
    for prefix in (f"{name}{sign}" for name in providers for sign in "/:"):
        model = model.removeprefix(prefix)
    return model


@dataclass(frozen=True, slots=True)
class ProgramHost:
    """What a host gives to all its programs."""

    tool_access: ToolAccess | None = None  #: None where there is no daemon
    state: Path | None = None  #: what lasts from run to run is kept beneath it
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    approval: Approval = NOTHING_APPROVED

    def commands(self) -> list[str]:
        """A folder for a program's PATH in which `agent-worker` is, and nothing else: for `agent-worker context`."""
        if self.state is None:
            return []
        text = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m agent_worker.cli "$@"\n'
        files, name = Root(self.state), "bin/agent-worker"
        if not files.exists(name) or files.read_text(name) != text:  # another Python, since an upgrade
            files.replace(name, text)
            os.chmod(files.location(name), 0o700)
        return [str(self.state / "bin")]


@dataclass(frozen=True, slots=True)
class ProgramAccount:
    """Whose money the program spends, when it does not use its own login."""

    key: str = field(repr=False)
    base_url: str = ""  #: empty is the provider's own
    variable: str = ""  #: where the key came from
    is_checked: bool = False  #: the project chose the address, so it must not lead into the local network


@dataclass(frozen=True, slots=True)
class Program:
    backend: str  #: claude, codex …
    owner: str  #: `owner_of` the agent
    root: Path  #: of the project: no program is ever taken from there
    cwd: Path
    program_host: ProgramHost
    model: str = ""
    command: tuple[str, ...] = ()  #: of `acp`
    access: Access = "edit"
    silence: float = 600.0  #: seconds
    max_turns: int | None = None
    variables: tuple[str, ...] = ()  #: that its definition names
    endpoint: Endpoint = AS_NAMED

    def enter(self, run: str) -> ToolEndpoint:
        """Open the way to our tools for this run."""
        if self.program_host.tool_access is None:
            raise Permanent(f"{self.backend} reaches our tools through the daemon", hint="agent-worker chat")
        return self.program_host.tool_access.open(run)

    def binary(self, *names: str, install: str = "") -> str:
        """The absolute path of the program, looked for anew at each run; never in the project."""
        is_elsewhere = self._elsewhere()
        for name in names:
            for folder in search_path(self.program_host.environ):
                if (found := shutil.which(name, path=folder)) and is_elsewhere(folder):
                    return os.path.abspath(found)
        raise Permanent(f"{names[0]} is not installed", hint=install, remedy=f"install {self.backend}")

    def environment(self) -> dict[str, str]:
        """What it may know of ours: a base set without secrets, and what its definition names."""
        path = [*filter(self._elsewhere(), search_path(self.program_host.environ)), *self.program_host.commands()]
        return safe_environment(self.variables, self.program_host.environ) | {"PATH": os.pathsep.join(path)}

    def _elsewhere(self) -> Callable[[str], bool]:
        """A check that a folder is neither in the project nor in the working directory."""
        inside = tuple(os.path.join(os.path.realpath(each), "") for each in (self.root, self.cwd))
        return lambda folder: not os.path.join(os.path.realpath(folder), "").startswith(inside)

    def given(self, *names: str) -> dict[str, str]:
        """Variables of our environment that this program reads by itself, where they are set."""
        return {name: self.program_host.environ[name] for name in names if self.program_host.environ.get(name)}

    def account(self, provider: str) -> ProgramAccount | None:
        """What its definition says, else the provider's key of our environment; None: its own login."""
        known, environ, written = PROVIDERS[provider], self.program_host.environ, self.endpoint
        if not written.base_url and not written.api_key:
            found = next((name for name in known.variables if environ.get(name)), "")
            return ProgramAccount(environ[found], environ.get(known.base_variable, ""), found) if found else None
        chosen = written.approval or self.program_host.approval
        way = route(f"{provider}/any", written, env=environ, approval=chosen)
        chosen_address = way.base_url if written.base_url else ""
        return ProgramAccount(way.key, chosen_address, way.variable, is_checked=way.foreign and not way.local)

    def home(self) -> Path:
        """The folder of this agent's program that lasts from run to run: private, and not in the project."""
        assert self.program_host.state is not None
        folder = self.program_host.state / self.backend / self.owner
        for each in (self.program_host.state, folder.parent, folder):
            each.mkdir(mode=0o700, exist_ok=True)
        return folder


@dataclass(frozen=True, slots=True)
class LentModel:
    """Where a run's requests to its model are sent on to, and the key that is put into them."""

    base_url: str
    key: str = field(repr=False)
    is_checked: bool = False  #: it must not lead into the local network


@dataclass(slots=True)
class ToolEndpoint:
    url: str  #: of our MCP endpoint
    token: str = field(repr=False)
    run: str = ""
    model: LentModel | None = None  #: that this run may use, by its token
    used: Usage = field(default_factory=Usage)  #: by its token, as the answers of that model said
    listed: asyncio.Event = field(default_factory=asyncio.Event)  #: the program has asked for the tools
    waiting: asyncio.Event = field(default_factory=asyncio.Event)  #: a call waits for a person: lay the work aside
    unanswered: tuple[int, Call] | None = None  #: that call, with its step

    def lend(self, model: LentModel) -> str:
        """Let this run use a model by its token; the address to give to the program, in place of the model's."""
        self.model = model
        return self.url.removesuffix(TOOLS_PATH) + MODEL_PATH


class ToolAccess(Protocol):
    def open(self, run: str) -> ToolEndpoint:
        """Open our tools to a run that is being worked on. The endpoint ends with the run."""
        ...
