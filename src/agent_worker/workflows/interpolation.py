"""`${{ name }}` → its value. One pass: what was filled in is never looked at again.

In a text for people or agents the value is put in its place, and where it stands is remembered, so that nobody takes
it for the author's words. In a shell command it never becomes part of the text: the shell reads it from a variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from agent_worker.core.errors import BadInput
from agent_worker.core.later import dataclass, pattern
from agent_worker.definitions.placeholders import PLACEHOLDER, is_powerful, malformed_in, names_in, variable_of

__all__ = ["Interpolated", "interpolate", "interpolate_marked", "names_in", "shell_command"]

#: A variable of a process cannot hold more than 128 KiB on Linux.
MAX_VARIABLE = 120 * 1024

# A backslash takes the next character with it, unless that begins our own `$${{`.
_IN_DOUBLE_QUOTES = pattern(r"\\(?!\$\$\{\{).|\$\$\{\{|\$\{\{|\$\{|\$\(\(|\$\(|\$\[|[\"`]", re.DOTALL)
_IN_SINGLE_QUOTES = pattern(r"\$\$\{\{|\$\{\{|'")
_BARE = pattern(
    r"\\(?!\$\$\{\{).|\$\$\{\{|\$\{\{|\$\{|\$?\(\(|\$\(|\$\[|\$'|\[\[|<<|['\"()}`]|(?<![^\s;&|()])#[^\n]*", re.DOTALL
)
_CLOSED_BY = {"'": "'", '"': '"', "(": ")", "$(": ")", "${": "}"}
_TOKENS = {"'": _IN_SINGLE_QUOTES, '"': _IN_DOUBLE_QUOTES}
# Where the shell reads a value a second time: as commands, or as arithmetic, which can run commands.
_EVALUATES = frozenset({"`", "<<", "((", "$((", "$[", "[[", "$'"})
_EVALUATING_COMMAND = pattern(r"(?:^|[;&|({\n]|\b(?:then|do|else|exec|command)\b)[ \t]{0,64}(eval|let|trap)\b")


@dataclass(frozen=True, slots=True)
class Interpolated:
    """A text with values filled in, and where they stand."""

    text: str
    inserted: tuple[tuple[int, int], ...]  #: start and end of each value


def interpolate(text: str, values: Mapping[str, str]) -> str:
    return interpolate_marked(text, values).text


def interpolate_marked(text: str, values: Mapping[str, str]) -> Interpolated:
    _check_names(text, values)
    parts: list[str] = []
    inserted: list[tuple[int, int]] = []
    length = done = 0
    for match in PLACEHOLDER.finditer(text):
        value = values[match["name"]] if match["name"] else "${{"
        before = text[done : match.start()]
        start = length + len(before)
        length, done = start + len(value), match.end()
        parts += before, value
        if match["name"]:
            inserted.append((start, length))
    return Interpolated("".join((*parts, text[done:])), tuple(inserted))


def shell_command(text: str, values: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The command with each placeholder replaced by a quoted variable, and the variables it runs with.

    Every value comes along as a variable, unless it cannot and the command does not name it.
    """
    _check_names(text, values)
    command = _with_variables(text) if names_in(text) else interpolate(text, {})
    return command, dict(_variables(command, values))


def _with_variables(text: str) -> str:
    """Follows the shell's quoting, to refuse a value inside quotes: there it is not one word, or `sh -c` runs it."""
    if found := _EVALUATING_COMMAND.search(text):
        raise _unsafe(found[1])
    parts: list[str] = []
    inside = [")"]  # what closes each thing we are in; a command is bare, as between parentheses
    position = 0
    while token := _TOKENS.get(inside[-1], _BARE).search(text, position):
        parts.append(text[position : token.start()])
        position, word = token.end(), token.group()
        if word == "$${{":
            parts.append("${{")
        elif word == "${{":
            variable, position = _variable_at(text, token.start(), inside[-1])
            parts.append(f'"${variable}"')
        elif word in _EVALUATES:
            raise _unsafe(word)
        else:
            parts.append(word)
            if word == inside[-1] and len(inside) > 1:
                inside.pop()
            elif word in _CLOSED_BY:
                inside.append(_CLOSED_BY[word])
    return "".join((*parts, text[position:]))


def _variable_at(text: str, start: int, inside: str) -> tuple[str, int]:
    placeholder = PLACEHOLDER.match(text, start)
    if placeholder is None or inside != ")" or text.endswith("[", 0, start):
        raise BadInput(
            "a value must not stand inside quotes, braces or brackets in a shell command",
            hint="it is already quoted: close the quotes before ${{",
        )
    return variable_of(placeholder["name"]), placeholder.end()


def _unsafe(word: str) -> BadInput:
    return BadInput(
        f"no value can be filled in safely in a command with {word}, which may run what it is given",
        hint="use the variable, such as $PARAMS_TARGET, where it cannot be run",
    )


def _variables(command: str, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    taken: dict[str, str] = {}
    for name, value in values.items():
        variable = variable_of(name)
        if "." not in name and is_powerful(variable):
            raise BadInput(f"{name} would set the variable {variable}, which commands obey", hint="rename it")
        if (other := taken.setdefault(variable, name)) != name:
            raise BadInput(f"{name} and {other} are both the variable {variable}", hint="rename one of them")
        fits = "\0" not in value and len(value.encode(errors="surrogatepass")) <= MAX_VARIABLE
        if fits:
            yield variable, value
        elif variable in command:
            raise BadInput(f"the value of {name} is too large for a variable, or not text", hint="pass it in a file")


def _check_names(text: str, values: Mapping[str, str]) -> None:
    if broken := malformed_in(text):
        raise BadInput(f"{broken[0]!r} names nothing", hint="write ${{ name }}, or $${{ for the characters")
    unknown = [name for name in names_in(text) if name not in values]
    if unknown:
        near = get_close_matches(unknown[0], values, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"known: {', '.join(sorted(values)[:20]) or 'nothing'}"
        raise BadInput(f"there is no {', '.join(unknown[:10])} to fill in", hint=hint)
