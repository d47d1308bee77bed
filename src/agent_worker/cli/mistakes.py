"""What was typed wrong, as an error like any other: what is wrong, and a command that does what was meant."""

from __future__ import annotations

import itertools
import re
import shlex
import sys
from collections.abc import Container, Iterable, Sequence

import click

from agent_worker.cli.call import call, here, is_answered
from agent_worker.core.address import as_written, canonical
from agent_worker.core.errors import AgentWorkerError, BadInput, NotFound, Slip
from agent_worker.core.suggestion import slip_of

_REPEATED = 120  # characters of what was typed that a hint says again
#: What arguments are called that are texts of a person.
_TEXTS = frozenset({"message", "text", "reason", "question", "choice"})
#: What people type that is called otherwise here, by the command it is typed after.
CALLED_OTHERWISE = {
    "agent-worker": {
        **dict.fromkeys(("log", "logs", "tail"), "agent-worker daemon logs"),
        **dict.fromkeys(("tell", "message", "msg"), "agent-worker send"),
        **dict.fromkeys(("kill", "shutdown", "quit", "restart"), "agent-worker stop --all"),
        **dict.fromkeys(("ps", "show", "agents", "workflows"), "agent-worker ls"),
        **dict.fromkeys(("approve", "revoke"), "agent-worker trust"),
        **dict.fromkeys(("answer", "reply"), "agent-worker inbox"),
        **dict.fromkeys(("cost", "costs", "usage"), "agent-worker stats"),
        **dict.fromkeys(("check", "lint"), "agent-worker validate"),
        **dict.fromkeys(("add", "create"), "agent-worker agent create"),
        **dict.fromkeys(("page", "ui", "open"), "agent-worker web"),
        **{
            each: f"agent-worker agent {each}"
            for each in ("memory", "notes", "todo", "soul", "revert", "release", "info", "edit", "delete")
        },
        **{each: f"agent-worker inbox {each}" for each in ("deny", "retry", "dismiss")},
        "up": "agent-worker start",
        "down": "agent-worker stop",
        "vote": "agent-worker proposal vote",
        "help": "agent-worker --help",
    },
    "agent-worker agent": {
        **dict.fromkeys(("inspect", "describe"), "agent-worker agent info"),
        "new": "agent-worker new",
    },
    "agent-worker daemon": {
        **dict.fromkeys(("stop", "down", "kill", "restart"), "agent-worker stop --all"),
        **dict.fromkeys(("start", "up"), "agent-worker daemon run"),
        "log": "agent-worker daemon logs",
    },
    "agent-worker doc": {"cat": "agent-worker doc read"},
    "agent-worker inbox": dict.fromkeys(("show", "list", "ls", "all"), "agent-worker inbox"),
}
#: What people type on any level, and what it may be called there: the first of these that there is.
_SAME = {
    **dict.fromkeys(("show", "get", "view", "read", "cat", "print"), ("show", "info", "read", "get", "list")),
    **dict.fromkeys(("ls", "all"), ("list",)),
    **dict.fromkeys(
        ("rm", "remove", "delete", "del", "drop", "unset", "uninstall", "off"),
        ("delete", "remove", "clear", "dismiss", "revoke", "forget", "done"),
    ),
    **dict.fromkeys(("add", "new", "make", "create"), ("create", "set", "import", "append", "add")),
    **dict.fromkeys(("edit", "write", "change", "update"), ("edit", "write", "set")),
    **dict.fromkeys(("finish", "tick", "check", "complete"), ("done",)),
    **dict.fromkeys(("close", "end"), ("cancel",)),
    **dict.fromkeys(("history", "versions"), ("log", "list")),
    **dict.fromkeys(("revert", "undo", "restore"), ("rollback",)),
    **dict.fromkeys(("move", "copy"), ("migrate",)),
}


def same_as(word: str, known: Container[str]) -> str | None:
    """What a verb that people type is called among those there are; '' if none of them is it, None for no verb."""
    return next((each for each in _SAME[word] if each in known), "") if word in _SAME else None


#: What is done to files, and not to agents.
_NOT_DONE = ("rename", "mv", "move", "copy", "cp", "clone")

