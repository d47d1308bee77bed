"""Ids of ours: a letter or two for the kind, then 26 characters that sort by time of birth."""

from __future__ import annotations

import secrets
import threading
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u: an id is sometimes read aloud
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_PLACES = range(120, -1, -10)  # 26 digits of 5 bits, two at a time
_lock = threading.Lock()
_last = 0


def new_id(kind: str) -> str:
    """Unique everywhere; two made in this process compare in the order they were made."""
    global _last
    fresh = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    with _lock:
        _last = fresh if fresh > _last else _last + 1
        value = _last
    return f"{kind}_{''.join([_PAIRS[value >> place & 1023] for place in _PLACES])}"
