"""What claude, codex and cursor print, as they print it, becomes signals; what they never print hurts nobody."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_worker.backends.backend import Usage
from agent_worker.backends.programs.claude import ClaudeStream
from agent_worker.backends.programs.codex import CodexStream
from agent_worker.backends.programs.cursor import CursorStream
from agent_worker.backends.programs.program import without_provider
from agent_worker.backends.programs.runner import Parser
from agent_worker.backends.programs.signals import (
    Calling,
    Over,
    ProgramRetries,
    ProgramReturned,
    ProgramSpent,
    ProgramStarted,
    Said,
    Signal,
)
from agent_worker.core.errors import BackendFailure, Crashed, Exhausted, Overloaded, Permanent, Transient

PARSERS: list[Callable[[], Parser]] = [ClaudeStream, CodexStream, CursorStream]


def read(parser: Parser, *events: dict[str, Any]) -> list[Signal]:
    return [signal for event in events for signal in parser.read(event)]


def over(signals: list[Signal]) -> Over:
    assert isinstance(signals[-1], Over)
    return signals[-1]


# --- claude

INIT = {
    "type": "system",
    "subtype": "init",
    "session_id": "s-1",
    "mcp_servers": [{"name": "team", "status": "connected"}],
}
USAGE = {"input_tokens": 120, "cache_creation_input_tokens": 7, "cache_read_input_tokens": 11, "output_tokens": 5}


def assistant(*content: dict[str, Any], id: str = "msg_1", **more: Any) -> dict[str, Any]:
    message = {"id": id, "content": list(content), "usage": USAGE}
    return {"type": "assistant", "message": message, "parent_tool_use_id": None} | more


def models(input: int, usd: float) -> dict[str, Any]:
    return {"inputTokens": input, "cacheReadInputTokens": 11, "outputTokens": 5, "costUSD": usd, "costBasis": "list"}


def result(**more: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "result": "done", "usage": USAGE} | more


def test_claude_is_understood() -> None:
    delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "He"}}
    signals = read(
        ClaudeStream(),
        INIT,
        {"type": "stream_event", "event": delta, "parent_tool_use_id": None},
        assistant({"type": "text", "text": "Hello"}),
        assistant({"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}),
        {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a.txt"}]}},
        {"type": "system", "subtype": "api_retry", "error_status": 529, "error": "overloaded"},
        result(model_usage_since_last_result={"opus": models(127, 0.25)}),
    )
    once = ProgramSpent(Usage(138, 11, 5))  # the same message in two lines is one message
    assert signals == [
        ProgramStarted("s-1"),
        Said("He", partial=True),
        once,
        Said("Hello"),
        once,
        Calling("t1", "Bash", '{"command": "ls"}'),
        ProgramReturned("t1", "a.txt"),
        ProgramRetries("529 overloaded"),
        ProgramSpent(Usage(138, 11, 5, 0.25)),
        Over("done"),
    ]


def test_L4_claude_tells_what_a_message_uses_as_it_is_written() -> None:
    """Whoever kills it in the middle pays for what was told by then, a helper of its own included."""
    stream, start = ClaudeStream(), {"type": "message_start", "message": {"id": "m1", "usage": USAGE}}
    helper = {"type": "message_start", "message": {"id": "m2", "usage": USAGE}}
    grown = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 300}}
    begun = read(stream, INIT, streamed(start))
    assert begun[-1] == ProgramSpent(Usage(138, 11, 5))
    assert read(stream, streamed(helper, parent_tool_use_id="t1"))[-1] == ProgramSpent(Usage(276, 22, 10))
    assert read(stream, streamed(grown))[-1] == ProgramSpent(Usage(276, 22, 305))
    late = {"type": "assistant", "message": {"id": "m1", "usage": USAGE, "content": []}}
    assert read(stream, late) == [ProgramSpent(Usage(276, 22, 305))], "its line has the count of its beginning"


def streamed(event: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "stream_event", "event": event, "parent_tool_use_id": None} | more


def test_calls_of_our_tools_are_seen_where_they_arrive() -> None:
    ours = assistant({"type": "tool_use", "id": "t1", "name": "mcp__team__channel_send", "input": {}})
    assert not [each for each in read(ClaudeStream(), ours) if isinstance(each, Calling)]
    item = {"id": "i", "type": "mcp_tool_call", "server": "team", "tool": "channel_send", "status": "completed"}
    assert not read(CodexStream(), {"type": "item.started", "item": item}, {"type": "item.completed", "item": item})


def test_what_a_helper_of_claude_says_is_not_its_answer() -> None:
    said = assistant({"type": "text", "text": "I am a helper"}, parent_tool_use_id="t9")
    assert not [each for each in read(ClaudeStream(), said) if isinstance(each, Said)]


def test_what_an_earlier_run_of_the_session_has_paid_for_is_not_charged_again() -> None:
    """After a resume, most of claude's sums are of the whole session."""
    both = {"opus": models(100, 0.2), "haiku": models(10, 0.05)}
    signals = read(ClaudeStream(), result(total_cost_usd=7.5, model_usage_since_last_result=both))
    assert signals[0] == ProgramSpent(Usage(110 + 2 * 11, 2 * 11, 2 * 5, 0.25))


