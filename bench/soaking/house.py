"""The daemon under load: started as the command line starts it, stopped, killed, and what it leaves behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from agent_worker.client.connection import COMMAND, connect
from agent_worker.client.discovery import LOG_FILE, DaemonFile

LEAVING = 20.0  # seconds that children get after the daemon is gone
Json = Any


@dataclass
class House:
    """One home, and the daemon that lives there now."""

    place: Path
    environ: Mapping[str, str] = field(default_factory=dict)  #: beyond our own
    life: int = 0
    found: DaemonFile | None = None
    up: asyncio.Event = field(default_factory=asyncio.Event)
    orphans: list[str] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)  #: seconds that each start took
    stops: list[float] = field(default_factory=list)  #: and each end

    @property
    def home(self) -> Path:
        return self.place / "home"

    @property
    def daemon(self) -> DaemonFile:
        """Raises ConnectionResetError while there is none: it may go at any moment."""
        if self.found is None:
            raise ConnectionResetError("the daemon is gone")
        return self.found

    @property
    def process(self) -> psutil.Process:
        return psutil.Process(self.daemon.pid)

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        command = ("env", "AGENT_WORKER_PORT=0", *(f"{name}={value}" for name, value in self.environ.items()), *COMMAND)
        client = await asyncio.to_thread(connect, home=self.home, command=command, patience=60)
        self.starts.append(loop.time() - begun)
        self.found, self.life = client.found, self.life + 1
        self.up.set()

    async def end(self, number: signal.Signals) -> None:
        """Send the signal, wait until it is gone, and look what of it is still there."""
        self.up.clear()
        begun = asyncio.get_running_loop().time()
        process, self.found = self.process, None
        process.send_signal(number)
        await asyncio.to_thread(psutil.wait_procs, [process], 60)
        self.stops.append(asyncio.get_running_loop().time() - begun)

    async def look_for_orphans(self) -> None:
        """Whatever works in our folder, is not of the daemon that lives there now, and does not end."""
        until = asyncio.get_running_loop().time() + LEAVING
        while found := await asyncio.to_thread(self.strangers):
            if asyncio.get_running_loop().time() > until:
                self.orphans += found
                return
            await asyncio.sleep(0.2)

    def strangers(self) -> list[str]:
        mine = {os.getpid(), *(p.pid for p in psutil.Process().parents())}
        with suppress(psutil.Error):
            if self.found:
                mine |= {self.found.pid, *(p.pid for p in self.process.children(recursive=True))}
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                shown = " ".join(process.cmdline())
                inside = str(self.place) in shown or process.cwd().startswith(str(self.place))
                if process.pid not in mine and inside and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(shown[:200])
        return found

    def complaints(self) -> list[str]:
        """What the log calls an error."""
        found = []
        for file in sorted(self.home.glob(f"{LOG_FILE}*")):
            for line in file.read_text(errors="replace").splitlines():
                with suppress(ValueError):
                    record = json.loads(line)
                    if record.get("level") in ("ERROR", "CRITICAL"):
                        last = record.get("exception", "").strip().rpartition("\n")[2]
                        found.append(f"{record['message'][:200]} {last[:200]}".strip())
        return found


class Refusal(Exception):
    def __init__(self, status: int, answer: Json) -> None:
        super().__init__(f"{status} {json.dumps(answer)[:300]}")
        self.status = status


class Wire:
    """One connection that is kept: a request at a time, JSON both ways. Raises OSError when it is cut."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.token = ""  #: of a door; '' is the daemon's own
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._life = 0

    async def ask(self, method: str, path: str, /, **body: object) -> Json:
        status, answer = await self.answer(method, path, **body)
        if status >= 300:
            raise Refusal(status, answer)
        return answer

    async def answer(self, method: str, path: str, /, **body: object) -> tuple[int, Json]:
        try:
            reader, writer = await self._open()
            content = json.dumps(body).encode() if method != "GET" else b""
            writer.write(head(self._house, method, path, len(content), token=self.token) + content)
            await writer.drain()
            return await self._read(reader)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._streams:
            self._streams[1].close()
        self._streams = None

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        await self._house.up.wait()
        if self._streams is None or self._life != self._house.life:
            self.close()
            found = self._house.daemon
            self._streams, self._life = await asyncio.open_connection(found.host, found.port), self._house.life
        return self._streams

    async def _read(self, reader: asyncio.StreamReader) -> tuple[int, Json]:
        try:
            received = await reader.readuntil(b"\r\n\r\n")
            lines = received.decode("latin-1").lower().split("\r\n")
            length = next(int(line[15:]) for line in lines if line.startswith("content-length:"))
            content = await reader.readexactly(length)
        except (asyncio.IncompleteReadError, StopIteration):
            raise ConnectionResetError from None
        if "connection: close" in lines:
            self.close()
        return int(lines[0].split()[1]), json.loads(content) if content else None


def head(house: House, method: str, path: str, length: int = 0, *more: str, token: str = "") -> bytes:
    found = house.daemon
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: {found.host}:{found.port}",
        f"Authorization: Bearer {token or found.token}",
        "Accept: application/json, text/event-stream",
        *(("Content-Type: application/json", f"Content-Length: {length}") if method != "GET" else ()),
        *more,
        "",
        "",
    ]
    return "\r\n".join(lines).encode()
