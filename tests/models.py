"""Models for tests: agents of the backend `sdk` on the fake server, and one that only listens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn
from agent_worker.core.clock import TestClock
from agent_worker.core.events import Event, Retrying
from tests.fakes.model_server import ModelServer
from tests.teams import Team

FAMILIES = ["anthropic", "chat"]
MODELS = {"anthropic": "anthropic/claude-sonnet-5", "chat": "openai-chat/gpt-5"}


def sdk(server: ModelServer, mode: str = "script", *, family: str = "anthropic", more: str = "") -> str:
    """The definition of an agent whose model is the fake server. It learns nothing by itself unless `more` says so."""
    more = more if "auto_memory" in more else f"auto_memory: false\n{more}"
    name, suffix = ("anthropic", "") if family == "anthropic" else ("openai-chat", "/v1")
    return (
        f"backend: sdk\nmodel: {MODELS[family]}\nprompt: {{ system: You are a worker. }}\n"
        f"provider: {{ name: {name}, base_url: '{server.url(mode, suffix)}', api_key: $TEST_KEY }}\n{more}"
    )


def sent(server: ModelServer, number: int = -1) -> str:
    """One request as text, to look for words in."""
    return json.dumps(server.requests[number].body, ensure_ascii=False)


def results_in(body: dict[str, Any]) -> list[str]:
    """The results of tool calls in a request to Anthropic, in order."""
    blocks = [b for m in body["messages"] if isinstance(m["content"], list) for b in m["content"]]
    return [json.dumps(b["content"], ensure_ascii=False) for b in blocks if b["type"] == "tool_result"]


def prompt_in(body: dict[str, Any]) -> str:
    """What an agent was asked, in a request to Anthropic."""
    content = body["messages"][0]["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


@dataclass
class Attentive:
    """A model that keeps what it is told and says what it is given to say."""

    says: Callable[[Turn], str] = lambda turn: "ok"
    turns: list[Turn] = field(default_factory=list)

    async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
        self.turns.append(turn)
        return Reply(text=self.says(turn))


@contextmanager
def waits_pass(team: Team) -> Iterator[list[Retrying]]:
    """Whoever has to wait for another try waits on the test's clock, which is at once let run on."""
    seen: list[Retrying] = []
    passing: set[asyncio.Task[None]] = set()
    clock = team.clock
    assert isinstance(clock, TestClock)

    def hear(event: Event) -> None:
        if isinstance(event, Retrying):
            seen.append(event)
            passing.add(asyncio.create_task(passes(event.wait)))

    async def passes(seconds: float) -> None:
        await team.still()  # they wait by now: who looked at the clock while it runs would wait for the rest once more
        await clock.advance(seconds)

    unlisten = team.runtime.bus.listen(hear)
    try:
        yield seen
    finally:
        unlisten()
        for each in passing:
            each.cancel()
