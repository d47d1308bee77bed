"""Where the person is told what waits for them: `notify.yaml` in the daemon's home. A project has no say in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from agent_worker.core.item_kinds import Kind
from agent_worker.definitions.block import Block, Broken, wrong
from agent_worker.definitions.fields import Duration, Flag, Line, Name
from agent_worker.definitions.problems import validate
from agent_worker.definitions.source import read_source

FILE = "notify.yaml"  #: in the home
_NEEDS = {"webhook": ("url",), "ntfy": ("url",), "command": ("command",), "email": ("server", "sender", "recipient")}


def _web(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise wrong("must be an address", "such as https://ntfy.sh/my-topic")
    return value


def _hours(value: str) -> str:
    begin, _, end = value.partition("-")
    for each in (begin, end):
        hour, _, minute = each.strip().partition(":")
        if not (hour.isdecimal() and minute.isdecimal() and int(hour) < 24 and int(minute) < 60):
            raise wrong("must be two times of the day", 'such as "22:00-07:00"')
    return value


class Sink(Block):
    """One place where the person is told."""

    to: Literal["webhook", "ntfy", "command", "email"] = Field(description="how it is told", examples=["ntfy"])
    url: Annotated[Line, AfterValidator(_web)] | None = Field(None, description="for webhook and ntfy")
    secret: Line | None = Field(None, description="webhook: signs what is sent; ntfy: its token; $NAME is a variable")
    command: Line | None = Field(None, description="for command: it finds NOTICE_TITLE, NOTICE_TEXT and NOTICE_JSON")
    server: Line | None = Field(None, description="for email: host:port, with STARTTLS, or smtps://host:port")
    user: Line | None = Field(None, description="for email: the login at the server, with password")
    password: Line | None = Field(None, description="for email; $NAME is a variable")
    sender: Line | None = Field(None, description="of email")
    recipient: Line | None = Field(None, description="of email")
    kinds: tuple[Kind, ...] = Field((), description="which items; all by default", examples=[["question", "approval"]])
    quiet: Annotated[Line, AfterValidator(_hours)] | None = Field(
        None, description="hours in which nothing is sent, in this machine's time", examples=["22:00-07:00"]
    )
    digest: Duration | None = Field(None, description="what arrives in this time is sent as one", examples=["15m"])
    again: Duration | None = Field(None, description="remind you after this long, while it is open", examples=["4h"])
    links: Flag = Field(
        True,
        description="include an answer link, if public_url is set: anyone who has it can answer",
        examples=[False],
    )

    @classmethod
    def rules(cls, written: Mapping[str, Any]) -> Iterator[Broken]:
        for key in _NEEDS.get(str(written.get("to")), ()):
            if not written.get(key):
                yield Broken((key,), f"is required for {written['to']}")


class Notifications(Block):
    sinks: dict[Name, Sink] = Field(default_factory=dict, description="each under its own name")


def read_notifications(home: Path) -> Notifications:
    """What the person's file says; nothing without one. Raises DefinitionError."""
    file = home / FILE
    return validate(Notifications, read_source(file), defaults={}) if file.exists() else Notifications()
