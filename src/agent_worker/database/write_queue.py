"""Changes on their way to the writer of a database, in order, and their answers on the way back.

What SQLite and PostgreSQL have in common: whoever asks for a change gets a future, a thread makes the changes in
groups, and after the commit of a group others are told what happened before the callers are answered.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from agent_worker.core.errors import Closed, StorageFault
from agent_worker.core.events import Bus, Event
from agent_worker.core.later import dataclass

X = TypeVar("X")  # the transaction
P = ParamSpec("P")
T = TypeVar("T")

SOON = 0.02  # seconds that a write may wait for another to be committed with


@dataclass(slots=True)
class Job(Generic[X]):
    change: Callable[[X], Any]
    answer: asyncio.Future[Any]
    project: str | None = None  #: whose rows it is about; None: of all, or it does not say
    result: Any = None
    error: BaseException | None = None
    told: tuple[Event, ...] = ()
    records: Sequence[tuple[object, ...]] = ()  #: of what is told, the rows to be stored with it


class WriteQueue(ABC, Generic[X]):
    """The side of the callers. The thread that takes from `_jobs` is the database's own."""

    _thread: threading.Thread  #: the writer's

    def __init__(self, bus: Bus) -> None:
        self.commits = 0  #: that were made here
        self._bus = bus
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[list[Job[X]] | None] = queue.SimpleQueue()
        self._soon: list[Job[X]] = []  # to be committed with the next job, or by the timer
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def write(self, change: Callable[Concatenate[X, P], T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        return self._enqueue(lambda transaction: change(transaction, *args, **kwargs))

    def write_soon(
        self, change: Callable[Concatenate[X, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        return self._enqueue_soon(lambda transaction: change(transaction, *args, **kwargs))

    def _enqueue(self, change: Callable[[X], T], project: str | None = None) -> asyncio.Future[T]:
        job = self._job(change, project)
        self._hand_over(job)
        return job.answer

    def _enqueue_soon(self, change: Callable[[X], T], project: str | None = None) -> asyncio.Future[T]:
        job = self._job(change, project)
        self._soon.append(job)
        self._timer = self._timer or self._loop.call_later(SOON, self._hand_over)
        return job.answer

    def _job(self, change: Callable[[X], Any], project: str | None) -> Job[X]:
        self._check_open()
        return Job(change, self._loop.create_future(), project)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("it was closed before this was stored", hint="open it again, and ask")

    def _hand_over(self, *jobs: Job[X]) -> None:
        """Give these to the writer, behind those that waited for them, to be committed together."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if together := [*self._soon, *jobs]:
            self._soon.clear()
            self._jobs.put(together)

    async def close(self) -> None:
        """Close the database, once everything that was handed over is made."""
        if self._closed:
            return
        self._close_later()
        await asyncio.to_thread(self._thread.join)
        # A reader may still wait for its server: the event loop goes on meanwhile.
        await asyncio.to_thread(self._close_readers)

    def _close_later(self) -> None:
        """Let the writer end after what it has been given."""
        self._hand_over()
        self._closed = True
        self._hurry()
        self._jobs.put(None)

    @abstractmethod
    def _close_readers(self) -> None:
        """Wait for the looks that are under way, and close their connections."""

    @abstractmethod
    def _hurry(self) -> None:
        """Let reads and other long work end, so that nothing outlasts the changes that were handed over."""

    def _take_more(self, group: list[Job[X]], most: int) -> None:
        """Add what has come meanwhile to a group that is about to be made."""
        while len(group) < most:
            try:
                following = self._jobs.get_nowait()
            except queue.Empty:
                return
            if following is None:
                self._jobs.put(None)
                return
            group += following

    def _tell(self, what: Callable[..., None], *about: object) -> None:
        """Have the event loop call this, from the writer's thread."""
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(what, *about)

    def _answer(self, group: list[Job[X]]) -> None:
        self.commits += any(job.error is None for job in group)
        for job in group:
            for event in job.told if job.error is None else ():
                self._bus.publish(event)
            if job.answer.done():
                continue
            if job.error is not None:
                job.answer.set_exception(job.error)
            else:
                job.answer.set_result(job.result)


def settle(ready: asyncio.Future[None], error: BaseException | None) -> None:
    if not ready.done():  # nobody waits for it any more
        ready.set_exception(error) if error else ready.set_result(None)


def fail(group: Sequence[Job[X]], fault: StorageFault) -> None:
    for job in group:
        # A change that was refused for its own reason keeps that reason: it would not have been stored anyway.
        if job.error is None:
            job.error = fault
