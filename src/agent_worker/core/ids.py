"""Ids of ours: a letter or two for the kind, then 26 characters that sort by time of birth."""

from __future__ import annotations

import secrets
import threading
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u: an id is sometimes read aloud
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_LOW = 20  # bits that change from one id to the next within a millisecond: the last four digits
_PLACES = range(120, _LOW - 1, -10)  # of the others, two digits at a time
_lock = threading.Lock()
_last = 0
_high, _written = -1, ""  # the upper digits of the last id, and how they are written


def new_id(kind: str) -> str:
    """A new id, unique everywhere; two made in this process compare in the order they were made. Not a secret."""
    global _last, _high, _written
    now = time.time_ns() // 1_000_000
    with _lock:
        # Chance once a millisecond keeps processes apart; within it, counting keeps the order and costs nothing.
        _last = value = now << 80 | secrets.randbits(79) if now > _last >> 80 else _last + 1
        if _high != value >> _LOW:
            _high, _written = value >> _LOW, "".join([_PAIRS[value >> place & 1023] for place in _PLACES])
        upper = _written
    return f"{kind}_{upper}{_PAIRS[value >> 10 & 1023]}{_PAIRS[value & 1023]}"
