"""What a program gets back: answers, what is told while they are made, and items it can act on. Plain frozen values.

Those that can be acted on know the `Workers` they came from; each of their verbs has a blocking twin.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from agent_worker.api.blocking import Blocking
from agent_worker.core.later import dataclass

T = TypeVar("T")


class Asking(Protocol):
    """What a value needs of the `Workers` it came from."""

    async def operate(self, operation: str, **arguments: Any) -> Any:
        """Call an operation of the runtime."""
        ...

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Await this in a program that does not."""
        ...


@dataclass(frozen=True, slots=True)
class Spending:
    """What an answer has used."""

    input: int = 0  #: tokens
    output: int = 0
    usd: float = 0.0
    estimated: bool = False  #: the money rests on a guess


@dataclass(frozen=True, slots=True)
class InboxItem:
    """Something that waits for a person: a question, a tool call to approve, a failure …"""

    id: str
    kind: str
    text: str
    agent: str = ""
    question: str = ""  #: without who asks, and what can be answered
    options: tuple[str, ...] = ()  #: to choose from; with none, any answer will do
    tool: str = ""  #: that an approval is about
    arguments: Mapping[str, str] = field(default_factory=dict)  #: of that call, as text
    actions: tuple[str, ...] = ()  #: what can be done about it
    workers: Asking | None = field(default=None, repr=False, compare=False)

    async def answer(self, text: str) -> None:
        """Answer a question, or vote."""
        await self._act("answer", text)

    async def approve(self) -> None:
        """Say yes to a tool call, or to what is proposed."""
        await self._act("approve")

    async def deny(self, reason: str = "") -> None:
        """Say no; the agent is told why."""
        await self._act("deny", reason)

    async def dismiss(self) -> None:
        """Close it without doing anything."""
        await self._act("dismiss")

    answer_sync = Blocking(answer)
    approve_sync = Blocking(approve)
    deny_sync = Blocking(deny)
    dismiss_sync = Blocking(dismiss)

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Await this in a program that does not."""
        return self._workers.wait_for(work)

    async def _act(self, action: str, text: str = "") -> None:
        await self._workers.operate("inbox_answer", item=self.id, action=action, text=text)

    @property
    def _workers(self) -> Asking:
        assert self.workers is not None
        return self.workers

    @classmethod
    def of(cls, data: Mapping[str, Any], workers: Asking) -> InboxItem:
        """The item that an operation tells of."""
        names = ("id", "kind", "text", "agent", "question", "tool", "arguments")
        options, actions = tuple(data["options"]), tuple(data["answers"])
        return cls(**{name: data[name] for name in names}, options=options, actions=actions, workers=workers)


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """An agent's answer to a question. Also the last event of a stream."""

    output: T  #: of the type that was asked for: without `output=`, the text
    text: str
    state: str = "done"  #: done | incomplete (a limit was met) | waiting (for a person: see `questions`)
    reason: str = ""
    spent: Spending = Spending()
    questions: tuple[InboxItem, ...] = ()  #: that wait for a person; answer them, then `go_on`
    run: str = ""  #: for `explain`
    key: str = ""  #: asked with it again, this is what is answered
    again: Callable[[], Coroutine[Any, Any, Answer[T]]] | None = field(default=None, repr=False, compare=False)
    workers: Asking | None = field(default=None, repr=False, compare=False)

    async def go_on(self) -> Answer[T]:
        """The answer after its questions were answered."""
        return await self.again() if self.again else self

    async def refuse(self, reason: str) -> None:
        """Refuse this answer: its run then counts as failed, and is reported like any failure."""
        if self.workers and self.run:
            await self.workers.operate("run_refuse", run=self.run, reason=reason)

    def go_on_sync(self) -> Answer[T]:
        """As `go_on`, for a program that does not await."""
        return self.workers.wait_for(self.go_on()) if self.workers else self

    def refuse_sync(self, reason: str) -> None:
        if self.workers:
            self.workers.wait_for(self.refuse(reason))


