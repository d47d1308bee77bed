"""Functions of a program that uses the daemon run in that program: in time, cancelled with their work, waited for."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.api.doors import WAYS, connected, way_in
from tests.patience import PATIENCE, eventually
from tests.shells.served import Served, served
from tests.teams import write_project

from agent_worker import Agent, NowWaiting, Workers, tool
from agent_worker.api.functions import OwnFunctions
from agent_worker.testing import calls, says


@pytest.fixture(params=WAYS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Workers]]:
    write_project(tmp_path / "project", ["alice"])
    with way_in(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as one:
        yield one


class Order(BaseModel):
    item: str
    count: int = 1


class Shop:
    """Orders things."""

    def __init__(self) -> None:
        self.ordered: list[Order] = []

    async def __call__(self, order: Order) -> Order:
        self.ordered.append(order)
        return order


async def told(workers: Workers, agent: Agent) -> str:
    """What the first call of this agent came to."""
    report = await workers.explain(await workers.ask(agent, "go"))
    return str(report.steps[0]["calls"][0]["result"])


async def test_a_callable_object_with_a_model_as_its_argument_is_a_tool(make: Callable[[], Workers]) -> None:
    shop = Shop()
    ann = Agent("ann", tools=[shop], script=[calls("Shop", order={"item": "tea", "count": 2}), says("done")])
    async with make() as workers:
        assert '"item": "tea"' in await told(workers, ann)
    assert shop.ordered == [Order(item="tea", count=2)]


def test_a_function_that_many_agents_have_is_looked_at_once() -> None:
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    functions = OwnFunctions()
    (one,), (other,) = (functions.take(Agent(name, "mock", tools=[add])) for name in ("one", "other"))
    assert one["schema"] is other["schema"]


async def test_wrong_arguments_are_told_to_the_model(make: Callable[[], Workers]) -> None:
    ann = Agent("ann", tools=[Shop()], script=[calls("Shop", order={"count": "many"}), says("sorry")])
    async with make() as workers:
        assert "order.item is missing" in await told(workers, ann)


async def test_what_a_function_raises_is_told_to_the_model(make: Callable[[], Workers]) -> None:
    def breaks() -> str:
        """Break."""
        raise ValueError("no paper left")

    async with make() as workers:
        ann = Agent("ann", tools=[breaks], script=[calls("breaks"), says("sorry")])
        assert await told(workers, ann) == "breaks failed: ValueError: no paper left"


async def test_a_function_that_takes_too_long_is_given_up(make: Callable[[], Workers]) -> None:
    @tool(within=0.05)
    async def hangs() -> str:
        """Hang."""
        await asyncio.Event().wait()
        return ""

    async with make() as workers:
        ann = Agent("ann", tools=[hangs], script=[calls("hangs"), says("sorry")])
        assert await told(workers, ann) == "hangs did not finish within 0.05 s"


async def test_a_function_ends_with_the_work_that_called_it(daemon: Served) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Wait."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    async with connected(daemon) as workers, asyncio.timeout(PATIENCE):
        team = await workers.start(_team(wait), "@ann go")
        await begun.wait()
        await team.stop()
        await ended.wait()


def _team(function: Callable[..., object]) -> object:
    from agent_worker import Team

    return Team("solo", agents=[Agent("ann", tools=[function], script=[calls("wait"), says("done")])])


PROGRAM = """
import sys
from agent_worker import Agent, connect, tool

@tool(repeatable=%s)
def lookup() -> str:
    '''Look something up.'''
    print("called", flush=True)
    if sys.argv[3] == "stays":
        sys.stdin.read()
    return "found"

script = [{"call": {"tool": "lookup"}}, {"say": "done"}]
with connect(sys.argv[1], home=sys.argv[2], start=False) as workers:
    answer = workers.ask_sync(Agent("ann", tools=[lookup], script=script), "go", key="k")
    print(workers.explain_sync(answer).steps[0]["calls"][0]["result"])
"""


def program(daemon: Served, how: str, *, repeatable: bool) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM % repeatable, str(daemon.project), str(daemon.home), how]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("repeatable", [True, False])
def test_while_its_program_is_gone_the_work_waits_and_goes_on_when_it_is_back(daemon: Served, repeatable: bool) -> None:
    with program(daemon, "stays", repeatable=repeatable) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "called\n"
        os.kill(first.pid, signal.SIGKILL)
        first.communicate()
    waits = eventually(lambda: state_of(daemon, "ann").get("waiting"))
    assert "the Python program that has its tools is gone" in waits["reason"]
    assert waits["until"] - waits["since"] == pytest.approx(15 * 60 * 1e6)
    with program(daemon, "answers", repeatable=repeatable) as second:
        said, _ = second.communicate(timeout=PATIENCE)
    assert said == ("called\nfound\n" if repeatable else UNKNOWN)


UNKNOWN = (
    "The outcome of this call is unknown: the program that made it went away meanwhile. "
    "Check what it did before you make it again.\n"
)


def state_of(daemon: Served, agent: str) -> dict[str, dict[str, str]]:
    _, found = daemon.client.request("GET", daemon.query("/agents"))
    return next((each for each in found if each["name"] == agent), {})


async def test_whoever_follows_is_told_that_it_waits(daemon: Served) -> None:
    with program(daemon, "stays", repeatable=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "called\n"
        async with connected(daemon) as workers:
            events = await workers.events()
            os.kill(first.pid, signal.SIGKILL)
            async for event in events:
                if isinstance(event, NowWaiting) and event.what == "program":
                    break
        first.communicate()
