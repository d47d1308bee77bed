"""Looks at the daemon from outside, every few seconds."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import apsw
import psutil

from soaking.house import House, Wire

MB = 1e6


@dataclass(frozen=True, slots=True)
class Sample:
    at: float  #: seconds since the load began
    life: int
    rss: float  #: MB
    cpu: float  #: percent of one processor since the last look
    descriptors: float
    threads: float
    children: float
    wal: float  #: MB
    database: float  #: MB
    disk: float  #: MB, of home and projects
    queued: float
    health: float  #: milliseconds
    sent: float

    def record(self) -> dict[str, float]:
        return asdict(self)


class Watch:
    def __init__(self, house: House, begun: float) -> None:
        self._house = house
        self._begun = begun
        self._wire = Wire(house)
        self._spent: tuple[int, float, float] | None = None  # life, when, CPU seconds

    async def look(self, sent: int) -> Sample | None:
        """None while there is nobody to look at."""
        try:
            begun = time.perf_counter()
            await self._wire.ask("GET", "/health")
            health = (time.perf_counter() - begun) * 1000
            return self._seen(health, sent)
        except (OSError, psutil.Error):
            return None

    def _seen(self, health: float, sent: int) -> Sample:
        process, home = self._house.process, self._house.home
        with process.oneshot():
            return Sample(
                at=time.monotonic() - self._begun,
                life=self._house.life,
                rss=process.memory_info().rss / MB,
                cpu=self._cpu(process),
                descriptors=process.num_fds(),
                threads=process.num_threads(),
                children=len(process.children(recursive=True)),
                wal=_size(home / "state.db-wal"),
                database=_size(home / "state.db"),
                disk=_all(self._house.place),
                queued=queued(home),
                health=health,
                sent=sent,
            )

    def _cpu(self, process: psutil.Process) -> float:
        times, now = process.cpu_times(), time.monotonic()
        spent = times.user + times.system
        before, self._spent = self._spent, (self._house.life, now, spent)
        if before is None or before[0] != self._house.life:
            return 0.0
        return 100 * (spent - before[2]) / (now - before[1])


def queued(home: Path) -> int:
    """Work that has not ended."""
    connection = apsw.Connection(str(home / "state.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        connection.set_busy_timeout(5000)
        open_work = "select count(*) from instruction where state in ('queued', 'running', 'waiting')"
        return int(connection.execute(open_work).get)
    finally:
        connection.close()


def _size(path: Path) -> float:
    return path.stat().st_size / MB if path.exists() else 0.0


def _all(place: Path) -> float:
    total = 0
    for folder, _, files in os.walk(place):
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except OSError:
                continue
    return total / MB
