"""OpenAI's Chat Completions, and what many others make of them: how a turn is asked and an answer is heard.

Where a provider differs is data: `Quirks` in providers.py.
"""

from __future__ import annotations

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
    Stop,
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
from agent_worker.tools.tool import Result, ToolSpec

NAME = "chat"
_STOPS: dict[str, Stop] = {
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "content_filter": "refused",
}
_CALL_FIELDS = frozenset(("index", "id", "type", "function"))


class ChatCompletions:
    path = "/chat/completions"

    def headers(self, route: Route) -> Json:
        return {"authorization": f"Bearer {route.key}"} if route.key else {}

    def body(self, turn: Turn, steps: Sequence[PastStep], route: Route, kept: Fragments) -> bytes:
        fields: Json = {"model": route.model, **turn.settings, "stream": True}
        if turn.max_tokens is not None:
            fields[route.quirks.limit] = turn.max_tokens
        if route.quirks.asks_for_usage:
            fields["stream_options"] = {"include_usage": True}
        system = [encoded({"role": "system", "content": turn.system})] if turn.system else []
        prompt = encoded({"role": "user", "content": turn.prompt})
        messages_of = partial(_messages_of, quirks=route.quirks)
        past = (kept.step(step, messages_of) for step in steps)
        return body_of(fields, {"tools": [kept.tools(turn.tools, _tool)], "messages": [*system, prompt, *past]})

    def listen(self, route: Route) -> ChatListener:
        return ChatListener(route.quirks)

    def raw(self, heard: Heard) -> str:
        extra: Json = {}
        for part in heard.parts:
            if isinstance(part, dict):
                extra |= part
        message = _message(heard.text, [_call_of(call) for call in heard.calls])
        return encoded({NAME: message | extra}).decode()


class ChatListener:
    def __init__(self, quirks: Quirks) -> None:
        self.heard = Heard()
        self._quirks = quirks
        self._extra: Json = {}  # what the model thought, in the provider's own field
        self._calls: dict[object, HeardCall] = {}

    def hear(self, event: Json) -> str:
        if error := event.get("error"):
            raise ToldError(error)
        choices = items(event.get("choices"))
        choice = mapping(choices[0]) if choices else {}
        self._usage(event, choice)
        if stop := words(choice.get("finish_reason")):
            if stop == "error":
                raise ToldError(choice.get("error") or event)
            self.heard.stop = _STOPS.get(stop, "end")
        delta = mapping(choice.get("delta"))
        for call in items(delta.get("tool_calls")):
            self._call(mapping(call))
        self._thinking(delta)
        text = _text(delta.get("content")) + words(delta.get("refusal"))
        return self.heard.say(text) if text else ""

    def _call(self, said: Json) -> None:
        function = mapping(said.get("function"))
        id, name = words(said.get("id")), words(function.get("name"))
        index = place(said.get("index", len(self._calls) if id else max(len(self._calls) - 1, 0)))
        call = self._calls.get(index)
        # Some number all calls alike: another id under the same number is another call.
        if call is None or (id and call.id != id and name):
            call = HeardCall(id or f"call_{len(self.heard.calls)}", name)
            self.heard.parts.append(call)
            self._calls[index] = call
        elif name and not call.tool:
            call.tool = name
        arguments = function.get("arguments")
        call.pieces.append(encoded(arguments).decode() if isinstance(arguments, dict) else words(arguments))
        call.extra |= {name: value for name, value in said.items() if name not in _CALL_FIELDS}

    def _thinking(self, delta: Json) -> None:
        """Take in what the model thought before a call: some providers want it sent back, in its own field."""
        field = self._quirks.thinking
        if not field or not (more := delta.get(field)):
            return
        if not self._extra:
            self.heard.parts.append(self._extra)
        if isinstance(more, list):
            self._extra[field] = [*self._extra.get(field, []), *more]
        else:
            self._extra[field] = words(self._extra.get(field)) + words(more)

    def _usage(self, event: Json, choice: Json) -> None:
        """Take in token counts: most providers tell them at the end, some with every event or in fields of their own;
        the last one counts.
        """
        usage = mapping(event.get("usage") or mapping(event.get("x_groq")).get("usage") or choice.get("usage"))
        if not usage:
            return
        told = self.heard.told
        told.input, told.output = usage.get("prompt_tokens"), usage.get("completion_tokens")
        details = mapping(usage.get("prompt_tokens_details"))
        told.cached = details.get("cached_tokens", usage.get("prompt_cache_hit_tokens"))
        told.usd = usage.get("cost") if self._quirks.tells_cost else None


def _text(content: Any) -> str:
    """The text of a message: some models say it in parts, among others that are no text."""
    if isinstance(content, list):
        return "".join(words(mapping(part).get("text")) for part in content)
    return words(content)


def _tool(spec: ToolSpec) -> Json:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.schema}
    return {"type": "function", "function": function}


def _messages_of(step: PastStep, *, quirks: Quirks) -> Iterator[Json]:
    reply = step.reply
    stored = sent_back(reply.raw, NAME)
    calls = [_call_of(HeardCall(call.id, call.tool, [encoded(call.arguments).decode()])) for call in reply.calls]
    yield stored if isinstance(stored, dict) else _message(reply.text, calls)
    results = [(call.id, result_of(step, call, quirks)) for call in reply.calls]
    for id, result in results:
        yield {"role": "tool", "tool_call_id": id, "content": in_words(result)}
    if pictures := [part for id, result in results for part in _pictures(id, result)]:
        yield {"role": "user", "content": pictures}  # in the result of a tool there may be nothing but text
    if not reply.calls:
        yield {"role": "user", "content": GO_ON}  # a conversation must end with us


def _pictures(id: str, result: Result) -> Iterator[Json]:
    if result.images:
        yield {"type": "text", "text": f"What the call {id} returned:"}
    for image in result.images:
        yield {"type": "image_url", "image_url": {"url": image.url}}


def _message(text: str, calls: list[Json]) -> Json:
    said: Json = {"role": "assistant", "content": text or (None if calls else "")}
    return said | ({"tool_calls": calls} if calls else {})


def _call_of(call: HeardCall) -> Json:
    # As a text that is surely JSON: some refuse the whole conversation for a call that was not.
    function = {"name": call.tool, "arguments": encoded(call.arguments).decode()}
    return {"id": call.id, "type": "function", "function": function, **call.extra}
