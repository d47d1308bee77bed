"""One program from its start to its last word: a process whose lines become signals, within four clocks.

It is started clean and ended with all it started (processes), gets its prompt on standard input, and has said
nothing until it has said it in a whole line of JSON. How it exits is not believed: only `Over` ends a run well.
Knows no command line and no stream of any program: the parser does.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol

from agent_worker.backends.programs.signals import Calling, Over, ProgramReturned, Said, Signal
from agent_worker.core.errors import BackendFailure, BadInput, Crashed, Exhausted, Permanent, Refused, Transient
from agent_worker.core.later import dataclass, pattern
from agent_worker.processes.child import Child, happens, start
from agent_worker.processes.streams import Ends, lines

LINE_CAP = 16 * 1024 * 1024  # bytes; what is longer is no line of ours
OUTPUT_MOST = 256 * 1024 * 1024
STDERR_CAP = 16 * 1024
TOLD = 600  # characters of its standard error in a failure
_LAST_MOMENTS = 3.0  # seconds to write its session away after the last word
_AFTER_EXIT = 1.0  # seconds for what is still in the pipe when somebody else holds it open
_CONTROL = pattern(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Launch:
    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str] = field(repr=False)
    prompt: str = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)  #: not to be told, whatever it prints


@dataclass(frozen=True, slots=True)
class Clocks:
    """How many seconds a program gets. Each limit ends the program, and each end means something else."""

    start: float = 60.0  #: until its first line: there is something wrong with it
    first: float = 600.0  #: until the first word of its model: there is something wrong with that
    silence: float = 600.0  #: between two lines
    total: float = 3600.0
    tools: float = 5.0  #: that it may be late with asking for our tools, once its model works

    @classmethod
    def of(cls, silence: float) -> Clocks:
        return cls(first=silence, silence=silence, total=max(3600.0, 6 * silence))


class Parser(Protocol):
    """Reads the lines of one run. They come from outside: whatever they hold, it must not raise."""

    def read(self, event: Mapping[str, Any]) -> Iterable[Signal]: ...

    def died(self, code: int, told: str) -> BackendFailure:
        """The failure of a program that ended without a last word. `told` is the end of its standard error."""
        ...


async def run_program(name: str, launch: Launch, parser: Parser, clocks: Clocks) -> AsyncGenerator[Signal]:
    """Run a program and yield its signals, the last of which is `Over`. Raises BackendFailure when there is no such
    end."""
    try:
        running = start(
            launch.argv, cwd=launch.cwd, env=launch.env, stdin=launch.prompt.encode(), stderr=subprocess.PIPE
        )
        async with running as child:
            noise = Ends(STDERR_CAP)
            reading, ending = asyncio.create_task(noise.take_all(child.stderr)), asyncio.create_task(_end_with(child))
            try:
                async for signal in _hear(name, child, parser, clocks):
                    try:
                        yield signal
                    finally:
                        if isinstance(signal, Over):  # whoever hears the last word stops listening
                            await happens(child.exited, within=_LAST_MOMENTS)
                    if isinstance(signal, Over):
                        return
                if not await happens(child.exited, within=_AFTER_EXIT):
                    raise Crashed(f"{name} closed its output without a result")
                code = await child.wait()
                await asyncio.wait({reading}, timeout=_AFTER_EXIT)
                raise parser.died(code, told_by(noise, launch))
            except TooLong as end:
                raise end.failure(told_by(noise, launch)) from None
            finally:
                reading.cancel()
                ending.cancel()
    except (Refused, BadInput) as error:
        raise Permanent(f"{name}: {error.message}", hint=error.hint) from None


class TooLong(Exception):
    def __init__(self, kind: type[BackendFailure], message: str, hint: str = "") -> None:
        self._kind, self._message, self._hint = kind, message, hint

    def failure(self, told: str) -> BackendFailure:
        return self._kind(f"{self._message}{told and f': {told}'}", hint=self._hint)


async def _hear(name: str, child: Child, parser: Parser, clocks: Clocks) -> AsyncIterator[Signal]:
    watch = ClockWatch(name, clocks)
    arriving = lines(child.stdout, cap=LINE_CAP, most=OUTPUT_MOST)
    while True:
        try:
            async with asyncio.timeout(watch.left()):
                line = await anext(arriving)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise watch.verdict() from None
        if (event := event_in(line)) is None:
            continue  # not a word of it: neither believed nor taken for a sign of life
        watch.heard()
        for signal in parser.read(event):
            watch.understood(signal)
            yield signal


class ClockWatch:
    """Which of the four clocks runs out next."""

    def __init__(self, name: str, clocks: Clocks) -> None:
        self._name, self._clocks = name, clocks
        self._began = self._last = asyncio.get_running_loop().time()
        self._spoke = self._worked = False

    def heard(self) -> None:
        self._spoke, self._last = True, asyncio.get_running_loop().time()

    def understood(self, signal: Signal) -> None:
        self._worked = self._worked or isinstance(signal, Said | Calling | ProgramReturned)

    def left(self) -> float:
        return max(0.0, min(self._patience()[0], self._began + self._clocks.total) - asyncio.get_running_loop().time())

    def verdict(self) -> TooLong:
        if asyncio.get_running_loop().time() >= self._began + self._clocks.total:
            told = f"{self._name} was ended after {self._clocks.total:g} s"
            return TooLong(Exhausted, told, "say 'continue', or raise timeout")
        return self._patience()[1]

    def _patience(self) -> tuple[float, TooLong]:
        clocks, name = self._clocks, self._name
        if not self._spoke:
            told = f"{name} started and said nothing for {clocks.start:g} s"
            return self._began + clocks.start, TooLong(Permanent, told, f"try {name} in a terminal")
        if not self._worked:
            # Its retries are signs of life, but not for ever.
            told = f"{name} heard nothing from its model for {clocks.first:g} s"
            return self._began + clocks.first, TooLong(Transient, told)
        told = f"{name} went silent for {clocks.silence:g} s"
        return self._last + clocks.silence, TooLong(Transient, told, "raise timeout if it needs longer")


def event_in(line: bytes) -> dict[str, Any] | None:
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        event = json.loads(line.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


async def _end_with(child: Child) -> None:
    """End what a program started as soon as the program has ended: otherwise its output would stay open."""
    await child.exited.wait()
    await asyncio.sleep(_AFTER_EXIT)
    await child.kill_tree()


def told_by(noise: Ends, launch: Launch) -> str:
    text = noise.text()
    for secret in launch.secrets:
        text = text.replace(secret, "…") if secret else text
    text = " ".join(_CONTROL.sub("", text).split())
    return text if len(text) <= TOLD else f"…{text[-TOLD:]}"
