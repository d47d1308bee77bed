"""What several daemons over one PostgreSQL cost beside SQLite, and how soon one goes on for another.

uv run --group dev python -m bench.hosts [--small] [--only starts,ends] [--write docs/figures/hosts.md]
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from tests.postgresql import Cluster, open_cluster

from fleets import ends, idle, load, reads, starts
from measures.figure import Figure, table, write_page

HEAD = """# Several daemons over one PostgreSQL

Written by `uv run --group dev python -m bench.hosts --write docs/figures/hosts.md`;
[how to read it](../../bench/README.md). The server is on the same machine
and syncs each commit, as SQLite does beside it. *starts*, *ends* and *reads* have their hosts in one process; the
daemons that are asked questions are processes of their own. What hosts survive is in [the proof](../proof.md), rows H1
to H11.

A read takes a trip to another process, or two, where SQLite's is a call; why one of a single statement stays above the
target is in [decision 34](../decisions/0034-postgresql-behind-the-same-door.md). Changes of one project are
made one after another, whoever makes them: so daemons that work in one project share one queue, and here also the
processors, and more of them answer no more; what is asked is that they do not answer less.
"""
SETTINGS = "max_connections = 200\nfsync = on\nfull_page_writes = on\n"
TOPICS: dict[str, Callable[[Cluster, Path], Awaitable[list[Figure]]]] = {
    "starts": starts.measure,
    "ends": ends.measure,
    "load": load.measure,
    "idle": idle.measure,
    "reads": reads.measure,
}


#: For a look at whether it runs: nothing of what it says counts.
SMALL = {
    starts: {"AGENTS": 10},
    ends: {"HANDOVERS": 2, "DEATHS": 2, "ROUNDS": 1, "OUTAGES": 2},
    load: {"QUESTIONS": 32, "ROUNDS": 1},
    idle: {"AGENTS": 100, "SECONDS": 3.0},
    reads: {"MESSAGES": 2000, "ROUNDS": 2},
}


async def measure(folder: Path, topics: Sequence[str]) -> list[Figure]:
    figures = []
    for topic in topics:
        with open_cluster(SETTINGS) as cluster:
            figures += await TOPICS[topic](cluster, folder)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help=f"some of {', '.join(TOPICS)}")
    parser.add_argument("--small", action="store_true", help="only see whether it runs, in a minute")
    parser.add_argument("--write", type=Path, help="also write the page here")
    options = parser.parse_args()
    topics = options.only.split(",") if options.only else list(TOPICS)
    for module, counts in SMALL.items() if options.small else ():
        vars(module).update(counts)
    logging.disable(logging.ERROR)  # hosts that lose their database say so
    folder, begun = Path(tempfile.mkdtemp(prefix="hosts-")), time.perf_counter()
    try:
        figures = asyncio.run(measure(folder, topics))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(table(figures))
    if options.write:
        write_page(options.write, HEAD, figures, time.perf_counter() - begun)


if __name__ == "__main__":
    main()
