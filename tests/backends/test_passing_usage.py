"""What an answer says it used is read from its pieces, in the form of each protocol, and from nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_worker.backends.backend import Usage
from agent_worker.backends.models.passing_usage import PassingUsage

ANTHROPIC = [
    {
        "type": "message_start",
        "message": {"usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 1}},
    },
    {"type": "content_block_delta", "delta": {"text": 'he said "usage": 7'}},
    {"type": "message_delta", "usage": {"output_tokens": 25}},
]
CHAT = [{"choices": [{"delta": {"content": "hi"}}]}, {"usage": {"prompt_tokens": 100, "completion_tokens": 25}}]
RESPONSES = [{"type": "response.completed", "response": {"usage": {"input_tokens": 100, "output_tokens": 25}}}]
GOOGLE = [
    {"usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 5}},
    {"usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 20, "thoughtsTokenCount": 5}},
]


def events(told: list[dict[str, Any]]) -> bytes:
    return b"".join(b"event: x\ndata: " + json.dumps(each).encode() + b"\n\n" for each in told) + b"data: [DONE]\n\n"


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("told", [ANTHROPIC, CHAT, RESPONSES, GOOGLE], ids=["anthropic", "chat", "responses", "google"])
def test_a_stream_tells_it_however_it_is_cut(told: list[dict[str, Any]], size: int) -> None:
    whole, usage = events(told), PassingUsage(streamed=True)
    for start in range(0, len(whole), size):
        usage.feed(whole[start : start + size])
    assert (usage.found.input, usage.found.output) == (100, 25)


def test_a_whole_answer_tells_it_too() -> None:
    usage = PassingUsage(streamed=False)
    body = json.dumps({"content": "x\ny", "usage": {"prompt_tokens": 3, "completion_tokens": 4}}, indent=1).encode()
    for start in range(0, len(body), 5):
        usage.feed(body[start : start + 5])
    assert usage.found == Usage(3, 0, 4)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b'{"usage": 7}',
        b'{"usage": {"input_tokens": "9", "output_tokens": -5}}',
        b'{"usage": {"input_tokens": true}}',
        b'["usage"]',
        b'{"usage": ' + b"[" * 100_000,
        b'{"response": {"usage": null}, "usage": []}',
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
def test_what_says_nothing_is_nothing(body: bytes, streamed: bool) -> None:
    usage = PassingUsage(streamed=streamed)
    usage.feed(body + b"\n")
    assert usage.found == Usage()


def test_an_event_without_an_end_is_not_kept() -> None:
    usage = PassingUsage(streamed=True)
    for _ in range(100):
        usage.feed(b"x" * 1024 * 1024)
        assert len(usage._begun) <= 4 * 1024 * 1024


@pytest.mark.parametrize(
    ("told", "seen", "paid"),
    [
        (Usage(100, 0, 20, 0.12), Usage(100, 0, 20), Usage(100, 0, 20, 0.12)),
        (Usage(100, 50, 20, 0.12), Usage(), Usage(100, 50, 20, 0.12)),
        (Usage(100, 0, 20, 0.5), Usage(200, 10, 40), Usage(200, 10, 40, 1.0, guessed=True)),
        (Usage(100, 0, 20), Usage(90, 0, 30), Usage(100, 0, 30)),
        (Usage(), Usage(5, 0, 5), Usage(5, 0, 5)),
    ],
)
def test_a_run_is_charged_for_what_was_seen_where_that_is_more_than_was_told(
    told: Usage, seen: Usage, paid: Usage
) -> None:
    assert told.at_least(seen) == paid
