"""A loop in a thread of its own, for programs that do not await: scripts, and notebooks whose own loop is at work.

The thread is a daemon: a program that forgets to close, or is interrupted, ends all the same, and what it had begun is
gone on with the next time, as after any crash.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, wait
from contextlib import suppress
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from agent_worker.core.errors import NotRunning, Refused

T = TypeVar("T")
P = ParamSpec("P")


class Waiter(Protocol):
    """Something that can await a coroutine for a program that does not await."""

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T: ...


W = TypeVar("W", bound=Waiter)


class Blocking(Generic[W, P, T]):
    """The blocking twin of a verb: `ask_sync = Blocking(ask)`."""

    def __init__(self, verb: Callable[Concatenate[W, P], Coroutine[Any, Any, T]]) -> None:
        self.verb = verb

    def __get__(self, whose: W, owner: type[W] | None = None) -> Callable[P, T]:
        @wraps(self.verb)
        def waited(*args: P.args, **kwargs: P.kwargs) -> T:
            return whose.wait_for(self.verb(whose, *args, **kwargs))

        return waited


def running_loop() -> asyncio.AbstractEventLoop:
    """The loop of asyncio that calls this. Another library's, trio's for one, is not enough."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise Refused(
            "no event loop of asyncio is running here",
            hint="use the blocking methods; under trio: await trio.to_thread.run_sync(workers.ask_sync, agent, text)",
        ) from None


class _Piece(Generic[T]):
    """A coroutine that another thread waits for. It can be given up at any moment, also before it has begun."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._task: asyncio.Task[Any] | None = None
        self._given_up = False
        self.ended = threading.Event()

    async def run(self) -> T:
        if self._given_up:
            raise asyncio.CancelledError
        self._task = asyncio.current_task()
        try:
            return await self._work
        finally:
            self.ended.set()

    def give_up(self) -> None:
        """Cancel this piece of work. Called in the loop."""
        self._given_up = True
        if self._task is not None:
            self._task.cancel()
        else:
            self._work.close()
            self.ended.set()


def _as_interrupted(method: Callable[P, T]) -> Callable[P, T]:
    """A Ctrl-C in the middle of what `threading` waits with comes out as an error about a lock: here it is one."""

    @wraps(method)
    def interrupted(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except RuntimeError as error:
            if isinstance(error.__context__, KeyboardInterrupt):
                raise error.__context__ from None
            raise

    return interrupted


class LoopThread:
    """Runs coroutines for threads that wait."""

    def __init__(self) -> None:
        # Made by the thread itself, which no Ctrl-C interrupts: one half made would complain when it is dropped.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="agent-worker", daemon=True)
        self._deciding = threading.Lock()  # whether it runs: an interrupted start may or may not have made a thread
        self._ready = threading.Event()
        self._stopped = False
        self._process = os.getpid()
        self._ending: asyncio.Task[None] | None = None

    @property
    def is_here(self) -> bool:
        """Whether it is this process that has the thread: one forked from it has not."""
        return os.getpid() == self._process

    @_as_interrupted
    def start(self) -> None:
        """Start the thread. Not done in `__init__`: a caller who is interrupted meanwhile has something to stop."""
        self._thread.start()
        self._ready.wait()

    def _run(self) -> None:
        with self._deciding:
            if self._stopped:
                return
            self._loop = loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        self._ready.set()
        try:
            loop.run_forever()
        finally:
            loop.close()

    @_as_interrupted
    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine. Ctrl-C cancels it, and the interruption goes on once it has ended.

        So nothing is left half closed. A second Ctrl-C does not wait for that.
        """
        loop, is_ours = self._loop, threading.current_thread() is self._thread
        if not self.is_here:
            work.close()
            raise NotRunning(
                "this process was forked from the one that opened it",
                hint="open it here as well: connect(), or local() with a home of its own",
            )
        if loop is None or loop.is_closed() or is_ours:
            work.close()
            raise NotRunning("a tool cannot wait for its own agent" if is_ours else "it was closed")
        piece = _Piece(work)
        try:
            return asyncio.run_coroutine_threadsafe(piece.run(), loop).result()
        except CancelledError:
            raise NotRunning("it was closed before it had an answer", hint="open it again, and ask") from None
        except BaseException:
            loop.call_soon_threadsafe(piece.give_up)
            piece.ended.wait()
            raise

    def leave(self, close: Callable[[], Awaitable[None]]) -> None:
        """End the thread without waiting for it: whoever used it is gone, and this may be called at any moment."""
        loop = self._loop
        if loop is None or loop.is_closed() or not self.is_here:
            return

        async def end() -> None:
            try:
                with suppress(
                    RuntimeError
                ):  # a program that ends begins no thread any more: then it is as after a crash
                    await close()
                    await _ended()
            finally:
                loop.stop()

        def begin() -> None:
            self._ending = loop.create_task(end())

        loop.call_soon_threadsafe(begin)

    @_as_interrupted
    def stop(self) -> None:
        """End the thread, once what it was told to cancel has ended: an interruption waits for that, too."""
        with self._deciding:
            self._stopped, loop = True, self._loop
        if loop is None or loop.is_closed() or not self.is_here:
            return
        ending = asyncio.run_coroutine_threadsafe(_ended(), loop)
        try:
            ending.result()
        finally:
            wait([ending])
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()


async def _ended() -> None:
    """Cancel the tasks that are left in this loop, and wait until they have ended."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
    await asyncio.get_running_loop().shutdown_default_executor()
