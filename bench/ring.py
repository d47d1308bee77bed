"""What the ring costs: posts, lookups, runs, idle agents, starting. Prints a Markdown table; see README.md.

uv run python bench/ring.py [--write docs/figures/ring.md] [--only posts,runs]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw

from measures import idle, lookups, posts, runs, starting
from measures.figure import Figure, table

TOPICS: dict[str, Callable[[Path], Awaitable[list[Figure]]]] = {
    "posts": posts.measure,
    "lookups": lookups.measure,
    "runs": runs.measure,
    "idle": idle.measure,
    "starting": starting.measure,
}


async def measure(names: list[str]) -> list[Figure]:
    figures: list[Figure] = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix=f"ring-{name}-") as folder:
            figures += await TOPICS[name](Path(folder))
    return figures


def page(figures: list[Figure], seconds: float) -> str:
    return f"""# What the ring costs

Written by `uv run python bench/ring.py --write docs/figures/ring.md`; [how to read it](../../bench/README.md).

{table(figures)}

Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}, {platform.system()}, \
write-ahead log with `synchronous=full`. Measured in {seconds:.0f} s with {os.cpu_count()} processors at a load \
of {os.getloadavg()[0]:.0f}: above their number, absolute times grow and only the ratios can be trusted.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="also write the page here")
    parser.add_argument("--only", default=",".join(TOPICS), help="topics, separated by commas")
    options = parser.parse_args()
    begun = time.perf_counter()
    figures = asyncio.run(measure(options.only.split(",")))
    text = page(figures, time.perf_counter() - begun)
    print(table(figures))
    if options.write:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(text)


if __name__ == "__main__":
    main()
