"""Memory of this process that is free already is given back to the system: else it grows from hour to hour.

What is freed stays with the C library, scattered between what is still in use, and each thread that finds no place
there asks the system for more. Where the library has no such call (only glibc has) nothing is done.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


def give_back() -> bool:
    """Give all that is free back to the system, which takes some milliseconds. False: it was not, or cannot be."""
    trim = _trim()
    return trim is not None and bool(trim(0))


@cache
def _trim() -> Callable[[int], int] | None:
    found: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return found
