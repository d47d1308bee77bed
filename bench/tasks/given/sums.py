"""The tool of the tasks: it notes that it was called, and dies with its process the first time, if that is wanted."""

import os
from pathlib import Path


def add(a: int, b: int) -> int:
    """Add two numbers."""
    log = Path("calls")
    before = log.read_text() if log.exists() else ""
    log.write_text(before + "called\n")
    if os.environ.get("DIES") and not before:
        os.kill(os.getpid(), 9)
    return a + b
