"""What was typed: texts that look like options, and messages without an address."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import click

from agent_worker.cli.call import call, here
from agent_worker.core.address import NAME, canonical
from agent_worker.core.errors import BadInput

_OPTION = re.compile(r"-[A-Za-z]|--[A-Za-z][\w-]*(=.*)?|--", re.DOTALL)


class TextCommand(click.Command):
    """A command that takes a text. "- so it is" and "-1" are texts; what looks like an option is one, or an error."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        odd = [word for word in args if word.startswith("-") and word != "-" and not _OPTION.fullmatch(word)]
        texts = {f"\0{n}": word for n, word in enumerate(odd)}
        masks = {word: mask for mask, word in texts.items()}
        rest = super().parse_args(ctx, [masks.get(word, word) for word in args])
        ctx.params = {name: _unmasked(value, texts) for name, value in ctx.params.items()}
        return rest


def _unmasked(value: Any, texts: dict[str, str]) -> Any:
    if isinstance(value, tuple):
        return tuple(_unmasked(each, texts) for each in value)
    return texts.get(value, value) if isinstance(value, str) else value


def read_input() -> str:
    """All that stands in our input, which must be text."""
    given = sys.stdin.buffer.read()
    try:
        text = given.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        told = "what came in through the pipe is not text (UTF-8)"
        raise BadInput(told, hint="give a file that is no text by its name, to an agent that can read files")
    return text


def addressed(words: Sequence[str], to: str | None, *, command: str) -> tuple[str, str]:
    """Address and message, of one or two words and perhaps an address given as an option."""
    match [*words], to:
        case [str(message)], str(address):
            return address, message
        case [str(address), str(message)], None:
            return address, message
        case [str(word)], None:
            if (meant := nearly_an_address(word)) is None:
                return only_target(f"agent-worker {command}", f" {shlex.join([word])}"), word
            raise BadInput(f"what should I say to {word}?", hint=f'agent-worker {command} {meant} "…"')
        case [], _:
            raise BadInput("what should I say, and to whom?", hint=_example(command, to))
        case [str(address), *texts], None:
            line = shlex.join(["agent-worker", command, address, " ".join(texts)])
            raise BadInput("a text of several words is written in quotes", hint=f"did you mean: {line}")
        case _:
            line = shlex.join(["agent-worker", command, "--to", str(to), " ".join(words)])
            raise BadInput("with --to, all the rest is the message, in quotes", hint=f"did you mean: {line}")


def _example(command: str, to: str | None) -> str:
    there = [to] if to else _targets()
    return f'agent-worker {command} {there[0]} "…"' if there else "agent-worker init"


def _targets() -> list[str]:
    """The channels and agents one can write to here."""
    return [f"@{one['name']}" for one in running()] + [one["name"] for one in call("GET", "/agents", project=here())]


def nearly_an_address(word: str) -> str | None:
    """The address that a single word is, or nearly is; None if it seems to be a message."""
    if "@" in word and not any(map(str.isspace, word)):
        return word
    if not NAME.fullmatch(word):
        return None
    known = [agent["name"] for agent in call("GET", "/agents", project=here())]
    return canonical(word, known) or next(iter(get_close_matches(word, known, n=1, cutoff=0.8)), None)


def only_target(command: str, behind: str = "") -> str:
    """The channel of the one workflow that runs; if none does, the only agent of the project."""
    channels = [f"@{one['name']}" for one in running()]
    if len(channels) == 1:
        return channels[0]
    agents = [agent["name"] for agent in call("GET", "/agents", project=here())]
    if not channels and len(agents) == 1:
        return str(agents[0])
    if not channels and not agents:
        raise BadInput("there is no agent in this project yet", hint="agent-worker init")
    there = [*channels, *agents]
    raise BadInput(f"which one? there are {', '.join(there)}", hint=f"{command} {there[0]}{behind}")


def running() -> list[dict[str, Any]]:
    """The instances of this project that run or are paused."""
    return [one for one in call("GET", "/instances", project=here()) if one["state"] in ("running", "paused")]
