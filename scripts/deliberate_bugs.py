"""Break the source on purpose, bug after bug, and see that the named test notices: `uv run poe bugs [word …]`.

Works in a copy of the tree. First every named test must be green there; then each bug of tests/faults/bugs.py is made,
its test run, and the bug undone. Words choose the bugs whose name or row holds one of them. Prints a table, and
writes what came of it to docs/figures/bugs.jsonl for `scripts/proof.py`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.faults.bugs import Bug

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "figures" / "bugs.jsonl"
TAKEN = ("src", "tests", "docs", "examples", "scripts", "pyproject.toml", "README.md", "CHANGELOG.md")
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
    """A tree of its own, where anything may be broken."""

    def __init__(self, place: Path) -> None:
        self._place = place / "tree"
        self._place.mkdir()
        without = shutil.ignore_patterns("__pycache__", "*.pyc", ".hypothesis")
        for name in TAKEN:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self._place / name, symlinks=True, ignore=without)
            elif source.exists():
                shutil.copy(source, self._place / name)

    def break_by(self, bug: Bug) -> dict[Path, str]:
        """Make it; what stood there before."""
        before: dict[Path, str] = {}
        for edit in bug.edits:
            path = self._place / edit.path
            text = path.read_text("utf-8")
            before.setdefault(path, text)
            path.write_text(text.replace(edit.right, edit.wrong), "utf-8")
        return before

    def test(self, *proofs: str) -> subprocess.CompletedProcess[str]:
        env = os.environ | {"PYTHONPATH": str(self._place / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        base = self._place.parent / "tmp"
        command = [sys.executable, "-m", "pytest", "-x", "-n", "0", "-p", "no:cacheprovider", f"--basetemp={base}"]
        hard = "--timeout-method=thread"  # a loop without end may swallow the exception of the other one
        return subprocess.run(
            [*command, hard, *proofs],
            cwd=self._place,
            env=env,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )


def try_one(copy: Copy, bug: Bug) -> Tried:
    before = copy.break_by(bug)
    began = time.monotonic()
    try:
        ended = copy.test(bug.proof)
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
    return Tried(bug.name, bug.row, bug.test[1], verdict, seen, seconds, f"{datetime.now(UTC):%Y-%m-%d}")


def _complaint(output: str) -> str:
    found = re.search(r"^E\s+(\S.*)$", output, re.MULTILINE)
    if found is None:
        return "it hangs"
    return re.sub(r"0x[0-9a-f]+|/(?:tmp|dev)/\S+", "…", found[1])[:140].replace("|", "\\|")


def chosen(bugs: tuple[Bug, ...], words: list[str]) -> list[Bug]:
    return [bug for bug in bugs if not words or any(word in bug.name or word == bug.row for word in words)]


def check_table(bugs: tuple[Bug, ...]) -> None:
    if stale := [line for bug in bugs for line in bug.stale(ROOT)]:
        raise SystemExit("the table in tests/faults/bugs.py is stale:\n" + "\n".join(stale))


def keep(tried: Tried, names: list[str]) -> None:
    """The newest word about each bug that is still in the table."""
    known = {}
    if RESULTS.exists():
        known = {line["bug"]: line for line in map(json.loads, RESULTS.read_text("utf-8").splitlines())}
    known[tried.bug] = asdict(tried)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(known[name], ensure_ascii=False) for name in names if name in known]
    RESULTS.write_text("\n".join(lines) + "\n", "utf-8")


def main() -> None:
    from tests.faults.bugs import BUGS

    bugs = chosen(BUGS, sys.argv[1:])
    check_table(BUGS)
    with tempfile.TemporaryDirectory(prefix="aw-bugs-", ignore_cleanup_errors=True) as place:
        copy = Copy(Path(place))
        healthy = copy.test(*dict.fromkeys(bug.proof for bug in bugs))
        if healthy.returncode:
            raise SystemExit(f"without a bug these tests must be green:\n{healthy.stdout[-3000:]}")
        print("| bug | row | result | what the test said |\n|---|---|---|---|", flush=True)
        tried = []
        for bug in bugs:
            tried.append(one := try_one(copy, bug))
            keep(one, [bug.name for bug in BUGS])
            print(f"| {one.bug} | {one.row} | {one.verdict} | {one.seen} |", flush=True)
    sys.exit(1 if any(each.verdict != "red" for each in tried) else 0)


if __name__ == "__main__":
    main()
