"""A backend that starts a program for each run, lets it work by itself, and takes its last word for the answer.

One run is one step: nothing in it can be preempted. What the program said its session is called is stored at once, so
that after a crash the next run goes on with it. Its answer does not wait for its end either, but the agent does. A
program that never asked for our tools has worked blindly: that is a failure, whatever it says. Above: the loop. Below:
runner.py, and a `Cli` per program that knows its words.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Protocol

from agent_worker.backends.backend import Finished, Outcome, Reply, StepSink, Suspended, Turn, Usage
from agent_worker.backends.programs import sessions
from agent_worker.backends.programs.program import TOKEN, URL, Program, ToolEndpoint
from agent_worker.backends.programs.runner import Clocks, Launch, Parser, run_program
from agent_worker.backends.programs.sessions import Session
from agent_worker.backends.programs.signals import (
    Calling,
    Over,
    ProgramRetries,
    ProgramReturned,
    ProgramSpent,
    ProgramStarted,
    Said,
    Signal,
)
from agent_worker.client.discovery import RUN_VARIABLE
from agent_worker.core.errors import BackendFailure, Crashed, Fenced, Permanent
from agent_worker.core.json_object import json_object
from agent_worker.core.later import dataclass
from agent_worker.files.makers import scratch
from agent_worker.tools.tool import Call, Result

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProgramJob:
    """One start of a program."""

    program: Program
    entry: ToolEndpoint
    folder: Path  #: private, and gone when it ends
    system: str
    prompt: str
    session: Session
    late: Callable[[Usage], None] = lambda usage: None  #: told what it has used once nobody listens to it any more

    def file(self, name: str, text: str) -> str:
        """Write a file that the program reads; its path."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8", errors="replace")
        return str(path)

    def environment(self) -> dict[str, str]:
        """What it knows of ours, the token of its run, and a place for temporary files that goes with it."""
        scratch = self.folder / "tmp"
        scratch.mkdir(mode=0o700, exist_ok=True)
        return self.program.environment() | {TOKEN: self.entry.token, URL: self.entry.url, "TMPDIR": str(scratch)}


class Cli(Protocol):
    """How one program is started and talked with."""

    def run(self, job: ProgramJob, clocks: Clocks) -> AsyncGenerator[Signal]:
        """Run the program and yield its signals, the last of which is `Over`. Raises BackendFailure when there is no
        such end."""
        ...


def told_of_run(launch: Launch, job: ProgramJob) -> Launch:
    """The environment with the run in it: what the program asks by a command of ours counts for that run."""
    return replace(launch, env={**launch.env, RUN_VARIABLE: job.entry.run})


class PrintingProgram(ABC):
    """A program that gets its prompt once and then prints lines."""

    @abstractmethod
    def launch(self, job: ProgramJob) -> Launch: ...

    @abstractmethod
    def parser(self, job: ProgramJob) -> Parser: ...

    def run(self, job: ProgramJob, clocks: Clocks) -> AsyncGenerator[Signal]:
        return run_program(job.program.backend, told_of_run(self.launch(job), job), self.parser(job), clocks)


class OneShot:
    def __init__(self, cli: Cli, program: Program, clocks: Clocks | None = None) -> None:
        self._cli = cli
        self._program = program
        self._clocks = clocks or Clocks.of(program.silence)

    async def work(self, turn: Turn, sink: StepSink) -> AsyncGenerator[Outcome]:
        entry = self._program.enter(turn.run)
        book = _Log(sink, len(turn.past), sessions.session_of(turn.past, self._program.backend), entry)
        talk = asyncio.create_task(self._talk(turn, entry, book), name=f"{self._program.backend} {turn.run}")
        try:
            text = await self._answer(entry, book, talk)
            yield Finished(book.step, replace(book.so_far(), text=text, more=False).storable)
        finally:
            await _all_of(talk, wanted=book.answer.done())

    async def _answer(self, entry: ToolEndpoint, book: _Log, talk: asyncio.Task[None]) -> str:
        """The last word of the program. However else it ends, what it says it has used is paid for."""
        try:
            return await _unless_asked(entry, book.answer, talk)
        except _Asked:
            assert entry.unanswered is not None
            step, call = entry.unanswered
            await book.sink.keep(step, book.so_far(call))
            raise Suspended from None
        except BackendFailure:
            await book.pay()
            raise
        except asyncio.CancelledError:
            await _all_of(talk, wanted=False)  # some tell it only when they are told to stop
            await book.pay()
            raise

    async def close(self) -> None:
        pass

    async def _talk(self, turn: Turn, entry: ToolEndpoint, book: _Log) -> None:
        if book.session.id:
            try:
                return await self._once(turn, entry, book)
            except _Forgotten as error:
                log.info("%s does not know %s any more: %s", self._program.backend, book.session.id, error.failure)
                book.session = Session(self._program.backend)
        return await self._once(turn, entry, book)

    async def _once(self, turn: Turn, entry: ToolEndpoint, book: _Log) -> None:
        prompt = await sessions.opening(turn, book.sink, resumes=bool(book.session.id))
        with scratch("run") as folder:
            job = ProgramJob(self._program, entry, folder, turn.system, prompt, book.session, book.correct)
            try:
                async with aclosing(self._cli.run(job, self._clocks)) as signals:
                    async for signal in signals:
                        await self._connected(entry, signal)
                        if isinstance(signal, Over):
                            return book.answer.set_result(_last_word(signal))
                        await book.take(signal)
            except BackendFailure as failure:
                if job.session.id and not book.started:
                    raise _Forgotten(failure) from None
                raise
        raise Crashed(f"{self._program.backend} stopped without an answer")

    async def _connected(self, entry: ToolEndpoint, signal: Signal) -> None:
        """Check that the program has asked for our tools by the time its model works."""
        works = isinstance(signal, Said | Calling | ProgramReturned) or (
            isinstance(signal, Over) and signal.failure is None
        )
        if not works or entry.listed.is_set():
            return
        try:
            async with asyncio.timeout(self._clocks.tools):
                await entry.listed.wait()
        except TimeoutError:
            raise Permanent(
                f"{self._program.backend} worked without our tools: it never asked for them with the token of its run",
                hint="agent-worker backends",
            ) from None


