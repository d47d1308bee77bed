"""What a person sees: text made safe for a terminal, colours where they are wanted, errors with the next step."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar

import click

from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.states import told
from agent_worker.core.text import clean

F = TypeVar("F", bound=Callable[..., Any])

_ASKED = 120  #: characters of what a person is asked, beside the command that answers it
_STATES = {
    "running": "cyan",
    "idle": "green",
    "done": "green",
    "paused": "yellow",
    "waiting": "yellow",
    "error": "red",
    "broken": "red",
    "failed": "red",
}


def echo(text: str = "", *, err: bool = False) -> None:
    """Lines for a person. On a terminal words are kept whole, and what does not fit stands beneath its beginning.

    A line that is a command is left as it is: the terminal breaks it without a break in what is copied.
    """
    stream = sys.stderr if err else sys.stdout
    if not stream.isatty():
        return click.echo(text, err=err)
    from agent_worker.cli.wrapping import hanging

    for line in text.split("\n"):
        click.echo("\n".join(hanging(line, terminal_columns(err=err) or 80)), err=err)


def wants_colour() -> bool:
    return "NO_COLOR" not in os.environ and sys.stdout.isatty()


def paint(text: str, colour: str, *, bold: bool = False) -> str:
    return click.style(text, fg=colour, bold=bold) if wants_colour() else text


def paint_state(state: str, waiting: Mapping[str, Any] | None = None) -> str:
    return paint(told(state, waiting["what"] if waiting else ""), _STATES.get(state, "white"))


def complain(error: AgentWorkerError) -> None:
    """Say what went wrong, and what to do; where JSON was asked for, as JSON where the answer would have stood.

    Where JSON cannot be written it is said to the person; where that cannot be either, the exit code says it alone.
    """
    if "--json" in sys.argv[1:]:
        with suppress(OSError):
            return tell_json({"error": {"code": error.code, "message": error.message, "hint": error.hint}})
    with suppress(OSError):
        echo(clean(f"error: {error.message}"), err=True)
        if error.hint and error.hint not in error.message:
            echo(clean(f"  hint: {error.hint}"), err=True)


def agreed(question: str) -> bool:
    """Ask the person, who says yes or no; nothing means no. Ctrl-C and Ctrl-D end the command."""
    while True:
        try:
            said = click.prompt(f"{question} [y/N]", default="", show_default=False, err=True)
        except click.Abort:
            click.echo("\nnothing was done", err=True)
            raise
        if said.strip().lower() in ("", "n", "no", "y", "yes"):
            return said.strip().lower().startswith("y")
        echo("please answer y or n", err=True)


def as_json_option(command: F) -> F:
    """`--json`, for scripts."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def is_json_option(command: F) -> F:
    """`--json`, for what is JSON anyway: scripts may say it everywhere."""
    return click.option("--json", is_flag=True, expose_value=False, help="Print JSON (always on).")(command)


def tell(sentence: str, as_json: bool, **facts: Any) -> None:
    """Print what was done: a sentence for people, its facts for scripts."""
    tell_json({**facts, "told": sentence}) if as_json else echo(clean(sentence))


def for_people(message: Mapping[str, Any], at: str) -> str:
    """The text of a message in the channel `at`: where members of a team are told a tool, a person reads a command."""
    text = str(message["text"])
    if message.get("kind") == "proposal":
        return text.partition("\nTo vote: team_vote(")[0]
    if id := message.get("resource"):
        return text.replace(f"resource_read {id}", f"agent-worker resource read @{at.rpartition('@')[2]} {id[:12]}")
    return text


def tell_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=True))


def tell_table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str = "") -> None:
    """Print aligned columns. Cells that a narrow terminal has no room for stand beneath their row."""
    if not rows:
        return echo(empty or "nothing")
    from agent_worker.cli.table import table_lines

    heading, *lines = table_lines(titles, [[clean(str(cell)) for cell in row] for row in rows], terminal_columns())
    click.echo(paint(heading, "bright_black"))
    for line in lines:
        click.echo(line)


def terminal_columns(*, err: bool = False) -> int | None:
    """How wide the terminal is; None where nobody looks."""
    if not (sys.stderr if err else sys.stdout).isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def ago(micros: int | None) -> str:
    """A time as people say it."""
    if micros is None:
        return "never"
    seconds = time.time() - micros / 1e6
    if seconds < 0:
        return f"in {_ahead(-seconds)}"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit} ago"
    return f"{int(seconds)}s ago"


def _ahead(seconds: float) -> str:
    """A time that is yet to pass, to the nearest that is worth saying: three hours less a second are `3h`."""
    if round(seconds) < 60:
        return f"{round(seconds)}s"
    if (minutes := round(seconds / 60)) < 60:
        return f"{minutes}m"
    if minutes < 1440:
        return f"{minutes // 60}h" + (f" {minutes % 60}m" if minutes % 60 else "")
    hours = round(seconds / 3600)
    return f"{hours // 24}d" + (f" {hours % 24}h" if hours % 24 else "")


def usd(amount: float, estimated: bool = False) -> str:
    """Money, which is marked where it rests on a guess."""
    said = f"{amount:.2f} USD" if amount >= 0.01 or amount == 0 else f"{amount:.4f} USD"
    if 0 < amount < 0.0001:
        said = "under 0.0001 USD"
    return f"{said} (estimated)" if estimated else said


def waits(reason: str, waiting: Mapping[str, Any] | None) -> str:
    """Why an agent does not work; if it waits, since when, until when if that is known, and what to type.

    What the command shows whole is cut here, so that the command is seen in a narrow terminal too.
    """
    if waiting is None:
        return reason
    if waiting["command"] and len(reason) > _ASKED:
        reason = f"{reason[: _ASKED - 1]}…"
    until = f", until {_time(waiting['until'])}" if waiting["until"] else ""
    command = f" → {waiting['command']}" if waiting["command"] else ""
    return f"{reason} (since {_time(waiting['since'])}{until}){command}"


def key_lies_here(reason: str) -> str:
    """How a missing key gets to the daemon, where this shell has it: only those of known providers are passed on."""
    name = reason.rpartition(" key set ")[2]
    if name not in os.environ:
        return ""
    return f"{name} is set in this shell; to give it to the daemon: printenv {name} | agent-worker key set {name}"


def _time(micros: int) -> str:
    at = datetime.fromtimestamp(micros / 1e6)
    return at.strftime("%H:%M:%S" if at.date() == datetime.now().date() else "%d %b %H:%M")
