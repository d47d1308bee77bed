"""Anthropic's Messages: how a turn is asked and an answer is heard.

Three marks tell the provider what to keep in its cache: behind the system text (and the tools before it), behind the
prompt, and behind the newest message, where the next step begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from agent_worker.backends.backend import PastStep, Turn
from agent_worker.backends.models.protocol import (
    GO_ON,
    Fragments,
    Heard,
    HeardCall,
    Json,
    Stop,
    ToldError,
    body_of,
    encoded,
    mapping,
    place,
    result_of,
    sent_back,
    words,
)
from agent_worker.backends.models.providers import Quirks, Route
from agent_worker.tools.images import Image
from agent_worker.tools.tool import ToolSpec

NAME = "anthropic"
_VERSION = "2023-06-01"
_MARK: Json = {"cache_control": {"type": "ephemeral"}}
#: Families of models that write less than the others at most; a larger limit of tokens is refused.
_MOST_TOKENS = (("claude-3-5", 8192), ("claude-3-7", 16_384), ("claude-3", 4096), ("claude-2", 4096), ("", 16_384))
_STOPS: dict[str, Stop] = {
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "paused",
    "refusal": "refused",
}


class AnthropicMessages:
    path = "/v1/messages"

    def headers(self, route: Route) -> Json:
        keys = {}
        if route.key and (route.foreign or route.variable == "ANTHROPIC_AUTH_TOKEN"):
            keys["authorization"] = f"Bearer {route.key}"
        elif route.key:
            keys["x-api-key"] = route.key
        return {"anthropic-version": _VERSION, **keys}

    def body(self, turn: Turn, steps: Sequence[PastStep], route: Route, kept: Fragments) -> bytes:
        fields: Json = {
            "model": route.model,
            "max_tokens": turn.max_tokens or _most_tokens(route.model),
            **turn.settings,
            "stream": True,
        }
        if turn.system:
            fields["system"] = [{"type": "text", "text": turn.system, **_MARK}]
        messages_of = partial(_messages_of, quirks=route.quirks)
        past = [kept.step(step, messages_of) for step in steps[:-1]]
        newest = [encoded(message) for message in _marked(messages_of(steps[-1]))] if steps else []
        lists = {
            "tools": [kept.tools(turn.tools, _tool)],
            "messages": [encoded(_user([{"type": "text", "text": turn.prompt, **_MARK}])), *past, *newest],
        }
        return body_of(fields, lists)

    def listen(self, route: Route) -> AnthropicListener:
        return AnthropicListener()

    def raw(self, heard: Heard) -> str:
        return encoded({NAME: [_block_of(part) for part in heard.parts]}).decode()


class AnthropicListener:
    def __init__(self) -> None:
        self.heard = Heard()
        self._open: dict[object, Json | HeardCall] = {}

    def hear(self, event: Json) -> str:
        match event.get("type"):
            case "content_block_delta":
                return self._delta(self._open.get(place(event.get("index"))), mapping(event.get("delta")))
            case "content_block_start":
                return self._start(place(event.get("index")), mapping(event.get("content_block")))
            case "message_start":
                self._usage(mapping(mapping(event.get("message")).get("usage")))
            case "message_delta":
                self._usage(mapping(event.get("usage")))
                if stop := words(mapping(event.get("delta")).get("stop_reason")):
                    self.heard.stop = _STOPS.get(stop, "end")
            case "message_stop":
                self.heard.is_over = True
            case "error":
                raise ToldError(event.get("error"))
        return ""

    def _start(self, index: object, block: Json) -> str:
        part: Json | HeardCall = dict(block)
        if block.get("type") == "tool_use":
            part = HeardCall(words(block.get("id")), words(block.get("name")))
            if given := mapping(block.get("input")):
                part.pieces.append(encoded(given).decode())
        self._open[index] = part
        self.heard.parts.append(part)
        return self.heard.say(words(block.get("text"))) if block.get("type") == "text" else ""

    def _delta(self, part: Json | HeardCall | None, delta: Json) -> str:
        match part, delta.get("type"):
            case HeardCall(), "input_json_delta":
                part.pieces.append(words(delta.get("partial_json")))
            case dict(), "text_delta":
                text = words(delta.get("text"))
                part["text"] = words(part.get("text")) + text
                return self.heard.say(text)
            case dict(), "thinking_delta":
                part["thinking"] = words(part.get("thinking")) + words(delta.get("thinking"))
            case dict(), "signature_delta":
                part["signature"] = words(part.get("signature")) + words(delta.get("signature"))
            case dict(), "input_json_delta":  # of a tool that the provider runs itself
                part["input"] = words(part.get("input")) + words(delta.get("partial_json"))
        return ""

    def _usage(self, usage: Json) -> None:
        """Take in token counts, which come twice: the later ones are of the whole answer. The input they tell excludes
        the cache.
        """
        told = self.heard.told
        written, cached = (usage.get(f"cache_{kind}_input_tokens") for kind in ("creation", "read"))
        if (read := usage.get("input_tokens")) is not None:
            told.input = _sum(read, written, cached)
            told.cached, told.written = cached, written
        if (output := usage.get("output_tokens")) is not None:
            told.output = output


def _sum(*counts: object) -> object:
    numbers = [count for count in counts if isinstance(count, int | float)]
    return sum(numbers) if numbers else None


def _most_tokens(model: str) -> int:
    return next(most for family, most in _MOST_TOKENS if model.startswith(family))


def _tool(spec: ToolSpec) -> Json:
    return {"name": spec.name, "description": spec.description, "input_schema": spec.schema}


def _user(content: list[Json]) -> Json:
    return {"role": "user", "content": content}


def _messages_of(step: PastStep, *, quirks: Quirks) -> Iterator[Json]:
    if blocks := _blocks_of(step):
        yield {"role": "assistant", "content": blocks}
    if step.reply.calls:
        yield _user([_result(step, index, quirks) for index in range(len(step.reply.calls))])
    else:
        yield _user([{"type": "text", "text": GO_ON}])  # a conversation must end with us


def _blocks_of(step: PastStep) -> list[Json]:
    reply = step.reply
    stored = sent_back(reply.raw, NAME)
    if isinstance(stored, list):
        return [block for block in stored if not _empty(block)]
    said = [{"type": "text", "text": reply.text}] if reply.text.strip() else []
    return [*said, *(_tool_use(call.id, call.tool, call.arguments) for call in reply.calls)]


def _block_of(part: Json | HeardCall) -> Json:
    return _tool_use(part.id, part.tool, part.arguments) if isinstance(part, HeardCall) else part


def _tool_use(id: str, tool: str, arguments: Json) -> Json:
    return {"type": "tool_use", "id": _plain(id), "name": tool, "input": arguments}


def _result(step: PastStep, index: int, quirks: Quirks) -> Json:
    call = step.reply.calls[index]
    result = result_of(step, call, quirks)
    pictures = [_picture(image) for image in result.images]
    content = [{"type": "text", "text": result.text}, *pictures] if pictures else result.text
    said = {"type": "tool_result", "tool_use_id": _plain(call.id), "content": content}
    return said if result.ok else said | {"is_error": True}


def _picture(image: Image) -> Json:
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.base64}}


def _empty(block: Any) -> bool:
    """Whether a block of text has no word in it: the API refuses such blocks."""
    return isinstance(block, dict) and block.get("type") == "text" and not words(block.get("text")).strip()


def _plain(id: str) -> str:
    """An id of a call that the API accepts: those of other backends may hold characters that it refuses."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", id)


def _marked(messages: Iterable[Json]) -> list[Json]:
    """The newest messages, with the mark of the cache on the last block."""
    *others, last = messages
    *blocks, block = last["content"]
    return [*others, last | {"content": [*blocks, block | _MARK]}]
