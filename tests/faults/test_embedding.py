"""A program that embeds us may be cancelled at any moment: it ends, and nothing of ours goes on without it."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

import agent_worker
from agent_worker.core.clock import TestClock
from agent_worker.core.errors import BackendFailure, NotRunning
from tests.faults.report import LONG, report
from tests.patience import PATIENCE
from tests.teams import write_project

T = TypeVar("T")

OURS = ("writer", "reader", "child-", "tool-")  # names of threads; those of the loop itself end with the loop


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Alice answers; bob is at something that never ends."""
    extra = {"bob": "script: [{ steps: 1, slow: 1h }, { say: done }]\n"}
    write_project(tmp_path / "p", ["alice", "bob"], extra=extra, workflow="limits: { minutes: 30 }\nkickoff: go\n")
    return tmp_path / "p"


async def program(project: Path, home: Path | None = None) -> None:
    """All that a program does with us, once."""
    async with agent_worker.local(project, home=home, clock=TestClock()) as opened:
        team = await opened.start("review")
        await team.send("@bob begin")
        assert (await opened.ask("alice", "hello")).state == "done"
        await team.messages()
        await team.stop()


@types.coroutine
def cancelled_at(coroutine: Coroutine[Any, Any, Any], at: int, until: int) -> Generator[Any, Any, int]:
    """Runs it, and cancels whoever runs it at these of its waits. How many there were."""
    error: BaseException | None = None
    for number in itertools.count(1):
        try:
            awaited = coroutine.throw(error) if error else coroutine.send(None)
        except StopIteration:
            return number - 1
        if at <= number < until:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        try:
            error = None
            yield awaited
        except BaseException as raised:
            error = raised
    raise AssertionError


async def noting(coroutine: Coroutine[Any, Any, int], reached: list[int]) -> None:
    reached.append(await coroutine)


