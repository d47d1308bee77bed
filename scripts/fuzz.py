"""Play every fuzz target for a while and write what came of it: `uv run poe fuzz [seconds] [target …]`.

Needs atheris, which is not among the dependencies: poe brings it along for this run. What a fuzzer finds is printed as
Python bytes, to be added to the seeds of its target in tests/fuzz/targets.py before it is repaired.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "figures" / "fuzz.jsonl"
SECONDS = 60
MEMORY = Path("/dev/shm")

sys.path.insert(0, str(ROOT))


@dataclass(frozen=True, slots=True)
class Played:
    target: str
    about: str
    seconds: int
    inputs: int
    found: tuple[str, ...]  #: inputs that broke it, as Python bytes
    date: str


def play(name: str, seconds: int) -> Played:
    from tests.fuzz.targets import TARGETS

    target = TARGETS[name]
    memory = MEMORY if MEMORY.is_dir() else None  # one target syncs a file with every input
    with tempfile.TemporaryDirectory(prefix="aw-fuzz-", dir=memory) as place:
        corpus = Path(place, "corpus")
        corpus.mkdir()
        for number, seed in enumerate(target.seeds):
            Path(corpus, f"seed-{number}").write_bytes(seed)
        command = [sys.executable, "-m", "tests.fuzz.run", name, str(seconds), str(corpus)]
        env = os.environ | {"TMPDIR": place}
        ended = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, errors="replace", check=False
        )
        found = tuple(repr(path.read_bytes()) for path in corpus.glob("found-*"))
    counted = re.findall(r"^#(\d+)\s", ended.stderr, re.MULTILINE)
    if (ended.returncode and not found) or not counted:
        raise SystemExit(f"{name} could not be fuzzed:\n{ended.stderr[-3000:]}")
    if found:
        print(ended.stdout[-3000:], ended.stderr[-3000:], *found, sep="\n")
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    return Played(name, target.about, seconds, max(map(int, counted)), found, today)


def kept() -> dict[str, dict[str, object]]:
    if not RESULTS.exists():
        return {}
    return {line["target"]: line for line in map(json.loads, RESULTS.read_text("utf-8").splitlines())}


def main() -> None:
    from tests.fuzz.targets import TARGETS

    seconds = next((int(word) for word in sys.argv[1:] if word.isdigit()), SECONDS)
    names = [word for word in sys.argv[1:] if not word.isdigit()] or list(TARGETS)
    results = kept()
    for name in names:
        played = play(name, seconds)
        results[name] = asdict(played)
        print(f"{name}: {played.inputs:,} inputs in {seconds} s, {len(played.found)} of them broke it", flush=True)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(results[name], ensure_ascii=False) for name in TARGETS if name in results]
    RESULTS.write_text("\n".join(lines) + "\n", "utf-8")
    sys.exit(1 if any(results[name]["found"] for name in names) else 0)


if __name__ == "__main__":
    main()
