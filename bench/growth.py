"""How costs grow: with the agents, the messages, the entries, the steps, the revisions and the queue. Prints Markdown.

    uv run python bench/growth.py [--write docs/figures/growth.md] [--only agents,queue]

Each cost is CPU time set against the smallest size of the same run. Five minutes on an idle machine.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from curves import agents, documents, messages, queue, recall, starts, steps
from curves.curve import Topic
from measures import plot
from measures.figure import machine

TOPICS: dict[str, Callable[[Path], Awaitable[Topic]]] = {
    "starts": starts.measure,
    "agents": agents.measure,
    "messages": messages.measure,
    "recall": recall.measure,
    "steps": steps.measure,
    "documents": documents.measure,
    "queue": queue.measure,
}

HEAD = """# How costs grow

Written by `uv run python bench/growth.py --write docs/figures/growth.md`; [how to read it](../../bench/README.md).

Each cell is CPU time (or memory), and in brackets its multiple of the first. *Growth* of what should be flat is the
last point against the first; of what may be linear, the cost of one more piece at the end against that of a piece at
the point before.
"""


async def measure(names: list[str]) -> list[Topic]:
    topics = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix=f"growth-{name}-") as folder:
            topics.append(await TOPICS[name](Path(folder)))
    return topics


def page(topics: list[Topic], picture: str, seconds: float) -> str:
    parts = [f"## {topic.title}\n\n{topic.about}\n\n{topic.table()}\n" for topic in topics]
    return f"{HEAD}\n{picture}" + "\n".join([*parts, machine(seconds)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="also write the page here")
    parser.add_argument("--only", default=",".join(TOPICS), help="topics, separated by commas")
    options = parser.parse_args()
    begun = time.perf_counter()
    topics = asyncio.run(measure(options.only.split(",")))
    print("\n\n".join(topic.table() for topic in topics))
    if options.write:
        panels = {topic.title: {curve.what: curve.points for curve in topic.curves} for topic in topics}
        options.write.parent.mkdir(parents=True, exist_ok=True)
        picture = plot.curves(options.write, panels)
        options.write.write_text(page(topics, picture, time.perf_counter() - begun))


if __name__ == "__main__":
    main()
