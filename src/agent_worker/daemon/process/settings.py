"""How a daemon runs, and what its exit codes mean."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path

from agent_worker.core.later import dataclass

PORT = 5099
FAILED, REFUSED, ALREADY_RUNNING, STUCK = 1, 2, 3, 70  #: exit codes


@dataclass(frozen=True, slots=True)
class DaemonSettings:
    home: Path
    host: str = "127.0.0.1"
    port: int | None = None  #: that the person named; None: the one this home had before, else PORT, else the next free
    exposed: bool = False  #: the user asked, by a flag, to listen beyond this machine
    token: str | None = field(default=None, repr=False)  #: None: a new one with every start
    grace: float = 10.0  #: seconds from being asked to stop to being gone
    stuck_after: float = 30.0
    home_look: float = 2.0  #: seconds between two looks whether the home is still there
    log_bytes: int = 10 * 1024 * 1024
    log_files: int = 5
