"""Notices an event loop that is stuck: its stacks go to the log, and the process ends so that the next may recover."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import traceback
from contextlib import suppress
from typing import Self

from agent_worker.core.clock import SystemClock
from agent_worker.daemon.process.logs import LogFile, log_line
from agent_worker.daemon.process.settings import STUCK

_TICKS = 30  #: how often the watchdog looks before it gives up


class Watchdog:
    """Ends a process whose event loop stands still, or that does not end when asked to; first writes down why.

    Counts how often it looked, not the time that passed: a machine that slept is not a stuck loop. Blind while an
    extension holds the interpreter's lock, as every thread is.
    """

    def __init__(self, file: LogFile, *, patience: float) -> None:
        self._file = file
        self._patience = patience
        self._tick = patience / _TICKS
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ticks_to_end: float | None = None
        self._beaten = True
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def expect_end(self, seconds: float) -> None:
        self._ticks_to_end = seconds / self._tick

    def _watch(self) -> None:
        missed = 0
        while not self._closed.wait(self._tick):
            if self._ticks_to_end is not None:
                self._ticks_to_end -= 1
                if self._ticks_to_end <= 0:
                    self._give_up("the daemon did not end in time")
            elif self._beaten:
                missed = 0
                self._ask_for_a_beat()
            elif (missed := missed + 1) >= _TICKS:
                self._give_up(f"the event loop was blocked for {self._patience:g} s")

    def _ask_for_a_beat(self) -> None:
        if self._loop is None:
            return
        self._beaten = False
        with suppress(RuntimeError):  # the loop is closed: the end is near
            self._loop.call_soon_threadsafe(self._beat)

    def _beat(self) -> None:
        self._beaten = True

    def _give_up(self, reason: str) -> None:
        self._file.write(log_line(SystemClock().now(), "CRITICAL", __name__, reason, stacks=_stacks()))
        os._exit(STUCK)


def _stacks() -> str:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sorted(sys._current_frames().items(), key=lambda each: names.get(each[0]) != "MainThread")
    return "\n".join(f"{names.get(ident)}:\n{''.join(traceback.format_stack(frame))}" for ident, frame in frames)
