"""Files of these tests are on the disk: what a command writes below /dev, where others have theirs, is not counted."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as path:
        yield Path(path)
