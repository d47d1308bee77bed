"""What a terminal is told of a stream while a person looks on: all of it, also what comes at the very end."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from agent_worker.cli.console import Console
from agent_worker.client.plain_http import DaemonEnded, ServerEvent


def event(text: str) -> ServerEvent:
    return ServerEvent("message", "", text)


class Stream:
    """A stream that ends exactly when it is told to, after its first event."""

    def __init__(self, *, cut: bool) -> None:
        self._cut = cut
        self._others = set(threading.enumerate())
        self._may_end = threading.Event()

    def __iter__(self) -> Iterator[ServerEvent]:
        yield event("first")
        self._may_end.wait()
        if self._cut:
            raise DaemonEnded("it ended")
        yield event("last")

    def ends(self) -> None:
        self._may_end.set()
        for thread in set(threading.enumerate()) - self._others:
            thread.join()


def shown(stream: Stream, *, ends_at: str | None) -> Iterator[str]:
    """What is shown; the stream ends while this event is, or at the look at the clock after the first one."""
    console = Console()
    console.is_live = True
    for happening in console.happenings(iter(stream)):
        told = happening.data if isinstance(happening, ServerEvent) else None
        if told is not None:
            yield told
        if told == ends_at:
            stream.ends()


MOMENTS = pytest.mark.parametrize("ends_at", ["first", None])


@MOMENTS
def test_what_is_said_last_is_shown_however_soon_the_stream_ends_after_it(ends_at: str | None) -> None:
    assert list(shown(Stream(cut=False), ends_at=ends_at)) == ["first", "last"]


@MOMENTS
def test_a_stream_that_breaks_off_while_something_is_shown_is_told_as_broken_off(ends_at: str | None) -> None:
    seen = shown(Stream(cut=True), ends_at=ends_at)
    assert next(seen) == "first"
    with pytest.raises(DaemonEnded):
        next(seen)
