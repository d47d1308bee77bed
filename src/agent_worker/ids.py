"""Ids of ours: a letter or two for the kind, then 26 characters that sort by time of birth."""

from __future__ import annotations

import secrets
import threading
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u: an id is sometimes read aloud
_lock = threading.Lock()
_last = 0


def new_id(kind: str) -> str:
    """Unique everywhere; two made in this process compare in the order they were made."""
    global _last
    fresh = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    with _lock:
        _last = fresh if fresh > _last else _last + 1
        value = _last
    digits = [""] * 26
    for place in range(25, -1, -1):
        digits[place] = _ALPHABET[value & 31]
        value >>= 5
    return f"{kind}_{''.join(digits)}"
