"""How a path that a file names is written, and where it really leads.

A definition may only name what is inside its project. `./data/`, `data/` and `data` are one path: `plain` makes them
the same text, so that nobody further down meets a spelling that it did not expect.
"""

from __future__ import annotations

from pathlib import Path


def plain(text: str) -> str:
    """The same path without `./`, without doubled slashes and without one at the end. `..` is left as it stands."""
    kept = [part for part in text.split("/") if part not in ("", ".")]
    return ("/" if text.startswith("/") else "") + "/".join(kept) or "."


class Outside(ValueError):
    """Raised when a path leads out of the directory it must stay in."""


def beneath(root: Path, text: str, *, start: Path | None = None) -> Path:
    """The real path of `text`, read from `start` (or `root`), every link followed. Raises Outside."""
    if text.startswith("~") or "\0" in text or Path(text).is_absolute():
        raise Outside(text)
    try:
        real, top = ((start or root) / text).resolve(), root.resolve()
    except (OSError, RuntimeError):  # links that lead round in a circle
        raise Outside(text) from None
    if not real.is_relative_to(top):
        raise Outside(text)
    return real
