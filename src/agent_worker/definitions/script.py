"""What a mock agent plays: a list of entries, one action each. The mock backend says how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from agent_worker.definitions.block import Block, Broken, only_one_of
from agent_worker.definitions.fields import Duration, Line

_ACTIONS = ("say", "call", "fail", "steps", "again")


class ScriptedCall(Block):
    """One use of a tool."""

    tool: Line
    arguments: dict[str, Any] = Field(default_factory=dict, alias="with")


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, dict | ScriptedCall) else value


class ScriptEntry(Block):
    """Exactly one of say, call, fail, steps, again."""

    say: str | None = None
    call: (
        Annotated[
            tuple[ScriptedCall, ...],
            Field(min_length=1),
            BeforeValidator(_as_list, json_schema_input_type=ScriptedCall | list[ScriptedCall]),
        ]
        | None
    ) = None
    fail: Literal["transient", "overloaded", "permanent", "resource", "crash"] | None = None
    steps: Annotated[int, Field(strict=True, ge=1, le=1000)] | None = None  #: so many steps without a result
    again: Literal[True] | None = None  #: the script begins anew
    slow: Duration | None = None  #: how long the entry takes

    @classmethod
    def rules(cls, written: Mapping[str, Any]) -> Iterator[Broken]:
        if not only_one_of(written, *_ACTIONS):
            yield Broken((), f"needs exactly one of {', '.join(_ACTIONS)}")
