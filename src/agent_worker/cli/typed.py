"""What was typed: texts that look like options, messages without an address, commands without a workspace."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import click

from agent_worker.cli.call import call, here, instances
from agent_worker.cli.mistakes import in_quotes, same_as
from agent_worker.core.address import NAME, canonical
from agent_worker.core.errors import BadInput
from agent_worker.core.suggestion import slip_of

_OPTION = re.compile(r"-[A-Za-z]|--[A-Za-z][\w-]*(=.*)?|--", re.DOTALL)
_CHANNEL = re.compile(r"@[A-Za-z][\w.:-]*").fullmatch
_LACKING = "agent_worker.lacking_workspace"


class TextCommand(click.Command):
    """A command that takes a text. "- so it is" and "-1" are texts; what looks like an option is one, or an error."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        values = {name for each in self.params if _takes_value(each) for name in each.opts}
        odd = [
            word
            for before, word in zip(["", *args], args, strict=False)
            if word.startswith("-") and word != "-" and not _OPTION.fullmatch(word) and before not in values
        ]
        texts = {f"\0{n}": word for n, word in enumerate(odd)}
        masks = {word: mask for mask, word in texts.items()}
        rest = super().parse_args(ctx, [masks.get(word, word) for word in args])
        ctx.params = {name: _unmasked(value, texts) for name, value in ctx.params.items()}
        return rest


class WorkspaceCommand(TextCommand):
    """A command that begins with a workspace: if none is typed, it is the only one there is."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing or not self._may_lack_one(ctx, args):
            return super().parse_args(ctx, args)
        ctx.meta[_LACKING] = args  # which one it is, only the daemon knows: it is asked when the command is run
        return []

    def invoke(self, ctx: click.Context) -> Any:
        if (typed := ctx.meta.pop(_LACKING, None)) is not None:
            super().parse_args(ctx, self._completed(ctx, typed))
        return super().invoke(ctx)

    def _may_lack_one(self, ctx: click.Context, args: list[str]) -> bool:
        words = self._words(args)
        if "--help" in args or "-h" in args or (words and _is_address(words[0])):
            return False
        return len(words) < sum(isinstance(each, click.Argument) for each in self.params) or any(map(_CHANNEL, words))

    def _completed(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = self._words(args)
        if words and _nearly_a_workspace(words[0]):
            return args
        if at := next(filter(_CHANNEL, words), ""):
            line = shlex.join([*ctx.command_path.split(), at, *(word for word in args if word != at)])
            raise BadInput(f"{at} comes first", hint=f"did you mean: {line}")
        return [only_workspace(ctx.command_path, args), *args]

    def _words(self, args: list[str]) -> list[str]:
        """What was typed, without options and their values."""
        options = {name: each for each in self.params if isinstance(each, click.Option) for name in each.opts}
        words, left = list[str](), list(args)
        while left:
            word = left.pop(0)
            if (option := options.get(word)) and not option.is_flag:
                del left[:1]
            elif not option and not (_OPTION.fullmatch(word) and word != "--"):
                words.append(word)
        return words


workspace_argument = click.argument("workflow", metavar="[@WORKFLOW]", shell_complete=instances)


def _takes_value(parameter: click.Parameter) -> bool:
    """Whether what follows it is its value, however that begins."""
    return isinstance(parameter, click.Option) and not parameter.is_flag


def _is_address(word: str) -> bool:
    return word.startswith("@") or ":" in word


def _nearly_a_workspace(word: str) -> bool:
    if not NAME.fullmatch(word):
        return False
    known = {one["name"] for path in ("/instances", "/workflows") for one in call("GET", path, project=here())}
    return canonical(word, known) is not None or bool(slip_of(word, known))


def only_workspace(command: str, behind: Sequence[str]) -> str:
    """The channel of the one workflow that runs; if none does, of the only one that ever ran and is still kept."""
    there = running() or call("GET", "/instances", project=here())
    channels = [f"@{one['name']}" for one in there]
    if len(channels) == 1:
        return channels[0]
    if not channels:
        names = [one["name"] for one in call("GET", "/workflows", project=here())]
        raise BadInput("no workflow runs here", hint=f"agent-worker start {names[0]}" if names else "agent-worker init")
    line = shlex.join([*command.split(), channels[0], *behind])
    raise BadInput(f"which one? there are {', '.join(channels)}", hint=line)


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
        case ([str(message)], str(address)) | ([str(address), str(message)], None):
            if not message.strip():
                raise BadInput(f"what should I say to {address}?", hint=f'agent-worker {command} {address} "…"')
            return address, message
        case (([] | [""]), _):
            raise BadInput("what should I say, and to whom?", hint=_example(command, to))
        case [str(word)], None:
            if (meant := nearly_an_address(word)) is None:
                return only_target(f"agent-worker {command}", f" {shlex.join([word])}"), word
            raise BadInput(f"what should I say to {word}?", hint=f'agent-worker {command} {meant} "…"')
        case [str(address), *texts], None:
            line = in_quotes(texts, before=[command, address])
            raise BadInput("a text of several words is written in quotes", hint=f"did you mean: {line}")
        case _:
            line = in_quotes([*words], before=[command])
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


def wrong_words(command: str, words: tuple[str, ...], meant: dict[int, str], forms: str) -> BadInput:
    """The error for words behind a name that fit none of the `forms`. If only the verb is missing, it is the one that
    takes so many words; one that stands elsewhere is put where it belongs."""
    verbs = [form.split()[0] for form in forms.split(", ")]
    group, _, name = command.rpartition(" ")
    if name in verbs:  # words are never empty
        return BadInput(f"{words[0]} comes first", hint=_meant(group, words[0], name, *words[1:]))
    if words[0] in verbs:
        form = next(form for form in forms.split(", ") if form.startswith(words[0]))
        return BadInput(f"that is not how {words[0]} is typed", hint=f"agent-worker {command} {_filled(form, words)}")
    what = f"say what to do: {forms}"
    if same := same_as(words[0], verbs):
        form = next(form for form in forms.split(", ") if form.split()[0] == same)
        return BadInput(what, hint=f"did you mean: agent-worker {command} {_filled(form, words)}")
    if slip := slip_of(words[0], verbs):
        return BadInput(what, hint=_meant(command, slip.meant, *words[1:]))
    if typed := [word for word in words if word in verbs]:
        return BadInput(what, hint=_meant(command, typed[0], *(word for word in words if word != typed[0])))
    if same is None and (verb := meant.get(len(words))):
        return BadInput(what, hint=f"agent-worker {command} {verb} {shlex.join(words)}")
    return BadInput(what, hint=f"agent-worker {command} {_filled(forms.partition(', ')[0], ())}")


def _meant(command: str, *words: str) -> str:
    return f"did you mean: agent-worker {command} {shlex.join(words)}"


def _filled(form: str, words: Sequence[str]) -> str:
    """`set KEY VALUE` with as many words as were typed; words too many were one text."""
    verb, *places = [place for place in form.split() if not place.startswith("[")]
    is_wrong = places[-1:] == ["NUMBER"] and not "".join(words[1:]).isdecimal()
    given = [] if is_wrong else list(words[1:])
    last = [" ".join(given[len(places) - 1 :])] if places and len(given) >= len(places) else []
    filled = [*given[: len(places) - 1], *last] if places else []
    more = ["1" if place == "NUMBER" else "…" for place in places[len(filled) :]]
    return shlex.join([verb, *filled, *more]).replace("'…'", '"…"')