#: Which command lists what there is, for one who named something that is not there. {} is the third word, whose it is.
LISTED_BY = {
    "agent soul": "agent soul {} log",
    "agent memory": "agent memory {}",
    "agent notes": "agent notes {}",
    "agent todo": "agent todo {}",
    "agent release": "agent memory {}",
    "agent": "agent list",
    "doc": "doc list {}",
    "key": "key list",
    "proposal": "proposal list {}",
    "providers": "providers",
    "remote": "remote list",
    "resource": "resource list {}",
    "schedule": "schedule list",
}
#: Those of them that begin with a workspace, which need not be typed.
_MAY_BE_LEFT_OUT = ("doc", "proposal", "resource")


#: Commands that take a team as well as an agent, so that `@` before its name is all that is missing.
_TAKES_TEAMS = frozenset({"send", "ask", "chat", "peek", "stop", "pause", "resume", "export", "status", "ls", "clear"})


def pointed(error: AgentWorkerError, typed: Sequence[str]) -> AgentWorkerError:
    """An error about something that is not there names a command: the same with the name that was probably meant.

    Else one that lists what there is, else the help.
    """
    if error.slip and error.slip.meant.startswith("@") and typed[:1] and typed[0] not in _TAKES_TEAMS:
        return type(error)(error.message, hint="agent-worker ls (agents and workflows)", slip=error.slip)
    if swapped := _swapped(error, typed):
        return type(error)(error.message, hint=f"did you mean: agent-worker {swapped}", slip=error.slip)
    if isinstance(error, NotFound) and (at := _member(error, typed) or _tag(error, typed)):
        return NotFound(error.message, hint=at)
    if error.slip and (again := _again(error.slip, typed)):
        return type(error)(error.message, hint=f"did you mean: agent-worker {again}", slip=error.slip)
    if typed[:1] in (["run"], ["start"], ["serve"]) and (given := _with_params(error, typed)):
        return type(error)(error.message, hint=given, slip=error.slip)
    if isinstance(error, NotFound) and (instead := _of_agent(error, typed)):
        return NotFound(error.message, hint=instead)
    if not isinstance(error, NotFound) or "agent-worker" in error.hint:
        return error
    words = [word for word in typed if not word.startswith("-")]
    listing = LISTED_BY.get(" ".join(words[:2])) or LISTED_BY.get(" ".join(words[:1]))
    if listing and listing.startswith(_MAY_BE_LEFT_OUT):
        command = listing.format(*words[2:3] if words[2:3] and words[2].startswith("@") else [""]).rstrip()
    elif listing and ("{}" not in listing or words[2:]):
        command = listing.format(*words[2:3])
    else:
        command = " ".join([*words[:1], "--help"])
    said = f"{error.hint}; see " if error.hint else ""
    return NotFound(error.message, hint=f"{said}agent-worker {command}")


def _swapped(error: AgentWorkerError, typed: Sequence[str]) -> str:
    """The line that was typed, with the address before the message: `ask hi zoe` is `ask zoe hi`."""
    if not isinstance(error, NotFound | BadInput) or typed[:1] not in (["send"], ["ask"], ["run"]):
        return ""
    match [at for at, word in enumerate(typed) if at and not word.startswith("-")]:
        case [first, second] if typed[first] in error.message and _is_there(typed[second], to_run=typed[0] == "run"):
            words = list(typed)
            words[first], words[second] = words[second], words[first]
            line = shlex.join(words)
            return line if len(line) <= _REPEATED else f"{shlex.join(words[:second])} …"
    return ""


def _member(error: NotFound, typed: Sequence[str]) -> str:
    """`send @ben hi` calls on a member, as one does in a channel: it is `send ben@review hi`."""
    match typed:
        case ["send" | "ask" | "chat" | "peek" as verb, at, *rest] if at[:1] == "@" and at[1:] in error.message:
            for team in call("GET", "/instances", project=here()):
                if at[1:] in team["members"] and team["state"] in ("running", "paused"):
                    line = shlex.join(["agent-worker", verb, f"{at[1:]}@{team['name']}", *rest])
                    return f"did you mean: {line}" if len(line) <= _REPEATED else ""
    return ""


