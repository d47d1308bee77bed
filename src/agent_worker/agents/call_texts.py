"""What people get to see of a call and its result: redacted first, then its beginning."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agent_worker.core.redaction import Redactor
from agent_worker.core.text import plural
from agent_worker.tools.tool import Call

SHOWN = 2000  # characters of arguments and results that whoever looks on gets to see
_MOST = 50  # arguments of a call that are shown
RESULT_LIMIT = 64 * 1024  # characters of one result that a model gets to see


class CallTexts:
    def __init__(self, redact: Redactor) -> None:
        self._redact = redact

    def shown(self, text: str) -> str:
        """Its beginning. Redacted before it is cut there: half a secret is not recognised."""
        return self._redact(text[: 4 * SHOWN])[:SHOWN]

    def arguments(self, call: Call) -> dict[str, Any]:
        """The arguments of a call by their names, for whoever looks on."""
        return {self._redact(name): self._argument(value) for name, value in [*call.arguments.items()][:_MOST]}

    def _argument(self, value: object) -> Any:
        if value is None or isinstance(value, bool | int | float):
            return value
        if not isinstance(value, str) and len(text := json.dumps(value, ensure_ascii=False)) <= SHOWN:
            with suppress(ValueError):  # what was cut out of it may have held it together
                return json.loads(self._redact(text))
        return self.readable(value)

    def readable(self, value: object) -> str:
        """An argument as a person reads it: text as it is, with its line breaks; its beginning, if it is long."""
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        more = f" [… {plural(len(text) - SHOWN, 'more character')}]" if len(text) > SHOWN else ""
        return f"{self.shown(text)}{more}"

    def beginning(self, text: str, most: int) -> str:
        """The same, of what is kept: it says when it was cut."""
        if len(text) <= most:
            return text
        return f"{self._redact(text[: 4 * most])[:most]}\n[cut: {plural(len(text) - most, 'more character')}]"


def capped(text: str) -> str:
    if len(text) <= RESULT_LIMIT:
        return text
    return f"{text[:RESULT_LIMIT]}\n[cut: {plural(len(text) - RESULT_LIMIT, 'more character')}]"


def in_words(arguments: Mapping[str, str]) -> str:
    """A call as one reads it: its only argument as it is, several with their names."""
    if len(arguments) == 1:
        return next(iter(arguments.values()))
    return ", ".join(f"{name}: {value}" for name, value in arguments.items())


def as_json(call: Call) -> str:
    return json.dumps(call.arguments, ensure_ascii=False)


def call_digest(agent: str, call: Call) -> str:
    """Of exactly this call by this agent."""
    exact = json.dumps([agent, call.tool, call.arguments], sort_keys=True)
    return hashlib.sha256(exact.encode("utf-8", "surrogatepass")).hexdigest()
