"""The start of a daemon that outlives whoever starts it, and the word by which it tells that it serves.

Whoever wants one waits for whoever was first. Nothing here looks for a running one (connection.py).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from agent_worker.client.answers import LOGS, error_of, json_object
from agent_worker.client.discovery import HOME_VARIABLE, LOG_FILE, READY_VARIABLE, open_private
from agent_worker.core.errors import AgentWorkerError, Refused

#: -P: a file in the directory where the user happens to be must not be taken for a module of ours.
COMMAND = (sys.executable, "-P", "-m", "agent_worker.daemon.main")

_TAIL = 12  #: lines of the log that explain a failed start
_CHUNK = 64 * 1024


@contextmanager
def alone(home: Path) -> Iterator[None]:
    import fcntl

    lock = open_private(home / "start.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # no limit needed: whoever holds it has one
        yield
    finally:
        os.close(lock)


def spawn(home: Path, command: Sequence[str], until: float) -> bool:
    """Whether the daemon serves in time. It lives on: own session, none of our descriptors, no terminal."""
    import subprocess

    log = open_private(home / LOG_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    before = os.fstat(log).st_size
    ready, told = os.pipe()
    with os.fdopen(ready, "rb", buffering=0) as reading:
        try:
            environment = {**os.environ, HOME_VARIABLE: str(home), READY_VARIABLE: str(told)}
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=home,
                env=environment,
                pass_fds=(told,),
                start_new_session=True,
            )
        except OSError as error:
            raise AgentWorkerError(f"{command[0]} cannot be started: {error.strerror}") from None
        finally:
            os.close(told)
            os.close(log)
        word = _word(reading.fileno(), until)
    match word:
        case None | {"ready": _}:
            process.returncode = 0  # said to the library: we will not wait for it, it is meant to outlive us
            return word is not None
        case {"error": _}:
            process.wait()
            raise error_of(503, word)
        case _:
            raise _failed_start(process.wait(), home, before)


def _word(ready: int, until: float) -> dict[str, Any] | None:
    """What the daemon said: one JSON object; empty when it died without a word, None when time ran out."""
    import select

    waiting = select.poll()  # not select(): that knows no descriptor above 1023
    waiting.register(ready, select.POLLIN)
    said = b""
    while not said.endswith(b"\n"):
        if not waiting.poll(max(0.0, until - time.monotonic()) * 1000):
            return None
        if not (piece := os.read(ready, _CHUNK)):
            break
        said += piece
    return json_object(said)


def _failed_start(code: int, home: Path, before: int) -> AgentWorkerError:
    said = ""
    with suppress(OSError, Refused), os.fdopen(open_private(home / LOG_FILE, os.O_RDONLY), "rb") as log:
        size = os.fstat(log.fileno()).st_size
        log.seek(max(before if before <= size else 0, size - _CHUNK))
        said = "\n".join(f"  {line}" for line in log.read().decode(errors="replace").splitlines()[-_TAIL:])
    return AgentWorkerError(f"the daemon ended while it started (exit code {code})\n{said}".rstrip(), hint=LOGS)
