"""States as people read them: on a terminal, on the page, in exports. Programs read them as they are stored."""

from __future__ import annotations

_TOLD = {
    "acked": "done",
    "bounced": "not delivered",
    "dead": "given up",
    "given": "running",
    "left": "resuming",
    "lost": "cut off",
    "yielded": "continued later",
}
WAITS_FOR_YOU = "waits for you"


def told(state: str, waits_for: str = "") -> str:
    """The word for a state; for one who waits, by what it `waits_for`."""
    if state == "waiting" and waits_for in ("person", "key"):
        return WAITS_FOR_YOU
    return _TOLD.get(state, state)
