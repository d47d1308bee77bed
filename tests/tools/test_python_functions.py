"""A project's Python function becomes a tool, and cannot take us down."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import pytest

from agent_worker.core import python_function
from agent_worker.core.clock import TestClock
from agent_worker.core.errors import AgentWorkerError, BadInput, Refused
from agent_worker.core.python_function import SHOWN
from agent_worker.database.database import Database
from agent_worker.tools.python_functions import python_tool
from agent_worker.tools.tool import RunIdentity, Tool, ToolContext

CONTEXT = ToolContext(
    RunIdentity(agent="a1", name="alice", project="p1", run="r1", root="i1", hop=0), cast(Database, None), TestClock()
)
SOURCE = '''
from __future__ import annotations
import dataclasses, sys, threading, time
from typing import Literal

@dataclasses.dataclass
class Issue:
    number: int

def find_issue(query: str, limit: int = 5, state: Literal["open", "closed"] = "open") -> list[dict]:
    """Find issues by their words."""
    return [{"query": query, "limit": limit, "state": state, "thread": threading.current_thread().name}]

async def hello(name: str) -> str:
    """Say hello."""
    return f"hello {name}"

def fails(how: str) -> str:
    """Goes wrong."""
    if how == "exit":
        sys.exit(3)
    if how == "stop":
        raise StopIteration
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "timeout":
        raise TimeoutError("their own")
    raise ValueError(f"bad {how}")

async def fails_later() -> str:
    """Goes wrong, async."""
    raise ValueError("later")

def hangs() -> str:
    """Never comes back."""
    threading.Event().wait()

def floods() -> str:
    """Says too much."""
    return "x" * 1_000_000

def odd() -> set:
    """Answers with something that is not JSON."""
    return {Issue(1).number}

def untyped(query) -> str:
    """No type."""

def variadic(*words: str) -> str:
    """Any number."""

def unknown(x: NoSuchType) -> str:
    """A type nobody knows."""

def silent(x: str) -> str:
    return x

not_a_function = 3
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "search.py").write_text(SOURCE)
    return tmp_path


def named(root: Path, function: str) -> Tool:
    return python_tool(f"./tools/search.py:{function}", root=root)


async def use(tool: Tool, **arguments: Any) -> str:
    answer = await tool.function(CONTEXT, **tool.check(arguments))
    assert isinstance(answer, str)
    return answer


async def test_a_function_is_a_tool_with_its_types_and_its_docstring(root: Path) -> None:
    tool = named(root, "find_issue")
    assert (tool.name, tool.spec.description) == ("find_issue", "Find issues by their words.")
    assert (tool.stored, tool.repeatable, tool.personal) == (False, False, True)
    schema = tool.spec.schema
    assert schema["required"] == ["query"]
    assert schema["properties"]["limit"]["type"] == "integer"
    assert schema["properties"]["state"]["enum"] == ["open", "closed"]
    with pytest.raises(BadInput, match="limit"):
        tool.check({"query": "x", "limit": "many"})
    answer = await use(tool, query="crash", limit="3")
    assert '"query": "crash"' in answer
    assert '"limit": 3' in answer


async def test_a_plain_function_runs_in_a_thread_of_its_own(root: Path) -> None:
    assert '"thread": "tool-find_issue"' in await use(named(root, "find_issue"), query="x")


async def test_an_async_function_is_awaited(root: Path) -> None:
    assert await use(named(root, "hello"), name="bob") == "hello bob"


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("x", "fails failed: ValueError: bad x"),
        ("exit", "SystemExit: 3"),
        ("stop", "StopIteration"),
        ("interrupt", "KeyboardInterrupt"),
        ("timeout", "TimeoutError: their own"),
    ],
)
async def test_what_goes_wrong_in_it_is_a_sentence(root: Path, how: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        await use(named(root, "fails"), how=how)


async def test_what_goes_wrong_in_an_async_one_is_a_sentence(root: Path) -> None:
    with pytest.raises(Refused, match="fails_later failed: ValueError: later"):
        await use(named(root, "fails_later"))


async def test_one_that_hangs_is_given_up_and_holds_nothing_up(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_function, "LIMIT", 0.05)
    with pytest.raises(Refused, match="did not finish"):
        await use(named(root, "hangs"))
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "tool-hangs")


async def test_answers_are_text_and_bounded(root: Path) -> None:
    assert len(await use(named(root, "floods"))) < SHOWN + 100
    assert await use(named(root, "odd")) == '"{1}"'


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("untyped", "query has no type"),
        ("variadic", r"\*words"),
        ("unknown", "cannot understand its types: NameError"),
        ("silent", "no docstring"),
        ("missing", "no function missing"),
        ("not_a_function", "no function not_a_function"),
        ("Issue", "no function Issue"),
    ],
)
def test_a_function_that_cannot_be_a_tool_says_why_when_it_is_named(root: Path, function: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        named(root, function)


@pytest.mark.parametrize("reference", ["tools/search.py", "./tools/search.txt:f", "./tools/search.py:a b", ":f"])
def test_a_reference_has_one_form(root: Path, reference: str) -> None:
    with pytest.raises(BadInput, match="is not a Python tool"):
        python_tool(reference, root=root)


@pytest.mark.parametrize("path", ["../outside.py", "/outside.py", "link.py", "linked/outside.py", "missing.py"])
def test_only_files_of_the_project_are_loaded(tmp_path: Path, path: str) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (tmp_path / "outside.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef f() -> str:\n    'x'\n")
    (root / "link.py").symlink_to(tmp_path / "outside.py")
    (root / "linked").symlink_to(tmp_path)
    with pytest.raises(AgentWorkerError):
        python_tool(f"{path}:f", root=root)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("source", ["def f(:", "raise ValueError('x')", "import sys; sys.exit()", "import no_such_m"])
def test_a_file_that_cannot_be_loaded_says_why(tmp_path: Path, source: str) -> None:
    (tmp_path / "a.py").write_text(source)
    with pytest.raises(BadInput, match=r"a\.py cannot be loaded: \w+"):
        python_tool("a.py:f", root=tmp_path)


async def test_a_changed_file_is_loaded_anew(tmp_path: Path) -> None:
    for word in ("one", "two"):
        (tmp_path / "a.py").write_text(f"def f() -> str:\n    'Say it.'\n    return {word!r}\n")
        assert await use(python_tool("a.py:f", root=tmp_path)) == word
