"""The answer of `POST /v1/responses`: whole, or as a stream of events. What an agent used comes as items that are done.

Tools of agents are `mcp_call` items: those were made where the agent runs, and no client takes them for its own task.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from agent_worker.core.errors import AgentWorkerError
from agent_worker.doors.openai.answer import (
    AnswerBegun,
    AnswerEnd,
    AnswerStream,
    AnswerText,
    Telling,
    ToolUse,
    closing_words,
    more_about,
    problem,
)
from agent_worker.doors.openai.request import DoorQuestion
from agent_worker.service.followed import Followed, Served
from agent_worker.service.operation import StreamItem

#: State of ours → why an answer is incomplete, in OpenAI's words or, where they have none, in ours.
_INCOMPLETE = {"incomplete": "max_output_tokens", "limit": "max_output_tokens", "waiting": "waiting_for_person"}


def response(
    id: str, question: DoorQuestion, *, at: int, output: Sequence[dict[str, Any]] = (), served: Served | None = None
) -> dict[str, Any]:
    """The object that a response is, at any moment of its life."""
    state = "in_progress" if served is None else "incomplete" if served.state in _INCOMPLETE else "completed"
    why = _INCOMPLETE.get(served.state) if served else None
    return {
        "id": id,
        "object": "response",
        "created_at": at,
        "status": state,
        "model": question.model,
        "output": list(output),
        "error": None,
        "incomplete_details": {"reason": why} if why else None,
        "instructions": None,
        "metadata": dict(question.metadata),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "text": {"format": {"type": "text"}},
        "previous_response_id": question.previous or None,
        "usage": _usage(served) if served else None,
        "agent_worker": more_about(served) if served else None,
    }


def whole(id: str, question: DoorQuestion, served: Served, uses: Sequence[ToolUse], *, at: int) -> dict[str, Any]:
    output = [*(_used(id, use) for use in uses), _message(f"msg_{id}", closing_words(served))]
    return response(id, question, at=at, output=output, served=served)


class ResponseStream(AnswerStream):
    def __init__(
        self, question: DoorQuestion, telling: Telling, work: Followed, *, at: int, redact: Callable[[str], str]
    ) -> None:
        super().__init__(question, telling, work, at=at, redact=redact)
        self._told = 0
        self._output: list[dict[str, Any]] = []
        self._text: str | None = None  # of the message that is being written; it stands last
        self._calls: dict[int, int] = {}  # a use → its place among the items

    async def __aiter__(self) -> AsyncIterator[Sequence[StreamItem]]:
        try:
            async for told in self._telling:
                match told:
                    case AnswerBegun(id):
                        self._id = f"resp_{id}"
                        yield [self._about("response.created"), self._about("response.in_progress")]
                    case AnswerText(text, begins):
                        yield self._words(text, begins=begins)
                    case ToolUse() as use:
                        yield [*self._end_text("commentary"), *self._use(use)]
                    case AnswerEnd(served):
                        yield [*self._end_text("final_answer"), self._over(served)]
        except AgentWorkerError as error:
            failed = self._response() | {"status": "failed", "error": _failed(error)}
            yield [self._event("response.failed", response=json.loads(self._redact(json.dumps(failed))))]

    def _words(self, text: str, *, begins: bool) -> list[StreamItem]:
        told = self._end_text("commentary") if begins else []
        if self._text is None:
            self._text = ""
            begun = _message(f"msg_{len(self._output)}_{self._id}", "", status="in_progress")
            self._output.append(begun | {"content": []})
            told.append(self._item("response.output_item.added"))
            told.append(self._part("response.content_part.added", part=_part("")))
        self._text += text
        return [*told, self._part("response.output_text.delta", delta=text, logprobs=[])]

    def _end_text(self, phase: str) -> list[StreamItem]:
        if self._text is None:
            return []
        text, self._text = self._text, None
        told = [
            self._part("response.output_text.done", text=text, logprobs=[]),
            self._part("response.content_part.done", part=_part(text)),
        ]
        self._output[-1] = _message(self._output[-1]["id"], text) | {"phase": phase}
        return [*told, self._item("response.output_item.done")]

    def _use(self, use: ToolUse) -> list[StreamItem]:
        item = _used(self._id, use)
        if use.n not in self._calls:
            place = self._calls[use.n] = len(self._output)
            self._output.append(item)
            # Clients put the arguments together from what follows, as of a model that is still writing them.
            begun = self._event("response.output_item.added", output_index=place, item=item | {"arguments": ""})
            return [
                begun,
                self._call("response.mcp_call.in_progress", place),
                self._call("response.mcp_call_arguments.delta", place, delta=use.arguments),
                self._call("response.mcp_call_arguments.done", place, arguments=use.arguments),
            ]
        place = self._calls[use.n]
        self._output[place] = item
        ended = self._call(f"response.mcp_call.{item['status']}", place)
        return [ended, self._item("response.output_item.done", place)]

    def _over(self, served: Served) -> StreamItem:
        made = response(self._id, self._question, at=self._at, output=self._output, served=served)
        return self._event(f"response.{made['status']}", response=made)

    def _about(self, kind: str) -> StreamItem:
        return self._event(kind, response=self._response())

    def _response(self) -> dict[str, Any]:
        return response(self._id, self._question, at=self._at, output=self._output)

    def _item(self, kind: str, place: int | None = None) -> StreamItem:
        place = len(self._output) - 1 if place is None else place
        return self._event(kind, output_index=place, item=self._output[place])

    def _call(self, kind: str, place: int, **more: Any) -> StreamItem:
        return self._event(kind, item_id=self._output[place]["id"], output_index=place, **more)

    def _part(self, kind: str, **more: Any) -> StreamItem:
        place = len(self._output) - 1
        return self._event(kind, item_id=self._output[place]["id"], output_index=place, content_index=0, **more)

    def _event(self, kind: str, **more: Any) -> StreamItem:
        told = {"type": kind, "sequence_number": self._told} | more
        self._told += 1
        return StreamItem(kind, json.dumps(told))


def _message(id: str, text: str, *, status: str = "completed") -> dict[str, Any]:
    return {"type": "message", "id": id, "role": "assistant", "status": status, "content": [_part(text)]}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _used(id: str, use: ToolUse) -> dict[str, Any]:
    status = "in_progress" if use.output is None else "completed" if use.ok else "failed"
    return {
        "type": "mcp_call",
        "id": f"mcp_{use.n}_{id}",
        "server_label": use.agent,
        "name": use.tool,
        "arguments": use.arguments,
        "output": use.output,
        "error": None,
        "status": status,
    }


def _failed(error: AgentWorkerError) -> dict[str, Any]:
    told = problem(error)
    return {"code": "server_error", "message": told["message"]}


def _usage(served: Served) -> dict[str, Any]:
    used = served.usage
    return {
        "input_tokens": used.input,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": used.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used.input + used.output,
    }
