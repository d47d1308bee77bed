"""What a mock agent plays: a list of entries, one action each. The mock backend says how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from agent_worker.definitions.block import Block, Broken, only_one_of, wrong
from agent_worker.definitions.fields import Duration, Line

_ACTIONS = ("say", "call", "fail", "steps", "again")


class ScriptedCall(Block):
    """One tool call of a script."""

    called_here: ClassVar[Mapping[str, str]] = dict.fromkeys(("args", "arguments", "input"), "with: { … }")

    tool: Line = Field(description="the tool that is called", examples=["team_doc_append"])
    arguments: dict[str, Any] = Field(
        default_factory=dict,
        alias="with",
        description="its arguments",
        examples=[{"name": "notes.md", "text": "- measured"}],
    )


def _as_list(value: Any) -> Any:
    if isinstance(value, str):
        raise wrong("must name a tool and its arguments", f"call: {{ tool: {value[:40]}, with: {{ … }} }}")
    return [value] if isinstance(value, dict | ScriptedCall) else value


class ScriptEntry(Block):
    """Exactly one of say, call, fail, steps, again."""

    say: str | None = Field(None, description="the answer; it ends the run", examples=["@bob is it fast enough?"])
    call: (
        Annotated[
            tuple[ScriptedCall, ...],
            Field(min_length=1),
            BeforeValidator(_as_list, json_schema_input_type=ScriptedCall | list[ScriptedCall]),
        ]
        | None
    ) = Field(
        None,
        description="a step that calls a tool, or several at once",
        examples=[{"tool": "team_doc_append", "with": {"name": "notes.md", "text": "- measured"}}],
    )
    fail: Literal["transient", "overloaded", "permanent", "resource", "crash"] | None = Field(
        None, description="the step fails in this way", examples=["overloaded"]
    )
    steps: Annotated[int, Field(strict=True, ge=1, le=1000)] | None = Field(
        None, description="this many steps without a result", examples=[30]
    )
    again: Literal[True] | None = Field(None, description="the script starts over", examples=[True])
    slow: Duration | None = Field(
        None, description="how long the entry takes, beside one of the others", examples=["2s"]
    )

    @classmethod
    def rules(cls, written: Mapping[str, Any]) -> Iterator[Broken]:
        if not only_one_of(written, *_ACTIONS):
            yield Broken((), f"needs exactly one of {', '.join(_ACTIONS)}")
