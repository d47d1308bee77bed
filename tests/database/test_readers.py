"""The threads in which a database is read answer every question, and end when they are told to."""

from __future__ import annotations

import asyncio
import threading

import pytest

from agent_worker.database.readers import Readers


def fails() -> None:
    raise ValueError("no such table")


async def test_every_question_has_its_own_answer() -> None:
    readers = Readers(3)
    asked = [readers.read(lambda number=number: number * 2) for number in range(200)]  # type: ignore[misc]
    assert await asyncio.gather(*asked) == [number * 2 for number in range(200)]
    readers.close()


async def test_what_a_query_raises_reaches_who_asked_and_nobody_else() -> None:
    readers = Readers(1)
    wrong, right = readers.read(fails), readers.read(lambda: "fine")
    with pytest.raises(ValueError, match="no such table"):
        await wrong
    assert await right == "fine"
    readers.close()


async def test_there_are_so_many_threads_at_most_and_others_wait() -> None:
    readers, let_go, inside = Readers(2), threading.Event(), threading.Semaphore(0)

    def wait() -> str:
        inside.release()
        let_go.wait()
        return threading.current_thread().name

    asked = [readers.read(wait) for _ in range(6)]
    for _ in range(2):
        await asyncio.to_thread(inside.acquire)
    assert not inside.acquire(blocking=False), "a third one is read at the same time"
    let_go.set()
    assert set(await asyncio.gather(*asked)) == {"reader_0", "reader_1"}
    readers.close()


async def test_a_question_that_nobody_waits_for_any_more_is_not_asked() -> None:
    readers, let_go, read = Readers(1), threading.Event(), []
    first = readers.read(let_go.wait)
    second = readers.read(lambda: read.append("second"))
    second.cancel()
    let_go.set()
    await first
    await readers.read(lambda: read.append("third"))
    assert read == ["third"]
    readers.close()


async def test_what_was_asked_before_the_end_is_answered_and_nothing_after_it() -> None:
    readers, let_go = Readers(1), threading.Event()
    asked = [readers.read(let_go.wait), readers.read(lambda: True)]
    let_go.set()
    await asyncio.to_thread(readers.close)
    assert await asyncio.gather(*asked) == [True, True]
    with pytest.raises(RuntimeError):
        readers.read(lambda: 1)
