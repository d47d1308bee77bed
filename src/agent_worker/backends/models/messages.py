"""Our words for a conversation, turned into the model library's and back.

A past step is turned once and remembered for as long as the step itself lives: the cost of a step must not grow
with the length of the work. What a provider answered is sent back as it came (`Reply.raw`), signatures and all.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from agent_worker.backends.backend import PastStep, Reply, Turn, Usage
from agent_worker.core.errors import Exhausted, Permanent, Transient
from agent_worker.tools.tool import Call

_RESPONSE = TypeAdapter(ModelResponse)

#: More than any model reads or writes at once; what is beyond is a mistake of the provider.
_MOST_TOKENS = 10_000_000
_CHARACTERS_PER_TOKEN = 4
CUT_OFF = "\n\n[cut off: the answer reached its limit of tokens]"


class MessageCache:
    """The past of every run as messages, each step made once. A run is forgotten when one of its steps is."""

    def __init__(self) -> None:
        self._pasts: dict[str, _Past] = {}

    def messages(self, turn: Turn, steps: Sequence[PastStep]) -> list[ModelMessage]:
        past = self._pasts.get(turn.run)
        if past is None or not past.begins(steps):
            past = self._pasts[turn.run] = _Past()
        for step in steps[len(past.ids) :]:
            past.add(step, forget=partial(self._forget, turn.run, past))
        return [ModelRequest(parts=[UserPromptPart(turn.prompt)]), *past.messages]

    def __len__(self) -> int:
        return sum(len(past.ids) for past in self._pasts.values())

    def _forget(self, run: str, past: _Past, _: object) -> None:
        if self._pasts.get(run) is past:
            del self._pasts[run]


class _Past:
    """Steps that were already turned into messages. Does not keep them alive, so an id stands for its step."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.messages: list[ModelMessage] = []
        self._references: list[weakref.ref[PastStep]] = []

    def begins(self, steps: Sequence[PastStep]) -> bool:
        return self.ids == list(map(id, steps[: len(self.ids)]))

    def add(self, step: PastStep, *, forget: Callable[[object], None]) -> None:
        self.ids.append(id(step))
        self.messages.extend(_messages_of(step))
        self._references.append(weakref.ref(step, forget))


def parameters(turn: Turn) -> ModelRequestParameters:
    tools = [
        ToolDefinition(name=spec.name, description=spec.description, parameters_json_schema=spec.schema)
        for spec in turn.tools
    ]
    instructions = [InstructionPart(content=turn.system)] if turn.system else []
    return ModelRequestParameters(function_tools=tools, instruction_parts=instructions)


def settings(turn: Turn) -> ModelSettings:
    if turn.max_tokens is None:
        return ModelSettings(cache=True)
    return ModelSettings(cache=True, max_tokens=turn.max_tokens)


def read_reply(response: ModelResponse, turn: Turn, steps: Sequence[PastStep]) -> Reply:
    """What we keep of an answer. Raises when there is nothing in it to go on with."""
    _refuse_half(response)
    response = _with_distinct_ids(_without_cut_call(response))
    usage = _usage(response, turn, steps)
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    calls = tuple(_call(part) for part in response.parts if isinstance(part, ToolCallPart))
    if response.finish_reason == "length" and not calls:
        if not text:
            raise Exhausted("the model used up its limit of tokens before it said anything", hint="raise max_tokens")
        text += CUT_OFF
    if response.finish_reason == "content_filter" and not text and not calls:
        raise Permanent("the provider refused to answer", hint="say it in other words, or use another model")
    raw = _RESPONSE.dump_json(response, exclude_none=True).decode()
    return Reply(text=text, calls=calls, usage=usage, raw=raw)


def _messages_of(step: PastStep) -> tuple[ModelMessage, ...]:
    reply = step.reply
    if not reply.calls:
        # Two answers in a row are refused by some providers, and a conversation must end with us.
        return (_response_of(reply), ModelRequest(parts=[UserPromptPart("Go on.")]))
    return (_response_of(reply), ModelRequest(parts=[_return_of(step, call) for call in reply.calls]))


def _response_of(reply: Reply) -> ModelResponse:
    try:
        return _RESPONSE.validate_json(reply.raw)
    except ValidationError:
        # Kept by another backend, or by a library whose form has changed since: say the same in plain words.
        parts: list[TextPart | ToolCallPart] = [TextPart(reply.text)] if reply.text else []
        calls = [ToolCallPart(call.tool, call.arguments, call.id) for call in reply.calls]
        return ModelResponse(parts=[*parts, *calls])


