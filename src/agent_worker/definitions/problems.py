"""What pydantic found → problems in our words, at the line where the mistake stands.

Pydantic's English speaks of inputs and instances; a person who writes a file knows keys, text and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from agent_worker.core.errors import DefinitionError, Problem
from agent_worker.core.suggestion import slip_of
from agent_worker.definitions.source import Source

M = TypeVar("M", bound=BaseModel)

_MAPPING = "must be a mapping (lines of `key: value`)"
_SENTENCES = {
    "missing": "is required",
    "string_type": "must be text",
    "string_pattern_mismatch": "is not written as it should be",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": _MAPPING,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "string_too_long": "must be at most {max_length} characters",
    "too_long": "must have at most {max_length} entries",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
}


def validate(model: type[M], source: Source, *, defaults: Mapping[str, Any], also: Sequence[Problem] = ()) -> M:
    """The value that the file describes. DefinitionError with every problem in it, those in `also` too."""
    data = source.data
    if data is None:
        data = {}
    if isinstance(data, dict):
        data = {**defaults, **data}
    try:
        value = model.model_validate(data)
    except ValidationError as error:
        raise _refused([*source.problems, *problems_of(error, source), *also]) from None
    if source.problems or also:
        raise _refused([*source.problems, *also])
    return value


def problems_of(error: ValidationError, source: Source) -> list[Problem]:
    """What is wrong, a problem each. Pydantic calls a list empty too whose entries are all wrong: that is told once."""
    found = error.errors(include_url=False)
    return [_problem(one, source) for one in found if not (one["type"] == "too_short" and one["input"])]


def in_lines(wrong: Iterable[Problem]) -> str:
    """What is wrong in one file, for whoever knows which file it is."""
    return "; ".join(f"line {one.line}: {f'{one.field}: ' if one.field else ''}{one.message}" for one in wrong)


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """A hint, or nothing when no known word is near."""
    slip = slip_of(word, known)
    return f'did you mean "{slip.meant}"?' if slip else ""


def listed(names: Iterable[str], *, most: int = 20) -> str:
    known = sorted(names)
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more


def _problem(details: ErrorDetails, source: Source) -> Problem:
    # Steps in brackets are pydantic's: the arm of a union that was chosen, or the key instead of its value.
    path = [step for step in details["loc"] if not (isinstance(step, str) and step.startswith(("<", "[key]")))]
    context: Mapping[str, Any] = details.get("ctx") or {}
    hint = str(context.get("hint", ""))
    kind, given = details["type"], details["input"]
    if kind == "unknown_key" or "[key]" in details["loc"]:
        return source.problem(path, details["msg"], hint=hint, at_key=True)
    if given is None and kind.endswith("_type"):
        return source.problem(path, "has no value", hint="give it one, or remove the key", at_key=True)
    if kind in _HINTS and not hint:
        hint = _HINTS[kind](given)
    if kind == "literal_error" and isinstance(given, str):
        hint = did_you_mean(given, str(context["expected"]).replace(" or ", ", ").replace("'", "").split(", "))
    sentence = _SENTENCES.get(kind, details["msg"].removeprefix("Value error, "))
    return source.problem(path, sentence.format_map(context) if kind in _SENTENCES else sentence, hint=hint)


def _for_a_text(given: object) -> str:
    """`{name}` was meant as it stands; `{ ref: name }` and `[a, b]` are meant as something else."""
    holds = given.values() if isinstance(given, dict) else given if isinstance(given, list) else ()
    return "" if any(each is not None for each in holds) else "put it in quotes"


def _for_a_list(given: object) -> str:
    return "lines of `- …`" if isinstance(given, dict) else "write it in brackets: [ … ]"


def _for_a_number(given: object) -> str:
    if not isinstance(given, str) or not given.lstrip("+-").isdecimal():
        return ""
    return "without quotes" if len(given) <= _DIGITS else f"with at most {_DIGITS} digits"


#: What to write instead, where that can be said for any key. The value itself is not repeated: it may be a secret.
_HINTS: Mapping[str, Callable[[object], str]] = {
    "string_type": _for_a_text,
    "int_type": _for_a_number,
    "float_type": _for_a_number,
    "tuple_type": _for_a_list,
    "list_type": _for_a_list,
}
_DIGITS = 18  #: of a number that is read as one (source.py)


def _refused(problems: list[Problem]) -> DefinitionError:
    return DefinitionError(sorted(problems, key=lambda problem: (problem.line, problem.column)))
