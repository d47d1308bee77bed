"""Questions through the daemon: how many a second, and what one costs the daemon; the same for messages that are sent.

A real daemon with mock agents, clients that each ask one question after the other over a connection they keep. The
clients share the processors with it. The baseline is `/health` in the same run: a request that does nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measures.figure import Figure, Series, Spent, ms
from measures.teams import write_project
from soaking.house import House, Wire

AGENTS = 32
CLIENTS = (1, 8, 32)
TICK = 1 / os.sysconf("SC_CLK_TCK")  # seconds: what the system counts a process's time in
EACH_ROUND = 192
ROUNDS = 5
PER_SECOND = 250  # with as many clients as there are agents
AN_ASK, A_SEND = 0.005, 0.004  # seconds of CPU
A_DOOR = 0.002  # seconds that a door may add to a question, to whoever waits

DOORS = {"door": "OpenAI's clients", "mcp": "MCP", "acp": "editors (ACP), in a process of its own"}

Request = Callable[[Wire, int], Awaitable[object]]


async def measure(folder: Path) -> list[Figure]:
    project = write_project(folder / "project", {f"agent{n}": "" for n in range(AGENTS)})
    house = House(folder)
    house.home.mkdir(mode=0o700)
    await house.start()
    try:
        return await _Asking(house, str(project)).figures()
    finally:
        await house.end(signal.SIGTERM)


@dataclass
class _Editor:
    """One that speaks ACP with the process that it started, in one session."""

    process: asyncio.subprocess.Process
    session: str = ""
    asked: int = 0

    @classmethod
    async def begun(cls, house: House, project: str) -> _Editor:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "agent_worker.cli", "acp", "agent0"),
            cwd=project,
            env=os.environ | {"AGENT_WORKER_HOME": str(house.home)},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        made = cls(process)
        await made._ask("initialize", protocolVersion=1, clientCapabilities={})
        made.session = (await made._ask("session/new", cwd=project, mcpServers=[]))["sessionId"]
        return made

    async def prompt(self, text: str) -> object:
        told = await self._ask("session/prompt", sessionId=self.session, prompt=[{"type": "text", "text": text}])
        assert told["stopReason"] == "end_turn", told
        return told

    async def _ask(self, method: str, **params: object) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.asked += 1
        message = {"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        while line := await self.process.stdout.readline():
            told = json.loads(line)
            if told.get("id") == self.asked:
                return told["result"]
        raise ConnectionResetError("the door of editors has ended")

    async def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        await self.process.wait()


@dataclass
class _Asking:
    house: House
    project: str
    token: str = ""  # of the door for programs that speak OpenAI's API
    editor: _Editor = field(init=False)
    taken: dict[tuple[str, int], Series] = field(default_factory=dict)

    async def figures(self) -> list[Figure]:
        wire = Wire(self.house)
        self.token = (await wire.ask("POST", "/tokens", project=self.project, name="bench"))["token"]
        wire.close()
        self.editor = await _Editor.begun(self.house, self.project)
        for _ in range(ROUNDS):
            await self._round("serve", 1, self._serve)
            await self._round("door", 1, self._by_door)
            await self._round("mcp", 1, self._by_mcp)
            await self._round("acp", 1, self._by_acp)
            await self._round("session", 1, self._in_session)
            for clients in CLIENTS:
                await self._round("health", clients, self._health)
                await self._round("ask", clients, self._ask)
            await self._round("send", max(CLIENTS), self._send)
        await self.editor.close()
        return [*map(self._asked, CLIENTS), self._sent(), *(self._door(what) for what in DOORS)]

    async def _round(self, what: str, clients: int, request: Request) -> None:
        series = self.taken.setdefault((what, clients), Series())
        wires = [Wire(self.house) for _ in range(clients)]
        for wire in wires:
            wire.token = self.token if what == "door" else ""
        begun, cpu = asyncio.get_running_loop().time(), self._cpu()
        await _all(wires, EACH_ROUND, request)
        if what == "send":  # all that was sent is done when what was asked after it is answered
            await _all(wires, AGENTS, self._ask)
        wall = asyncio.get_running_loop().time() - begun
        series.all.append(Spent(self._cpu() - cpu, wall))
        for wire in wires:
            wire.close()

    def _cpu(self) -> float:
        times = self.house.process.cpu_times()
        return times.user + times.system

    async def _health(self, wire: Wire, number: int) -> object:
        return await wire.ask("GET", "/health")

    async def _ask(self, wire: Wire, number: int) -> object:
        agent, text = f"agent{number % AGENTS}", f"what about {number}?"
        return await wire.ask("POST", "/ask", project=self.project, agent=agent, message=text)

    async def _serve(self, wire: Wire, number: int) -> object:
        agent, text = f"agent{number % AGENTS}", f"what about {number}?"
        return await wire.ask("POST", "/serve", project=self.project, agent=agent, message=text)

    async def _by_door(self, wire: Wire, number: int) -> object:
        said = [{"role": "user", "content": f"what about {number}?"}]
        return await wire.ask("POST", "/v1/chat/completions", model=f"agent{number % AGENTS}", messages=said)

    async def _by_mcp(self, wire: Wire, number: int) -> object:
        given = {"project": self.project, "agent": f"agent{number % AGENTS}", "message": f"what about {number}?"}
        call = {"name": "agent_ask", "arguments": given}
        told = await wire.ask("POST", "/mcp", jsonrpc="2.0", id=number, method="tools/call", params=call)
        assert told["result"]["structuredContent"]["state"] == "done", told
        return told

    async def _by_acp(self, wire: Wire, number: int) -> object:
        return await self.editor.prompt(f"what about {number}?")

    async def _in_session(self, wire: Wire, number: int) -> object:
        """Where the editor asks too: a session is a workspace, in which a question takes more than a direct one."""
        agent, text = f"@agent0:{self.editor.session}", f"what about {number}?"
        return await wire.ask("POST", "/serve", project=self.project, agent=agent, message=text)

    async def _send(self, wire: Wire, number: int) -> object:
        to, text = f"agent{number % AGENTS}", f"do number {number}"
        return await wire.ask("POST", "/send", project=self.project, to=to, message=text)

    def _asked(self, clients: int) -> Figure:
        ours, nothing = self.taken["ask", clients], self.taken["health", clients]
        each, speed, most = ours.cpu / EACH_ROUND, EACH_ROUND / ours.wall, clients == max(CLIENTS)
        return Figure(
            f"asks through the daemon, {clients} client{'s' if clients > 1 else ''}",
            f"{speed:,.0f}/s",
            f"{ms(each)} of the daemon",
            f"/health: {EACH_ROUND / nothing.wall:,.0f}/s, {ms(nothing.cpu / EACH_ROUND)}",
            ours.cpu / max(nothing.cpu, TICK),
            f"≤ {ms(AN_ASK)}" + (f", ≥ {PER_SECOND}/s" if most else ""),
            each <= AN_ASK and (not most or speed >= PER_SECOND),
            max(each / AN_ASK, PER_SECOND / speed if most else 0.0),
            cost=each,
        )

    def _door(self, what: str) -> Figure:
        """The best round of each counts: the first one by a door also imports it."""
        door, plain = self.taken[what, 1], self.taken["session" if what == "acp" else "serve", 1]
        added = (door.wall - plain.wall) / EACH_ROUND
        there = " in the same session" if what == "acp" else ""
        return Figure(
            f"an ask by the door for {DOORS[what]}, beside /serve",
            f"{ms(max(added, 0.0))} more to wait",
            f"{ms(door.cpu / EACH_ROUND)} of the daemon",
            f"/serve{there}: {ms(plain.wall / EACH_ROUND)}, {ms(plain.cpu / EACH_ROUND)} CPU",
            door.cpu / max(plain.cpu, 1e-6),
            f"≤ {ms(A_DOOR)} more",
            added <= A_DOOR,
            max(added, 0.0) / A_DOOR,
            cost=door.cpu / EACH_ROUND,
        )

    def _sent(self) -> Figure:
        clients, count = max(CLIENTS), EACH_ROUND + AGENTS
        ours, nothing = self.taken["send", clients], self.taken["health", clients]
        each = ours.cpu / count
        return Figure(
            f"direct messages sent, each with its run, {clients} clients",
            f"{count / ours.wall:,.0f}/s",
            f"{ms(each)} of the daemon",
            f"/health: {ms(nothing.cpu / EACH_ROUND)}",
            ours.cpu / max(nothing.cpu, TICK),
            f"≤ {ms(A_SEND)}",
            each <= A_SEND,
            each / A_SEND,
            cost=each,
        )


async def _all(wires: Sequence[Wire], count: int, request: Request) -> None:
    """So many requests, shared among those who send them."""
    numbers = iter(range(count))
    await asyncio.gather(*(_one_by_one(wire, numbers, request) for wire in wires))


async def _one_by_one(wire: Wire, numbers: Iterator[int], request: Request) -> None:
    for number in numbers:
        await request(wire, number)