@dataclass(frozen=True, slots=True)
class TeamAnswer:
    """The result of a team's work. Also the last event of a stream."""

    text: str  #: the last word of a member
    state: str = "done"  #: done | failed | limit | stopped | waiting (for a person: see `questions`)
    reason: str = ""
    spent: Spending = Spending()
    questions: tuple[InboxItem, ...] = ()
    runs: Mapping[str, int] = field(default_factory=dict)  #: by agent, how many ended well
    documents: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TextChunk:
    """Text as it is written."""

    agent: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """An agent calls a tool."""

    agent: str
    tool: str
    arguments: Mapping[str, Any]  #: without secrets; long ones are cut
    call: str = ""  #: the id of the call: its result comes under the same


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """The result of a tool call."""

    agent: str
    tool: str
    text: str
    ok: bool = True
    call: str = ""  #: the id of the call


@dataclass(frozen=True, slots=True)
class StepUsage:
    """A step is done: what it used."""

    agent: str
    tokens: int
    usd: float
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """A person is asked; the work continues with the answer: `await event.item.approve()`."""

    item: InboxItem


@dataclass(frozen=True, slots=True)
class NewMessage:
    """Somebody spoke in a channel."""

    sender: str
    text: str
    seq: int
    mentions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NowWaiting:
    """An agent that has work begins to wait, or (without a reason) waits no longer."""

    agent: str
    what: str  #: model | key | slot | person | disk | retry | program
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RunStarted:
    agent: str
    run: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    agent: str
    run: str
    state: str
    reason: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class OtherEvent:
    """Anything else that happens, as the routes of the daemon tell it (docs/reference/routes.md)."""

    kind: str
    data: Mapping[str, Any]


HappeningEvent: TypeAlias = (
    TextChunk | ToolStarted | ToolFinished | StepUsage | NewMessage | NowWaiting | RunStarted | RunEnded | OtherEvent
)
StreamEvent: TypeAlias = HappeningEvent | Asked | Answer[str] | TeamAnswer


@dataclass(frozen=True, slots=True)
class ChannelMessage:
    """One entry of a channel, or of a conversation."""

    sender: str
    text: str
    seq: int
    at: int  #: microseconds since 1970


@dataclass(frozen=True, slots=True)
class MemoryItem:
    """One thing that an agent remembers."""

    key: str
    value: str
    file: str  #: core, working, archive …
    by: str  #: who says so


@dataclass(frozen=True, slots=True)
class RunReport:
    """Everything about one run: the sections of its prompt, its steps with their calls, its answer."""

    run: str
    agent: str
    state: str
    reason: str
    asked: str
    text: str
    sections: tuple[Mapping[str, Any], ...]
    steps: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Sending:
    """A message that was accepted: it survives a crash."""

    id: str
    woke: tuple[str, ...] = ()  #: who begins to work because of it
    told: str = ""  #: what the sender should know, such as a name that nobody has


def event_of(data: Mapping[str, Any]) -> HappeningEvent:
    """An event as a stream tells it."""
    match data:
        case {"event": "chunk", "name": agent, "text": text}:
            return TextChunk(agent, text)
        case {"event": "tool_call", "name": agent, "tool": tool, "arguments": arguments}:
            return ToolStarted(agent, tool, arguments, data.get("call", ""))
        case {"event": "tool_result", "name": agent, "tool": tool, "text": text, "ok": ok}:
            return ToolFinished(agent, tool, text, ok, data.get("call", ""))
        case {"event": "step", "name": agent, "tokens": tokens, "usd": usd, "estimated": estimated}:
            return StepUsage(agent, tokens, usd, estimated)
        case {"event": "message", "sender": sender, "text": text, "seq": seq}:
            return NewMessage(sender, text, seq, tuple(data.get("mentions", ())))
        case {"event": "waiting", "name": agent, "what": what}:
            return NowWaiting(agent, what, data.get("reason", ""))
        case {"event": "started", "name": agent, "run": run}:
            return RunStarted(agent, run)
        case {"event": "ended", "name": agent, "run": run, "state": state}:
            return RunEnded(agent, run, state, data.get("reason", ""), data.get("text", ""))
    return OtherEvent(str(data.get("event", "")), data)


def spending_of(usage: Mapping[str, Any]) -> Spending:
    return Spending(usage["input"], usage["output"], usage["usd"], usage["estimated"])
