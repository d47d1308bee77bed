"""Questions through the daemon: how many a second, and what one costs the daemon; the same for messages that are sent.

A real daemon with mock agents, clients that each ask one question after the other over a connection they keep. The
clients share the processors with it. The baseline is `/health` in the same run: a request that does nothing.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

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
class _Asking:
    house: House
    project: str
    token: str = ""  # of the door for programs that speak OpenAI's API
    taken: dict[tuple[str, int], Series] = field(default_factory=dict)

    async def figures(self) -> list[Figure]:
        wire = Wire(self.house)
        self.token = (await wire.ask("POST", "/tokens", project=self.project, name="bench"))["token"]
        wire.close()
        for _ in range(ROUNDS):
            await self._round("serve", 1, self._serve)
            await self._round("door", 1, self._by_door)
            for clients in CLIENTS:
                await self._round("health", clients, self._health)
                await self._round("ask", clients, self._ask)
            await self._round("send", max(CLIENTS), self._send)
        return [*map(self._asked, CLIENTS), self._sent(), self._door()]

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

    def _door(self) -> Figure:
        """The best round of each counts: the first one by the door also imports it."""
        door, plain = self.taken["door", 1], self.taken["serve", 1]
        added = (door.wall - plain.wall) / EACH_ROUND
        return Figure(
            "an ask by the door for OpenAI's clients, beside /serve",
            f"{ms(max(added, 0.0))} more to wait",
            f"{ms(door.cpu / EACH_ROUND)} of the daemon",
            f"/serve: {ms(plain.wall / EACH_ROUND)}, {ms(plain.cpu / EACH_ROUND)} CPU",
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
