"""Where a path that a file names really leads. A definition may only name what is inside its project."""

from __future__ import annotations

from pathlib import Path


class Outside(ValueError):
    """The path leads out of the directory it must stay in."""


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
