"""Words for people that every shell says in the same way."""

from __future__ import annotations


def plural(number: int, thing: str) -> str:
    """How many of a thing there are: `1 message`, `2,000 messages`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