def _with_params(error: AgentWorkerError, typed: Sequence[str]) -> str:
    """The line that was typed, with the parameters that the workflow needs, which the hint has behind `--`."""
    line, params, values = error.hint.partition(" -- ")
    if not line.startswith("agent-worker run ") or not params:
        return ""
    whole = shlex.join(["agent-worker", *itertools.takewhile(lambda word: word != "--", typed)])
    return f"{whole}{params}{values}" if len(whole) <= _REPEATED else error.hint


def _tag(error: NotFound, typed: Sequence[str]) -> str:
    """`stop pr-9` names an instance by its tag: it is `stop @pr-9`."""
    match typed:
        case [verb, tag, *rest] if verb in _TAKES_TEAMS and tag in error.message:
            tags = [as_written(str(team["name"]))[1] for team in call("GET", "/instances", project=here())]
            line = shlex.join(["agent-worker", verb, f"@{tag}", *rest])
            return f"did you mean: {line}" if tags.count(tag) == 1 and len(line) <= _REPEATED else ""
    return ""


def _of_agent(error: NotFound, typed: Sequence[str]) -> str:
    """Where the ids are that a command wants, for whoever gave it the name of an agent."""
    match typed:
        case ["explain" | "trace" | "cancel" as verb, name, *_] if name in error.message:
            known = [one["name"] for one in call("GET", "/agents", project=here())]
            if meant := canonical(name, known):
                return f"agent-worker agent info {meant}" if verb == "cancel" else f"agent-worker runs --agent {meant}"
    return ""


def _is_there(name: str, *, to_run: bool) -> bool:
    """Whether an agent, a channel or a workflow is called this."""
    paths = ["/agents", "/workflows" if to_run else "/instances"]
    known = [one["name"] for path in paths for one in call("GET", path, project=here())]
    return canonical(name.rpartition("@")[2], known) is not None


def _again(slip: Slip, typed: Sequence[str]) -> str:
    """The line that was typed, with the name that was probably meant in place of the one that does not exist."""
    place = re.compile(rf"(^|[@:]){re.escape(slip.typed)}($|[@:.])", re.IGNORECASE)
    at = next((n for n, word in enumerate(typed) if place.search(word)), None)
    if at is None:
        return ""
    words = [*typed[:at], place.sub(lambda found: f"{found[1]}{slip.meant}{found[2]}", typed[at], count=1)]
    if words[at] == typed[at]:  # it is the name of an agent, written like a channel
        words[at] = words[at].removeprefix("@")
    whole = shlex.join([*words, *typed[at + 1 :]])
    return whole if len(whole) <= _REPEATED else f"{shlex.join(words)} …"


def unforeseen(error: Exception) -> AgentWorkerError:
    """An error that we did not expect, as one for people. Mostly it comes of a daemon that another version of this
    program has started.
    """
    what = f"it has no {error}" if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
    if is_answered():
        told = f"the daemon's answer is not what this version expects ({what})"
        return AgentWorkerError(told, hint="restart the daemon, nothing is lost: agent-worker stop --all")
    hint = "to report it, find out where it happened: PYTHONDEVMODE=1 agent-worker …"
    return AgentWorkerError(f"this should not have happened: {what}", hint=hint)


