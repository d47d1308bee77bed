"""What was probably meant by a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable

from agent_worker.core.errors import Slip

_LONGEST = 64  # characters of a name that are compared
_BEGINNING = 4  # characters that say which name is begun


def slip_of(typed: str, known: Iterable[str]) -> Slip | None:
    """The known name that was probably meant; None when no name is near. Swapped letters are the likeliest slip; the
    beginning of one name alone is as good.
    """
    from difflib import get_close_matches

    names = {each.lower(): each for each in known}
    word = typed[:_LONGEST].lower()
    near = get_close_matches(word, names, n=2, cutoff=0.65)
    near.sort(key=lambda each: sorted(each) != sorted(word))
    longer = [each for each in names if len(word) >= _BEGINNING and each.startswith(word)]
    meant = near[:1] or (longer if len(longer) == 1 else [])
    return Slip(typed, names[meant[0]]) if meant else None
