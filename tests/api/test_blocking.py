"""Programs that do not await, notebooks whose loop is at work, and programs that are interrupted: nobody hangs."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.faults.report import few
from tests.patience import PATIENCE

import agent_worker
from agent_worker import Agent, Answer, Team
from agent_worker.api.blocking import _as_interrupted
from agent_worker.core.errors import NotRunning, Refused
from agent_worker.testing import calls, says

ANN = Agent("ann", script=[says("hi"), says("again")])


def test_every_verb_has_a_blocking_twin() -> None:
    with agent_worker.local() as workers:
        answer = workers.ask_sync(ANN, "hello")
        assert answer.text == "hi"
        assert workers.explain_sync(answer).text == "hi"
        workers.remember_sync(ANN, "city", "Lisbon")
        assert workers.memory_sync(ANN)[0].value == "Lisbon"
        assert workers.inbox_sync() == []
        assert workers.send_sync(ANN, "more").woke == ("ann",)
        team = workers.start_sync(Team("solo", agents=[Agent("bob", script=[says("yes")])]))
        team.send_sync("well?")
        assert team.quiet_sync() == ""
        assert [each.text for each in team.messages_sync()] == ["well?", "yes"]
        assert team.stop_sync().state == "stopped"


def test_a_stream_is_read_without_awaiting_and_may_be_left() -> None:
    with agent_worker.local() as workers:
        events = list(workers.stream_sync(ANN, "hello"))
        assert isinstance(events[-1], Answer)
        for _ in workers.stream_sync(ANN, "once more"):
            break


def test_a_notebook_opens_by_its_first_question_and_closes_when_told() -> None:
    workers = agent_worker.local()
    assert workers.ask_sync(ANN, "hello").text == "hi"
    workers.close()
    workers.close()
    assert workers.ask_sync(ANN, "hello").text == "hi", "opened anew: without a home it has forgotten everything"
    workers.close()


async def test_where_a_loop_is_running_a_blocking_verb_works_in_its_own_thread() -> None:
    with agent_worker.local() as workers:
        assert workers.ask_sync(ANN, "hello").text == "hi"


async def test_a_blocking_verb_in_the_loop_it_would_stop_says_what_to_do() -> None:
    async with agent_worker.local() as workers:
        with pytest.raises(Refused, match="would stop the event loop") as refused:
            workers.ask_sync(ANN, "hello")
        assert "await the method" in refused.value.hint


async def test_one_that_is_open_is_not_opened_again() -> None:
    async with agent_worker.local() as workers:
        with pytest.raises(Refused, match="open already"):
            await workers.__aenter__()
    with pytest.raises(NotRunning):
        await workers.ask(ANN, "hello")


def test_what_goes_wrong_while_it_opens_leaves_no_thread(tmp_path: Path) -> None:
    with agent_worker.local(home=tmp_path):
        workers = agent_worker.local(home=tmp_path)
        with pytest.raises(agent_worker.InUse):
            workers.ask_sync(ANN, "hello")
        with pytest.raises(agent_worker.InUse):
            workers.__enter__()


def test_an_error_inside_closes_it_without_waiting_for_anybody() -> None:
    slow = Agent("slow", script=[{"say": "late", "slow": "1h"}])

    def leave_early() -> None:
        with agent_worker.local() as workers:
            workers.send_sync(slow, "go")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        leave_early()


PROGRAM = """
import signal, sys
from agent_worker import Agent, local
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background would ignore it
slow = Agent("slow", script=[{"say": "late", "slow": "1h"}])
print("ready", flush=True)
%s
"""
WAYS = {
    "in a with block": "with local() as workers:\n    workers.ask_sync(slow, 'go')",
    "without one": "local().ask_sync(slow, 'go')",
    "in a stream": "with local() as workers:\n    for event in workers.stream_sync(slow, 'go'): pass",
}


@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_ends_a_program_that_waits(way: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM % WAYS[way]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONASYNCIODEBUG": ""},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGINT
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert "Exception in thread" not in said


def test_a_program_that_never_closes_ends_all_the_same() -> None:
    source = (
        "from agent_worker import Agent, local\n"
        "workers = local()\n"
        "print(workers.ask_sync(Agent('ann', script=[{'say': 'hi'}]), 'hello').text)\n"
        "workers.send_sync(Agent('slow', script=[{'say': 'late', 'slow': '1h'}]), 'go')\n"
    )
    ran = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "hi\n", "")


def test_one_that_is_forgotten_leaves_no_thread_behind_and_nothing_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def answer() -> str:
        return agent_worker.local().ask_sync(ANN, "hello").text

    before = set(threading.enumerate())
    assert [answer() for _ in range(3)] == ["hi"] * 3
    gc.collect()
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert caplog.messages == []


FORKED = """
import os, sys
from agent_worker import Agent, NotRunning, local
ann = Agent("ann", script=[{"say": "hi"}, {"say": "again"}])
with local() as workers:
    print(workers.ask_sync(ann, "hello").text, flush=True)
    if not (child := os.fork()):
        try:
            workers.ask_sync(ann, "hello")
        except NotRunning as error:
            print(error, flush=True)
    else:
        os.waitpid(child, 0)
        print(workers.ask_sync(ann, "hello").text)
