"""What a test needs of the machine, and the one way to skip where it is missing.

A skip for something that could be installed begins with `missing: `. With AGENT_WORKER_NO_SKIPS=1, as in `.ci/run`,
such a skip is a failure (see tests/conftest.py): there a proof that did not run is no proof. A sandbox that does not
work counts as missing. Every other skip (another system, no root, a disk or a kernel that cannot do it) stays one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

MISSING = "missing: "
STRICT = "AGENT_WORKER_NO_SKIPS"
#: Where `poe test-setup` puts programs from npm.
NPM = Path(__file__).parent.parent / ".tools" / "node_modules"
#: A library that a browser loads: it looks for what keeps people out.
AXE = NPM / "axe-core" / "axe.min.js"
#: And programs from PyPI, in a place of their own: `bin/llm`.
PYPI = Path(__file__).parent.parent / ".tools" / "python"
#: These start programs of others, which take seconds each: the tier `programs`.
STARTS_PROGRAMS = (
    "tests/backends/programs/test_acp_programs.py",
    "tests/backends/programs/test_mixed_team.py",
    "tests/backends/programs/test_probe.py",
    "tests/backends/programs/test_real_programs.py",
    "tests/doors/test_acp_clients.py",
    "tests/doors/test_every_door.py",
    "tests/doors/test_llm.py",
    "tests/shells/test_connected_tools.py",
    "tests/shells/test_inspector.py",
    "tests/shells/test_tasks_client.py",
)


def is_strict() -> bool:
    return os.environ.get(STRICT, "") not in ("", "0")


def missing(what: str) -> str:
    return f"{MISSING}{what} (uv run poe test-setup)"


def needs(what: str, *, there: bool) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not there, reason=missing(what))


def skip_without(what: str) -> None:
    pytest.skip(missing(what))


def needs_sandbox() -> pytest.MarkDecorator:
    from agent_worker.tools.sandbox import NoSandbox, find_sandbox  # asks the machine, so only where it matters

    found = find_sandbox()
    why = found.reason if isinstance(found, NoSandbox) else ""
    return needs(f"a sandbox: {why}", there=not isinstance(found, NoSandbox))
