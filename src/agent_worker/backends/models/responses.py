"""OpenAI's Responses: how a turn is asked and an answer is heard.

Nothing is stored at the provider (`store: false`): what a model thought comes encrypted and goes back with its calls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from agent_worker.backends.backend import PastStep, Turn
from agent_worker.backends.models.protocol import (
    GO_ON,
    Fragments,
    Heard,
    HeardCall,
    Json,
    ToldError,
    body_of,
    encoded,
    in_words,
    items,
    mapping,
    place,
    result_of,
    sent_back,
    words,
)
from agent_worker.backends.models.providers import Quirks, Route
from agent_worker.core.later import pattern
from agent_worker.tools.tool import Result, ToolSpec

NAME = "responses"
#: Models that think, and can hand over what they thought; others refuse to be asked for it.
_THINKING = pattern(r"(o\d|gpt-[5-9](?!.*-chat)|codex)")
_KEPT = frozenset(("type", "role", "content", "summary", "encrypted_content", "call_id", "name", "arguments", "phase"))


class Responses:
    path = "/responses"

    def headers(self, route: Route) -> Json:
        return {"authorization": f"Bearer {route.key}"} if route.key else {}

    def body(self, turn: Turn, steps: Sequence[PastStep], route: Route, kept: Fragments) -> bytes:
        fields: Json = {"model": route.model, **turn.settings, "stream": True, "store": False}
        if turn.system:
            fields["instructions"] = turn.system
            fields["prompt_cache_key"] = hashlib.sha256(turn.system.encode(errors="replace")).hexdigest()[:32]
        if turn.max_tokens is not None:
            fields["max_output_tokens"] = turn.max_tokens
        if _THINKING.match(route.model):
            fields["include"] = ["reasoning.encrypted_content"]
        prompt = encoded({"role": "user", "content": turn.prompt})
        items_of = partial(_items_of, quirks=route.quirks)
        past = (kept.step(step, items_of) for step in steps)
        return body_of(fields, {"tools": [kept.tools(turn.tools, _tool)], "input": [prompt, *past]})

    def listen(self, route: Route) -> ResponsesListener:
        return ResponsesListener()

    def raw(self, heard: Heard) -> str:
        return encoded({NAME: [_item_of(part) for part in heard.parts]}).decode()


class ResponsesListener:
    def __init__(self) -> None:
        self.heard = Heard()
        self._open: dict[object, Json | HeardCall] = {}
        self._said: set[object] = set()  # items whose text was heard piece by piece

    def hear(self, event: Json) -> str:
        at = place(event.get("output_index"))
        match event.get("type"):
            case "response.output_text.delta" | "response.refusal.delta":
                self._said.add(at)
                return self.heard.say(words(event.get("delta")))
            case "response.function_call_arguments.delta":
                if isinstance(call := self._open.get(at), HeardCall):
                    call.pieces.append(words(event.get("delta")))
            case "response.output_item.added":
                self._begin(at, mapping(event.get("item")))
            case "response.output_item.done":
                return self._whole(at, mapping(event.get("item")))
            case "response.completed" | "response.incomplete":
                return self._end(mapping(event.get("response")))
            case "response.failed":
                response = mapping(event.get("response"))
                self._usage(mapping(response.get("usage")))
                raise ToldError(response.get("error"))
            case "error":
                raise ToldError(event.get("error") or event)
        return ""

    def _begin(self, at: object, item: Json) -> Json | HeardCall:
        if at not in self._open:
            is_call = item.get("type") == "function_call"
            part = HeardCall(words(item.get("call_id")), words(item.get("name"))) if is_call else dict(item)
            self._open[at] = part
            self.heard.parts.append(part)
        return self._open[at]

    def _whole(self, at: object, item: Json) -> str:
        """Take in an item as it is in the end: its last event says all of it once more."""
        part = self._begin(at, item)
        if isinstance(part, HeardCall):
            part.pieces = [words(item.get("arguments"))] if item.get("arguments") else part.pieces
            return ""
        part.clear()
        part |= item
        if at in self._said or item.get("type") != "message":
            return ""
        self._said.add(at)
        return self.heard.say(_text_of(item))

    def _end(self, response: Json) -> str:
        self.heard.is_over = True
        self._usage(mapping(response.get("usage")))
        # Some tell an item only here.
        told = [self._whole(at, mapping(item)) for at, item in enumerate(items(response.get("output")))]
        reason = mapping(response.get("incomplete_details")).get("reason")
        if response.get("status") == "incomplete" or reason:
            self.heard.stop = "refused" if reason == "content_filter" else "length"
        else:
            self.heard.stop = "calls" if self.heard.calls else "end"
        return "".join(told)

    def _usage(self, usage: Json) -> None:
        told = self.heard.told
        told.input, told.output = usage.get("input_tokens"), usage.get("output_tokens")
        told.cached = mapping(usage.get("input_tokens_details")).get("cached_tokens")


def _text_of(item: Json) -> str:
    said = [mapping(part) for part in items(item.get("content"))]
    return "".join(words(part.get("text")) or words(part.get("refusal")) for part in said)


def _tool(spec: ToolSpec) -> Json:
    # Not strict: in that mode every argument would have to be given.
    said = {"name": spec.name, "description": spec.description, "parameters": spec.schema}
    return {"type": "function", **said, "strict": False}


def _items_of(step: PastStep, *, quirks: Quirks) -> Iterator[Json]:
    reply = step.reply
    stored = sent_back(reply.raw, NAME)
    if isinstance(stored, list):
        yield from (item for item in stored if _can_be_sent(item))
    else:
        if reply.text:
            yield {"role": "assistant", "content": reply.text}
        for call in reply.calls:
            yield _function_call(call.id, call.tool, call.arguments)
    for call in reply.calls:
        yield {"type": "function_call_output", "call_id": call.id, "output": _output(result_of(step, call, quirks))}
    if not reply.calls:
        yield {"role": "user", "content": GO_ON}  # a conversation must end with us


def _output(result: Result) -> str | list[Json]:
    if not result.images:
        return in_words(result)
    pictures = [{"type": "input_image", "image_url": image.url} for image in result.images]
    return [{"type": "input_text", "text": in_words(result)}, *pictures]


def _item_of(part: Json | HeardCall) -> Json:
    if isinstance(part, HeardCall):
        return _function_call(part.id, part.tool, part.arguments)
    return {name: value for name, value in part.items() if name in _KEPT and value is not None}


def _function_call(id: str, tool: str, arguments: Json) -> Json:
    return {"type": "function_call", "call_id": id, "name": tool, "arguments": encoded(arguments).decode()}


def _can_be_sent(item: Any) -> bool:
    """What a model thought can be sent back only as it was handed over, encrypted."""
    return isinstance(item, dict) and (item.get("type") != "reasoning" or bool(item.get("encrypted_content")))
