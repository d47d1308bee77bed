"""Named places where a test may break us: `AGENT_WORKER_FAILPOINTS="finish.before_commit=kill:3"`.

Off unless the variable is set when the process starts. An entry is `name=action[:n]`; the action happens at
the n-th passing (default: the first). Several entries are separated by commas.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from dataclasses import field

from agent_worker.core.later import dataclass

VARIABLE = "AGENT_WORKER_FAILPOINTS"


@dataclass(slots=True)
class _Armed:
    action: str
    at: int
    passed: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


def _parse(text: str) -> dict[str, _Armed]:
    armed = {}
    for entry in filter(None, map(str.strip, text.split(","))):
        name, _, action = entry.partition("=")
        verb, _, count = action.partition(":")
        armed[name] = _Armed(verb or "kill", int(count or 1))
    return armed


_armed = _parse(os.environ.get(VARIABLE, ""))


def failpoint(name: str) -> None:
    if not _armed:
        return
    point = _armed.get(name)
    if point is None:
        return
    with point.lock:
        point.passed += 1
        if point.passed != point.at:
            return
    match point.action:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "eio":
            raise OSError(errno.EIO, f"failpoint {name}")
        case "enospc":
            raise OSError(errno.ENOSPC, f"failpoint {name}")
        case "delay":
            time.sleep(0.2)
        case other:
            raise RuntimeError(f"failpoint {name}: {other}")
