"""One nursery for all tests here, and the count of what was done to its lives."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.faults.driver import Nursery

LONG = os.environ.get("AGENT_WORKER_FAULTS") == "long"


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()
