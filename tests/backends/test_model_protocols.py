"""The three protocols by themselves: what is sent, and what is understood of streams that real providers make."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from tests.fakes.model_protocols import Answer, Anthropic, Ask, Chat, Protocol, Responses
from tests.pictures import PNG_TEXT

from agent_worker.backends.backend import PastStep, Reply, Turn
from agent_worker.backends.models.chat_completions import ChatCompletions
from agent_worker.backends.models.model_api import PROTOCOLS
from agent_worker.backends.models.prices import FREE
from agent_worker.backends.models.protocol import NOT_SHOWN, Fragments, Heard, Json, ToldError
from agent_worker.backends.models.providers import AS_NAMED, PROVIDERS, Endpoint, Route, route
from agent_worker.backends.models.reply import reply_of, usage_of
from agent_worker.core.errors import BackendFailure, Permanent, Transient
from agent_worker.tools.images import image_of
from agent_worker.tools.tool import Call, Result, ToolSpec

TURN = Turn(run="r", system="Be brief.", prompt="Hi.", tools=(ToolSpec("add", "Add.", {"type": "object"}),))


def where(spec: str) -> Route:
    name = spec.partition("/")[0]
    return route(spec, AS_NAMED, env={PROVIDERS[name].variables[0]: "k"})


def hear(spec: str, *events: Json) -> Heard:
    listener = PROTOCOLS[where(spec).speaks].listen(where(spec))
    for event in events:
        listener.hear(event)
    return listener.heard


def replied(spec: str, *events: Json) -> Reply:
    return reply_of(hear(spec, *events), PROTOCOLS[where(spec).speaks])


def body(spec: str, *steps: PastStep, **changes: Any) -> dict[str, Any]:
    made = PROTOCOLS[where(spec).speaks].body(replace(TURN, **changes), steps, where(spec), Fragments())
    sent: dict[str, Any] = json.loads(made)
    return sent


def delta(**fields: Any) -> Json:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def ended(reason: str = "stop") -> Json:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def block(index: int, start: Json, *deltas: Json) -> list[Json]:
    said = [{"type": "content_block_delta", "index": index, "delta": each} for each in deltas]
    return [{"type": "content_block_start", "index": index, "content_block": start}, *said]


STOP: Json = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}


# --- what a model thought


def test_what_claude_thought_goes_back_with_its_signature() -> None:
    thinking = block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Let me "},
        {"type": "thinking_delta", "thinking": "see."},
        {"type": "signature_delta", "signature": "abc"},
    )
    hidden = block(1, {"type": "redacted_thinking", "data": "xyz"})
    call = block(2, {"type": "tool_use", "id": "t1", "name": "add", "input": {}})
    reply = replied("anthropic/claude-x", *thinking, *hidden, *call, STOP)
    assert reply.text == ""
    sent = body("anthropic/claude-x", PastStep(reply, {"t1": Result("3")}))["messages"][1]
    assert sent["content"] == [
        {"type": "thinking", "thinking": "Let me see.", "signature": "abc"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "tool_use", "id": "t1", "name": "add", "input": {}},
    ]


def test_what_openai_thought_goes_back_encrypted_or_not_at_all() -> None:
    items: list[Json] = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "xyz", "status": None},
        {"type": "reasoning", "id": "rs_2", "summary": []},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "add", "arguments": '{"a":1}'},
    ]
    events = [{"type": "response.output_item.done", "output_index": n, "item": item} for n, item in enumerate(items)]
    end: Json = {"type": "response.completed", "response": {"status": "completed", "output": items}}
    reply = replied("openai/gpt-5", *events, end)
    sent = body("openai/gpt-5", PastStep(reply, {"c1": Result("3")}))
    assert sent["input"][1:] == [
        {"type": "reasoning", "summary": [], "encrypted_content": "xyz"},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "3"},
    ]
    assert sent["store"] is False


@pytest.mark.parametrize(
    ("model", "thinks"),
    [("gpt-5", True), ("gpt-5.2-mini", True), ("o3", True), ("gpt-4o", False), ("gpt-5-chat-latest", False)],
)
def test_only_models_that_think_are_asked_for_what_they_thought(model: str, thinks: bool) -> None:
    assert ("include" in body(f"openai/{model}")) is thinks


@pytest.mark.parametrize(
    ("spec", "field", "pieces", "back"),
    [
        ("deepseek/deepseek-x", "reasoning_content", ["Let me ", "see."], "Let me see."),
        ("moonshotai/kimi-x", "reasoning_content", ["Hm."], "Hm."),
        ("openrouter/a/b", "reasoning_details", [[{"n": 1}], [{"n": 2}]], [{"n": 1}, {"n": 2}]),
        ("groq/llama-x", "reasoning", ["Hm."], None),
        ("openai-chat/gpt-x", "reasoning_content", ["Hm."], None),
    ],
)
def test_who_wants_back_what_it_thought_gets_it_back(spec: str, field: str, pieces: list[Any], back: object) -> None:
    call = delta(tool_calls=[{"index": 0, "id": "c1", "function": {"name": "add", "arguments": "{}"}}])
    reply = replied(spec, *(delta(**{field: piece}) for piece in pieces), call, ended("tool_calls"))
    assert reply.text == ""
    assert body(spec, PastStep(reply, {"c1": Result("3")}))["messages"][2].get(field) == back


# --- quirks


@pytest.mark.parametrize("name", PROVIDERS)
def test_the_limit_of_tokens_has_the_name_that_the_provider_knows(name: str) -> None:
    limits = body(f"{name}/m", max_tokens=77).keys() & {"max_tokens", "max_completion_tokens", "max_output_tokens"}
    own = {"openai": "max_output_tokens", "openai-chat": "max_completion_tokens"}
    assert limits == {own.get(name, "max_tokens")}


@pytest.mark.parametrize("name", [name for name, provider in PROVIDERS.items() if provider.speaks == "chat"])
def test_usage_is_asked_for_where_the_question_is_allowed(name: str) -> None:
    assert ("stream_options" in body(f"{name}/m")) is (name != "mistral")


@pytest.mark.parametrize(
    ("spec", "event", "told"),
    [
        ("groq/m", {"choices": [], "x_groq": {"usage": {"prompt_tokens": 7, "completion_tokens": 3}}}, (7, 0, 3)),
        (
            "moonshotai/m",
            {"choices": [{"delta": {}, "usage": {"prompt_tokens": 7, "completion_tokens": 3}}]},
            (7, 0, 3),
        ),
        (
            "deepseek/m",
            {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "prompt_cache_hit_tokens": 5}},
            (7, 5, 3),
        ),
        (
            "xai/m",
            {
                "choices": [],
                "usage": {
                    "prompt_tokens": 7,
                    "completion_tokens": 3,
                    "prompt_tokens_details": {"cached_tokens": 4},
                },
            },
            (7, 4, 3),
        ),
    ],
)
def test_usage_is_found_wherever_a_provider_tells_it(spec: str, event: Json, told: tuple[int, int, int]) -> None:
    earlier: Json = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    usage = usage_of(hear(spec, delta(content="hi"), earlier, ended(), event), TURN, (), None)
    assert (usage.input, usage.cached, usage.output) == told


def test_what_openrouter_says_a_request_has_cost_is_believed_and_of_others_it_is_not() -> None:
    event: Json = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "cost": 0.25}}
    assert usage_of(hear("openrouter/m", ended(), event), TURN, (), None).usd == 0.25
    assert usage_of(hear("together/m", ended(), event), TURN, (), None).usd is None


def test_what_a_server_of_ones_own_says_a_request_has_cost_is_believed_and_far_away_it_is_not() -> None:
    event: Json = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "cost": 0.25}}
    assert usage_of(hear("ollama/m", ended(), event), TURN, (), FREE).usd == 0.25
    assert usage_of(hear("ollama/m", ended()), TURN, (), FREE).usd == 0
    far = Endpoint("ollama", "https://ollama.example/v1")
    listener = ChatCompletions().listen(route("m", far, env={}))
    listener.hear(event)
    assert listener.heard.told.usd is None


def test_tokens_that_claude_read_from_its_cache_are_part_of_the_input() -> None:
    told = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 300,
        "output_tokens": 1,
    }
    heard = hear("anthropic/c", {"type": "message_start", "message": {"usage": told}}, STOP)
    usage = usage_of(heard, TURN, (), None)
    assert (usage.input, usage.cached, usage.output) == (330, 300, 5)


# --- calls


def test_calls_that_share_a_number_are_told_apart_by_their_ids() -> None:
    calls = [{"index": 0, "id": f"c{n}", "function": {"name": "add", "arguments": f'{{"a":{n}}}'}} for n in range(2)]
    reply = replied("google/gemini-x", delta(tool_calls=[calls[0]]), delta(tool_calls=[calls[1]]), ended("tool_calls"))
    assert [(call.id, call.arguments) for call in reply.calls] == [("c0", {"a": 0}), ("c1", {"a": 1})]


def test_calls_without_ids_or_numbers_or_with_whole_objects_are_calls() -> None:
    said: list[Json] = [{"function": {"name": "add", "arguments": {"a": 1}}}]
    reply = replied("ollama/m", delta(tool_calls=said), ended("tool_calls"))
    assert [(call.tool, call.arguments) for call in reply.calls] == [("add", {"a": 1})]
    assert reply.calls[0].id


def test_calls_that_come_interleaved_are_each_put_together() -> None:
    start = [{"index": n, "id": f"c{n}", "function": {"name": "add", "arguments": ""}} for n in range(2)]
    pieces = [
        {"index": n, "function": {"arguments": text}} for n, text in [(1, '{"b"'), (0, '{"a"'), (1, ":1}"), (0, ":0}")]
    ]
    reply = replied("openai-chat/m", delta(tool_calls=start), *(delta(tool_calls=[p]) for p in pieces), ended())
    assert [call.arguments for call in reply.calls] == [{"a": 0}, {"b": 1}]


def test_what_a_provider_hangs_on_a_call_goes_back_with_it() -> None:
    signature = {"google": {"thought_signature": "xyz"}}
    call = {"index": 0, "id": "c0", "function": {"name": "add", "arguments": "{}"}, "extra_content": signature}
    reply = replied("google/gemini-x", delta(tool_calls=[call]), ended("tool_calls"))
    sent = body("google/gemini-x", PastStep(reply, {"c0": Result("3")}))["messages"][2]
    assert sent["tool_calls"][0]["extra_content"] == signature


# --- ends


def test_an_answer_that_pauses_wants_to_be_asked_again() -> None:
    pause: Json = {"type": "message_delta", "delta": {"stop_reason": "pause_turn"}}
    assert replied("anthropic/c", *block(0, {"type": "text", "text": "Searching."}), pause).more


@pytest.mark.parametrize(
    ("spec", "events"),
    [
        ("anthropic/c", [{"type": "message_delta", "delta": {"stop_reason": "refusal"}}]),
        ("openai-chat/m", [ended("content_filter")]),
        (
            "openai/m",
            [{"type": "response.incomplete", "response": {"incomplete_details": {"reason": "content_filter"}}}],
        ),
    ],
)
def test_an_answer_that_a_filter_held_back_is_a_refusal(spec: str, events: list[Json]) -> None:
    with pytest.raises(Permanent, match="refused"):
        replied(spec, *events)


@pytest.mark.parametrize(
    ("spec", "events"),
    [
        ("openai-chat/m", [delta(refusal="I can't "), delta(refusal="do that."), ended()]),
        (
            "openai/m",
            [
                {"type": "response.refusal.delta", "output_index": 0, "delta": "I can't do that."},
                {"type": "response.completed", "response": {"status": "completed"}},
            ],
        ),
    ],
)
def test_a_model_that_says_no_is_heard(spec: str, events: list[Json]) -> None:
    assert replied(spec, *events).text == "I can't do that."


def test_an_item_that_is_told_only_at_the_end_is_heard_once() -> None:
    said: Json = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "All is well."}]}
    end: Json = {"type": "response.completed", "response": {"status": "completed", "output": [said]}}
    done: Json = {"type": "response.output_item.done", "output_index": 0, "item": said}
    piece: Json = {"type": "response.output_text.delta", "output_index": 0, "delta": "All is well."}
    for events in ([end], [done, end], [piece, done, end]):
        assert replied("openai/m", *events).text == "All is well."


@pytest.mark.parametrize("spec", ["anthropic/c", "openai-chat/m", "openai/m"])
@pytest.mark.parametrize(
    "event",
    [
        {},
        {"type": None},
        {"type": "content_block_delta"},
        {"choices": "x"},
        {"choices": [None]},
        {"type": "response.completed"},
    ],
)
def test_an_event_of_any_shape_breaks_nothing(spec: str, event: Json) -> None:
    heard = hear(spec, event)
    if heard.stop is None:
        with pytest.raises(Transient, match="too early"):
            reply_of(heard, PROTOCOLS[where(spec).speaks])


NONSENSE: list[Any] = [None, True, 7, -0.5, "x", [], [None, [{}]], {"a": {}}]


def deformed(value: Any) -> Iterator[Any]:
    """The same value with one place of it, each in turn, holding something else."""
    yield from NONSENSE
    if isinstance(value, list):
        yield from ([*value[:at], other, *value[at + 1 :]] for at, each in enumerate(value) for other in deformed(each))
    if isinstance(value, dict):
        yield from (value | {name: other} for name, each in value.items() for other in deformed(each))


@pytest.mark.parametrize(
    ("spec", "protocol"),
    [("anthropic/c", Anthropic()), ("openai-chat/m", Chat()), ("deepseek/m", Chat()), ("openai/m", Responses())],
)
def test_a_stream_with_something_else_in_any_one_place_is_an_answer_or_a_failure(spec: str, protocol: Protocol) -> None:
    events = [event for _, event in protocol.events(Answer("Yes.", (Ask("add", {"a": 1}), Ask("add", {}))), "m")]
    for at, event in enumerate(events):
        for other in filter(lambda made: isinstance(made, dict), deformed(event)):
            with suppress(ToldError, BackendFailure):
                reply = replied(spec, *events[:at], other, *events[at + 1 :])
                body(spec, PastStep(reply))


@pytest.mark.parametrize(
    ("spec", "event"),
    [
        ("anthropic/c", {"type": "error", "error": {"type": "overloaded_error"}}),
        ("openai-chat/m", {"error": {"code": 502}}),
        ("openrouter/m", ended("error")),
        ("openai/m", {"type": "error", "code": "server_error"}),
        ("openai/m", {"type": "response.failed", "response": {"error": {"code": "rate_limit_exceeded"}}}),
    ],
)
def test_an_error_in_a_stream_is_an_error(spec: str, event: Json) -> None:
    with pytest.raises(ToldError):
        hear(spec, event)


# --- settings


@pytest.mark.parametrize("spec", ["anthropic/c", "openai-chat/m", "openai/m"])
def test_settings_of_the_model_are_sent_as_they_are_written(spec: str) -> None:
    settings = {"temperature": 0.2, "reasoning": {"effort": "low"}}
    assert body(spec, settings=settings).items() >= settings.items()


def test_anthropic_is_told_what_to_keep_in_its_cache() -> None:
    reply = Reply("", raw="")
    sent = body("anthropic/c", PastStep(replace(reply, text="a")), PastStep(replace(reply, text="b")))
    marked = [b for m in sent["messages"] for b in m["content"] if "cache_control" in b]
    assert "cache_control" in sent["system"][0]
    assert marked == [sent["messages"][0]["content"][0], sent["messages"][-1]["content"][-1]]


@pytest.mark.parametrize(
    ("model", "most"), [("claude-3-haiku", 4096), ("claude-3-5-sonnet", 8192), ("claude-x", 16384)]
)
def test_anthropic_is_told_a_limit_of_tokens_that_the_model_can_keep(model: str, most: int) -> None:
    assert body(f"anthropic/{model}")["max_tokens"] == most
    assert body(f"anthropic/{model}", max_tokens=9)["max_tokens"] == 9


# --- pictures


def seen(spec: str) -> str:
    """The last message of a request whose step has returned two pictures, and one that failed none."""
    image = image_of(PNG_TEXT)
    assert image
    step = PastStep(
        Reply("", (Call("a", "look", {}), Call("b", "look", {}))),
        {"a": Result("[image]", images=(image, image)), "b": Result("no", ok=False)},
    )
    return json.dumps(body(spec, step)).replace(PNG_TEXT, "PNG")


@pytest.mark.parametrize("spec", [f"{name}/m" for name, each in PROVIDERS.items() if each.quirks.images])
def test_a_provider_that_can_be_shown_pictures_is_shown_them(spec: str) -> None:
    assert seen(spec).count("PNG") == 2
    assert NOT_SHOWN not in seen(spec)


@pytest.mark.parametrize("spec", [f"{name}/m" for name, each in PROVIDERS.items() if not each.quirks.images])
def test_another_one_is_told_that_there_is_one_it_cannot_see(spec: str) -> None:
    assert "PNG" not in seen(spec)
    assert seen(spec).count(NOT_SHOWN) == 2
    assert "image_url" not in seen(spec)


def test_in_chat_pictures_follow_the_results_in_the_words_of_nobody_else() -> None:
    *_, first, second, pictures = json.loads(seen("openrouter/m"))["messages"]
    assert [(each["role"], each["content"]) for each in (first, second)] == [
        ("tool", "[image]"),
        ("tool", '{"error":"no"}'),
    ]
    assert pictures["role"] == "user"
    assert [part["type"] for part in pictures["content"]] == ["text", "image_url", "image_url"]


def test_pictures_are_shown_where_all_models_of_a_provider_may_be_sent_them() -> None:
    seeing = {"anthropic", "openai", "openai-chat", "openrouter", "google", "mistral", "xai", "moonshotai"}
    assert {name for name in PROVIDERS if "PNG" in seen(f"{name}/m")} == seeing