def test_a_price_that_claude_has_guessed_is_none() -> None:
    guessed = {"fake": models(100, 0.2) | {"costBasis": "unknown"}}
    signals = read(ClaudeStream(), result(model_usage_since_last_result=guessed))
    assert signals[0] == ProgramSpent(Usage(111, 11, 5, None))


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (result(is_error=True, terminal_reason="api_error", api_error_status=401), Permanent),
        (result(is_error=True, terminal_reason="api_error", api_error_status=404), Permanent),
        (result(is_error=True, terminal_reason="api_error", api_error_status=429), Overloaded),
        (result(is_error=True, terminal_reason="api_error", api_error_status=529), Overloaded),
        (result(is_error=True, terminal_reason="api_error", api_error_status=500), Transient),
        (result(is_error=True, terminal_reason="api_error", api_error_status=None), Transient),
        (result(is_error=True, terminal_reason="prompt_too_long"), Exhausted),
        (result(is_error=True, subtype="error_max_turns"), Exhausted),
        (result(is_error=True, subtype="error_during_execution", terminal_reason="aborted_streaming"), Crashed),
        (result(subtype="something new"), Crashed),
    ],
)
def test_an_end_of_claude_is_classified(event: dict[str, Any], kind: type[BackendFailure]) -> None:
    assert type(over(read(ClaudeStream(), event)).failure) is kind


def test_claude_that_is_not_logged_in_is_not_tried_again() -> None:
    told = assistant(
        {"type": "text", "text": "Not logged in"}, error="authentication_failed", is_api_error_message=True
    )
    ended = result(is_error=True, terminal_reason="api_error", api_error_status=None, result="Not logged in")
    signals = read(ClaudeStream(), told, ended)
    assert len([each for each in signals if isinstance(each, Said)]) == 0
    failure = over(signals).failure
    assert isinstance(failure, Permanent)
    assert failure.hint == "check the key, or log in with claude itself"


def test_claude_without_our_tools_is_over_at_once() -> None:
    lost = INIT | {"mcp_servers": [{"name": "team", "status": "failed"}]}
    assert isinstance(over(read(ClaudeStream(), lost)).failure, Permanent)


@pytest.mark.parametrize(
    ("parser", "events"),
    [
        (CodexStream, [{"type": "thread.started", "thread_id": "t"}, {"type": "turn.started"}]),
        (CodexStream, [{"type": "turn.failed", "error": {"message": "stream disconnected before completion"}}]),
        (CursorStream, [{"type": "system", "subtype": "init"}, {"type": "assistant", "message": {"content": []}}]),
    ],
)
def test_programs_that_tell_their_use_only_at_the_end_have_told_none_before(
    parser: Callable[[], Parser], events: list[dict[str, Any]]
) -> None:
    """Then nobody can charge it: codex tells it with the end of a turn, cursor never."""
    assert not [signal for signal in read(parser(), *events) if isinstance(signal, ProgramSpent)]


# --- codex


def test_codex_is_understood() -> None:
    command = {"id": "i1", "type": "command_execution", "command": "ls"}
    signals = read(
        CodexStream(),
        {"type": "thread.started", "thread_id": "th-1"},
        {"type": "turn.started"},
        {"type": "item.completed", "item": {"id": "i0", "type": "error", "message": "Model metadata not found"}},
        {"type": "item.started", "item": command},
        {"type": "item.completed", "item": command | {"aggregated_output": "a.txt", "exit_code": 0}},
        {"type": "error", "message": "Reconnecting... 1/5"},
        {"type": "item.completed", "item": {"id": "i2", "type": "agent_message", "text": "done"}},
        {"type": "turn.completed", "usage": {"input_tokens": 240, "cached_input_tokens": 22, "output_tokens": 66}},
    )
    assert signals == [
        ProgramStarted("th-1"),
        Calling("i1", "command_execution", '{"command": "ls"}'),
        ProgramReturned("i1", "a.txt"),
        ProgramRetries("Reconnecting... 1/5"),
        Said("done"),
        ProgramSpent(Usage(240, 22, 66)),
        Over("done"),
    ]


