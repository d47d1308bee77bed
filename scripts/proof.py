"""Write docs/proof.md from what the last runs have left in docs/figures: `uv run poe proof`.

faults.jsonl   uv run poe faults   every row, with its counts
bugs.jsonl     uv run poe bugs     the deliberate bugs
fuzz.jsonl     uv run poe fuzz     the fuzzers
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "docs" / "figures"
PAGE = ROOT / "docs" / "proof.md"

sys.path.insert(0, str(Path(__file__).parent))

from rows import ALONG_WITH, ATTACKS, OPEN, PROMISES  # noqa: E402  (beside this file, wherever it is called from)

Line = dict[str, Any]
Groups = Mapping[str, Mapping[str, str]]

HEAD = """# The proof

Written by `uv run poe proof` from the last runs; do not edit. What is promised, and which tests stand for it, is in
[promises.md](promises.md). To see for yourself:

```text
uv run poe faults     # every row below, with large counts; writes docs/figures/faults.jsonl
uv run poe bugs       # breaks the source on purpose and shows which test notices
uv run poe fuzz       # fuzzers on everything that reads what others wrote
uv run poe proof      # this page
```
"""


def lines_of(name: str) -> list[Line]:
    path = FIGURES / name
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def page() -> str:
    about, *lines = lines_of("faults.jsonl") or [{}]
    known = _by_row(lines)
    parts = [HEAD, *_run(about, list(known.values()))]
    parts += ["## Promises under fault\n", *_tables(PROMISES, known, "promise", "what was done")]
    parts += ["## Attacks refused\n", *_tables(ATTACKS, known, "attack", "what was counted")]
    parts += [*_bugs(lines_of("bugs.jsonl")), *_fuzz(lines_of("fuzz.jsonl")), *_open()]
    return "\n".join(parts).rstrip("\n") + "\n"


def _by_row(lines: list[Line]) -> dict[str, Line]:
    """All files of tests of a row together. Its counts are small when one of them was run with small counts."""
    known: dict[str, Line] = {}
    for line in lines:
        row = known.setdefault(line["row"], {"row": line["row"], "small": False, "counted": Counter(), "seeds": []})
        for name in ("tests", "passed", "skipped", "seconds", "failed"):
            row[name] = row[name] + line[name] if name in row else line[name]
        row["counted"].update(line["counted"])
        row["small"] |= bool(line["counted"]) and line["mode"] == "short"
        row["seeds"] = sorted([*row["seeds"], *line["seeds"]])
    return known


def _run(about: Line, rows: list[Line]) -> Iterator[str]:
    if not about:
        yield "No run has been recorded yet.\n"
        return
    failed = [row["row"] for row in rows if row["failed"]]
    minutes = sum(row["seconds"] for row in rows) / 60
    yield (
        f"Last run: {about['date']}, version {about['version']}, Python {about['python']} on {about['system']}: "
        f"{sum(row['tests'] for row in rows):,} tests of {len(rows)} rows, {minutes:.0f} minutes of work, "
        f"{', '.join(failed) if failed else 'no row'} failed. Where it says *small counts*, a row was run as in every "
        f"test run; otherwise with `AGENT_WORKER_FAULTS=long`.\n"
    )
    yield (
        "A row is held when every one of its tests is: nothing lost, nothing doubled, nothing left over, no answer of "
        "5xx; the tests compare with a ledger kept outside the process that is killed. No failure in *n* tries bounds "
        "the failure rate at 3/*n*. A failing seed is named, and is played again with `AGENT_WORKER_FAULTS_SEED`.\n"
    )


def _tables(groups: Groups, known: Mapping[str, Line], what: str, done: str) -> Iterator[str]:
    for title, promises in groups.items():
        yield f"### {title}\n"
        yield f"| row | {what} | {done} | tests | result |\n|---|---|---|---|---|"
        for row, text in promises.items():
            yield _row(row, text, known)
        yield ""


def _row(row: str, text: str, known: Mapping[str, Line]) -> str:
    line = known.get(row)
    if other := known.get(ALONG_WITH.get(row, "")):
        return f"| {row} | {text} | looked at in every test of {ALONG_WITH[row]} | | {_result(other)} |"
    if line is None:
        return f"| {row} | {text} | | | not in this run |"
    counted = ", ".join(f"{n:,} {what.removeprefix(f'{row} ')}" for what, n in sorted(line["counted"].items()))
    small = " (small counts)" if line["small"] else ""
    return f"| {row} | {text} | {counted}{small} | {line['tests']:,} | {_result(line)} |"


def _result(line: Line) -> str:
    if line["failed"]:
        seeds = f", seeds {line['seeds'][0]} to {line['seeds'][-1]}" if line["seeds"] else ""
        return f"**{len(line['failed'])} failed**{seeds}"
    if not line["passed"]:
        return "skipped: not possible on that machine"
    return f"held, {line['skipped']} skipped" if line["skipped"] else "held"


def _bugs(tried: list[Line]) -> Iterator[str]:
    yield "## Deliberate bugs\n"
    caught = sum(each["verdict"] == "red" for each in tried)
    yield (
        f"Each is made in a copy of the source, and the named test is run there. {caught} of {len(tried)} were "
        "noticed. A test that cannot fail proves nothing; these can.\n"
    )
    yield "| bug | row | test | result |\n|---|---|---|---|"
    for each in tried:
        yield f"| {each['bug']} | {each['row']} | `{each['proof']}` | {each['verdict']} |"
    yield ""


def _fuzz(played: list[Line]) -> Iterator[str]:
    yield "## Fuzzers\n"
    yield (
        "By coverage (atheris), on inputs of up to 4 KiB. An input that breaks a promise counts, and so does one that "
        "takes more than 100 ms. What was found before is repaired, and is among the seeds of `tests/fuzz`.\n"
    )
    yield "| what reads | inputs | seconds | that broke it |\n|---|---|---|---|"
    for each in played:
        yield f"| {each['about']} | {each['inputs']:,} | {each['seconds']} | {len(each['found'])} |"
    yield ""


def _open() -> Iterator[str]:
    if not OPEN:
        return
    yield "## Not proved yet\n"
    yield "No test carries the id of these rows.\n"
    yield "| row | promise or attack |\n|---|---|"
    for row, text in OPEN.items():
        yield f"| {row} | {text} |"


def main() -> None:
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
