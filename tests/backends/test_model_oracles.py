"""Our three protocols beside the libraries of their vendors: the same conversation sent, the same stream understood.

The libraries are oracles, and installed for these tests only. Where we differ on purpose:
- we mark what Anthropic should cache, and name the limit of tokens that fits the model;
- what OpenAI would keep (`store`) is not kept, and the key of its cache is made from the system text;
- tools are not strict: in that mode every argument would have to be given;
- the ids of items and fields without a value are not sent back.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from random import Random
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model as TheirModel
from pydantic_ai.models import ModelRequestParameters, infer_model
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.tools import ToolDefinition
from tests.fakes.model_protocols import Answer, Anthropic, Ask, Chat, Protocol, Responses
from tests.pictures import png

from agent_worker.backends.backend import PastStep, Reply, Turn
from agent_worker.backends.models.event_stream import EventReader
from agent_worker.backends.models.model_api import PROTOCOLS
from agent_worker.backends.models.protocol import Fragments, Heard
from agent_worker.backends.models.providers import PROVIDERS, Route
from agent_worker.backends.models.reply import reply_of
from agent_worker.tools.images import image_in
from agent_worker.tools.tool import Call, Result, ToolSpec

FAMILIES = ["anthropic", "chat", "responses"]
KINDS = {"anthropic": "anthropic", "chat": "openai-chat", "responses": "openai"}
MODELS = {"anthropic": "claude-sonnet-5", "chat": "gpt-4o", "responses": "gpt-4o"}
FAKES: dict[str, Protocol] = {"anthropic": Anthropic(), "chat": Chat(), "responses": Responses()}
TOOL = ToolSpec("add", "Add numbers.", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30).map(str.strip).filter(bool)
arguments = st.dictionaries(st.sampled_from("abc"), st.integers() | texts | st.lists(st.booleans()), min_size=1)


@st.composite
def past_steps(draw: st.DrawFn) -> list[PastStep]:
    """Steps as any backend may have left them: nothing of a provider's own, results of every kind or none."""
    steps = []
    for number in range(draw(st.integers(0, 3))):
        calls = tuple(Call(f"c{number}_{n}", "add", draw(arguments)) for n in range(draw(st.integers(0, 3))))
        text = draw(texts) if not calls or draw(st.booleans()) else ""
        results = {call.id: Result(draw(texts), draw(st.booleans())) for call in calls}
        steps.append(PastStep(Reply(text, calls), results))
    return steps


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    calls = tuple(Ask("add", draw(arguments), f"c{n}") for n in range(draw(st.integers(0, 3))))
    text = draw(texts | st.text("ab ", min_size=40, max_size=80)) if not calls or draw(st.booleans()) else ""
    return Answer(text, calls, usage=(draw(st.integers(1, 10**6)), draw(st.integers(1, 10**5))))


# --- what is sent