def explained(error: click.ClickException, cli: click.Command) -> BadInput:
    """A mistake that click found in what was typed for `cli`, in our words."""
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    if ctx is None:  # so it is for an option whose value is missing, or is not wanted
        said = error.format_message().rstrip(".")
        return BadInput(f"{said[:1].lower()}{said[1:]}", hint=f"{_command_typed(cli)} --help")
    match error:
        case click.exceptions.NoSuchCommand():
            return _unknown_command(ctx, error.command_name)
        case click.NoSuchOption():
            return _unknown_option(ctx, error.option_name)
        case click.MissingParameter():
            missing = error.param.make_metavar(ctx) if isinstance(error.param, click.Argument) else ""
            told = f"{missing.strip('[].')} is missing" if missing else error.format_message().rstrip(".")
            return BadInput(f"{told}{_usage(ctx)}", hint=f"{ctx.command_path} --help")
        case click.BadParameter(param=click.Parameter(type=click.Choice() as known)):
            return _not_one_of(ctx, error, known)
    if line := _in_quotes(ctx):
        return BadInput("a text of several words is written in quotes", hint=f"did you mean: {line}")
    if extra := re.fullmatch(r"Got unexpected extra arguments? \((.*)\)", error.format_message()):
        told = f"{'too many words' if ' ' in extra[1] else 'one word too many'}: {extra[1]}"
        told += f" ({usage.removeprefix(': ')})" if (usage := _usage(ctx)) else ""
        return BadInput(told, hint=_as_option(ctx, extra[1]) or _alone(ctx))
    said = re.sub("is not a valid float( range)?", "is not a number", error.format_message())
    said = re.sub(r"is not a valid integer( range)?", "is not a whole number", said.rstrip("."))
    return BadInput(f"{said[:1].lower()}{said[1:]}{_usage(ctx)}", hint=f"{ctx.command_path} --help")


def _command_typed(cli: click.Command) -> str:
    """The command that was typed, without what follows it."""
    command, path = cli, ["agent-worker"]
    for word in sys.argv[1:]:
        found = command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
        if found is None:
            break
        command = found
        path.append(word)
    return " ".join(path)


def _not_one_of(ctx: click.Context, error: click.BadParameter, known: click.Choice[str]) -> BadInput:
    """The error for a word where only a few are possible."""
    choices = [str(each) for each in known.choices]
    found = re.search(r"'([^']*)' is not one of", error.format_message())
    told = f"{found[0] if found else 'it must be one of'} {', '.join(choices)}"
    typed, meant = (found[1], nearest(found[1], choices) or choices[0]) if found else ("", choices[0])
    line = shlex.join(["agent-worker", *(meant if word == typed else word for word in sys.argv[1:])])
    return BadInput(told, hint=line if typed in sys.argv and len(line) <= _REPEATED else f"{ctx.command_path} --help")


def _alone(ctx: click.Context) -> str:
    """The command by itself, where it takes nothing at all that the word could have been; else its help."""
    takes = any(not (isinstance(each, click.Option) and each.is_flag) for each in ctx.command.params)
    return f"{ctx.command_path} --help" if takes else ctx.command_path


def _as_option(ctx: click.Context, extra: str) -> str:
    """The line that was typed, with a word that is too much as the value of an option; '' if none takes it."""
    for word, each in itertools.product([extra, *ctx.params.values()], ctx.command.params):
        takes = word in each.type.choices if isinstance(each.type, click.Choice) else each.name == "agent"
        if isinstance(each, click.Option) and takes and word in sys.argv and each.opts[0] not in sys.argv:
            at = sys.argv.index(word)
            whose = word.partition("@")[0]  # of a member the agent; a channel is none
            line = shlex.join(["agent-worker", *sys.argv[1:at], each.opts[0], whose, *sys.argv[at + 1 :]])
            if not whose:
                continue
            return f"did you mean: {line}" if len(line) <= _REPEATED else ""
    return ""


def _in_quotes(ctx: click.Context) -> str:
    """The line that was typed, its last words as one text; '' where the command takes no text, or it is too long."""
    arguments = [each for each in ctx.command.params if isinstance(each, click.Argument)]
    last = arguments[-1].name if arguments else None
    if last not in _TEXTS or not (begins := ctx.params.get(last)) or begins not in sys.argv:
        return ""
    at = sys.argv.index(begins)
    texts = list(itertools.takewhile(lambda word: not word.startswith("-"), sys.argv[at:]))
    line = in_quotes(texts)
    return line if len(line) <= _REPEATED else ""


def in_quotes(texts: Sequence[str], *, before: Sequence[str] = ()) -> str:
    """The line that was typed, with these words in it as one text, and its options where they were.

    `before` are words that were typed earlier.
    """
    line, left, skip = ["agent-worker"], list(texts), list(before)
    for word in sys.argv[1:]:
        if skip and word == skip[0]:
            line.append(skip.pop(0))
        elif skip or not left or word != left[0]:
            line.append(word)
        else:
            left.pop(0)
            if len(left) + 1 == len(texts):
                line.append(" ".join(texts))
    return shlex.join(line)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    slip = slip_of(name, known)
    return slip.meant if slip else None


