"""How a path that a file names is written, and where it really leads.

A definition may only name what is inside its project. `./data/`, `data/` and `data` are one path: `plain` makes them
the same text, so that nobody further down meets a spelling that it did not expect.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path


def plain(text: str) -> str:
    """The same path without `./`, without doubled slashes and without one at the end. `..` is left as it stands."""
    kept = [part for part in text.split("/") if part not in ("", ".")]
    return ("/" if text.startswith("/") else "") + "/".join(kept) or "."


class Outside(ValueError):
    """Raised when a path leads out of the directory it must stay in."""


def beneath(root: Path, text: str, *, start: Path | None = None) -> Path:
    """The real path of `text`, read from `start` (or `root`), every link followed. Raises Outside."""
    return Path(os.path.realpath(root), *names_beneath(root, text, start=start))


def names_beneath(root: Path, text: str, *, start: Path | None = None) -> tuple[str, ...]:
    """The names on the way from the real root to where `text` really leads. Raises Outside."""
    if text.startswith(("~", "/")) or "\0" in text:
        raise Outside(text)
    top = os.path.realpath(root)
    written = tuple(part for part in text.split("/") if part not in ("", "."))
    if start is None and not _has_links(top, written):
        return written
    try:
        return (Path(start or top) / text).resolve().relative_to(top).parts
    except (OSError, RuntimeError, ValueError):  # links that lead round in a circle; somewhere else
        raise Outside(text) from None


def _has_links(top: str, names: tuple[str, ...]) -> bool:
    """Whether the names lead elsewhere than they say. Nearly none do, and asked this way thousands take no time."""
    place = top
    for name in names:
        place = f"{place}/{name}"
        try:
            if name == ".." or stat.S_ISLNK(os.lstat(place).st_mode):
                return True
        except (OSError, ValueError):  # not there, so it leads nowhere else
            continue
    return False
