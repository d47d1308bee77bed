"""Fixtures for pytest: `pytest_plugins = ["agent_worker.pytest_fixtures"]`. What they are for: testing.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent_worker.api.local import local
from agent_worker.api.workers import Workers
from agent_worker.core.clock import TestClock
from agent_worker.core.later import module

_pytest: Any = module("pytest")  # whoever asks for fixtures has it: we do not require it


def _workers(tmp_path: Path) -> Iterator[Workers]:
    """Agents in this process, with their files in the test's own directory; for blocking verbs (`ask_sync` …)."""
    with local(home=tmp_path / "workers") as opened:
        yield opened


def _agent_clock() -> TestClock:
    """A clock that stands still: `async with local(clock=agent_clock)`, then `await agent_clock.advance(minutes=5)`."""
    return TestClock()


workers: Any = _pytest.fixture(_workers, name="workers")
agent_clock: Any = _pytest.fixture(_agent_clock, name="agent_clock")