def _unknown_command(ctx: click.Context, name: str) -> BadInput:
    group = ctx.command
    assert isinstance(group, click.Group)
    known = group.list_commands(ctx)
    otherwise = {
        word: f"{ctx.command_path} {there}" for word in _SAME if ctx.parent and (there := same_as(word, known))
    } | CALLED_OTHERWISE.get(ctx.command_path, {})
    if name == "help" and (rest := _behind(name)):
        hint = f"{ctx.command_path}{rest} --help"
    elif name.isdecimal() and ctx.info_name == "inbox":
        hint = f"{ctx.command_path} (it shows everything)"
    elif name in _NOT_DONE and ctx.info_name == "agent":
        return BadInput("an agent keeps its name and its files", hint="agent-worker agent create --help")
    elif name in otherwise:
        hint = otherwise[name] + (" (it shows everything)" if otherwise[name] == ctx.command_path else _behind(name))
    elif elsewhere := _on_top(ctx, name):
        hint = f"agent-worker {elsewhere}{_behind(name)}"
    elif meant := nearest(name, known):
        hint = f"did you mean: {ctx.command_path} {meant}{_behind(name)}"
    else:
        near = nearest(name, otherwise)
        hint = f"{otherwise[near]}{_behind(name)}" if near else f"{ctx.command_path} --help"
    return BadInput(f"there is no command {name!r}" + _within(ctx), hint=hint)


def _on_top(ctx: click.Context, name: str) -> str:
    """The command of this name, where it was typed behind another: `agent audit alice` is `audit alice`."""
    root = ctx.find_root()
    if root is ctx or ctx.info_name == "context":  # the person's commands are refused where `context` is typed
        return ""
    assert isinstance(root.command, click.Group)
    found = root.command.get_command(root, name)
    return found.name or "" if found else ""


def _behind(word: str) -> str:
    """What was typed after a word, so that the line can be used again; a long text is left to the person."""
    typed = sys.argv[sys.argv.index(word) + 1 :] if word in sys.argv else []
    again = shlex.join(typed)
    return f" {again}" if 0 < len(again) <= _REPEATED else ""


def _within(ctx: click.Context) -> str:
    return f" in {ctx.command_path}" if ctx.parent else ""


def _unknown_option(ctx: click.Context, name: str) -> BadInput:
    known = [option for parameter in ctx.command.get_params(ctx) for option in parameter.opts if option[:2] == "--"]
    words = {option.removeprefix("--"): option for option in known}
    meant = words.get(nearest(name.removeprefix("--"), words) or "")
    hint = f"did you mean: {_with(name, meant) or f'{ctx.command_path} {meant}'}" if meant else _moved(ctx, name)
    return BadInput(f"{ctx.command_path} has no option {name}", hint=hint or f"{ctx.command_path} --help")


def _moved(ctx: click.Context, option: str) -> str:
    """The line that was typed with an option before its command, where it belongs: `--json ls` is `ls --json`."""
    rest = [word for word in sys.argv[1:] if word != option]
    group = ctx.command
    found = group.get_command(ctx, rest[0]) if isinstance(group, click.Group) and not ctx.parent and rest else None
    if found is None or not any(option in each.opts for each in found.params):
        return ""
    return f"did you mean: {shlex.join(['agent-worker', *rest, option])}"


def _with(option: str, meant: str) -> str:
    """The line that was typed, with another option in this one's place; '' where it is too long to repeat."""
    typed = [meant + word.removeprefix(option) if word.partition("=")[0] == option else word for word in sys.argv[1:]]
    line = shlex.join(["agent-worker", *typed])
    return line if meant in line and len(line) <= _REPEATED else ""


def _usage(ctx: click.Context) -> str:
    """How the command is typed, without optional parts; shown after what is wrong."""
    needed = [
        each.type.choices[0] if isinstance(each.type, click.Choice) else each.make_metavar(ctx)
        for each in ctx.command.params
        if isinstance(each, click.Argument) and each.required
    ]
    return f": {' '.join([ctx.command_path, *needed])}" if needed else ""
