"""The kinds of value that several files share: names, durations, models, variables, paths, amounts.

Each is an annotated type: the check, and what a JSON Schema says about it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from types import UnionType
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, StrictBool, StrictInt

from agent_worker.core.address import check_name
from agent_worker.core.errors import BadInput
from agent_worker.core.later import pattern
from agent_worker.definitions.block import wrong
from agent_worker.definitions.paths import plain

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = pattern(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(ms|s|m|h|d)")
_LONGEST = 366 * 86400.0
# Starts like a word, so that no program takes it for an option; no blanks, so that it is one word everywhere.
_MODEL = pattern(r"[A-Za-z0-9@][A-Za-z0-9._:/@+\[\]-]{0,199}")
_VARIABLE = pattern(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_LABEL = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_CONTROL = pattern(r"[\x00-\x1f\x7f]")


def parse_duration(text: Any) -> float:
    """`30s`, `5m`, `1.5h` → seconds."""
    if not isinstance(text, str) or not (match := _DURATION.fullmatch(text)):
        raise wrong("must be a duration", "a number and a unit, such as 500ms, 30s, 5m, 2h or 1d")
    seconds = float(match[1]) * _SECONDS[match[2]]
    if seconds > _LONGEST:
        raise wrong("must be at most 366d")
    return seconds


def _name(text: str) -> str:
    try:
        return check_name(text)
    except BadInput as error:
        raise wrong(error.message, error.hint) from None


def _model(text: str) -> str:
    if not _MODEL.fullmatch(text):
        raise wrong("is not the name of a model", "one word, such as anthropic/claude-sonnet-5-5")
    return text


def _variable(text: str) -> str:
    if not _VARIABLE.fullmatch(text):
        raise wrong("is not the name of an environment variable", "letters, digits and _, without $")
    return text


def _label(text: str) -> str:
    if not _LABEL.fullmatch(text):
        raise wrong("is not a label", "letters, digits, ., _ and -, at most 63")
    return text


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or re.search(r"[\s\x00-\x1f{}<>\"\\]", text):
        raise wrong("is not a URL", "such as https://llm.example/v1, written out in full")
    if parts.username is not None or parts.password is not None:
        raise wrong("must not contain a user name or password")
    return text


def _line(text: str) -> str:
    if _CONTROL.search(text):
        raise wrong("must be one line, without control characters")
    return text


def inside_path(text: str) -> str:
    """The path as `plain` writes it, `..` worked out. Where links lead is seen when the project is loaded."""
    if "\\" in text:
        raise wrong("must be written with /", text.replace("\\", "/"))
    inside: list[str] = []
    for part in PurePosixPath(_line(text)).parts:
        if (part == ".." and not inside) or part.startswith(("/", "~")):
            raise wrong("must be a path inside the project", "relative to the project's directory")
        if part == "..":
            inside.pop()
        else:
            inside.append(part)
    return plain("/".join(inside))


def _amount(smallest: float, kind: str, types: type[int] | UnionType) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if value == "off":
            return value
        if isinstance(value, bool) or not isinstance(value, types):
            raise wrong(f"must be {kind}, or off")
        if not smallest <= value < 1e12:
            raise wrong(f"must be at least {smallest}, or off")
        return value

    return check


Text = Annotated[str, Field(min_length=1)]
Line = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_line)]
Name = Annotated[str, AfterValidator(_name), Field(json_schema_extra={"pattern": "^[A-Za-z][A-Za-z0-9_-]{0,62}$"})]
ModelName = Annotated[str, AfterValidator(_model)]
Variable = Annotated[str, AfterValidator(_variable)]
Label = Annotated[str, AfterValidator(_label)]
Url = Annotated[str, AfterValidator(_url)]
InsidePath = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(inside_path)]

Flag = StrictBool
Whole = Annotated[StrictInt, Field(ge=1, le=1_000_000_000)]

#: Seconds. Written with a unit.
Duration = Annotated[float, BeforeValidator(parse_duration, json_schema_input_type=str), Field(gt=0)]

#: A limit: None leaves the default, "off" lifts it.
Money = Annotated[
    float | Literal["off"],
    PlainValidator(_amount(0, "an amount in USD", int | float), json_schema_input_type=float | Literal["off"]),
]
Count = Annotated[
    int | Literal["off"],
    PlainValidator(_amount(1, "a whole number", int), json_schema_input_type=int | Literal["off"]),
]
Minutes = Annotated[
    float | Literal["off"],
    PlainValidator(_amount(0.1, "a number of minutes", int | float), json_schema_input_type=float | Literal["off"]),
]
