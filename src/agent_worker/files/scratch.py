"""Folders that last as long as a piece of work, in the system's place for such things.

Each is named after the process that made it, so that what a killed one left behind is found, and never what a living
one still needs. The daemon removes them at its start; `gc` shows them.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent_worker.files.makers import is_dead, maker

_NAMED = re.compile(r"agent-worker-[a-z]+-([0-9]+\.[0-9]+\.[0-9]+)-")


@contextmanager
def scratch(kind: str) -> Iterator[Path]:
    """A folder for nobody but us, gone when the block is left."""
    with tempfile.TemporaryDirectory(prefix=f"agent-worker-{kind}-{maker()}-") as folder:
        yield Path(folder)


def abandoned() -> list[Path]:
    """Our folders whose maker is dead. Of one made in another container we cannot tell: it is left alone."""
    found = []
    with suppress(OSError):
        for entry in os.scandir(tempfile.gettempdir()):
            named = _NAMED.match(entry.name)
            if named and is_dead(named[1]) and _is_ours(entry):
                found.append(Path(entry.path))
    return sorted(found)


def _is_ours(entry: os.DirEntry[str]) -> bool:
    status = entry.stat(follow_symlinks=False)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
