"""Run `poe test` under every Python from 3.11 to 3.14 that uv finds here, each in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
WANTED = ((3, 11), (3, 12), (3, 13), (3, 14))


def main(arguments: list[str]) -> int:
    listed = subprocess.run(
        ["uv", "python", "list", "--only-installed", "--output-format", "json"],
        check=True,
        capture_output=True,
        text=True,
    )
    found = newest(json.loads(listed.stdout))
    missing = [f"{major}.{minor}" for major, minor in WANTED if (major, minor) not in found]
    print(f"not here: Python {', '.join(missing)}" if missing else "all are here", flush=True)
    failed = [version for version, path in found.items() if not passes(version, path, arguments)]
    for version in found:
        print(f"Python {version[0]}.{version[1]}: {'failed' if version in failed else 'passed'}")
    return 1 if failed else 0


def newest(listed: Iterable[Mapping[str, Any]]) -> dict[tuple[int, int], str]:
    """(3, 11) → the path of its newest CPython, for those we promise to run on."""
    best: dict[tuple[int, int], tuple[int, str]] = {}
    for each in listed:
        parts = each["version_parts"]
        version, patch = (parts["major"], parts["minor"]), parts["patch"]
        usual = each["implementation"] == "cpython" and each.get("variant", "default") == "default"
        if usual and each["path"] and version in WANTED and patch > best.get(version, (-1, ""))[0]:
            best[version] = patch, each["path"]
    return {version: best[version][1] for version in sorted(best)}


def passes(version: tuple[int, int], path: str, arguments: list[str]) -> bool:
    print(f"Python {version[0]}.{version[1]}: {path}", flush=True)
    place = ROOT / ".tools" / f"python-{version[0]}.{version[1]}"
    env = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    env["UV_PROJECT_ENVIRONMENT"] = str(place)
    command = ["uv", "run", "--python", path, "poe", "test", *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
