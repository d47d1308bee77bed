"""The same topics with the source of an earlier commit, in the same run, in turns: new against old, row by row.

Only the source is of that commit; what measures it is of today. Where the two do not fit any more, it says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from measures.figure import markdown, middle

ROUNDS = 3
ROOT = Path(__file__).parents[2]
HEAD = ("what", "then", "now", "now / then")


def compare(commit: str, topics: Sequence[str]) -> str:
    taken: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory(prefix="earlier-") as folder:
        then = clone(commit, Path(folder))
        for topic in topics:
            for _ in range(ROUNDS):
                for when, source in (("then", then), ("now", ROOT / "src")):
                    for what, cost in _costs(topic, source).items():
                        taken.setdefault(what, {}).setdefault(when, []).append(cost)
    rows = [_row(what, middle(each["then"]), middle(each["now"])) for what, each in taken.items() if len(each) == 2]
    return markdown(HEAD, rows)


def clone(commit: str, folder: Path) -> Path:
    """Where the source of that commit is."""
    git = ("git", "-c", "advice.detachedHead=false")
    for command in (
        (*git, "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(folder / "then")),
        (*git, "-C", str(folder / "then"), "checkout", "--quiet", commit),
    ):
        if subprocess.run(command).returncode:
            sys.exit(f"there is no commit {commit}: git log --oneline shows those there are")
    return folder / "then" / "src"


def _costs(topic: str, source: Path) -> dict[str, float]:
    command = (sys.executable, "ring.py", "--json", "--only", topic)
    environment = os.environ | {"PYTHONPATH": str(source)}
    done = subprocess.run(command, cwd=ROOT / "bench", env=environment, stdout=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"{topic}: what measures today does not fit that source; choose other topics with --only")
    return {figure["what"]: figure["cost"] for figure in json.loads(done.stdout) if figure["cost"] is not None}


def _row(what: str, then: float, now: float) -> tuple[str, ...]:
    megabytes = "memory" in what
    shown = [f"{cost:.0f} MB" if megabytes else f"{cost * 1e6:,.0f} µs" for cost in (then, now)]
    return (what, *shown, f"{now / then:.2f}")
