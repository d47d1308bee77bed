"""Break the source on purpose, bug after bug, and see that the named test notices: `uv run poe bugs [word …]`.

Works in copies of the tree, one for each processor. First every named test must be green there; then each bug of
tests/faults/bugs.py is made, its test run, and the bug undone. Words choose the bugs whose name or row holds one of
them. Prints a table, and writes what came of it to docs/figures/bugs.jsonl for `scripts/proof.py`.
"""

from __future__ import annotations

import ast
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.faults.breaking import Bug

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "figures" / "bugs.jsonl"
TAKEN = ("src", "tests", "docs", "examples", "scripts", "pyproject.toml", "README.md", "CHANGELOG.md")
WORKERS = max(1, min(4, os.cpu_count() or 1))
PATIENCE = 300  # seconds for one test, its imports included
RED = 1  # what pytest ends with when tests have failed; other numbers mean that it could not even run them

sys.path.insert(0, str(ROOT))


@dataclass(frozen=True, slots=True)
class Tried:
    bug: str
    row: str
    proof: str
    verdict: str  #: red, or NOT CAUGHT
    seen: str  #: the first line of what the test complained of
    seconds: float
    date: str


class Copy:
    """A tree of its own, where anything may be broken.

    Its source is laid out as that of a bug will be: a test that minds the layout is red before there is a bug.
    """

    def __init__(self, place: Path) -> None:
        self.root = place / "tree"
        self.root.mkdir(parents=True)
        without = shutil.ignore_patterns("__pycache__", "*.pyc", ".hypothesis")
        for name in TAKEN:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self.root / name, symlinks=True, ignore=without)
            elif source.exists():
                shutil.copy(source, self.root / name)
        for path in (self.root / "src").rglob("*.py"):
            path.write_text(ast.unparse(ast.parse(path.read_text("utf-8"))) + "\n", "utf-8")

    def test_one(self, proof: str) -> subprocess.CompletedProcess[str]:
        """Without what takes long to load and is needed by few."""
        needed = "schemathesis" in (self.root / proof.partition("::")[0]).read_text("utf-8")
        return self.test(proof, *([] if needed else ["-p", "no:schemathesis"]))

    def test(self, *proofs: str, at_once: int = 0, patience: float = PATIENCE) -> subprocess.CompletedProcess[str]:
        env = os.environ | {"PYTHONPATH": str(self.root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        base = self.root.parent / "tmp"
        options = ["-x", "--workers", str(at_once), "-p", "no:cacheprovider", f"--basetemp={base}"]
        # A loop without end may swallow the exception of the other method; and a bug that hangs is noticed soon enough.
        hard = ["--timeout-method=thread", "--timeout=120"]
        return subprocess.run(
            [sys.executable, "-m", "pytest", *options, *hard, *proofs],
            cwd=self.root,
            env=env,
            capture_output=True,
            text=True,
            timeout=patience,
            check=False,
        )


def try_one(copy: Copy, bug: Bug) -> Tried:
    broken = bug.made(copy.root)
    before = {path: path.read_text("utf-8") for path in broken}
    began = time.monotonic()
    try:
        for path, text in broken.items():
            path.write_text(text, "utf-8")
        ended = copy.test_one(bug.test(copy.root))
    except subprocess.TimeoutExpired:
        ended = subprocess.CompletedProcess(bug.proof, RED, "E   it hangs", "")
    finally:
        for path, text in before.items():
            path.write_text(text, "utf-8")
    if ended.returncode not in (0, RED):
        raise SystemExit(f"{bug.name}: its test could not be run\n{ended.stdout[-3000:]}{ended.stderr[-1000:]}")
    verdict = "red" if ended.returncode == RED else "NOT CAUGHT"
    seen = _complaint(ended.stdout) if verdict == "red" else ""
    seconds = round(time.monotonic() - began, 1)
    return Tried(bug.name, bug.row, bug.function, verdict, seen, seconds, f"{datetime.now(UTC):%Y-%m-%d}")


def _complaint(output: str) -> str:
    found = re.search(r"^E\s+(\S.*)$", output, re.MULTILINE)
    if found is None:
        return "it hangs"
    return re.sub(r"0x[0-9a-f]+|/(?:tmp|dev)/\S+", "…", found[1])[:140].replace("|", "\\|")


def chosen(bugs: tuple[Bug, ...], words: list[str]) -> list[Bug]:
    return [bug for bug in bugs if not words or any(word in bug.name or word == bug.row for word in words)]


def check_healthy(copy: Copy, bugs: list[Bug]) -> None:
    """A test that is red without its bug proves nothing either."""
    proofs = dict.fromkeys(bug.test(copy.root) for bug in bugs)
    healthy = copy.test(*proofs, at_once=min(WORKERS, len(proofs)), patience=PATIENCE * 10)
    if healthy.returncode:
        raise SystemExit(f"without a bug these tests must be green:\n{healthy.stdout[-3000:]}{healthy.stderr[-1000:]}")


def keep(tried: list[Tried], names: list[str]) -> None:
    """The newest word about each bug that is still in the table."""
    known = {}
    if RESULTS.exists():
        known = {line["bug"]: line for line in map(json.loads, RESULTS.read_text("utf-8").splitlines())}
    known |= {each.bug: asdict(each) for each in tried}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(known[name], ensure_ascii=False) for name in names if name in known]
    RESULTS.write_text("\n".join(lines) + "\n", "utf-8")


def try_all(place: Path, bugs: list[Bug]) -> list[Tried]:
    copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for number in range(min(WORKERS, len(bugs))):
        copies.put(Copy(place / str(number)))
    first = copies.get()
    check_healthy(first, bugs)
    copies.put(first)

    def try_somewhere(bug: Bug) -> Tried:
        copy = copies.get()
        try:
            return try_one(copy, bug)
        finally:
            copies.put(copy)

    print("| bug | row | result | what the test said |\n|---|---|---|---|", flush=True)
    tried = []
    with ThreadPoolExecutor(copies.qsize()) as workers:
        for one in workers.map(try_somewhere, bugs):
            tried.append(one)
            print(f"| {one.bug} | {one.row} | {one.verdict} | {one.seen} |", flush=True)
    return tried


def main() -> None:
    from tests.faults.bugs import BUGS

    bugs = chosen(BUGS, sys.argv[1:])
    if not bugs:
        raise SystemExit("no bug has such a name or row")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="aw-bugs-", ignore_cleanup_errors=True) as place:
        tried = try_all(Path(place), bugs)
    keep(tried, [bug.name for bug in BUGS])
    missed = [each for each in tried if each.verdict != "red"]
    print(f"\n{len(tried) - len(missed)} of {len(tried)} were noticed, in {time.monotonic() - began:.0f} s")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
