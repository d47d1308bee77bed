"""The load: people who write, read, ask and append, streams that are followed, AI tools that come and go.

What may be sent twice is sent again under its key until it is answered, however often the daemon dies meanwhile. What
has no key (a question, a line for a document) is sent once, and when its connection is cut nobody knows.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from agent_worker.core.events import BEGINNING, number_at
from soaking.house import House, Refusal, Wire, head
from soaking.teams import Room

SENDERS = 8
FOLLOWERS, SLOW = 6, 4
Task = Callable[[Wire, str], Awaitable[None]]


@dataclass
class Books:
    """What was sent, and what came back, kept outside of the daemon."""

    channel: dict[str, str] = field(default_factory=dict)  #: mark → id of its message
    direct: dict[str, str] = field(default_factory=dict)  #: mark → id of its instruction
    asked: set[str] = field(default_factory=set)  #: marks of questions that were answered
    lines: set[str] = field(default_factory=set)  #: marks of lines for a document
    unknown: set[str] = field(default_factory=set)  #: marks whose connection was cut, and that have no key
    counts: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    server_errors: int = 0

    @property
    def sent(self) -> int:
        return len(self.channel) + len(self.direct) + len(self.asked) + len(self.lines)

    def refused(self, refusal: Refusal) -> None:
        self.server_errors += refusal.status >= 500
        self.refusals[str(refusal)[:160]] += 1


class Load:
    def __init__(self, house: House, workspaces: list[Room], *, rate: float, seed: int) -> None:
        self.books = Books()
        self.held = False  #: too much is queued: nobody sends
        self._house = house
        self._workspaces = workspaces
        self._rate = rate
        self._chance = random.Random(seed)
        self._number = 0
        self._over = asyncio.Event()
        self._idle = [Wire(house) for _ in range(SENDERS)]
        self._work: set[asyncio.Task[None]] = set()
        self._reading: list[asyncio.Task[None]] = []
        self._kinds: list[Task] = [
            *[self._mention] * 40,
            *[self._remark] * 15,
            *[self._to_member] * 10,
            *[self._direct] * 15,
            *[self._question] * 5,
            *[self._large] * 4,
            *[self._line] * 3,
            *[self._unsteady] * 4,
            *[self._with_child] * 4,
        ]

    async def run(self) -> None:
        others = [self._follow(n) for n in range(FOLLOWERS)] + [self._lag() for _ in range(SLOW)]
        others += [self._come_and_go(), self._look_around(), self._use_mcp(), self._use_mcp()]
        self._reading = [asyncio.create_task(each) for each in others]
        await self._send()

    async def end(self) -> None:
        """Send no more; what was begun is finished."""
        self._over.set()
        for task in self._reading:
            task.cancel()
        for ended in await asyncio.gather(*self._reading, return_exceptions=True):
            if isinstance(ended, Exception):
                self._note(ended)
        if self._work:
            await asyncio.wait(self._work, timeout=60)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._note(error)

    def _note(self, error: BaseException) -> None:
        self.books.counts[f"the load itself failed: {error!r}"[:200]] += 1

    async def _pause(self, seconds: float) -> bool:
        """False when it is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()
        return not self._over.is_set()

    # --- people who write

    async def _send(self) -> None:
        while await self._pause(self._chance.expovariate(self._rate)):
            if self._house.up.is_set() and not self.held and self._idle:
                self._number += 1
                self._start(self._one(self._chance.choice(self._kinds), f"m{self._number:07}"))

    async def _one(self, kind: Task, mark: str) -> None:
        wire = self._idle.pop()
        try:
            await kind(wire, mark)
        except Refusal as refusal:
            self.books.refused(refusal)
        except OSError:
            self.books.unknown.add(mark)
        finally:
            wire.close()
            self._idle.append(wire)

    async def _sent(self, wire: Wire, mark: str, workspace: Room, to: str, text: str) -> str:
        """Until it is answered."""
        while True:
            try:
                answer = await wire.ask("POST", "/send", project=str(workspace.project), to=to, message=text, key=mark)
            except OSError:
                self.books.counts["sent again after a cut"] += 1
                await asyncio.sleep(0.1)
                continue
            return str(answer["id"])

    def _workspace(self) -> Room:
        return self._chance.choice(self._workspaces)

    async def _mention(self, wire: Wire, mark: str) -> None:
        workspace = self._workspace()
        text = f"{mark} @{self._chance.choice(workspace.leads)} please look at this"
        self.books.channel[mark] = await self._sent(wire, mark, workspace, workspace.at, text)

    async def _unsteady(self, wire: Wire, mark: str) -> None:
        workspace = self._workspace()
        text = f"{mark} @{self._chance.choice(workspace.unsteady)} please try"
        self.books.channel[mark] = await self._sent(wire, mark, workspace, workspace.at, text)

    async def _remark(self, wire: Wire, mark: str) -> None:
        workspace = self._workspace()
        self.books.channel[mark] = await self._sent(
            wire, mark, workspace, workspace.at, f"{mark} nobody is called here"
        )

    async def _to_member(self, wire: Wire, mark: str) -> None:
        workspace = self._workspace()
        to = f"{self._chance.choice(workspace.plain or workspace.leads)}{workspace.at}"
        self.books.channel[mark] = await self._sent(wire, mark, workspace, to, f"{mark} a word with you")

    async def _large(self, wire: Wire, mark: str) -> None:
        workspace = self._workspace()
        text = f"{mark} @{self._chance.choice(workspace.leads)} read this:\n" + "x" * self._chance.randrange(
            5_000, 40_000
        )
        self.books.channel[mark] = await self._sent(wire, mark, workspace, workspace.at, text)

    async def _direct(self, wire: Wire, mark: str) -> None:
        workspace = self._workspace()
        to = self._chance.choice(workspace.plain or workspace.leads)
        self.books.direct[mark] = await self._sent(wire, mark, workspace, to, f"{mark} between us")

    async def _with_child(self, wire: Wire, mark: str) -> None:
        workspace = self._workspace()
        self.books.direct[mark] = await self._sent(
            wire, mark, workspace, self._chance.choice(workspace.children), f"{mark} go"
        )

    async def _question(self, wire: Wire, mark: str) -> None:
        workspace = self._workspace()
        who = self._chance.choice(workspace.plain or workspace.leads)
        await wire.ask("POST", "/ask", project=str(workspace.project), agent=who, message=f"{mark} tell me")
        self.books.asked.add(mark)

    async def _line(self, wire: Wire, mark: str) -> None:
        workspace = self._workspace()
        await wire.ask(
            "POST", "/documents/people.md", project=str(workspace.project), at=workspace.at, text=f"{mark}\n"
        )
        self.books.lines.add(mark)

    # --- those who read

    async def _look_around(self) -> None:
        wire = Wire(self._house)
        while await self._pause(1.0):
            workspace = self._workspace()
            project = quote(str(workspace.project), safe="")
            paths = ("/status?", "/agents?", "/inbox?", "/runs?", f"/messages?at={workspace.at}&last=true&")
            await self._quietly(wire.ask("GET", f"{self._chance.choice(paths)}project={project}"))

    async def _quietly(self, asking: Awaitable[object]) -> bool:
        try:
            await asking
            return True
        except Refusal as refusal:
            self.books.refused(refusal)
        except OSError:
            self.books.counts["reads that were cut"] += 1
        return False

    async def _follow(self, number: int) -> None:
        """One who never misses anything: numbers only grow, and after a break it goes on where it was."""
        last = BEGINNING
        workspace = self._workspaces[number % len(self._workspaces)]
        where = f"at={workspace.at}&project={quote(str(workspace.project), safe='')}&" if number % 2 else ""
        while not self._over.is_set():
            await self._house.up.wait()
            try:
                reader, writer = await self._stream(f"/events?{where}after={last}")
            except OSError:
                await asyncio.sleep(0.2)
                continue
            try:
                last = await self._numbers(reader, last)
            finally:
                writer.close()
            self.books.counts["streams that went on after a break"] += 1
            await self._pause(0.5)

    async def _numbers(self, reader: asyncio.StreamReader, last: str) -> str:
        with suppress(OSError, asyncio.IncompleteReadError, ValueError, TimeoutError):
            while not self._over.is_set():
                async with asyncio.timeout(30):
                    line = await reader.readline()
                if not line:
                    break
                if line.startswith(b"event: gap"):
                    self.books.counts["gaps in a stream"] += 1
                if line.startswith(b"id: "):
                    here = line[4:].decode().strip()
                    if (number_at(here) or 0) < (number_at(last) or 0):
                        self.books.counts["events out of order"] += 1
                    last = here
                    self.books.counts["events followed"] += 1
        return last

    async def _stream(self, path: str, *, buffer: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        found, asked = self._house.daemon, head(self._house, "GET", path)
        connection = socket.socket()
        connection.setblocking(False)
        if buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        try:
            await asyncio.get_running_loop().sock_connect(connection, (found.host, found.port))
        except BaseException:
            connection.close()
            raise
        reader, writer = await asyncio.open_connection(sock=connection, limit=2**22)
        writer.write(asked)
        return reader, writer

    async def _lag(self) -> None:
        """One who asks for everything and does not read: it is cut off, and comes back."""
        while await self._pause(self._chance.uniform(1, 5)):
            await self._house.up.wait()
            with suppress(OSError):
                _, writer = await self._stream("/events?after=beginning", buffer=4096)
                writer.transport.pause_reading()  # type: ignore[attr-defined]
                self.books.counts["readers that did not read"] += 1
                await self._pause(self._chance.uniform(5, 20))
                writer.transport.abort()

    async def _come_and_go(self) -> None:
        while await self._pause(self._chance.uniform(0.2, 2)):
            await self._house.up.wait()
            with suppress(OSError):
                reader, writer = await self._stream("/events")
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._chance.uniform(0.1, 3)):
                        while await reader.readline():
                            pass
                writer.close()
                self.books.counts["streams that came and went"] += 1

    async def _use_mcp(self) -> None:
        """A client as an AI tool has one: it says hello, uses a tool, and is gone without a word."""
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}
        while await self._pause(self._chance.uniform(0.5, 2)):
            workspace, wire = self._workspace(), Wire(self._house)
            read = {
                "name": "channel_read",
                "arguments": {"project": str(workspace.project), "at": workspace.at, "last": True},
            }
            for number, (method, params) in enumerate([("initialize", hello), ("tools/call", read)]):
                asking = _rpc(wire, number, method, params)
                if not await self._quietly(asking):
                    break
            else:
                self.books.counts["MCP clients"] += 1
            wire.close()


async def _rpc(wire: Wire, number: int, method: str, params: object) -> None:
    answer = await wire.ask("POST", "/mcp", jsonrpc="2.0", id=number, method=method, params=params)
    if "error" in answer or answer["result"].get("isError"):
        raise Refusal(200, answer)
