"""A team at work, as a program has it in hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import field
from typing import Any, Protocol, TypeVar

from agent_worker.api.blocking import Blocking
from agent_worker.api.results import ChannelMessage, HappeningEvent, Sending, Spending, TeamAnswer, event_of
from agent_worker.core.later import dataclass

T = TypeVar("T")


class Following(Protocol):
    """What a team needs of the `Workers` it came from."""

    async def operate(self, operation: str, **arguments: Any) -> Any: ...
    async def follow(self, operation: str, **arguments: Any) -> AsyncIterator[dict[str, Any]]: ...
    def wait_for(self, work: Coroutine[Any, Any, T]) -> T: ...


@dataclass(frozen=True, slots=True)
class RunningTeam:
    """A team that was started. It stays until it is stopped, even in a later process with the same home."""

    name: str  #: workflow, or workflow:tag
    members: tuple[str, ...]
    directory: str  #: where its files are; '' when it has none
    project: str
    workers: Following = field(repr=False)

    async def send(self, text: str, *, to: str | None = None, key: str | None = None) -> Sending:
        """Say something in the channel, or to one member. The same key is accepted once."""
        address = f"{to or ''}@{self.name}"
        made = await self._operate("send", to=address, message=text, key=key)
        return Sending(made["id"], tuple(made["woke"]), made["told"])

    async def messages(self, *, since: int = 0) -> list[ChannelMessage]:
        """What was said in the channel."""
        found = await self._operate("read", at=f"@{self.name}", since=since, limit=1000)
        return [ChannelMessage(each["sender"], each["text"], each["seq"], each["at"]) for each in found]

    async def events(self) -> AsyncIterator[HappeningEvent]:
        """What happens in it from now on: `async for event in await team.events()`."""
        return happening(await self.workers.follow("events", project=self.project, at=f"@{self.name}"))

    async def quiet(self) -> str:
        """Wait until nobody has anything to do. Returns '', or why the team is paused."""
        return str(await self._operate("workflow_wait", instance=self.name))

    async def resume(self) -> None:
        """Continue after a limit was reached, with a new allowance."""
        await self._operate("workflow_set", instance=self.name, action="resume")

    async def finish(self) -> TeamAnswer:
        """Work until everybody is quiet, then end."""
        return await self._ended(await self._operate("workflow_finish", instance=self.name))

    async def stop(self) -> TeamAnswer:
        """End it now; what is queued or running is cancelled."""
        return await self._ended(await self._operate("workflow_stop", instance=self.name))

    send_sync = Blocking(send)
    messages_sync = Blocking(messages)
    quiet_sync = Blocking(quiet)
    resume_sync = Blocking(resume)
    finish_sync = Blocking(finish)
    stop_sync = Blocking(stop)

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Await this in a program that does not."""
        return self.workers.wait_for(work)

    async def _operate(self, operation: str, **arguments: Any) -> Any:
        return await self.workers.operate(operation, project=self.project, **arguments)

    async def _ended(self, summary: Mapping[str, Any]) -> TeamAnswer:
        said = [each for each in await self.messages() if each.sender not in ("user", "system")]
        return team_answer(summary, said[-1].text if said else "")


def team_answer(summary: Mapping[str, Any], text: str) -> TeamAnswer:
    """A team's end, by the summary that an operation gives of it."""
    return TeamAnswer(
        text,
        state=summary["outcome"],
        reason=summary["reason"],
        spent=Spending(summary["input"], summary["output"], summary["usd"], summary["estimated"]),
        runs=summary["runs"],
        documents=tuple(summary["documents"]),
        failures=tuple(summary["failures"]),
        decisions=tuple(summary["decisions"]),
    )


async def happening(items: AsyncIterator[dict[str, Any]]) -> AsyncIterator[HappeningEvent]:
    """Typed events of a stream that tells everything."""
    async for data in items:
        if data.get("event") != "end":
            yield event_of(data)
