"""The nursery of this test process (forked.py), and commands run by it."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import BinaryIO

from tests import engine
from tests.patience import PATIENCE
from tests.shells.forked import ask

from agent_worker.core import failpoints

FILE = Path(__file__).with_name("forked.py")
KNOWN = ("PATH", "PYTHONPATH", engine.VARIABLE)  # the nursery's: our own source, and where state is kept
#: What is read when a process starts, by Python or by us: who wants to know what comes of it needs a fresh one.
READ_AT_START = ("PYTHON", "LANG", "LC_", failpoints.VARIABLE)

_running: list[subprocess.Popen[bytes]] = []  #: kept, also by workers, which are forks of who started it


@cache
def door() -> str:
    """Where processes are asked for. Whoever comes before the nursery has imported everything waits."""
    folder = tempfile.mkdtemp(prefix="aw-nursery-")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(f"{folder}/door")
        listening.listen(128)
        nursery = subprocess.Popen(
            [sys.executable, "-P", FILE, "nursery", str(listening.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[listening.fileno()],
            env={name: os.environ[name] for name in KNOWN if name in os.environ},
            start_new_session=True,  # Ctrl-C is for the tests
        )
    _running.append(nursery)

    def close() -> None:
        assert nursery.stdin
        nursery.stdin.close()
        nursery.wait(PATIENCE)
        shutil.rmtree(folder)

    atexit.register(close)
    return f"{folder}/door"


def run(
    module: str, *arguments: str, cwd: Path, env: Mapping[str, str], stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` of `python -m module`, by whom state is kept where it belongs."""
    env = {**env, **engine.told(env, os.environ.get(engine.VARIABLE, ""))}
    if any(name.startswith(READ_AT_START) for name in env):
        return subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=cwd,
            env=env,
            **{"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write((stdin or "").encode())
        given.seek(0)
        files = {0: given.fileno(), 1: out.fileno(), 2: err.fileno()}
        with ask(door(), [module, *arguments], files, dict(env), str(cwd), imports_from_there=True) as process:
            process.settimeout(PATIENCE)
            pid = int(process.recv(100))
            try:
                code = int(process.recv(100))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired([module, *arguments], PATIENCE) from None
        return subprocess.CompletedProcess([module, *arguments], code, _text(out), _text(err))


def _text(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n")


def started_by(module: str) -> Sequence[str]:
    """A command that is such a process, for who starts one by a command."""
    return (sys.executable, "-S", "-E", str(FILE), "be", door(), module)
