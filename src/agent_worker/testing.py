"""For tests of programs that use us: a model that plays a script, a clock that stands still, and what was said.

    def test_alice_adds(workers):
        alice = scripted(assistant, calls("add", a=2, b=3), says("It is 5."))
        assert workers.ask_sync(alice, "What is 2 + 3?").text == "It is 5."
        assert_said(workers.messages_sync(alice), ("user", "What is 2 + 3?"), ("alice", "It is 5."))

`pytest_plugins = ["agent_worker.pytest_fixtures"]` brings the fixtures `workers` (agents in this
process, with files in the test's own directory) and `agent_clock`. Everything but the model is the real thing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import ndiff
from typing import Any, Literal

from agent_worker.api.results import ChannelMessage
from agent_worker.api.values import Agent, with_script
from agent_worker.core.clock import TestClock

__all__ = ["TestClock", "assert_said", "calls", "fails", "says", "scripted"]

#: One entry of a script.
ScriptLine = Mapping[str, Any]


def scripted(agent: Agent, *script: ScriptLine) -> Agent:
    """The same agent, with its tools and its prompt, that plays this instead of asking its model.

    A script that is too short fails the run with a sentence that says so.
    """
    return with_script(agent, *script)


def says(text: str) -> ScriptLine:
    """The model answers with this text."""
    return {"say": text}


def calls(tool: str, /, **arguments: Any) -> ScriptLine:
    """The model calls a tool with these arguments."""
    return {"call": {"tool": tool, "with": arguments}}


def fails(how: Literal["transient", "overloaded", "permanent", "resource", "crash"] = "permanent") -> ScriptLine:
    """The model fails: `overloaded` is a 429, `permanent` a wrong key. The first two are tried again."""
    return {"fail": how}


def assert_said(messages: Sequence[ChannelMessage], *expected: tuple[str, str]) -> None:
    """Exactly this was said, by these, in this order. What differs is shown line by line."""
    found = [f"{each.sender}: {each.text}" for each in messages]
    wanted = [f"{who}: {text}" for who, text in expected]
    if found != wanted:
        raise AssertionError("what was said is not what was expected:\n" + "\n".join(ndiff(wanted, found)))
