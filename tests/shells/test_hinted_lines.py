"""Every command that a text of the product names can be typed: collected from the source, and parsed by the command
line itself. That it also helps where it is given is for test_hints.py."""

from __future__ import annotations

import ast
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from agent_worker.cli.main import cli

SOURCE = Path(__file__).parents[2] / "src" / "agent_worker"
HOLE = "\x00"  # in a text, where a value is filled in
#: What values may be: one of these makes a line of it that can be typed.
VALUES = ("alice", "@review", "1", "show", "start", "zed", "mock", "")
#: Ends of lines that cli/mistakes.py puts together with what was typed: test_mistakes.py types those.
PARTS = {"cli/mistakes.py"}
#: `agent-worker` is a subject there, not a command.
PROSE = ("again", "as a user", "is stopping", "made this", "runs AI", "with", f"{HOLE}")


def texts(source: str, *, with_docstrings: bool) -> Iterator[str]:
    """The texts of a module; in those that are put together there are holes. Docstrings of commands are their help."""
    tree = ast.parse(source)
    joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    inner = {id(value) for node in joined for value in node.values}
    if not with_docstrings:
        inner |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in joined:
        yield "".join(str(value.value) if isinstance(value, ast.Constant) else HOLE for value in node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.value


def lines_in(text: str) -> Iterator[str]:
    """The commands in a text, each to where a sentence goes on with a mark, a remark in brackets, or a gap."""
    for found in re.findall(r"agent-worker ((?:'[^']*'|\"[^\"]*\"|[^\n`;,()<\]'\"])+)", text):
        line = re.split(r"  |\. | [<>] |\.$", found)[0].strip()
        if line.count('"') % 2 or line.count("'") % 2:  # of the sentence around it, or of the language
            line = re.split("[\"']", line)[0].strip()
        if line and not line.startswith(PROSE):
            yield line


def parses(words: list[str]) -> bool:
    """Whether the command line takes these words: nothing is missing, nothing is unknown."""
    command: click.Command | None = cli
    parent: click.Context | None = None
    while isinstance(command, click.Group):
        try:
            context = command.make_context(command.name, list(words), parent=parent)
        except click.exceptions.Exit:
            return True  # --help
        except click.UsageError:
            return False
        words = [*context._protected_args, *context.args]
        if not words:
            return command.invoke_without_command
        name, *words = words
        parent, command = context, command.get_command(context, name)
    try:
        return command is not None and bool(command.make_context(command.name, words, parent=parent))
    except click.exceptions.Exit:
        return True
    except click.UsageError:
        return False


def can_be_typed(line: str) -> bool:
    """With some value in each hole the line can be typed as a whole; or its beginning, and plain words come after."""
    for values in itertools.product(VALUES, repeat=line.count(HOLE)):
        filled = "".join(itertools.chain.from_iterable(zip(line.split(HOLE), (*values, ""), strict=True)))
        words = shlex.split(filled)
        ends = len(words)
        while ends and not parses(words[:ends]):
            ends = ends - 1 if re.fullmatch(r"[a-z]+[:.]?", words[ends - 1]) else 0
        if ends:
            return True
    return False


def named_lines() -> list[tuple[str, str]]:
    found = {
        (line, str(file.relative_to(SOURCE)))
        for file in SOURCE.rglob("*.py")
        if str(file.relative_to(SOURCE)) not in PARTS
        for text in texts(file.read_text(), with_docstrings=file.parent.name == "cli")
        for line in lines_in(text)
    }
    found |= {
        (line, str(file.relative_to(SOURCE)))
        for file in [*SOURCE.rglob("*.js"), *SOURCE.rglob("*.html")]
        for line in lines_in(re.sub(r"\$\{[^}]*\}", HOLE, file.read_text()))
    }
    return sorted(found)


def test_every_command_that_a_text_of_ours_names_can_be_typed() -> None:
    named = named_lines()
    assert len(named) > 150
    assert [f"{file}: agent-worker {line}" for line, file in named if not can_be_typed(line)] == []


@pytest.mark.parametrize(
    "line",
    [
        "agent create --from alice",
        "doc append @review plan.md",
        "doctor --fxi",
        "agent shwo alice",
        "inbox",
        "sned alice hi",
        "ask alice",
        f"ask {HOLE}",
    ],
)
def test_a_line_with_something_missing_or_unknown_cannot_be_typed(line: str) -> None:
    assert can_be_typed(line) == (line == "inbox")
