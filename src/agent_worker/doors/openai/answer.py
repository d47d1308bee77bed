"""What comes of a question, as an OpenAI client can be told it: words, tools that were used, and how it ended.

Of one agent the words come as it writes them; of a team, what each member says in the channel. Both forms of answer
(chat.py, responses.py) are made from this.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from typing import Any

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.errors import AgentWorkerError, Permanent
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.doors.openai.request import DoorQuestion
from agent_worker.service.followed import Followed, Served
from agent_worker.service.service import Service
from agent_worker.workspaces.resources import whole_text

_CUT = "resource_read "  # stands in a message whose text is elsewhere


@dataclass(frozen=True, slots=True)
class AnswerBegun:
    id: str  #: by which it can be asked for again


@dataclass(frozen=True, slots=True)
class AnswerText:
    text: str
    begins: bool  #: they are not the same piece of text as the last ones


@dataclass(frozen=True, slots=True)
class ToolUse:
    n: int  #: counts the uses
    agent: str
    tool: str
    arguments: str
    output: str | None = None  #: None while it is used
    ok: bool = True


@dataclass(frozen=True, slots=True)
class AnswerEnd:
    served: Served


Told = AnswerBegun | AnswerText | ToolUse | AnswerEnd


class Telling:
    """Turns the records of work that is followed into `Told` values."""

    def __init__(self, service: Service, loaded: LoadedProject, work: Followed, *, is_team: bool) -> None:
        self._service = service
        self._loaded = loaded
        self._work = work
        self._is_team = is_team
        self._segment = ""  # the text that is being written
        self._broken = True  # the next word begins another
        self._uses = 0
        self._open: dict[tuple[str, str], list[ToolUse]] = defaultdict(list)

    async def __aiter__(self) -> AsyncIterator[Told]:
        """What is told, to the end of the work. Raises the error that it ended with, if it did."""
        async for batch in self._work:
            for item in batch:
                for told in await self._told(json.loads(item.data)):
                    yield told
        served = self._work.result()
        if served.state in ("failed", "stopped"):
            raise Permanent(served.reason or served.state, hint="agent-worker inbox")
        last = closing_words(served)
        if last.strip() and last.strip() != self._segment.strip():
            yield self._words(last, begins=True)
        yield AnswerEnd(served)

    async def _told(self, record: dict[str, Any]) -> list[Told]:
        match record:
            case {"event": "begun"}:
                return [AnswerBegun(record.get("work") or record.get("message") or new_id("x"))]
            case {"event": "chunk", "text": text} if not self._is_team:
                return [self._words(text)]
            case {"event": "message", "kind": "message", "sender": sender} if self._is_team and sender not in (
                "user",
                "system",
            ):
                text = await self._whole(record)
                self._segment = text
                return [AnswerText(f"{sender}: {text}", begins=True)]
            case {"event": "tool_call"}:
                return [self._used(record)]
            case {"event": "tool_result"}:
                return self._returned(record)
            case {"event": "step" | "retry"} if not self._is_team:
                self._broken = True
        return []

    def _words(self, text: str, *, begins: bool = False) -> AnswerText:
        begins = begins or self._broken
        self._segment = text if begins else self._segment + text
        self._broken = False
        return AnswerText(text, begins)

    async def _whole(self, record: dict[str, Any]) -> str:
        text = str(record["text"])
        if _CUT not in text:
            return text
        return await self._service.read(self._loaded, whole_text, record["workspace"], record["seq"])

    def _used(self, record: dict[str, Any]) -> ToolUse:
        self._broken = True
        self._uses += 1
        use = ToolUse(self._uses, record["name"], record["tool"], json.dumps(record["arguments"]))
        self._open[record["run"], record["call"]].append(use)
        return use

    def _returned(self, record: dict[str, Any]) -> list[Told]:
        waiting = self._open[record["run"], record["call"]]
        if not waiting:
            return []
        use = waiting.pop(0)
        return [ToolUse(use.n, use.agent, use.tool, use.arguments, record["text"], record["ok"])]


class AnswerStream:
    """An answer as it comes: what its two forms have in common."""

    _id = ""  #: what the client knows the answer by, once it has begun

    def __init__(
        self, question: DoorQuestion, telling: Telling, work: Followed, *, at: int, redact: Callable[[str], str]
    ) -> None:
        self._question = question
        self._telling = telling
        self._work = work
        self._at = at
        self._redact = redact

    async def close(self) -> None:
        await self._work.close()


def closing_words(served: Served) -> str:
    """The answer; with what it waits for, or was stopped by, where that is not all."""
    if served.state == "done":
        return served.content
    reason = " ".join(served.reason.split())
    waits = f"[waiting for you: {reason}. Answer with: agent-worker inbox]"
    note = waits if served.state == "waiting" else f"[not finished: {reason}]"
    return f"{served.content}\n\n{note}" if served.content else note


def more_about(served: Served) -> dict[str, Any]:
    """The facts about an answer that OpenAI's format has no place for."""
    return {
        "state": served.state,
        "reason": served.reason,
        "waits_for": served.waits_for,
        "woke": served.woke,
        "usd": served.usage.usd,
        "estimated": served.usage.estimated,
    }


def problem(error: AgentWorkerError) -> dict[str, Any]:
    """An error as OpenAI's clients read it, with our hint in the sentence: they show nothing else."""
    message = f"{error.message} ({error.hint})" if error.hint else error.message
    return {"message": message, "type": "invalid_request_error", "param": None, "code": error.code}