@pytest.mark.parametrize("family", FAMILIES)
@given(steps=past_steps(), system=texts, prompt=texts, most=st.none() | st.integers(1, 9999))
@settings(max_examples=12, deadline=None)
@pytest.mark.timeout(300)  # the libraries take long to import
async def test_a_conversation_is_sent_as_their_library_sends_it(
    family: str, steps: list[PastStep], system: str, prompt: str, most: int | None
) -> None:
    turn = Turn(run="r", system=system, prompt=prompt, tools=(TOOL,), max_tokens=most)
    ours = json.loads(PROTOCOLS[family].body(turn, steps, route(family), Fragments()))
    theirs = await sent_by_their_library(family, turn, steps)
    assert told(family, ours) == told(family, theirs)
    assert ours["stream"] is theirs["stream"] is True
    assert ours["model"] == theirs["model"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.timeout(300)
async def test_pictures_of_a_result_are_sent_as_their_library_sends_them(family: str) -> None:
    images = [image_in(png(size)) for size in (0, 10)]
    call = Call("c1", "add", {"a": 1})
    result = Result("look", images=tuple(filter(None, images)))
    steps = [PastStep(Reply("", (call,)), {call.id: result})]
    turn = Turn(run="r", system="s", prompt="p", tools=(TOOL,))
    ours = json.loads(PROTOCOLS[family].body(turn, steps, route(family), Fragments()))
    theirs = await sent_by_their_library(family, turn, steps)
    assert pictures_in(ours) == pictures_in(theirs)
    assert len(pictures_in(ours)) == 2


def pictures_in(value: Any, *, by: str = "") -> list[tuple[str, str]]:
    """Each picture of a request: whose message it is in, and the picture in the form of the protocol."""
    if isinstance(value, list):
        return [found for each in value for found in pictures_in(each, by=by)]
    if not isinstance(value, dict):
        return []
    by = value.get("role", value.get("type") if value.get("type") in ("tool_result", "function_call_output") else by)
    match value:
        case {"type": "image", "source": dict(source)}:
            return [(by, f"data:{source['media_type']};{source['type']},{source['data']}")]
        case {"type": "image_url", "image_url": {"url": str(url)}} | {"type": "input_image", "image_url": str(url)}:
            return [(by, url)]
    return [found for each in value.values() for found in pictures_in(each, by=by)]


def told(family: str, body: dict[str, Any]) -> list[object]:
    """What a request says, whatever the form: the limit, the tools, then everything that was said, in order."""
    limits = [body.get(name) for name in ("max_completion_tokens", "max_output_tokens")]
    tools = [named(tool.get("function", tool)) for tool in body.get("tools", [])]
    system = body.get("system", body.get("instructions"))
    said = [("system", plain(system))] if system else []
    for message in body.get("messages", body.get("input", [])):
        said += list(SAID[family](message))
    return [limits, tools, *joined(said)]


def joined(said: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Texts of one speaker in a row are one text."""
    result: list[tuple[object, ...]] = []
    for entry in said:
        last = result[-1] if result else ("",)
        if len(entry) == 2 and len(last) == 2 and last[0] == entry[0]:
            result[-1] = (entry[0], f"{last[1]}{entry[1]}")
        else:
            result.append(entry)
    return result


def named(tool: dict[str, Any]) -> tuple[object, ...]:
    schema = tool.get("input_schema") or tool.get("parameters") or {}
    return tool["name"], tool["description"], schema.get("properties"), schema.get("required")


def plain(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content or [])


def said_to_anthropic(message: dict[str, Any]) -> Any:
    content = message["content"]
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        match block["type"]:
            case "text":
                yield message["role"], block["text"]
            case "tool_use":
                yield "call", block["id"], block["name"], block["input"]
            case "tool_result":
                yield "result", block["tool_use_id"], plain(block["content"]), bool(block.get("is_error"))


def said_in_chat(message: dict[str, Any]) -> Any:
    if message["role"] == "tool":
        yield "result", message["tool_call_id"], plain(message["content"])
        return
    if text := plain(message.get("content")):
        yield message["role"], text
    for call in message.get("tool_calls") or []:
        yield "call", call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])


def said_in_responses(item: dict[str, Any]) -> Any:
    match item.get("type", "message"):
        case "message":
            yield item["role"], plain(item["content"])
        case "function_call":
            yield "call", item["call_id"], item["name"], json.loads(item["arguments"])
        case "function_call_output":
            yield "result", item["call_id"], plain(item["output"])


SAID: dict[str, Callable[[dict[str, Any]], Any]] = {
    "anthropic": said_to_anthropic,
    "chat": said_in_chat,
    "responses": said_in_responses,
}


async def sent_by_their_library(family: str, turn: Turn, steps: list[PastStep]) -> dict[str, Any]:
    bodies: list[dict[str, Any]] = []

    def on_the_wire(request: httpx2.Request) -> httpx2.Response:
        bodies.append(json.loads(request.content))
        return streamed(FAKES[family], Answer("ok"))

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(on_the_wire)) as http:
        provider = infer_provider_class(KINDS[family])(api_key="k", http_client=http)  # type: ignore[call-arg]
        model: TheirModel = infer_model(f"{KINDS[family]}:{MODELS[family]}", provider_factory=lambda _: provider)
        tools = [ToolDefinition(name=TOOL.name, description=TOOL.description, parameters_json_schema=TOOL.schema)]
        messages = their_messages(turn, steps)
        limit = {} if turn.max_tokens is None else {"max_tokens": turn.max_tokens}
        async with model.request_stream(messages, limit, ModelRequestParameters(function_tools=tools)) as stream:  # type: ignore[arg-type]
            async for _ in stream:
                pass
    return bodies[0]


def their_messages(turn: Turn, steps: list[PastStep]) -> list[ModelMessage]:
    messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(turn.prompt)], instructions=turn.system)]
    for step in steps:
        said = [TextPart(step.reply.text)] if step.reply.text else []
        calls = [ToolCallPart(call.tool, call.arguments, call.id) for call in step.reply.calls]
        messages.append(ModelResponse(parts=[*said, *calls]))
        results: list[Any] = [their_result(call, step.results[call.id]) for call in step.reply.calls]
        messages.append(ModelRequest(parts=results or [UserPromptPart("Go on.")], instructions=turn.system))
    return messages


def their_result(call: Call, result: Result) -> ToolReturnPart[Any]:
    pictures = [BinaryContent(base64.b64decode(i.base64), media_type=i.media_type) for i in result.images]
    content: Any = [result.text, *pictures] if pictures else result.text
    return ToolReturnPart(call.tool, content, call.id, outcome="success" if result.ok else "failed")


# --- what is heard


@pytest.mark.parametrize("family", FAMILIES)
@given(answer=answers(), seed=st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
@pytest.mark.timeout(300)
async def test_a_stream_is_understood_as_their_library_understands_it(family: str, answer: Answer, seed: int) -> None:
    chance = Random(seed)
    stream = noisy(family, answer, chance)
    heard = hear(family, stream, chance)
    reply = reply_of(heard, PROTOCOLS[family])
    calls = [(call.id, call.tool, call.arguments) for call in reply.calls]
    assert (reply.text, calls, heard.told.input, heard.told.output) == await UNDERSTOOD[family](stream)


def noisy(family: str, answer: Answer, chance: Random) -> bytes:
    """The stream with what a real one has besides: comments, pings, other line ends, events nobody knows."""
    noise = [": keep-alive\n\n"]
    if family == "anthropic":
        noise.append('event: ping\ndata: {"type": "ping"}\n\n')
    events = []
    for name, event in FAKES[family].events(answer, "m"):
        if chance.random() < 0.5:
            events.append(chance.choice(noise))
        event = event | {"some_new_field": {"x": 1}}
        events.append((f"event: {name}\n" if name else "") + f"data: {json.dumps(event)}\n\n")
    if family == "chat":
        events.append("data: [DONE]\n\n")
    return "".join(events).replace("\n", chance.choice(["\n", "\r\n"])).encode()


def hear(family: str, stream: bytes, chance: Random) -> Heard:
    """Cut anywhere."""
    reader, listener = EventReader(), PROTOCOLS[family].listen(route(family))
    while stream:
        size = chance.choice([chance.randint(1, 7), chance.randint(1, 200), len(stream)])
        for event in reader.feed(stream[:size]):
            if event != b"[DONE]":
                listener.hear(json.loads(event))
        stream = stream[size:]
    return listener.heard


async def understood_by_anthropic(stream: bytes) -> tuple[object, ...]:
    from anthropic import AsyncAnthropic

    async with whole(stream) as http, AsyncAnthropic(api_key="k", http_client=http) as client:
        ask: Any = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}
        async with client.messages.stream(**ask) as events:
            message = await events.get_final_message()
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = [(block.id, block.name, block.input) for block in message.content if block.type == "tool_use"]
    return text, calls, message.usage.input_tokens, message.usage.output_tokens


async def understood_in_chat(stream: bytes) -> tuple[object, ...]:
    from openai import AsyncOpenAI

    async with whole(stream) as http, AsyncOpenAI(api_key="k", http_client=http) as client:
        ask: Any = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
        async with client.chat.completions.stream(**ask) as events:
            completion = await events.get_final_completion()
    message = completion.choices[0].message
    calls = [(c.id, c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or []]
    assert completion.usage is not None
    return message.content or "", calls, completion.usage.prompt_tokens, completion.usage.completion_tokens


async def understood_in_responses(stream: bytes) -> tuple[object, ...]:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(api_key="k", http_client=whole(stream))
    async with client, client.responses.stream(model="m", input="x") as events:
        response = await events.get_final_response()
    calls = [(i.call_id, i.name, json.loads(i.arguments)) for i in response.output if i.type == "function_call"]
    assert response.usage is not None
    return response.output_text, calls, response.usage.input_tokens, response.usage.output_tokens


UNDERSTOOD: dict[str, Callable[[bytes], Any]] = {
    "anthropic": understood_by_anthropic,
    "chat": understood_in_chat,
    "responses": understood_in_responses,
}


def route(family: str) -> Route:
    provider = PROVIDERS[KINDS[family]]
    return Route(
        provider=provider.name,
        model=MODELS[family],
        speaks=provider.speaks,
        base_url=provider.base_url,
        key="k",
        variable="",
        foreign=False,
        local=False,
        quirks=provider.quirks,
    )


def streamed(protocol: Protocol, answer: Answer) -> httpx2.Response:
    lines = []
    for name, event in protocol.events(answer, "m"):
        lines.append((f"event: {name}\n" if name else "") + f"data: {json.dumps(event)}\n\n")
    return _stream("".join(lines).encode())


def whole(stream: bytes) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.MockTransport(lambda request: _stream(stream)))


def _stream(content: bytes) -> httpx2.Response:
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=content)
