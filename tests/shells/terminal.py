"""The command line as people and scripts use it, against a real daemon."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import engine
from tests.patience import PATIENCE
from tests.shells import nursery
from tests.shells.served import Served, served

from agent_worker.backends.models.providers import PROVIDERS

KEYS = [name for each in PROVIDERS.values() for name in each.variables]


class Screen:
    """What a person sees of a command, and what they type. What moves the cursor is left out: everything stays."""

    def __init__(self, master: int, child: subprocess.Popen[bytes]) -> None:
        self._master = master
        self._child = child
        self._raw = b""

    @property
    def shown(self) -> str:
        text = self._raw.decode(errors="replace").replace("\r\n", "\n")
        return re.sub(r"\r?(\x1b\[[0-9;?]*[A-Za-z])+", "\n", text)

    @property
    def stays(self) -> str:
        """What is left on the screen, without what was drawn over."""
        left = ""
        for piece in re.split(r"(\r(?:\x1b\[A)*\x1b\[J)", self._raw.decode(errors="replace").replace("\r\n", "\n")):
            if not piece.endswith("\x1b[J"):
                left += piece
                continue
            for _ in range(piece.count("\x1b[A")):
                left = left[: left.rindex("\n")]
            left = left[: left.rfind("\n") + 1]
        return left

    def sees(self, words: str, *, times: int = 1) -> None:
        """Wait until these words have been shown, so many times."""
        until = time.monotonic() + PATIENCE
        while self.shown.count(words) < times:
            ready, _, _ = select.select([self._master], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"{words!r} was not shown, but:\n{self.shown}"
            assert self._more(), f"it ended without {words!r}:\n{self.shown}"

    def types(self, line: str) -> None:
        os.write(self._master, f"{line}\r".encode())

    def interrupts(self) -> None:
        """Ctrl-C"""
        self._child.send_signal(signal.SIGINT)

    def ends(self) -> int:
        """Wait for its end; the exit code."""
        while self._more():
            pass
        return self._child.wait(timeout=PATIENCE)

    def _more(self) -> bool:
        try:
            more = os.read(self._master, 65536)
        except OSError:  # its end
            return False
        self._raw += more
        return bool(more)


@dataclass
class Terminal:
    daemon: Served

    def run(self, *arguments: str, stdin: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        known = self._known()
        return nursery.run("agent_worker.cli", *arguments, cwd=self.daemon.project, env=known | env, stdin=stdin)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "agent_worker.cli", *arguments],
            cwd=self.daemon.project,
            env=self._known(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _known(self) -> dict[str, str]:
        home = self.daemon.home
        return {"PATH": os.environ["PATH"], engine.HOME: str(home)} | engine.environment(home)

    def shows(self, *arguments: str, columns: int) -> str:
        """What is seen on a terminal of this width."""
        master, slave = pty.openpty()
        known = self._known()
        child = subprocess.Popen(
            [sys.executable, "-m", "agent_worker.cli", *arguments],
            cwd=self.daemon.project,
            env=known | {"COLUMNS": str(columns), "NO_COLOR": "1"},
            stdin=slave,
            stdout=slave,
        )
        os.close(slave)
        seen = b""
        with contextlib.suppress(OSError):  # its end
            while more := os.read(master, 65536):
                seen += more
        os.close(master)
        assert child.wait(timeout=PATIENCE) in (0, 1)  # 1: doctor has found something, such as our hasty PostgreSQL
        return seen.decode().replace("\r\n", "\n")

    @contextlib.contextmanager
    def on_screen(self, *arguments: str, columns: int = 100, keyboard: bool = True) -> Iterator[Screen]:
        """A command that somebody sits in front of, and types into unless its input is taken from elsewhere."""
        master, slave = pty.openpty()
        known = self._known()
        child = subprocess.Popen(
            [sys.executable, "-m", "agent_worker.cli", *arguments],
            cwd=self.daemon.project,
            env=known | {"COLUMNS": str(columns), "NO_COLOR": "1"},
            stdin=slave if keyboard else subprocess.DEVNULL,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        try:
            yield Screen(master, child)
        finally:
            if child.poll() is None:
                child.kill()
            child.wait()
            os.close(master)

    def says(self, *arguments: str, **how: Any) -> str:
        done = self.run(*arguments, **how)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.says(*arguments, "--json"))


@asynccontextmanager
async def terminal_knowing(tmp: Path, files: dict[str, str] | None = None, **environ: str) -> AsyncIterator[Terminal]:
    """With a daemon of its own that has these keys of providers and no other; `files` define its agents."""
    unset = [part for name in KEYS if name not in environ for part in ("-u", name)]
    daemon = served(tmp, environ, limited=("env", *unset), **files or {})
    made = await asyncio.to_thread(daemon.__enter__)
    try:
        yield Terminal(made)
    finally:
        await asyncio.to_thread(daemon.__exit__, None, None, None)