class _Forgotten(Exception):
    """Raised when the program does not know the session any more."""

    def __init__(self, failure: BackendFailure) -> None:
        self.failure = failure


class _Asked(Exception):
    """Raised when a call waits for a person."""


@dataclass(slots=True)
class _Log:
    """What the program has told in this run, stored and shown as it comes."""

    sink: StepSink
    step: int
    session: Session
    entry: ToolEndpoint
    answer: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    usage: Usage = field(default_factory=Usage)
    started: bool = False
    _halves: bool = False  # pieces of the text that is being written were shown
    _calls: dict[str, Call] = field(default_factory=dict)

    async def take(self, signal: Signal) -> None:
        match signal:
            case ProgramStarted(session):
                await self._keep(session)
            case Said(text, partial):
                if partial or not self._halves:
                    self.sink.say(text)
                self._halves = partial
            case Calling(id, tool, arguments):
                call = self._calls[id] = Call(id, tool, _arguments(arguments))
                self.sink.show(call)
            case ProgramReturned(id, text, ok):
                if call_made := self._calls.pop(id, None):
                    self.sink.show(call_made, Result(text, ok))
            case ProgramRetries(reason):
                log.info("%s tries again by itself: %s", self.session.program, reason)
            case ProgramSpent(usage):
                self.correct(usage)

    async def _keep(self, id: str) -> None:
        self.started = True
        if id and id != self.session.id:
            self.session = Session(self.session.program, id)
            await self.sink.keep(self.step, self.session.kept())
            self.step += 1

    def correct(self, usage: Usage) -> None:
        self.usage = usage

    async def pay(self) -> None:
        """Charge what was used, with the session if the run is still ours: a later run must not pay for it again."""
        if self._all_used.is_nothing:
            return
        try:
            await self.sink.keep(self.step, self.so_far())
        except Fenced:
            self.sink.spent(self._all_used)

    @property
    def _all_used(self) -> Usage:
        """What the program says it used, and what its commands used beside that with the token of the run."""
        return self.usage.at_least(self.entry.used)

    def so_far(self, call: Call | None = None) -> Reply:
        return replace(self.session.kept(usage=self.usage, call=call), usage=self._all_used)


def _arguments(text: str) -> dict[str, Any]:
    given = json_object(text or "{}")
    return {"input": text} if given is None else given


def _last_word(over: Over) -> str:
    if over.failure is not None:
        raise over.failure
    return over.text


async def _unless_asked(entry: ToolEndpoint, answer: asyncio.Future[str], talk: asyncio.Task[None]) -> str:
    """The answer of the program; raises `_Asked` when the program is ended because one of its calls has to wait for a
    person.
    """
    asked = asyncio.create_task(entry.waiting.wait())
    try:
        either: set[asyncio.Future[Any]] = {answer, talk, asked}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        asked.cancel()
    if answer.done():
        return answer.result()
    if talk.done():
        talk.result()
    await _all_of(talk, wanted=False)
    raise _Asked


async def _all_of(talk: asyncio.Task[None], *, wanted: bool) -> None:
    """Wait until the program has ended: by itself if its answer is `wanted`, else because we end it."""
    if not wanted:
        talk.cancel()
    (error,) = await asyncio.gather(talk, return_exceptions=True)
    if wanted and error is not None:
        log.warning("after its answer: %s", error, exc_info=error)
