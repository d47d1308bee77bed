"""How much room is left on the disk, and what follows from it: a warning first, then no new runs.

Work that is under way goes on, and messages are still accepted: what is left is kept for them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal, Self

from agent_worker.core.errors import BadInput
from agent_worker.core.later import dataclass, pattern

WARN, STOP = "AGENT_WORKER_WARN_FREE", "AGENT_WORKER_STOP_FREE"  #: variables of the daemon's environment
WARN_BELOW, STOP_BELOW = 10**9, 200 * 10**6  #: bytes
_UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 1024, "mib": 1024**2, "gib": 1024**3}
_SIZE = pattern(r"([0-9]{1,15}(?:\.[0-9]{1,3})?) ?([a-z]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """How much space was free, and what follows from it."""

    free: int | None  #: bytes; None where nobody looks
    state: Literal["enough", "low", "stopped"]
    warn: int  #: bytes: below, the person is warned
    stop: int  #: bytes: below, no new run begins

    def told(self) -> str:
        """A sentence for the person; empty when there is enough."""
        if self.state == "enough" or self.free is None:
            return ""
        left = f"only {amount(self.free)} is free on the disk"
        if self.state == "stopped":
            return (
                f"{left}: no new run starts below {amount(self.stop)}. What you can remove: agent-worker gc --dry-run"
            )
        return f"{left}; below {amount(self.stop)} no new run starts. What you can remove: agent-worker gc --dry-run"


def _unwatched() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Space:
    free: Callable[[], int | None] = _unwatched  #: bytes
    warn: int = WARN_BELOW
    stop: int = STOP_BELOW

    @classmethod
    def of(cls, place: Path, warn: int, stop: int) -> Self:
        """The disk that this directory is on, watched as the user has said."""
        return cls(lambda: free_at(place), warn, stop)

    def look(self) -> FreeSpace:
        free = self.free()
        if free is None or free >= max(self.warn, self.stop):
            return FreeSpace(free, "enough", self.warn, self.stop)
        return FreeSpace(free, "stopped" if free < self.stop else "low", self.warn, self.stop)


def free_at(place: Path) -> int | None:
    try:
        return shutil.disk_usage(place).free
    except OSError:
        return None


def read_size(name: str, text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    if found is None or found[2].lower() not in _UNITS:
        raise BadInput(f"{name}={text!r} is not a size", hint=f"export {name}=500MB")
    return round(float(found[1]) * _UNITS[found[2].lower()])


def amount(size: int) -> str:
    """A number of bytes as people say it."""
    value, unit = float(size), "bytes"
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= 1000
    return f"{value:.1f} {unit}" if value < 10 and unit != "bytes" else f"{value:.0f} {unit}"
