"""A question or the work of a team, followed to its end: what the stream of `run` tells, as typed events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from agent_worker.api.results import Answer, Asked, Asking, InboxItem, StreamEvent, TeamAnswer, event_of, spending_of
from agent_worker.api.teams import Following, team_answer
from agent_worker.client.plain_http import error_of
from agent_worker.core.errors import AgentWorkerError, NotFound, NotRunning, Untrusted

T = TypeVar("T")
_ASKS = ("question", "approval", "vote", "veto")  # kinds of items that work waits for


class Follows(Asking, Following, Protocol):
    """What is needed of the `Workers`."""

    @property
    def project(self) -> str: ...


async def ask_agent(workers: Follows, agent: str, text: str, key: str) -> Answer[str]:
    """The answer to a question, or that it waits for a person."""
    answer: Answer[str] | None = None
    async with closing_stream(follow_agent(workers, agent, text, key, leaves=True, brief=True)) as events:
        async for event in events:  # to its end, which the answer is: what is left in the middle has to be closed
            answer = event if isinstance(event, Answer) else answer
    if answer is not None:
        return answer
    raise NotRunning("it was closed before it had an answer", hint="open it again, and ask")


async def run_team(workers: Follows, team: str, message: str | None, tag: str, params: Mapping[str, str]) -> TeamAnswer:
    """What came of a team, or that it waits for a person."""
    async with closing_stream(follow_team(workers, team, message, tag, params, leaves=True)) as events:
        async for event in events:
            if isinstance(event, TeamAnswer):
                return event
    raise NotRunning("it was closed before the team was done", hint="open it again")


async def follow_agent(
    workers: Follows, agent: str, text: str, key: str, *, leaves: bool, brief: bool = False
) -> AsyncIterator[StreamEvent]:
    """Ask an agent, and yield what happens. With `leaves` it ends where the work waits for a person, with `brief`
    nothing is told before the end.
    """
    request = {"agent": agent, "message": text, "key": key, "leaves": leaves, "brief": brief}
    request["project"] = workers.project
    async with closing_stream(await workers.follow("run", **request)) as items:
        async for data in items:
            if data["event"] == "done":
                yield Answer(
                    data["text"],
                    data["text"],
                    data["state"],
                    data["reason"],
                    spending_of(data["usage"]),
                    await _questions(workers, data["waits_for"]),
                    data["run"],
                    key,
                    lambda: ask_agent(workers, agent, text, key),
                    workers,
                )
            else:
                yield await _event(workers, data)


async def follow_team(
    workers: Follows, team: str, message: str | None, tag: str, params: Mapping[str, str], *, leaves: bool
) -> AsyncIterator[StreamEvent]:
    request = {"workflow": team, "message": message, "tag": tag, "params": dict(params), "leaves": leaves}
    async with closing_stream(await workers.follow("run", **request, project=workers.project)) as items:
        async for data in items:
            if data["event"] != "done":
                yield await _event(workers, data)
            elif "outcome" in data:
                yield team_answer(data | data["usage"], data["text"])
            else:
                spent, asked = spending_of(data["usage"]), await _questions(workers, data["waits_for"])
                yield TeamAnswer(data["text"], data["state"], data["reason"], spent, asked)


async def _event(workers: Follows, data: dict[str, Any]) -> StreamEvent:
    match data:
        case {"event": "error", **error}:
            raise for_program(error_of(500, {"error": error}), workers.project)
        case {"event": "inbox", "id": str(id), "kind": str(kind)} if kind in _ASKS:
            asked = await _questions(workers, [id])
            return Asked(asked[0]) if asked else event_of(data)
    return event_of(data)


def for_program(error: AgentWorkerError, project: str) -> AgentWorkerError:
    """An error as a program is told it: for a missing approval, with what the program's author can do."""
    if not isinstance(error, Untrusted):
        return error
    yes = f"to look at it and approve it, in {project}: agent-worker trust"
    return Untrusted(error.message, hint=f"{yes}; or open it with trust=True, if its files are yours")


async def _questions(workers: Follows, items: list[str]) -> tuple[InboxItem, ...]:
    found = []
    for item in items:
        try:
            found.append(InboxItem.of(await workers.operate("inbox_show", item=item), workers))
        except NotFound:
            continue  # somebody was faster
    return tuple(found)


@asynccontextmanager
async def closing_stream(items: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """Whoever leaves a stream early closes it: nobody follows it any longer."""
    try:
        yield items
    finally:
        await close_stream(items)


async def close_stream(items: AsyncIterator[Any]) -> None:
    close = getattr(items, "aclose", None)
    if close is not None:
        await close()


async def next_of(items: AsyncIterator[T]) -> T | None:
    """The next of these items; None at the end."""
    return await anext(items, None)
