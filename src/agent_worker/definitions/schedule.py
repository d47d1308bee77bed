"""When an agent or a workflow begins by itself: after a rest, at times said in words or by a cron line, or once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field

from agent_worker.core.address import NAME, TAG, as_written
from agent_worker.definitions.block import Block, Broken, only_one_of, wrong
from agent_worker.definitions.fields import Name, Text
from agent_worker.definitions.wakeup import Wakeup, read_wakeup, said


def _wakeup(text: str) -> str:
    read_wakeup(text)
    return text.strip()


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
    workflow, tag = as_written(text)
    if not NAME.fullmatch(workflow) or (tag is not None and not TAG.fullmatch(tag)):
        raise wrong("must be a workflow or workflow:tag", "such as review or review:pr-123")
    return text


def _is_interval(wakeup: object) -> bool:
    try:
        return isinstance(wakeup, str) and read_wakeup(wakeup).interval is not None
    except ValueError:  # told where it stands
        return False


class Timing(Block):
    called_here: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("every", "cron", "interval", "when"), "wakeup: …"),
        **dict.fromkeys(("timezone", "time_zone"), "tz: …"),
    }

    wakeup: Annotated[str, AfterValidator(_wakeup)] | None = Field(
        None,
        description="a rest, times in words, or a cron line; or use at instead",
        examples=["every 2h", "weekdays at 9"],
    )
    at: Annotated[datetime, BeforeValidator(_moment, json_schema_input_type=str)] | None = Field(
        None, description="once, at this date and time", examples=["2026-08-01T09:00"]
    )
    tz: Annotated[str, AfterValidator(_zone)] | None = Field(
        None,
        description="the time zone of a time of day, or of at",
        examples=["Europe/Berlin"],
        json_schema_extra={"default": "UTC"},
    )
    check: Text | None = Field(
        None,
        description="a command to run when it is due: if it prints nothing, no model is asked",
        examples=["ls incoming"],
    )

    @classmethod
    def rules(cls, written: Mapping[str, Any]) -> Iterator[Broken]:
        if not only_one_of(written, "wakeup", "at"):
            yield Broken((), "needs exactly one of wakeup, at")
        if written.get("tz") is not None and _is_interval(written.get("wakeup")):
            yield Broken(("tz",), "makes no sense for an interval", "remove it, or name a time: daily at 9")

    @property
    def interval(self) -> float | None:
        """Seconds of rest before it is due, counted from the last activity."""
        return self._read.interval

    @property
    def cron(self) -> str | None:
        return self._read.cron

    @property
    def _read(self) -> Wakeup:
        return read_wakeup(self.wakeup) if self.wakeup is not None else Wakeup()

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.tz or "UTC")

    @property
    def moment(self) -> datetime | None:
        """The time of `at`, in UTC."""
        if self.at is None:
            return None
        return (self.at if self.at.tzinfo else self.at.replace(tzinfo=self.zone)).astimezone(UTC)

    @property
    def meaning(self) -> str:
        """When it is due, in words: `every 2 hours`, `weekdays at 09:00 Europe/Berlin`."""
        if self.at is not None:
            local = self.at if self.at.tzinfo else self.at.replace(tzinfo=self.zone)
            return f"once, on {local:%Y-%m-%d at %H:%M} {self.tz or local.tzname()}"
        return said(self._read) if self.interval is not None else f"{said(self._read)} {self.tz or 'UTC'}"


class Schedule(Timing):
    """When an agent wakes by itself."""

    prompt: Text = Field(
        "You were woken by your schedule. Look for work that waits for you.",
        description="what it is told when it wakes up",
        examples=["Sort what has come in."],
    )
    workspace: Annotated[str, AfterValidator(_workspace)] | None = Field(
        None,
        description="where it wakes up: workflow (any running instance) or workflow:tag; otherwise alone",
        examples=["review"],
    )


class WorkflowSchedule(Timing):
    """Of a workflow: it is run when it is due; one that is kept alive is kicked off again."""

    misplaced: ClassVar[Mapping[str, str]] = {"workspace": "does not belong here: the workflow has its own"}

    prompt: Text | None = Field(
        None,
        description="posted after the kickoff; in a workflow that is kept alive, instead of it",
        examples=["Only what came in since yesterday."],
    )
    params: dict[Name, str] = Field(
        default_factory=dict, description="values of the workflow's params", examples=[{"name": "Ada"}]
    )
