"""What a person sees: text made safe for a terminal, colours where they are wanted, errors with the next step."""

from __future__ import annotations

import os
import re
import sys

import click

from agent_worker.errors import AgentWorkerError

# Control characters, but for newline and tab; C1; and the marks that reorder or hide what is shown.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")


def clean(text: str) -> str:
    """Nothing in it can move the cursor, change colours or hide: what would, is shown as what it is."""
    return _UNSAFE.sub(lambda found: f"\\x{ord(found.group()):02x}", text)


def wants_colour(stream: object = None) -> bool:
    stream = stream or sys.stdout
    return "NO_COLOR" not in os.environ and getattr(stream, "isatty", lambda: False)()


def paint(text: str, colour: str, *, bold: bool = False) -> str:
    return click.style(text, fg=colour, bold=bold) if wants_colour() else text


def complain(error: AgentWorkerError) -> None:
    click.echo(clean(f"error: {error.message}"), err=True)
    if error.hint:
        click.echo(clean(f"  try: {error.hint}"), err=True)
