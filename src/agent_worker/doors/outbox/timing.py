"""When a sink is told: not in its quiet hours, together where it collects, and later after each failure. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from agent_worker.definitions.notifications import Sink

TRIES = 8  #: then it is given up; the item is in the inbox anyway
_FIRST, _LONGEST = 10.0, 3600.0  # seconds between tries


def due(sink: Sink, now: datetime) -> datetime:
    """When something that came just now is to be told. `now` is in the person's local time."""
    if sink.digest:
        seconds = sink.digest
        passed = (now - now.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds()
        now += timedelta(seconds=seconds - passed % seconds)
    return after_quiet(sink, now)


def after_quiet(sink: Sink, at: datetime) -> datetime:
    """This time, or the end of the quiet hours it falls into."""
    if not sink.quiet:
        return at
    begin, end = (_minutes(each) for each in sink.quiet.split("-"))
    minute = at.hour * 60 + at.minute
    is_quiet = begin <= minute < end if begin <= end else minute >= begin or minute < end
    if not is_quiet:
        return at
    ends = at.replace(hour=end // 60, minute=end % 60, second=0, microsecond=0)
    return ends if ends > at else ends + timedelta(days=1)


def wait_after(tries: int) -> float | None:
    """Seconds until the next try, after so many; None when it is given up."""
    return None if tries >= TRIES else min(_FIRST * 4 ** (tries - 1), _LONGEST)


def _minutes(time: str) -> int:
    hour, _, minute = time.strip().partition(":")
    return int(hour) * 60 + int(minute)
