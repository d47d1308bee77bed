"""A loop in a thread of its own, for programs that do not await: scripts, and notebooks whose own loop is at work.

The thread is a daemon: a program that forgets to close, or is interrupted, ends all the same, and what it had begun is
gone on with the next time, as after any crash.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from agent_worker.core.errors import NotRunning

T = TypeVar("T")
P = ParamSpec("P")


class Waiter(Protocol):
    """Whoever can await something for a program that does not."""

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T: ...


W = TypeVar("W", bound=Waiter)


class Blocking(Generic[W, P, T]):
    """The blocking twin of a verb: `ask_sync = Blocking(ask)`."""

    def __init__(self, verb: Callable[Concatenate[W, P], Coroutine[Any, Any, T]]) -> None:
        self.verb = verb

    def __get__(self, whose: W, owner: type[W] | None = None) -> Callable[P, T]:
        @wraps(self.verb)
        def wait(*args: P.args, **kwargs: P.kwargs) -> T:
            return whose.wait_for(self.verb(whose, *args, **kwargs))

        return wait


class LoopThread:
    """Runs coroutines for threads that wait."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="agent-worker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Its result. Interrupted by Ctrl-C, it is cancelled, and the interruption goes on."""
        if self._loop.is_closed() or threading.current_thread() is self._thread:
            work.close()
            raise NotRunning("it was closed" if self._loop.is_closed() else "a tool cannot wait for its own agent")
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise NotRunning("it was closed before there was an answer", hint="open it again, and ask") from None
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """End the thread, once what it was told to cancel has ended."""
        if self._loop.is_closed():
            return
        try:
            self.wait_for(_cancelled())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()


async def _cancelled() -> None:
    """Cancel what is left, and wait for it."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
    await asyncio.get_running_loop().shutdown_default_executor()
