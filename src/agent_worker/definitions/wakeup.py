"""How a time that comes again is written: a rest (`5m`), in words (`weekdays at 9`), or as a cron line.

Words are turned into one of the other two, and a cron line is said in words where words can say it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from cronsim import CronSim, CronSimError

from agent_worker.core.later import dataclass, pattern
from agent_worker.definitions.block import wrong
from agent_worker.definitions.fields import parse_duration

SHORTEST = 10.0  #: seconds; a shorter rest would be a busy loop that spends money
FORMS = "write 30m, every 2h, every 30 minutes, daily at 7, weekdays at 9, mondays at 8:30, or a cron line: 0 9 * * 1-5"

_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")  # as a cron line counts them
_SETS = {"day": range(7), "weekday": range(1, 6), "weekend": (0, 6)}
_UNITS = {"second": "s", "sec": "s", "minute": "m", "min": "m", "hour": "h", "day": "d", "week": "w"}
_SAID = ((604800, "week"), (86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
_TIME = pattern(r"(\d{1,2})(?:[:.](\d{2}))? ?(am|pm)?(?: ?o'clock| ?uhr)?")
_NAMED_TIMES = {"noon": (12, 0), "midday": (12, 0), "midnight": (0, 0)}


@dataclass(frozen=True, slots=True)
class Wakeup:
    """When something is due again: after a rest, or by a cron line; one of the two is set."""

    interval: float | None = None  #: seconds of rest
    cron: str | None = None


def read_wakeup(text: str) -> Wakeup:
    """The wakeup that a text describes. Raises an error for people that shows everything that can be written."""
    words = " ".join(text.lower().split())
    if " at " in words:
        return Wakeup(cron=_days_and_times(*words.split(" at ", 1)))
    if re.match(r"(every\b|each\b)", words):
        return Wakeup(interval=_rest(words.split(" ", 1)[1] if " " in words else ""))
    if re.fullmatch(r"[^ ]+", words) and not _day(words):
        return Wakeup(interval=_long_enough(_duration(words)))
    if _days(words):
        raise wrong("names days but no time", f"such as {words} at 9")
    return Wakeup(cron=_cron_line(text.strip()))


def _duration(word: str) -> float:
    try:
        return parse_duration(word)
    except ValueError as error:
        too_long = "must be at most" in str(error)
        raise wrong("must be at most 366d" if too_long else "must be a time that recurs", FORMS) from None


def _long_enough(seconds: float) -> float:
    if seconds < SHORTEST:
        raise wrong(f"must be at least {SHORTEST:.0f}s")
    return seconds


def _rest(words: str) -> float:
    """`2h`, `30 minutes`, `hour` → seconds."""
    if _days(words) and words not in _UNITS:
        raise wrong("names days but no time", f"such as every {words} at 9")
    found = re.fullmatch(r"(?:(\d{1,6}(?:\.\d{1,3})?) ?)?([a-z]+)", words)
    unit = _UNITS.get(found[2].removesuffix("s")) if found else None
    if not found or not unit:
        return _long_enough(_duration(words.replace(" ", "")))
    count = float(found[1] or 1) * (7 if unit == "w" else 1)
    return _long_enough(_duration(f"{count:g}{'d' if unit == 'w' else unit}"))


def _days_and_times(days: str, times: str) -> str:
    which = _days(re.sub(r"^(every|each|on) ", "", days))
    if which is None:
        raise wrong("does not name known days", FORMS)
    clock = [_time(word) for word in re.split(r" ?, ?(?:and )?| and ", times)]
    minutes = {minute for _, minute in clock}
    if len(minutes) > 1:
        raise wrong("has times with different minutes", "write the same minute for all, or a cron line")
    hours = ",".join(str(hour) for hour in sorted({hour for hour, _ in clock}))
    return f"{minutes.pop()} {hours} * * {_field(which)}"


def _days(words: str) -> frozenset[int] | None:
    """`daily`, `weekdays`, `mondays and fridays` → days of the week; None if a word is none."""
    found: set[int] = set()
    for word in re.split(r" ?, ?(?:and )?| and ", words):
        day = _day(word)
        if day is None:
            return None
        found |= day
    return frozenset(found)


def _day(word: str) -> frozenset[int] | None:
    word = "day" if word == "daily" else word.removesuffix("s")
    if word in _SETS:
        return frozenset(_SETS[word])
    short = [number for number, day in enumerate(_DAYS) if len(word) >= 3 and day.startswith(word)]
    return frozenset(short) if len(short) == 1 else None


def _time(word: str) -> tuple[int, int]:
    if word in _NAMED_TIMES:
        return _NAMED_TIMES[word]
    found = _TIME.fullmatch(word)
    hour, minute = (int(found[1]), int(found[2] or 0)) if found else (99, 0)
    if found and found[3]:
        hour = hour % 12 + (12 if found[3] == "pm" else 0) if 1 <= hour <= 12 else 99
    if hour > 23 or minute > 59:
        raise wrong("does not name a time of day", "such as 7, 8:30, 17:05 or 9am")
    return hour, minute


def _field(days: frozenset[int]) -> str:
    if days == frozenset(_SETS["day"]):
        return "*"
    return "1-5" if days == frozenset(_SETS["weekday"]) else ",".join(map(str, sorted(days)))


def _cron_line(text: str) -> str:
    if len(text.split()) != 5 or not re.search(r"[\d*]", text):
        raise wrong("must be a time that recurs", FORMS)
    try:
        first = next(CronSim(text, datetime(2026, 1, 1)), None)
    except CronSimError as error:
        if _is_each_right(text):
            raise wrong(_NEVER, "that month has no such day") from None
        raise wrong(f"is not a cron line: its {str(error).removeprefix('Bad ')} is wrong", FORMS) from None
    if first is None:
        raise wrong(_NEVER)
    return text


_NEVER = "this cron line never comes"


def _is_each_right(text: str) -> bool:
    """Whether each field could stand in some cron line: then they do not go together, as in February 31."""
    minute, hour, day, month, weekday = text.split()
    try:
        for line in (f"{minute} {hour} {day} * {weekday}", f"* * * {month} *"):
            CronSim(line, datetime(2026, 1, 1))
    except CronSimError:
        return False
    return True


# --- said back ----------------------------------------------------------------------------------------


def said(wakeup: Wakeup) -> str:
    """What it means, in words: `every 2 hours`, `weekdays at 09:00`, or the cron line as it is."""
    if wakeup.cron is None:
        return f"every {span(wakeup.interval or 0.0)}"
    minute, hours, day, month, weekdays = wakeup.cron.split()
    which = _read_field(weekdays)
    if (day, month) != ("*", "*") or which is None or not re.fullmatch(r"\d+ \d+(,\d+)*", f"{minute} {hours}"):
        return f"by the cron line {wakeup.cron}"
    times = [f"{int(hour):02}:{int(minute):02}" for hour in hours.split(",")]
    return f"{_said_days(which)} at {listed(times)}"


def span(seconds: float) -> str:
    """A time of rest, in the largest unit that says it exactly: `hour`, `90 minutes`."""
    size, unit = next((each for each in _SAID if seconds % each[0] == 0), (1, "second"))
    count = seconds / size
    return unit if count == 1 else f"{count:g} {unit}s"


def listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _read_field(field: str) -> frozenset[int] | None:
    found: set[int] = set()
    for part in field.split(","):
        ends = re.fullmatch(r"(\d)(?:-(\d))?", part)
        if part == "*":
            found |= set(range(7))
        elif ends:
            found |= {day % 7 for day in range(int(ends[1]), int(ends[2] or ends[1]) + 1)}
        else:
            return None
    return frozenset(found)


def _said_days(days: frozenset[int]) -> str:
    for word, same in (("daily", "day"), ("weekdays", "weekday"), ("weekends", "weekend")):
        if days == frozenset(_SETS[same]):
            return word
    return listed([f"{_DAYS[day].capitalize()}s" for day in sorted(days, key=lambda day: day or 7)])
