"""Memory of this process that is free already is given back to the system: else it grows from hour to hour.

What is freed stays with the C library, scattered between what is still in use, and each thread that finds no place
there asks the system for more. Where the library has no such call (only glibc has) nothing is done.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

_ARENA_MAX = -8  # M_ARENA_MAX of <malloc.h>


def give_back() -> bool:
    """Give free memory back to the system, which takes some milliseconds. False: there was none, or the C library
    cannot.
    """
    trim = _trim()
    return trim is not None and bool(trim(0))


def share_heaps() -> None:
    """Let all threads share two heaps, before there are more. By itself each thread may get one, all with gaps of their
    own: under a mixed load 8 MB. Only one thread at a time runs Python, so they hardly meet there."""
    if setting := getattr(ctypes.CDLL(None), "mallopt", None):
        setting(_ARENA_MAX, 2)


@cache
def _trim() -> Callable[[int], int] | None:
    found: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return found
