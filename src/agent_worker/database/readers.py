"""The threads in which a database is read: a query goes in, its answer comes back to the event loop.

What concurrent.futures does, without its own futures and locks between ours and the thread: every run reads more than
once, and handing a short query over costs more than the query.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
_Task = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class Readers:
    """So many threads at most, each made when all others are busy."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._loop = asyncio.get_running_loop()
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)  # threads that wait for a task, less the tasks that wait for them
        self._closed = False

    def read(self, query: Callable[[], T]) -> asyncio.Future[T]:
        if self._closed:
            raise RuntimeError("nothing is read any more: it was closed")
        answer: asyncio.Future[T] = self._loop.create_future()
        self._tasks.put((query, answer))
        if not self._idle.acquire(blocking=False) and len(self._threads) < self._count:
            name = f"reader_{len(self._threads)}"
            self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
            self._threads[-1].start()
        return answer

    def close(self) -> None:
        """Answer what was asked, then end the threads."""
        self._closed = True
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            query, answer = task
            result, error = None, None
            if not answer.cancelled():
                try:
                    result = query()
                except BaseException as raised:  # boundary: whoever asked is told
                    error = raised
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(_settle, answer, result, error)
            self._idle.release()
            del task, query, answer, result, error  # a thread that rests keeps nothing


def _settle(answer: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if answer.done():  # nobody waits for it any more
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(result)
