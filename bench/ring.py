"""What the ring costs: posts, lookups, runs, asks, idle agents, starting. Prints a Markdown table; see README.md.

uv run python bench/ring.py [--write docs/figures/ring.md] [--only posts,runs] [--against COMMIT]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path

from measures import asks, earlier, idle, lookups, posts, python_api, runs, starting
from measures.figure import Figure, table, write_page

TOPICS: dict[str, Callable[[Path], Awaitable[list[Figure]]]] = {
    "posts": posts.measure,
    "lookups": lookups.measure,
    "runs": runs.measure,
    "asks": asks.measure,
    "python": python_api.measure,
    "idle": idle.measure,
    "starting": starting.measure,
}

HEAD = """# What the ring costs

Written by `uv run python bench/ring.py --write docs/figures/ring.md`; [how to read it](../../bench/README.md).
"""


async def measure(names: list[str]) -> list[Figure]:
    figures: list[Figure] = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix=f"ring-{name}-") as folder:
            figures += await TOPICS[name](Path(folder))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="also write the page here")
    parser.add_argument("--only", default=",".join(TOPICS), help="topics, separated by commas")
    parser.add_argument("--against", metavar="COMMIT", help="compare the source with that of an earlier commit")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    names = options.only.split(",")
    if options.against:
        print(earlier.compare(options.against, names))
        return
    begun = time.perf_counter()
    figures = asyncio.run(measure(names))
    print(json.dumps([asdict(figure) for figure in figures]) if options.json else table(figures))
    if options.write:
        write_page(options.write, HEAD, figures, time.perf_counter() - begun)


if __name__ == "__main__":
    main()
