"""Every figure that this repository claims, measured again: each script writes its page in docs/figures.

    uv run poe bench [--only ring,growth]

The pages are listed in docs/figures/README.md, which is written from the table below. `soak` takes an hour and runs
by itself: `uv run poe soak`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"


@dataclass(frozen=True, slots=True)
class Page:
    name: str
    script: tuple[str, ...]  #: as Python is called with it
    about: str
    alone: bool = False  #: not part of `poe bench`

    @property
    def file(self) -> Path:
        return FIGURES / f"{self.name}.md"

    @property
    def command(self) -> tuple[str, ...]:
        return (sys.executable, *self.script, "--write", str(self.file.relative_to(ROOT)))


PAGES = (
    Page(
        "ring",
        ("bench/ring.py",),
        "what posts, lookups, runs, asks, idle agents and starting cost, against bare SQLite",
    ),
    Page("growth", ("bench/growth.py",), "how costs grow with agents, messages, steps, revisions and the queue"),
    Page("recall", ("bench/recall.py",), "how much of what was said is found again, and how fast"),
    Page("guard", ("bench/guard",), "what is promised of memory, and whether each bar is met"),
    Page("model-step", ("bench/model_step.py",), "what a step costs with a model that answers at once"),
    Page("page", ("-m", "bench.page"), "how soon the web page shows what happens"),
    Page("programs", ("-m", "bench.programs"), "what we add to a run of claude, codex, opencode and gemini"),
    Page("peers", ("-m", "bench.peers"), "the same work with what you might pick instead"),
    Page("first-hour", ("-m", "bench.first_hour"), "what a newcomer types to reach each first result, then and now"),
    Page(
        "hosts",
        ("-m", "bench.hosts"),
        "what several daemons over one PostgreSQL cost, and how soon one takes over from another",
    ),
    Page("shape", ("bench/shape.py",), "sizes, cycles and chains of the source, beside libraries we learned from"),
    Page("soak", ("bench/soak.py",), "an hour of mixed load: memory, descriptors, disk, orphans", alone=True),
)


def index() -> str:
    rows = [f"| [{page.name}]({page.file.name}) | {page.about} | `{_typed(page)}` |" for page in PAGES]
    return (
        "# Figures\n\n"
        "Measured by the scripts in [bench](../../bench/README.md), as ratios against a baseline of the same run. "
        "`uv run poe bench` writes all of them again; `uv run poe bench --only ring,growth` writes only these.\n\n"
        "| page | what it tells | written by |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n\n"
        "Beside them: what the last runs of the [proof](../proof.md) left (`*.jsonl`), and pictures of the page.\n"
    )


def _typed(page: Page) -> str:
    return f"uv run poe {page.name}" if page.alone else f"uv run poe bench --only {page.name}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    known = [page.name for page in PAGES if not page.alone]
    parser.add_argument("--only", default=",".join(known), help="pages, separated by commas")
    wanted = parser.parse_args().only.split(",")
    if strange := [name for name in wanted if name not in known]:
        parser.error(f"there is no page {', '.join(strange)}; there are: {', '.join(known)}")
    failed = [page.name for page in PAGES if page.name in wanted and not _measured(page)]
    (FIGURES / "README.md").write_text(index())
    if failed:
        sys.exit(f"not written: {', '.join(failed)}")


def _measured(page: Page) -> bool:
    print(f"\n## {page.name}: {page.about}\n", flush=True)
    begun = time.perf_counter()
    done = subprocess.run(page.command, cwd=ROOT)
    print(f"\n{page.name} took {time.perf_counter() - begun:.0f} s", flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    main()
