"""How much work something is, in calls of functions, ours and Python's: the same on all machines, as time is not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Effort:
    calls: int = 0


@contextmanager
def effort() -> Iterator[Effort]:
    spent = Effort()

    def seen(frame: object, event: str, argument: object) -> None:
        spent.calls += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        yield spent
    finally:
        sys.setprofile(None)
