"""What an answer of a model says that it used, read while the answer passes on to somebody else.

In the forms of the providers whose protocols coding programs speak. Nothing but these numbers is kept, and an answer in
any other form says nothing: then what the program tells must do. Pure; knows no connection.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agent_worker.backends.backend import Usage

_LONGEST = 4 * 1024 * 1024  # bytes of one event, or of a whole answer, that are looked at
_NAMED = (b'"usage"', b'"usageMetadata"')


class PassingUsage:
    """The usage of one answer. Its pieces are fed as they pass; `found` is right once all have."""

    def __init__(self, *, streamed: bool) -> None:
        self._streamed = streamed
        self._begun = bytearray()  # of the event, or answer, that is not whole yet
        self._numbers = Usage()

    def feed(self, piece: bytes) -> None:
        if len(self._begun) + len(piece) > _LONGEST:
            self._begun.clear()
            return
        self._begun += piece
        if self._streamed and b"\n" in piece:
            *lines, rest = bytes(self._begun).split(b"\n")
            self._begun = bytearray(rest)
            for line in lines:
                self._look(line.removeprefix(b"data:"))

    @property
    def found(self) -> Usage:
        self._look(bytes(self._begun).removeprefix(b"data:"))
        self._begun.clear()
        return self._numbers

    def _look(self, text: bytes) -> None:
        if not any(name in text for name in _NAMED):
            return
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            return
        for used in _blocks(said):
            input, cached, output = _anthropic_or_openai(used) if "promptTokenCount" not in used else _google(used)
            known = self._numbers  # an answer in pieces tells them again and again, each time all of them so far
            self._numbers = Usage(max(known.input, input), max(known.cached, cached), max(known.output, output))


def _blocks(said: Any) -> Iterator[Mapping[str, Any]]:
    """The blocks in which the numbers may be: at the top, in the message of an event, in its response."""
    for place in (said, *(said.get(name) for name in ("message", "response"))) if isinstance(said, dict) else ():
        for name in ("usage", "usageMetadata"):
            if isinstance(place, dict) and isinstance(used := place.get(name), dict):
                yield used


def _anthropic_or_openai(used: Mapping[str, Any]) -> tuple[int, int, int]:
    cached = _count(used, "cache_read_input_tokens")
    beside = cached + _count(used, "cache_creation_input_tokens")  # which Anthropic does not count as input
    input = _count(used, "input_tokens") or _count(used, "prompt_tokens")
    return input + beside, cached, _count(used, "output_tokens") or _count(used, "completion_tokens")


def _google(used: Mapping[str, Any]) -> tuple[int, int, int]:
    output = _count(used, "candidatesTokenCount") + _count(used, "thoughtsTokenCount")
    return _count(used, "promptTokenCount"), _count(used, "cachedContentTokenCount"), output


def _count(used: Mapping[str, Any], name: str) -> int:
    value = used.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
