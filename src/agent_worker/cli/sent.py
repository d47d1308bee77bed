"""What `explain --full` prints: what a model was sent, as it was sent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import click

from agent_worker.cli.output import echo, paint
from agent_worker.core.text import clean, plural

_GONE = "(not kept)"


def tell_sent(sent: Mapping[str, Any]) -> None:
    for part, sections in groupby(sent["sections"], key=lambda section: section["part"]):
        _title("system prompt" if part == "system" else "prompt")
        for section in sections:
            _entry(section["name"], _GONE if section["text"] is None else section["text"])
    _tools(sent["tools"])
    for number, request in enumerate(sent["requests"], start=1):
        _title(f"request {number}: {'all of the above' if number == 1 else 'the same'}{_added(request)}")
        for message in request["added"]:
            _message(message)
        if not request["answered"]:
            echo("(no answer to it is kept)")
    if lesson := sent["lesson"]:
        _title(f"after the run, to learn from it: {lesson['model']}")
        for name in ("system", "prompt", "answer"):
            _entry(name, lesson[name] or _GONE)
    _notes(sent)


def _added(request: Mapping[str, Any]) -> str:
    return ", and what was said and called since:" if request["added"] else ""


def _tools(tools: Sequence[Mapping[str, Any]] | None) -> None:
    _title("tools" if tools is None else plural(len(tools), "tool"))
    for tool in tools or ():
        _entry(tool["name"], f"{tool['description']}\n{json.dumps(tool['schema'], ensure_ascii=False)}")
    if tools is None:
        echo(_GONE)


def _message(message: Mapping[str, Any]) -> None:
    match message["role"]:
        case "assistant":
            _entry("it said", message["text"])
            for call in message["calls"]:
                _entry(f"it called {call['tool']}", json.dumps(call["arguments"], ensure_ascii=False))
        case "tool":
            pictures = f", with {plural(message['images'], 'image')}" if message["images"] else ""
            _entry(f"{message['tool']} {'returned' if message['ok'] else 'failed'}{pictures}", message["text"])
        case _:
            _entry("it was told", message["text"])


def _notes(sent: Mapping[str, Any]) -> None:
    if sent["program"]:
        told = f"this is what {sent['program']} was given; we do not know what it adds for its model"
        echo(f"\n{clean(told)}")
    if sent["redacted"]:
        echo("\nsecrets are removed from what is kept: where it says [redacted:…], the model may have seen one")
    if sent["missing"]:
        echo(f"\n{clean(sent['missing'])}")


def _title(text: str) -> None:
    echo(f"\n{paint(clean(text), 'cyan', bold=True)}")


def _entry(name: str, text: str) -> None:
    """A text with its name over it; nothing when there is no text."""
    if text:
        echo(paint(f"── {clean(name)}", "bright_black"))
        click.echo(clean(text))
