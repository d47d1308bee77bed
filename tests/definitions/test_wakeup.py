"""Times as people write them, and what they are told they wrote."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from agent_worker.definitions.schedule import Schedule
from agent_worker.definitions.wakeup import FORMS


@pytest.mark.parametrize(
    ("written", "seconds", "meaning"),
    [
        ("30s", 30, "every 30 seconds"),
        ("90m", 5400, "every 90 minutes"),
        ("every 2h", 7200, "every 2 hours"),
        ("every 30 minutes", 1800, "every 30 minutes"),
        ("Every  1 hour", 3600, "every hour"),
        ("every hour", 3600, "every hour"),
        ("every day", 86400, "every day"),
        ("every 2 days", 172800, "every 2 days"),
        ("every week", 604800, "every week"),
        ("every 1.5 hours", 5400, "every 90 minutes"),
    ],
)
def test_a_rest_is_a_number_and_a_unit_or_the_same_in_words(written: str, seconds: float, meaning: str) -> None:
    spec = Schedule(wakeup=written)
    assert (spec.interval, spec.cron, spec.meaning) == (seconds, None, meaning)


@pytest.mark.parametrize(
    ("written", "cron", "meaning"),
    [
        ("daily at 7", "0 7 * * *", "daily at 07:00 UTC"),
        ("every day at 7:05", "5 7 * * *", "daily at 07:05 UTC"),
        ("weekdays at 9", "0 9 * * 1-5", "weekdays at 09:00 UTC"),
        ("every weekday at 9am", "0 9 * * 1-5", "weekdays at 09:00 UTC"),
        ("weekends at noon", "0 12 * * 0,6", "weekends at 12:00 UTC"),
        ("mondays at 8:30", "30 8 * * 1", "Mondays at 08:30 UTC"),
        ("every Sunday at midnight", "0 0 * * 0", "Sundays at 00:00 UTC"),
        ("mon, wed and fri at 5 pm", "0 17 * * 1,3,5", "Mondays, Wednesdays and Fridays at 17:00 UTC"),
        ("daily at 9 and 17", "0 9,17 * * *", "daily at 09:00 and 17:00 UTC"),
        ("0 9 * * 1-5", "0 9 * * 1-5", "weekdays at 09:00 UTC"),
        ("*/5 * * * *", "*/5 * * * *", "by the cron line */5 * * * * UTC"),
        ("0 9 1 * *", "0 9 1 * *", "by the cron line 0 9 1 * * UTC"),
    ],
)
def test_days_and_times_in_words_are_a_cron_line(written: str, cron: str, meaning: str) -> None:
    spec = Schedule(wakeup=written)
    assert (spec.interval, spec.cron, spec.meaning) == (None, cron, meaning)


def test_the_zone_is_said_with_the_time() -> None:
    assert Schedule(wakeup="weekdays at 9", tz="Europe/Berlin").meaning == "weekdays at 09:00 Europe/Berlin"
    moment = Schedule(at="2026-08-01T09:00", tz="Europe/Berlin")  # type: ignore[arg-type]
    assert moment.meaning == "once, on 2026-08-01 at 09:00 Europe/Berlin"


@pytest.mark.parametrize(
    ("written", "message", "hint"),
    [
        ("soon", "must be a time that recurs", FORMS),
        ("every so often", "must be a time that recurs", FORMS),
        ("every", "must be a time that recurs", FORMS),
        ("", "must be a time that recurs", FORMS),
        ("one two three four five", "must be a time that recurs", FORMS),
        ("2 hours", "must be a time that recurs", FORMS),
        ("every 5 seconds", "must be at least 10s", ""),
        ("every 400 days", "must be at most 366d", FORMS),
        ("blursdays at 9", "does not name known days", FORMS),
        ("daily at 25", "does not name a time of day", "such as 7, 8:30, 17:05 or 9am"),
        ("daily at 13pm", "does not name a time of day", "such as 7, 8:30, 17:05 or 9am"),
        ("daily", "names days but no time", "such as daily at 9"),
        ("weekdays", "names days but no time", "such as weekdays at 9"),
        ("every monday", "names days but no time", "such as every monday at 9"),
        ("daily at 9 and 17:30", "has times with different minutes", "write the same minute for all, or a cron line"),
        ("99 * * * *", "is not a cron line: its minute is wrong", FORMS),
    ],
)
def test_what_is_no_time_is_answered_with_what_can_be_written(written: str, message: str, hint: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Schedule(wakeup=written)
    (error,) = raised.value.errors()
    assert (error["msg"], error["ctx"]["hint"]) == (message, hint)


def test_a_zone_has_no_meaning_for_a_rest_in_words_either() -> None:
    with pytest.raises(ValidationError, match="makes no sense for an interval"):
        Schedule(wakeup="every 2h", tz="UTC")
