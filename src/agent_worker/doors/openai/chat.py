"""The answer of `POST /v1/chat/completions`: whole, or as a stream of chunks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from agent_worker.core.errors import AgentWorkerError
from agent_worker.doors.openai.answer import (
    AnswerBegun,
    AnswerEnd,
    AnswerStream,
    AnswerText,
    closing_words,
    more_about,
    problem,
)
from agent_worker.doors.openai.request import DoorQuestion
from agent_worker.service.followed import Served
from agent_worker.service.operation import StreamItem

_FINISH = {"incomplete": "length", "limit": "length"}  #: all others stop by themselves


def completion(id: str, question: DoorQuestion, served: Served, *, at: int) -> dict[str, Any]:
    message = {"role": "assistant", "content": closing_words(served), "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _FINISH.get(served.state, "stop")}
    return {
        **_head(id, question, at, "chat.completion"),
        "choices": [choice],
        "usage": _usage(served),
        "agent_worker": more_about(served),
    }


class ChatStream(AnswerStream):
    _id = "chatcmpl-"
    _wrote = False

    async def __aiter__(self) -> AsyncIterator[Sequence[StreamItem]]:
        try:
            async for told in self._telling:
                match told:
                    case AnswerBegun(id):
                        self._id = f"chatcmpl-{id}"
                        yield [self._chunk({"role": "assistant", "content": ""})]
                    case AnswerText(text, begins):
                        yield [self._chunk({"content": f"\n\n{text}" if begins and self._wrote else text})]
                        self._wrote = True
                    case AnswerEnd(served):
                        yield self._end(served)
        except AgentWorkerError as error:
            yield [StreamItem("", self._redact(json.dumps({"error": problem(error)})))]
        yield [StreamItem("", "[DONE]")]

    def _end(self, served: Served) -> list[StreamItem]:
        last = [self._chunk({}, finish=_FINISH.get(served.state, "stop"), more=more_about(served))]
        if self._question.with_usage:
            head = _head(self._id, self._question, self._at, "chat.completion.chunk")
            last.append(StreamItem("", json.dumps(head | {"choices": [], "usage": _usage(served)})))
        return last

    def _chunk(
        self, delta: dict[str, Any], finish: str | None = None, more: dict[str, Any] | None = None
    ) -> StreamItem:
        head = _head(self._id, self._question, self._at, "chat.completion.chunk")
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        told = head | {"choices": [choice]} | ({"agent_worker": more} if more else {})
        return StreamItem("", json.dumps(told))


def _head(id: str, question: DoorQuestion, at: int, kind: str) -> dict[str, Any]:
    return {"id": id, "object": kind, "created": at, "model": question.model}


def _usage(served: Served) -> dict[str, int]:
    used = served.usage
    return {
        "prompt_tokens": used.input,
        "completion_tokens": used.output,
        "total_tokens": used.input + used.output,
    }