"""


def test_a_forked_process_is_told_to_open_it_itself_and_takes_nothing_with_it() -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    told = "this process was forked from the one that opened it"
    assert (ran.returncode, ran.stdout.splitlines(), ran.stderr) == (0, ["hi", told, "again"], "")


async def test_a_question_whose_asking_was_cancelled_is_still_answered(tmp_path: Path) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Wait."""
        begun.set()
        await goes_on.wait()
        return "waited"

    ann = Agent("ann", tools=[wait], script=[calls("wait"), says("done")])
    async with agent_worker.local(home=tmp_path) as workers:
        asking = asyncio.create_task(workers.ask(ann, "go", key="k"))
        await begun.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        goes_on.set()
        assert (await workers.ask(ann, "go", key="k")).text == "done"


INTERRUPTED = """
import random, signal
from agent_worker import Agent, local
ann = Agent("ann", script=[{"say": "hi"}, {"say": "again"}])
def interrupt(*_): raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
moments, interrupted = random.Random(1), 0
while interrupted < %d:
    try:
        signal.setitimer(signal.ITIMER_REAL, moments.uniform(0.0005, 0.06))
        with local() as workers:
            workers.ask_sync(ann, "hello")
            list(workers.stream_sync(ann, "once more"))
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        interrupted += 1
with local() as workers:
    print(workers.ask_sync(ann, "hello").text)
"""


def test_ctrl_c_at_any_moment_is_what_the_program_sees_and_nothing_is_left_half_closed() -> None:
    """While it opens, asks, streams or closes: no other error, nothing on the screen, and the next one works."""
    source = INTERRUPTED % few(100)
    command = [sys.executable, "-W", "ignore:coroutine:RuntimeWarning", "-c", source]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE * 2, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "hi\n", "")


def test_threads_that_ask_the_first_question_at_once_open_it_once() -> None:
    workers = agent_worker.local()
    each = [Agent(f"a{number}", script=[says(f"{number}")]) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda agent: workers.ask_sync(agent, "who?").text, each)
        assert list(answers) == [f"{number}" for number in range(8)]
    workers.close()


def test_what_one_loop_opened_another_is_told_to_open_itself() -> None:
    workers = agent_worker.local()
    opening, other = asyncio.new_event_loop(), asyncio.new_event_loop()
    opening.run_until_complete(workers.__aenter__())
    with pytest.raises(Refused, match="another event loop"):
        other.run_until_complete(workers.ask(ANN, "hello"))
    assert opening.run_until_complete(workers.ask(ANN, "hello")).text == "hi"
    opening.run_until_complete(workers.__aexit__(None, None, None))
    opening.close()
    other.close()


def test_under_another_library_than_asyncio_it_says_what_works() -> None:
    with pytest.raises(Refused, match="no event loop of asyncio") as refused:
        agent_worker.local().__aenter__().send(None)  # as trio would
    assert "to_thread" in refused.value.hint


def test_ctrl_c_in_the_middle_of_waiting_is_an_interruption_and_no_error_about_a_lock() -> None:
    def wait() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            threading.Lock().release()  # as a condition of `threading` does

    with pytest.raises(KeyboardInterrupt):
        _as_interrupted(wait)()
