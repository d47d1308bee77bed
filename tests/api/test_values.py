"""Agents and teams as values: from files and back, and what they refuse."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
import yaml

import agent_worker
from agent_worker import Agent, ChannelMessage, McpTools, Team, tool
from agent_worker.api.connected import ROUTES
from agent_worker.core.errors import BadInput, DefinitionError, Refused
from agent_worker.service.catalogue import OPERATIONS
from agent_worker.testing import TestClock, assert_said, calls, fails, says, scripted

SOURCE = '''
def find(word: str) -> str:
    """Find a word."""
    return f"{word} is here"
'''


def function_in(folder: Path) -> Any:
    """A function of a Python file in this folder."""
    (folder / "tools.py").write_text(SOURCE)
    sys.path.insert(0, str(folder))
    try:
        sys.modules.pop("tools", None)
        import tools  # type: ignore[import-not-found]

        return tools.find
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("tools", None)


def test_a_team_of_values_becomes_files_that_work_the_same(tmp_path: Path) -> None:
    find = function_in(tmp_path)
    ann = Agent("ann", system="You look.", soul="finder", tools=[find], script=[calls("find", word="x"), says("yes")])
    files = Team("search", agents=[ann], desk="ann").to_files(tmp_path)
    assert [str(file.relative_to(tmp_path)) for file in files] == [".agents/ann.yaml", ".workflows/search.yaml"]
    written = yaml.safe_load(files[0].read_text())
    assert written["tools"] == ["./tools.py:find"]
    with agent_worker.local(tmp_path, trust=True) as workers:
        answer = workers.ask_sync("ann", "x?")
        assert workers.explain_sync(answer).steps[0]["calls"][0]["result"] == "x is here"
        assert workers.run_sync("search", "x?").state in ("done", "failed")
    again = Agent.from_file(files[0])
    assert (again.name, again.system, again.soul) == ("ann", "You look.", {"role": "finder"})


def test_what_is_there_is_not_overwritten_and_nothing_is_written_half(tmp_path: Path) -> None:
    ann, bob = Agent("ann", script=[says("a")]), Agent("bob", script=[says("b")])
    bob.to_file(tmp_path)
    with pytest.raises(Refused, match=r"bob\.yaml already exists"):
        Team("both", agents=[ann, bob]).to_files(tmp_path)
    assert not (tmp_path / ".agents" / "ann.yaml").exists()


def test_a_function_that_no_file_can_name_is_told_before_anything_is_written(tmp_path: Path) -> None:
    def inner() -> str:
        """Inside."""
        return ""

    with pytest.raises(Refused, match="inner cannot be named in a file"):
        Team("t", agents=[Agent("ann", script=[]), Agent("bob", tools=[inner], script=[])]).to_files(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_missing_or_wrong_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no file"):
        Agent.from_file(tmp_path / "nobody.yaml")
    (tmp_path / "wrong.yaml").write_text("backend: mock\nmodle: x\n")
    with pytest.raises(DefinitionError, match=r"wrong\.yaml:2:1: modle"):
        Agent.from_file(tmp_path / "wrong.yaml")


def test_a_value_as_its_file_would_say_it() -> None:
    @tool(approve=True)
    def pay() -> str:
        """Pay."""
        return ""

    server = McpTools("docs", url="https://mcp.example/mcp")
    ann = Agent("ann", "openai/gpt", tools=[pay, "read_file", server], more={"max_steps": 5})
    assert ann.definition() == {
        "name": "ann",
        "model": "openai/gpt",
        "prompt": {"system": "You are ann, a helpful colleague."},
        "tools": [{"name": "pay", "approve": True}, "read_file"],
        "mcp_servers": {"docs": {"url": "https://mcp.example/mcp"}},
        "max_steps": 5,
    }
    with pytest.raises(BadInput, match="needs exactly one of command, url"):
        Agent("ann", "openai/gpt", tools=[McpTools("docs")]).definition()


def test_a_decorated_function_can_still_be_called() -> None:
    @tool
    def double(x: int) -> int:
        """Double."""
        return 2 * x

    assert double(4) == 8


def test_a_program_that_was_killed_goes_on_and_makes_no_call_twice(tmp_path: Path) -> None:
    """The same program, three times: it dies in its second step, then answers, then is answered from what is kept."""

    source = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from agent_worker import Agent, local\n"
        "log = Path(sys.argv[1]) / 'log'\n"
        "def pay() -> str:\n"
        "    '''Pay.'''\n"
        "    log.open('a').write('paid ')\n"
        "    return 'paid'\n"
        "def die() -> str:\n"
        "    '''Die, the first time.'''\n"
        "    if 'died' not in log.read_text():\n"
        "        log.open('a').write('died ')\n"
        "        os.kill(os.getpid(), 9)\n"
        "    return 'alive'\n"
        "script = [{'call': {'tool': 'pay'}}, {'call': {'tool': 'die'}}, {'say': 'done'}]\n"
        "ann = Agent('ann', tools=[pay, die], script=script)\n"
        "with local(home=sys.argv[1]) as workers:\n"
        "    print(workers.ask_sync(ann, 'go', key='k').text)\n"
    )
    ran = [
        subprocess.run([sys.executable, "-c", source, str(tmp_path)], capture_output=True, text=True, check=False)
        for _ in range(3)
    ]
    assert [(each.returncode, each.stdout) for each in ran] == [(-9, ""), (0, "done\n"), (0, "done\n")]
    assert (tmp_path / "log").read_text() == "paid died "
    assert [each.stderr for each in ran[1:]] == ["", ""]


def test_the_routes_of_a_connection_are_those_of_the_operations() -> None:
    assert {name: (OPERATIONS[name].method, OPERATIONS[name].path) for name in ROUTES} == ROUTES


def test_a_traceback_shows_the_hint() -> None:
    shown = traceback.format_exception(BadInput("that is wrong", hint="write this instead"))
    assert shown[-1].strip() == "write this instead"


def test_every_exported_name_is_there_and_no_other() -> None:
    assert {getattr(agent_worker, name) is not None for name in agent_worker.__all__} == {True}
    assert set(agent_worker.__all__) <= set(dir(agent_worker))
    with pytest.raises(AttributeError, match="no attribute 'open_project'"):
        _ = agent_worker.open_project  # type: ignore[attr-defined]


def test_what_was_said_is_compared_line_by_line() -> None:
    said = [ChannelMessage("user", "hello", 1, 0), ChannelMessage("ann", "hi", 2, 0)]
    assert_said(said, ("user", "hello"), ("ann", "hi"))
    with pytest.raises(AssertionError, match=r"(?s)- ann: bye.*\+ ann: hi"):
        assert_said(said, ("user", "hello"), ("ann", "bye"))


def test_fixtures_for_pytest_work_in_a_suite_of_somebody_else(tmp_path: Path) -> None:

    (tmp_path / "conftest.py").write_text('pytest_plugins = ["agent_worker.pytest_fixtures"]\n')
    (tmp_path / "test_it.py").write_text(
        "from agent_worker import Agent\n"
        "from agent_worker.testing import fails, says, scripted\n"
        "def test_ann(workers, agent_clock):\n"
        "    ann = scripted(Agent('ann', 'openai/gpt'), says('hi'))\n"
        "    assert workers.ask_sync(ann, 'hello').text == 'hi'\n"
        "    assert agent_clock.now().year == 2026\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


async def test_a_rate_limit_is_waited_for_and_a_wrong_key_is_not(tmp_path: Path) -> None:
    clock = TestClock()
    ann = scripted(Agent("ann", "openai/gpt"), fails("overloaded"), says("hi"), fails("permanent"))
    async with agent_worker.local(clock=clock) as workers:
        asking = asyncio.create_task(workers.ask(ann, "hello"))
        while not asking.done():
            await clock.advance(seconds=10)
        assert (await asking).text == "hi"
        with pytest.raises(agent_worker.BackendFailure):
            await workers.ask(ann, "again")