def _return_of(step: PastStep, call: Call) -> ToolReturnPart[str]:
    result = step.results.get(call.id)
    if result is None:
        return ToolReturnPart(call.tool, "The call was cut off.", call.id, outcome="interrupted")
    return ToolReturnPart(call.tool, result.text, call.id, outcome="success" if result.ok else "failed")


def _refuse_half(response: ModelResponse) -> None:
    """A stream may end cleanly and too early. Each protocol tells it differently, and none by an error."""
    reason = (response.provider_details or {}).get("finish_reason")
    unfinished = response.state != "complete" and response.finish_reason is None
    unsaid = response.provider_name == "anthropic" and response.finish_reason is None and not reason
    if unfinished or unsaid:
        raise Transient("the provider's answer ended too early")


def _without_cut_call(response: ModelResponse) -> ModelResponse:
    """A call that the limit of tokens cut in the middle must not be made; the calls before it are whole."""
    last = response.parts[-1] if response.parts else None
    if response.finish_reason != "length" or not isinstance(last, ToolCallPart) or _is_whole(last):
        return response
    if not any(isinstance(part, ToolCallPart) for part in response.parts[:-1]):
        raise Exhausted(
            f"the model used up its limit of tokens in the middle of a call of {last.tool_name}",
            hint="raise max_tokens",
        )
    return replace(response, parts=response.parts[:-1])


def _is_whole(part: ToolCallPart) -> bool:
    # Nothing yet and no arguments look the same; taking it for cut off costs a try, not a wrong call.
    arguments = _arguments(part)
    return bool(arguments) and "INVALID_JSON" not in arguments


def _with_distinct_ids(response: ModelResponse) -> ModelResponse:
    """Results are kept by the id of the call, and not every server takes care to make them differ."""
    ids = [part.tool_call_id for part in response.parts if isinstance(part, ToolCallPart)]
    if len(set(ids)) == len(ids):
        return response
    seen: set[str] = set()
    parts = list(response.parts)
    for index, part in enumerate(parts):
        if isinstance(part, ToolCallPart):
            if part.tool_call_id in seen:
                parts[index] = part = replace(part, tool_call_id=f"{part.tool_call_id}-{index}")
            seen.add(part.tool_call_id)
    return replace(response, parts=parts)


def _call(part: ToolCallPart) -> Call:
    return Call(part.tool_call_id, part.tool_name, _arguments(part))


def _arguments(part: ToolCallPart) -> dict[str, Any]:
    # What is no JSON object arrives as the one argument INVALID_JSON; the tool's check tells the model so.
    return part.args_as_dict(raise_if_invalid=False)


def _usage(response: ModelResponse, turn: Turn, steps: Sequence[PastStep]) -> Usage:
    said = response.usage
    output = _tokens(said.output_tokens) or _estimate([_RESPONSE.dump_json(response).decode()])
    read = _tokens(said.input_tokens) or _estimate(_sent(turn, steps))
    cached = min(_tokens(said.cache_read_tokens), read)
    return Usage(input=read, cached=cached, output=output, usd=_price(response, read, cached, output))


def _tokens(said: object) -> int:
    """A count that a provider told us, which may be anything."""
    if not isinstance(said, int | float) or not math.isfinite(said):
        return 0
    return min(max(int(said), 0), _MOST_TOKENS)


def _price(response: ModelResponse, read: int, cached: int, output: int) -> float | None:
    said = response.usage
    if (said.input_tokens, said.cache_read_tokens, said.output_tokens) != (read, cached, output):
        usage = RequestUsage(input_tokens=read, cache_read_tokens=cached, output_tokens=output)
        response = replace(response, usage=usage)
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):  # an unknown model, no usage, no name of the model
        return None


def _sent(turn: Turn, steps: Sequence[PastStep]) -> Iterable[str]:
    yield turn.system
    yield turn.prompt
    for tool in turn.tools:
        yield tool.description
        yield str(tool.schema)
    for step in steps:
        yield step.reply.raw or step.reply.text
        yield from (result.text for result in step.results.values())


def _estimate(texts: Iterable[str]) -> int:
    return min(_MOST_TOKENS, sum(map(len, texts)) // _CHARACTERS_PER_TOKEN + 1)
