"""Fixtures of tests that run on both engines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.database.doors import Door, door_to


@pytest.fixture(params=["sqlite", "postgresql"])
async def door(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Door]:
    found = door_to(request.param, tmp_path, lambda: request.getfixturevalue("cluster"))
    yield found
    await found.close()
