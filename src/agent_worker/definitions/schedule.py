"""When an agent or a workflow begins by itself: after a time of rest, by a cron line, or once at a moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BeforeValidator, Field

from agent_worker.core.address import NAME, TAG
from agent_worker.definitions.block import Block, Broken, only_one_of, wrong
from agent_worker.definitions.fields import Name, Text, parse_duration

SHORTEST = 10.0  #: seconds; a shorter rest would be a busy loop that spends money


def _is_cron(text: str) -> bool:
    return " " in text.strip()


def _wakeup(text: str) -> str:
    text = text.strip()
    if not _is_cron(text):
        if parse_duration(text) < SHORTEST:
            raise wrong(f"must be at least {SHORTEST:.0f}s")
        return text
    if len(text.split()) != 5:
        raise wrong("a cron line has five fields", "minute hour day month weekday, such as 0 9 * * 1-5")
    try:
        first = next(CronSim(text, datetime(2026, 1, 1)), None)
    except CronSimError as error:
        raise wrong(f"is not a cron line: {error}", "such as 0 9 * * 1-5") from None
    if first is None:
        raise wrong("this cron line never comes due")
    return text


def _zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (ValueError, OSError, KeyError):  # by what is wrong with it: form, a folder of zones, not there
        raise wrong("is not a time zone", "such as Europe/Berlin or UTC") from None
    return text


def _moment(value: Any) -> datetime:
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise wrong("must be a date and time", "such as 2026-08-01T09:00, with tz: or an offset") from None
    if not 1970 < moment.year < 9999:  # in another time zone the first and the last day of all would be none
        raise wrong("must be a year after 1970 and before 9999")
    return moment


def _workspace(text: str) -> str:
    workflow, colon, tag = text.partition(":")
    if not NAME.fullmatch(workflow) or bool(TAG.fullmatch(tag)) != bool(colon):
        raise wrong("must be a workflow or workflow:tag", "such as review or review:pr-123")
    return text


class Timing(Block):
    wakeup: Annotated[str, AfterValidator(_wakeup)] | None = None
    at: Annotated[datetime, BeforeValidator(_moment, json_schema_input_type=str)] | None = None
    tz: Annotated[str, AfterValidator(_zone)] | None = None  #: of the cron line or of `at`; UTC when omitted

    @classmethod
    def rules(cls, written: Mapping[str, Any]) -> Iterator[Broken]:
        if not only_one_of(written, "wakeup", "at"):
            yield Broken((), "needs exactly one of wakeup, at")
        wakeup = written.get("wakeup")
        if written.get("tz") is not None and isinstance(wakeup, str) and not _is_cron(wakeup):
            yield Broken(("tz",), "has no meaning for an interval", "remove it, or write a cron line")

    @property
    def interval(self) -> float | None:
        """Seconds of rest before it is due, counted from the last activity."""
        return None if self.wakeup is None or _is_cron(self.wakeup) else parse_duration(self.wakeup)

    @property
    def cron(self) -> str | None:
        return self.wakeup if self.wakeup is not None and _is_cron(self.wakeup) else None

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.tz or "UTC")

    @property
    def moment(self) -> datetime | None:
        """The time of `at`, in UTC."""
        if self.at is None:
            return None
        return (self.at if self.at.tzinfo else self.at.replace(tzinfo=self.zone)).astimezone(UTC)


class Schedule(Timing):
    """When an agent wakes by itself."""

    prompt: Text = "You were woken by your schedule. Look for work that waits for you."
    workspace: Annotated[str, AfterValidator(_workspace)] | None = None  #: workflow (any instance), workflow:tag


class WorkflowSchedule(Timing):
    """Of a workflow: it is run when it is due; one that is kept alive is kicked off again."""

    misplaced: ClassVar[Mapping[str, str]] = {"workspace": "has no place here: the workflow has its own"}

    prompt: Text | None = None  #: said after the kickoff; in one that is kept alive, instead of it
    params: dict[Name, str] = Field(default_factory=dict)
