"""Every test once; the few that failed beside the others once more, alone, and told by name. Then some on PostgreSQL.

Decision 35 says why. A test that passes only alone is a fault to mend, of the test or of the product: it is named in
the last lines, whatever the exit code. More than FEW failures are no accident of a busy machine, and not tried again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FEW = 3
FAILED = 1  #: pytest's exit code for "tests were run, and some failed"
TOGETHER = ("--workers", "6")
#: Beside the contracts, races and hosts, which take it by themselves: what has been wrong only there. `poe postgres` is
#: the whole of it.
ON_POSTGRESQL = (
    "tests/agents/test_cancelling.py",
    "tests/agents/test_run_begin.py",
    "tests/attacks/test_own_files.py",
    "tests/proposals",
    "tests/schedules",
    "tests/service",
    "tests/shells/test_templates.py",
    "tests/trust/test_allowances.py",
    "tests/work",
    "tests/workspaces",
)


def main(arguments: list[str], *, root: Path = ROOT, together: tuple[str, ...] = TOGETHER) -> int:
    code = pytest(root, *together, "--cache-clear", *arguments)
    failed = failures(root)
    if code != FAILED or not 0 < len(failed) <= FEW:
        return code
    print(f"\nonce more, alone: {', '.join(failed)}", flush=True)
    code = pytest(root, "--last-failed", *arguments)
    still = failures(root)
    for name in failed:
        print(f"{name}: {'failed alone, too' if name in still else 'passed only alone, and must be mended'}")
    return code


def pytest(root: Path, *arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=root, check=False).returncode


def failures(root: Path) -> list[str]:
    """The ids of the tests that failed in the last run, as pytest remembers them."""
    kept = root / ".pytest_cache" / "v" / "cache" / "lastfailed"
    return sorted(json.loads(kept.read_text())) if kept.is_file() else []


if __name__ == "__main__":
    chosen = sys.argv[1:]
    sys.exit(main(chosen) or (0 if chosen else main(["--database", "postgresql", *ON_POSTGRESQL])))
