"""What an operation returns that has no end yet: things as they happen, in batches, until there are no more.

Whoever takes a stream closes it, also one that was never read. Doors translate it; what it says is decided here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StreamItem:
    kind: str
    data: str  #: JSON, on one line
    position: str = ""  #: where to go on after it; '' when that cannot be asked for


class Stream(Protocol):
    def __aiter__(self) -> AsyncIterator[Sequence[StreamItem]]:
        """Everything since the last look, at once."""
        ...

    async def close(self) -> None:
        """Nobody listens any more."""
        ...