async def left_over() -> list[str]:
    """Tasks that are still there once everybody had the chance to end."""
    for _ in range(20):
        await asyncio.sleep(0)
    return [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def ends(coroutine: Coroutine[Any, Any, Any]) -> type[BaseException] | None:
    """How it ended: by what, or well. Nothing of it is left."""
    task = asyncio.create_task(coroutine)
    await asyncio.wait({task})
    assert await left_over() == []
    return asyncio.CancelledError if task.cancelled() else type(task.exception()) if task.exception() else None


async def whole(coroutine: Coroutine[Any, Any, T]) -> T:
    """Its result. Nothing of it is left."""
    result = await coroutine
    assert await left_over() == []
    return result


@pytest.fixture(autouse=True)
def nothing_is_left() -> Callable[[], bool]:
    """No thread and no process more than there were: other tests may have left theirs to a fixture."""
    threads_before = set(threading.enumerate())
    children_before = set(psutil.Process().children(recursive=True))

    def look() -> bool:
        threads = [each for each in threading.enumerate() if each.name.startswith(OURS) and each not in threads_before]
        for thread in threads:  # one that was told to end may be about to
            thread.join(PATIENCE)
        children = set(psutil.Process().children(recursive=True)) - children_before
        return not children and not any(thread.is_alive() for thread in threads)

    return look


def waits_of(project: Path, home: Path | None = None) -> int:
    async def count() -> int:
        return await asyncio.create_task(cancelled_at(program(project, home), 0, 0))  # type: ignore[arg-type]

    return asyncio.run(count())


@pytest.mark.parametrize("again", [False, True], ids=["once", "again and again"])
@pytest.mark.parametrize("kept", [False, True], ids=["in memory", "on disk"])
def test_R11_a_program_can_be_cancelled_at_every_wait(
    project: Path, tmp_path: Path, kept: bool, again: bool, nothing_is_left: Callable[[], bool]
) -> None:
    waits = waits_of(project, tmp_path / "home" if kept else None)
    assert waits > 10
    first, step = (1, 1) if LONG else (1 + (2 * kept + again) % 3, 3)  # all four together come to every one of them
    for number in range(first, waits + 1, step):
        home = tmp_path / f"home{number}" if kept else None
        until = number + (1000 if again else 1)
        reached: list[int] = []
        how = asyncio.run(ends(noting(cancelled_at(program(project, home), number, until), reached)))  # type: ignore[arg-type]
        if reached and reached[0] < number:
            break  # it had fewer waits than the first time, and was over before
        assert how is asyncio.CancelledError, (number, how)
        assert nothing_is_left(), number
        report.count("R11 waits at which a program was cancelled")


def test_R11_what_was_cancelled_while_it_opened_can_be_opened_again(
    project: Path, tmp_path: Path, nothing_is_left: Callable[[], bool]
) -> None:
    home = tmp_path / "home"
    for number in range(1, 12):
        asyncio.run(ends(cancelled_at(program(project, home), number, number + 1)))  # type: ignore[arg-type]
    assert asyncio.run(ends(program(project, home))) is None
    assert nothing_is_left()


def test_R11_whoever_still_waits_when_it_closes_is_told(project: Path) -> None:
    async def waiting() -> list[Any]:
        tasks: list[asyncio.Task[Any]] = []
        with suppress(ZeroDivisionError):
            await left_by_an_error(tasks)
        return await asyncio.gather(*tasks, return_exceptions=True)

    async def left_by_an_error(tasks: list[asyncio.Task[Any]]) -> None:
        async with agent_worker.local(project, clock=TestClock()) as opened:
            team = await opened.start("review")
            events = await opened.events()

            async def heard() -> int:
                return len([event async for event in events])

            tasks += [asyncio.create_task(each) for each in (opened.ask("bob", "work"), team.quiet(), heard())]
            async for event in await opened.events():
                if isinstance(event, agent_worker.RunStarted):
                    raise ZeroDivisionError

    asked, quiet, heard = asyncio.run(whole(waiting()))
    assert isinstance(asked, NotRunning)
    assert isinstance(quiet, NotRunning)
    assert isinstance(heard, int)


async def busy(project: Path, begun: asyncio.Event) -> None:
    """Asks one who never answers."""
    async with agent_worker.local(project, clock=TestClock()) as opened:
        asking = asyncio.create_task(opened.ask("bob", "work"))
        async for event in await opened.events():
            if isinstance(event, agent_worker.RunStarted):
                begun.set()
                break
        await asking


def test_R11_a_time_limit_around_it_is_kept(project: Path, nothing_is_left: Callable[[], bool]) -> None:
    async def limited() -> None:
        begun = asyncio.Event()
        async with asyncio.timeout(None) as limit:
            begun_then = asyncio.create_task(_when(begun, lambda: limit.reschedule(0)))
            try:
                await busy(project, begun)
            finally:
                begun_then.cancel()

    assert asyncio.run(ends(limited())) is TimeoutError
    assert nothing_is_left()


async def _when(event: asyncio.Event, then: Any) -> None:
    await event.wait()
    then()


def test_R11_a_sibling_that_fails_takes_it_along(project: Path, nothing_is_left: Callable[[], bool]) -> None:
    async def sibling(begun: asyncio.Event) -> None:
        await begun.wait()
        raise ZeroDivisionError

    async def group() -> None:
        begun = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(busy(project, begun))
            tasks.create_task(sibling(begun))

    assert asyncio.run(ends(group())) is ExceptionGroup
    assert nothing_is_left()


def test_R11_whoever_cancels_all_tasks_is_obeyed_by_all(project: Path, nothing_is_left: Callable[[], bool]) -> None:
    """As the end of a loop does: each is asked once, and waited for."""

    async def cancel_all() -> None:
        async with agent_worker.local(project, clock=TestClock()) as opened:
            asking = [asyncio.create_task(opened.ask(agent, "work")) for agent in ("alice", "bob")]
            await asyncio.wait({asking[0]})
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    asyncio.run(whole(cancel_all()))
    assert nothing_is_left()


async def test_R11_a_tool_that_cancels_itself_ends_its_run_and_not_its_agent(tmp_path: Path) -> None:
    source = 'import asyncio\nasync def stop() -> str:\n    """Stops."""\n    raise asyncio.CancelledError\n'
    script = "[{ call: { tool: stop } }, { call: { tool: stop } }, { say: well }]"
    write_project(tmp_path, ["alice"], extra={"alice": f"tools: [./t.py:stop]\nscript: {script}\n"})
    (tmp_path / "t.py").write_text(source)
    async with agent_worker.local(tmp_path) as opened:
        with pytest.raises(BackendFailure, match="CancelledError"):
            await opened.ask("alice", "stop")
        assert (await opened.ask("alice", "again")).state == "done"


SCRIPT = """
import asyncio, signal, sys
import agent_worker

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background would ignore it

async def main():
    async with agent_worker.local(sys.argv[1]) as opened:
        asking = asyncio.ensure_future(opened.ask("bob", "work"))
        async for event in await opened.events():
            if type(event).__name__ == sys.argv[2]:
                break
        print("ready", flush=True)
        await asking

asyncio.run(main())
"""


def interrupted(project: Path, event: str, *, times: int) -> tuple[int, str]:
    """How a program in its own process ends when somebody presses Ctrl-C: its exit code and what it said."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(project), event],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONASYNCIODEBUG": ""},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    children = psutil.Process(process.pid).children(recursive=True)
    for _ in range(times):
        process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE)
    psutil.wait_procs(children, timeout=PATIENCE)
    assert not any(child.is_running() for child in children)
    return process.returncode, said


@pytest.mark.parametrize("times", [1, 2])
def test_R11_ctrl_c_ends_it(project: Path, times: int) -> None:
    code, said = interrupted(project, "RunStarted", times=times)
    assert code == -signal.SIGINT
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert "Exception in thread" not in said


def test_R11_a_loop_that_is_closed_under_us_ends_the_process(project: Path) -> None:
    source = (
        "import asyncio, sys, agent_worker\n"
        "loop = asyncio.new_event_loop()\n"
        "opened = agent_worker.local(sys.argv[1])\n"
        "project = loop.run_until_complete(opened.__aenter__())\n"
        "loop.run_until_complete(project.send('bob', 'work'))\n"
        "loop.close()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", source, str(project)], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ran.returncode == 0
    assert "Exception in thread" not in ran.stderr
