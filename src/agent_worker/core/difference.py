"""How two texts differ, line by line: the one way in which documents, definitions, souls and approvals are compared.

Bounded: of long texts everything between their common first and last lines is given, because finding the smallest
difference could take for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import unified_diff
from itertools import takewhile

COMPARED = 1000  #: lines of which the smallest difference is looked for


def changed_lines(old: Sequence[str], new: Sequence[str], *, around: int = 3) -> list[str]:
    """The lines of a unified diff, with so many unchanged ones around each change, and no names of files."""
    if max(len(old), len(new)) <= COMPARED:
        return list(unified_diff(old, new, lineterm="", n=around))[2:]
    start = _alike(old, new)
    end = _alike(old[start:][::-1], new[start:][::-1])
    gone, come = old[start : len(old) - end], new[start : len(new) - end]
    if not gone and not come:
        return []
    return [f"@@ line {start + 1} @@", *(f"-{line}" for line in gone), *(f"+{line}" for line in come)]


def _alike(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines are the same, from the first one on."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
