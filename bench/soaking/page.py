"""What was seen, as a page and a plot. A slope is fitted by least squares to each life by itself, after its warm-up."""

from __future__ import annotations

import platform
from pathlib import Path

import apsw

from soaking.plot import draw
from soaking.verdict import Verdict
from soaking.watch import Sample

ENDED = {1: "SIGTERM", 2: "`kill -9`", 3: "SIGTERM when all was done"}
WARM_UP = 0.25  # of a life, and no more than five minutes
ROWS = {
    "rss": "memory, MB",
    "cpu": "processor, % of one",
    "descriptors": "descriptors",
    "threads": "threads",
    "children": "child processes",
    "wal": "write-ahead log, MB",
    "database": "database, MB",
    "disk": "disk in all, MB",
    "queued": "work not ended",
    "health": "answer of /health, ms",
}


def warm(samples: list[Sample]) -> list[Sample]:
    """Of one life: without its beginning."""
    if not samples:
        return []
    first, length = samples[0].at, samples[-1].at - samples[0].at
    return [each for each in samples if each.at - first >= min(length * WARM_UP, 300)]


def slope(points: list[tuple[float, float]]) -> float:
    """Per hour."""
    if len(points) < 3:
        return 0.0
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return 3600 * sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def lives(samples: list[Sample]) -> dict[int, list[Sample]]:
    found: dict[int, list[Sample]] = {}
    for each in samples:
        found.setdefault(each.life, []).append(each)
    return found


def life_table(samples: list[Sample]) -> str:
    seen = warm(samples)
    lines = ["| what | start | end | median | max | slope per hour |", "| --- | --- | --- | --- | --- | --- |"]
    for name, title in ROWS.items():
        values = [float(getattr(each, name)) for each in seen]
        rising = slope([(each.at, float(getattr(each, name))) for each in seen])
        middle = sorted(values)[len(values) // 2]
        cells = [f"{value:,.1f}" for value in (values[0], values[-1], middle, max(values))]
        lines.append(f"| {title} | {' | '.join(cells)} | {rising:+,.1f} |")
    return "\n".join(lines)


def verdict_table(verdict: Verdict) -> str:
    rows = {
        "lost": len(verdict.lost),
        "doubled": len(verdict.doubled),
        "work without an end": verdict.unended,
        "orphans": len(verdict.orphans),
        "answers of 5xx": verdict.server_errors,
        "errors in the log": sum(verdict.complaints.values()),
        "integrity check": verdict.integrity,
    }
    return "\n".join(["| verdict | |", "| --- | --- |", *(f"| {what} | {value} |" for what, value in rows.items())])


def page(samples: list[Sample], verdict: Verdict, about: dict[str, object], *, plot: bool) -> str:
    minutes = samples[-1].at / 60
    parts = [
        f"### Life {life}: {(seen[-1].at - seen[0].at) / 60:.0f} minutes, ended by {ENDED[life]}\n\n{life_table(seen)}"
        for life, seen in lives(samples).items()
    ]
    counts = "\n".join(f"| {what} | {count:,} |" for what, count in sorted(verdict.counts.items()))
    ends = ", ".join(f"{count:,} {state}" for state, count in sorted(verdict.ends.items()))
    details = _details(verdict)
    return f"""# Soak

Written by `uv run poe soak` (`bench/soak.py`); [how to read it](../../bench/README.md).

One daemon, {about["agents"]} mock agents in {about["rooms"]} rooms, {minutes:.0f} minutes of mixed load: chains of \
mentions, direct messages, questions, large messages, documents, failures that are tried again, schedules, shells and \
programs as children, streams that are followed, broken off and not read, AI tools that come and go. It is asked to \
stop once and killed once. The senders keep their own books; what they were promised is looked for in the database at \
the end.

{verdict_table(verdict)}

{details}Instructions: {ends}. Ready after {about["starts"]} s, gone after {about["stops"]} s.

{"![Over time: memory, descriptors, log, disk, waiting work, answers](soak.svg)" if plot else ""}

## Growth

Start and end are those of the time after the warm-up (a quarter of a life, at most five minutes). The database and the
disk grow with what is said, and are meant to; nothing else may.

{(chr(10) * 2).join(parts)}

## What was done

| what | count |
| --- | --- |
{counts}

Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}, {platform.system()}, {about["processors"]} \
processors at a load of {about["load"]}. {about["rate"]} sends a second, none while more than {about["patience"]} \
pieces of work waited.
"""


def _details(verdict: Verdict) -> str:
    groups = {"in the log": verdict.complaints, "refused": verdict.refusals, "attention": verdict.attention}
    lines = [f"- {name}, {count} times: {what}" for name, found in groups.items() for what, count in found.items()]
    lines += [f"- lost: {', '.join(verdict.lost[:10])}"] if verdict.lost else []
    lines += [f"- doubled: {', '.join(verdict.doubled[:10])}"] if verdict.doubled else []
    lines += [f"- orphans: {', '.join(verdict.orphans[:10])}"] if verdict.orphans else []
    return "\n".join(lines) + "\n\n" if lines else ""


def draw_plot(samples: list[Sample], path: Path) -> bool:
    shown = ("rss", "descriptors", "wal", "disk", "queued", "health")
    panels = {
        ROWS[name]: [[(each.at / 60, getattr(each, name)) for each in seen] for seen in lives(samples).values()]
        for name in shown
    }
    return draw(path, panels)