def test_what_codex_tells_only_when_it_is_done_is_a_call_too() -> None:
    changes = [{"path": "a.txt", "kind": "update"}]
    edit = {"id": "i1", "type": "file_change", "changes": changes, "status": "completed"}
    failed = {"id": "i2", "type": "command_execution", "command": "false", "aggregated_output": "oh", "exit_code": 1}
    signals = read(
        CodexStream(),
        {"type": "item.completed", "item": edit},
        {"type": "item.started", "item": failed | {"exit_code": None}},
        {"type": "item.completed", "item": failed | {"status": "failed"}},
    )
    assert signals == [
        Calling("i1", "file_change", json.dumps({"changes": changes})),
        ProgramReturned("i1", ""),
        Calling("i2", "command_execution", json.dumps({"command": "false"})),
        ProgramReturned("i2", "oh\n[exit 1]", ok=False),
    ]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("unexpected status 401 Unauthorized: invalid key, url: http://127.0.0.1:500/v1", Permanent),
        ("exceeded retry limit, last status: 429 Too Many Requests", Overloaded),
        ("unexpected status 503 Service Unavailable: nope", Transient),
        ("We're currently experiencing high demand, which may cause temporary errors.", Transient),
        ("stream disconnected before completion", Transient),
        ("Codex ran out of room in the model's context window.", Exhausted),
        ("", Transient),
    ],
)
def test_an_end_of_codex_is_classified(message: str, kind: type[BackendFailure]) -> None:
    event = {"type": "turn.failed", "error": {"message": message}}
    assert type(over(read(CodexStream(), event)).failure) is kind


# --- cursor


def test_cursor_is_understood() -> None:
    made = {"shellToolCall": {"args": {"command": "ls"}}}
    signals = read(
        CursorStream(),
        {"type": "system", "subtype": "init", "session_id": "c-1"},
        {"type": "user", "message": {}},
        {"type": "thinking", "subtype": "delta", "text": "hm"},
        {"type": "tool_call", "subtype": "started", "call_id": "a\nb", "tool_call": made},
        {
            "type": "tool_call",
            "subtype": "completed",
            "call_id": "a\nb",
            "tool_call": {"shellToolCall": {"args": {}, "result": {"success": {"stdout": "x"}}}},
        },
        {"type": "assistant", "message": {"content": [{"type": "text", "text": "done"}]}},
        {"type": "result", "subtype": "success", "is_error": False, "result": "done"},
    )
    assert signals == [
        ProgramStarted("c-1"),
        Calling("a\nb", "shell", '{"command": "ls"}'),
        ProgramReturned("a\nb", '{"success": {"stdout": "x"}}'),
        Said("done"),
        Over("done"),
    ]


# --- all

KNOWN = sorted(
    {"type", "subtype", "message", "content", "id", "usage", "item", "error", "result", "is_error", "event", "delta"}
    | {"tool_call", "mcp_servers", "session_id", "thread_id", "text", "input", "name", "server", "exit_code", "changes"}
    | {"total_cost_usd", "input_tokens", "api_error_status", "shellToolCall", "call_id", "arguments", "status"}
)
WORDS = st.sampled_from(
    [
        *("system", "init", "assistant", "user", "result", "success"),
        *("stream_event", "tool_use", "tool_result", "text", "item.completed", "item.started"),
        *("turn.failed", "turn.completed", "command_execution", "agent_message", "tool_call", "started"),
        *("completed", "api_retry", "api_error", "text_delta", "failed"),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KNOWN), inner, max_size=6),
    max_leaves=12,
)


@pytest.mark.parametrize("parser", PARSERS)
@given(events=st.lists(st.dictionaries(st.sampled_from(KNOWN), JSON | WORDS, max_size=8), max_size=6))
def test_B8_whatever_is_printed_a_parser_does_not_raise(parser: Callable[[], Parser], events: list[Any]) -> None:
    for signal in read(parser(), *events):
        if isinstance(signal, ProgramSpent):
            assert signal.usage.plausible
        if isinstance(signal, Calling):
            json.loads(signal.arguments)


@pytest.mark.parametrize("parser", PARSERS)
def test_an_end_without_a_last_word_tells_what_was_printed(parser: Callable[[], Parser]) -> None:
    assert "exit 7): no such file" in parser().died(7, "no such file").message


@pytest.mark.parametrize(
    ("written", "called"),
    [
        ("sonnet", "sonnet"),
        ("opus", "opus"),
        ("claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("anthropic:opus", "opus"),
        ("some/gateway/model", "some/gateway/model"),
    ],
)
def test_models_of_claude_are_named_as_it_takes_them(written: str, called: str) -> None:
    assert without_provider(written, "anthropic") == called


def test_models_of_codex_are_named_as_it_takes_them() -> None:
    assert [without_provider(each, "openai") for each in ("gpt-5.5", "openai/gpt-5.5", "openai:o5")] == [
        "gpt-5.5",
        "gpt-5.5",
        "o5",
    ]
