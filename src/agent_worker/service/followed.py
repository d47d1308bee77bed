"""One piece of work, followed to its end: what every way to give work and wait for it has in common.

Above: run.py gives work to agents and teams, channel_run.py says something in a channel. Knows neither of them.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import asdict, field
from typing import Any, TypeVar

from agent_worker.agents.waiting import Waiting
from agent_worker.core.errors import AgentWorkerError, NotRunning
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row
from agent_worker.service.events import EVERYTHING, EventRecord, Filter, Follower, Lagging
from agent_worker.service.operation import StreamItem
from agent_worker.service.service import Service
from agent_worker.workflows.summary import Summary

T = TypeVar("T")

#: After these work goes on, whatever it is; it need not be asked for.
_GOES_ON = frozenset({"queued", "started", "chunk", "tool_call", "tool_result", "step", "retry"})
STOPPING = NotRunning("the daemon is stopping", hint="the work continues when it is started again")


@dataclass(frozen=True, slots=True)
class ToolCall:
    agent: str
    tool: str
    arguments: dict[str, Any]  #: without secrets; long ones are cut
    own: bool = False  #: a coding program used a tool of its own


@dataclass(frozen=True, slots=True)
class UsageTotals:
    input: int = 0  #: tokens
    output: int = 0
    usd: float = 0.0
    estimated: bool = False  #: the money rests on a guess: of a price, or of how many tokens it were


@dataclass(frozen=True, slots=True)
class Served:
    """What came of work that was followed to its end."""

    content: str  #: the answer; of a team, the last word of a member
    tool_calls: list[ToolCall] = field(default_factory=list)
    usage: UsageTotals = field(default_factory=UsageTotals)
    #: Of an agent: done | incomplete | waiting; of a workflow: done | failed | limit | stopped | waiting. What waits
    #: for the person goes on when it is answered.
    state: str = "done"
    reason: str = ""
    summary: Summary | None = None  #: of a workflow
    waits_for: list[str] = field(default_factory=list)  #: the items of the inbox that wait for the person
    run: str = ""  #: of an agent: the run that answered
    woke: list[str] = field(default_factory=list)  #: of what was said in a channel: whom it called on


async def listening(
    service: Service,
    give: Callable[[], Awaitable[T]],
    *,
    until: asyncio.Event | None = None,
    wanted: Filter = EVERYTHING,
) -> tuple[Follower, T]:
    """Give work, or look it up, while all that is `wanted` is heard: what comes of it in the first moment is not
    missed.
    """
    follower = Follower(service, wanted, until=until or service.closing, at=service.runtime.bus.last)
    follower.listen()
    try:
        if signals := service.runtime.signals:  # they know that we watch before they know of the work
            await signals.tell()
        return follower, await give()
    except BaseException:
        follower.close()
        raise


class Followed(ABC):
    """Follows one piece of work; keeps what it used and what came of it."""

    def __init__(self, service: Service, follower: Follower) -> None:
        self._service = service
        self._follower = follower
        self._tools: list[ToolCall] = []
        self._outcome: Served | AgentWorkerError = STOPPING
        self.may_be_over = False  #: it may have ended before it was followed
        self.is_brief = False  #: tells nothing before what ends it
        self.leaves_when_asked = False  #: is it over for whoever follows it, when it waits for the person?

    async def __aiter__(self) -> AsyncIterator[Sequence[StreamItem]]:
        yield [StreamItem("begun", json.dumps({"event": "begun"} | self.begun()))]
        if not (self._may_be_over() and await self._is_over()):
            async with aclosing(self._followed()) as batches:
                async for batch in batches:
                    if shown := await self._shown(batch):
                        yield shown
                    if any(map(self._may_end, batch)) and await self._is_over():
                        break
        if not self.is_brief:
            # It may have ended while the last of it was read: what it said before that is still to come.
            async for batch in self._follower.rest():
                if shown := await self._shown(batch):
                    yield shown
        yield [await self._last()]

    def _may_be_over(self) -> bool:
        """Whether it may be over before it is followed, so that it is worth a look."""
        return self.leaves_when_asked or self.may_be_over

    def _may_end(self, told: EventRecord) -> bool:
        """Whether it may be over after this, so that it is worth a look."""
        return told.kind not in _GOES_ON

    def _lacks_key(self, agent: str) -> Waiting | None:
        """What an agent waits for, if that is a key, which only a person can bring."""
        wait = self._service.runtime.supervisor.waits.of(agent)
        return wait if wait is not None and wait.what == "key" else None

    async def _shown(self, batch: Sequence[EventRecord]) -> list[StreamItem]:
        shown = [told for told in batch if await self._is_part(told)]
        self._tools += [tool_call_of(told) for told in shown if told.kind == "tool_call"]
        return [StreamItem(told.kind, told.text) for told in shown]

    @property
    def outcome(self) -> Served | AgentWorkerError:
        """What came of it, once it was followed to its end."""
        return self._outcome

    def result(self) -> Served:
        if isinstance(self._outcome, AgentWorkerError):
            raise self._outcome
        return self._outcome

    async def so_far(self) -> Served | AgentWorkerError | None:
        """What has come of it, without following it; None while it is worked on."""
        return await self._conclude() if await self._is_over() else None

    async def close(self) -> None:
        self._follower.close()

    async def _followed(self) -> AsyncGenerator[Sequence[EventRecord]]:
        """All events of the work. A reader that is too slow misses live text and tool calls, and nothing else."""
        while True:
            try:
                async with aclosing(aiter(self._follower)) as batches:
                    async for batch in batches:
                        yield batch
                return
            except Lagging:
                self._follower = self._follower.again()

    def be_brief(self) -> None:  # noqa: B027  # a team has no such way: all that happens in it is told
        """Tell nothing before what ends it, where that can be left out."""

    @abstractmethod
    def begun(self) -> dict[str, Any]:
        """The first record: the id of the work, for whoever leaves before its end, and what else is known."""

    @abstractmethod
    async def _is_part(self, told: EventRecord) -> bool:
        """Whether an event belongs to this work."""

    @abstractmethod
    async def _is_over(self) -> bool:
        """Whether nothing more comes of it."""

    @abstractmethod
    async def _conclude(self) -> Served | AgentWorkerError:
        """What came of it, once it is over."""

    async def _last(self) -> StreamItem:
        self._outcome = await self._conclude()
        match self._outcome:
            case Served(summary=summary) as served:
                told: dict[str, Any] = {"event": "done", "text": served.content} | asdict(served)
                del told["content"], told["summary"]
                if summary is not None:
                    told |= asdict(summary) | {"runs": dict(summary.runs), "exit_code": summary.exit_code}
                return StreamItem("done", json.dumps(told))
            case error:
                told = {"code": error.code, "message": error.message, "hint": error.hint}
                told |= {"slip": asdict(error.slip)} if error.slip else {}
                return StreamItem("error", json.dumps({"event": "error"} | told))


def waiting_for(
    items: Sequence[Row],
    keys: Sequence[Waiting | None],
    tools: list[ToolCall],
    usage: UsageTotals,
    content: str = "",
) -> Served:
    """What waits for the person: for their answers, for `keys`, or for both."""
    reason = "; ".join(dict.fromkeys([item["text"] for item in items] + [wait.reason for wait in keys if wait]))
    return Served(content, tools, usage, "waiting", reason, waits_for=[item["id"] for item in items])


def tool_call_of(told: EventRecord) -> ToolCall:
    record = told.record()
    return ToolCall(record["name"], record["tool"], record["arguments"], record["own"])
