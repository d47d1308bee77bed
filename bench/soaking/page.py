"""What was seen, as a page and a picture. A slope is fitted by least squares to each life, after its warm-up."""

from __future__ import annotations

import platform
import statistics
from pathlib import Path

import apsw

from measures import plot
from measures.figure import markdown, middle
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
    first, length = samples[0].at, samples[-1].at - samples[0].at
    return [each for each in samples if each.at - first >= min(length * WARM_UP, 300)]


def slope(seconds: list[float], values: list[float]) -> float:
    """Per hour."""
    return 3600 * statistics.linear_regression(seconds, values).slope if len(values) > 2 else 0.0


def lives(samples: list[Sample]) -> dict[int, list[Sample]]:
    found: dict[int, list[Sample]] = {}
    for each in samples:
        found.setdefault(each.life, []).append(each)
    return found


def life_table(samples: list[Sample]) -> str:
    seen = warm(samples)
    seconds = [each.at for each in seen]
    rows = []
    for name, title in ROWS.items():
        values = [float(getattr(each, name)) for each in seen]
        cells = [f"{value:,.1f}" for value in (values[0], values[-1], middle(values), max(values))]
        rows.append((title, *cells, f"{slope(seconds, values):+,.1f}"))
    return markdown(("what", "start", "end", "median", "max", "slope per hour"), rows)


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


def page(samples: list[Sample], verdict: Verdict, about: dict[str, object], picture: str) -> str:
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

{picture}## Growth

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
    groups = {"in the log": verdict.complaints, "refused": verdict.refusals, "inbox": verdict.inbox}
    lines = [f"- {name}, {count} times: {what}" for name, found in groups.items() for what, count in found.items()]
    lines += [f"- lost: {', '.join(verdict.lost[:10])}"] if verdict.lost else []
    lines += [f"- doubled: {', '.join(verdict.doubled[:10])}"] if verdict.doubled else []
    lines += [f"- orphans: {', '.join(verdict.orphans[:10])}"] if verdict.orphans else []
    return "\n".join(lines) + "\n\n" if lines else ""


def draw(path: Path, samples: list[Sample]) -> str:
    """Beside the page, a line for each life; the Markdown that shows it."""
    panels = {
        ROWS[name]: [[(each.at / 60, getattr(each, name)) for each in seen] for seen in lives(samples).values()]
        for name in ("rss", "descriptors", "wal", "disk", "queued", "health")
    }
    return plot.over_time(path, panels, about="Over time: memory, descriptors, log, disk, waiting work, answers")
