"""Which relative paths we accept, decided from the text alone, before anything touches the disk.

A path is judged as it stands and as somebody else might read it: with compatibility characters unfolded and
with percent signs decoded. It must be harmless in every reading. What agents and people may call a text of
theirs is narrower (`text_names`): no program may obey it on sight. Below: the list of control files. Above: folder.py
opens the names. Words that only look like paths (a memory key, a note's title) do not come here: they are data inside
a file.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import unquote

from agent_worker.core.control_files import CONTROL_NAMES, OBEYED_TEXTS, SHELL_PROFILES, TEXTS
from agent_worker.core.errors import BadInput
from agent_worker.core.later import pattern
from agent_worker.core.text import is_invisible

NAME_BYTES = 255
LEVELS = 32  # nobody needs more, and a path of 100,000 levels would become 100,000 directories

TEMPORARY = ".tmp-"  #: being written or being deleted: worthless after a crash
SWAPPING = ".swap-"  #: in the middle of a compare-and-swap: may hold somebody's text

_DEVICES = {"con", "prn", "aux", "nul", "conin$", "conout$", "clock$"} | {
    f"{port}{number}" for port in ("com", "lpt") for number in range(10)
}

_CONFLICT = pattern(r"\.conflict-[0-9a-f]{8}(-[0-9a-f]{8})?$")  # swap.py keeps the other version under such a name
_SPECIAL = pattern(r"""[:*?"<>|~]""")  # streams, patterns and short names of some file systems
TEXT_HINT = "a name such as plans/release.md: no part begins with a dot or a dash, and it ends in " + " ".join(TEXTS)


@lru_cache(maxsize=1024)  # the same few names, asked for at every step on the way to a file
def names_in(relative: str) -> tuple[str, ...]:
    """The names on the way from a root to a file. The empty text is the root itself."""
    if not relative:
        return ()
    for reading in _readings(relative):
        if problem := _problem_of_path(reading, relative.count("/")):
            raise BadInput(
                f"{shown(relative)} cannot be opened as a path: {problem}", hint="a name such as plans/notes.md"
            )
    return tuple(relative.split("/"))


def text_names(relative: str) -> tuple[str, ...]:
    """The names in the path of a text that somebody writes: a document, a note, a memory. Decided here for all of
    them."""
    names = names_in(relative)
    if problem := _problem_of_text(relative):
        raise BadInput(f"{shown(relative)} cannot be the name of a text file: {problem}", hint=TEXT_HINT)
    return names


def is_text(relative: str) -> bool:
    """Whether `text_names` would let this name through. For names found on the disk."""
    return _problem_of_text(relative) is None


def acceptable(name: str) -> bool:
    """Whether `names_in` would let this one name through. For names found on the disk."""
    return all(_problem_of_path(reading, 0) is None for reading in _readings(name))


def same_document(name: str) -> str:
    """Names with an equal answer are one document, also on a disk that tells upper and lower case apart."""
    if name.isascii():  # asked of every name in a folder
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def is_control(names: Iterable[str]) -> bool:
    """Whether a path leads to a control file, at any depth and in any spelling."""
    path = f"/{'/'.join(map(same_document, names))}/"
    return any(f"/{entry}/" in path for entry in CONTROL_NAMES + SHELL_PROFILES)


def beside(relative: str, suffix: str) -> str:
    """A path in the same directory: the name with this suffix, shortened where the disk could not take it."""
    directory, slash, name = relative.rpartition("/")
    left = NAME_BYTES - len(suffix.encode())
    return directory + slash + os.fsencode(name)[:left].decode(errors="ignore") + suffix


def shown(relative: str) -> str:
    """A path as it may stand in a message: quoted, invisible characters escaped, not endless."""
    return repr(relative if len(relative) <= 120 else relative[:119] + "…")


def _readings(relative: str) -> tuple[str, ...]:
    plain = unicodedata.normalize("NFKC", relative)
    decoded = unquote(plain)
    return tuple(dict.fromkeys((relative, plain, decoded, unquote(decoded))))


def _problem_of_path(reading: str, slashes: int) -> str | None:
    if reading.startswith("/"):
        return "it is absolute"
    if "\\" in reading:
        return "it contains a backslash"
    if reading.count("/") != slashes:
        return "it hides a slash"
    if slashes >= LEVELS:
        return f"it is more than {LEVELS} levels deep"
    return next(filter(None, map(_problem_of_name, reading.split("/"))), None)


def _problem_of_name(name: str) -> str | None:
    if not name:
        return "it has an empty name in it"
    if name in {".", ".."}:
        return f"it contains {name!r}"
    if any(map(is_invisible, name)):
        return "it contains control or invisible characters"
    if len(name.encode()) > NAME_BYTES:
        return f"a name is longer than {NAME_BYTES} bytes"
    if name.endswith((".", " ")):
        return "a name ends in a dot or a space"
    if name.split(".", 1)[0].rstrip().casefold() in _DEVICES:
        return f"{name!r} is a device on some systems"
    if name.startswith((TEMPORARY, SWAPPING)):
        return f"names that begin with {TEMPORARY!r} or {SWAPPING!r} are reserved"
    return None


def _problem_of_text(relative: str) -> str | None:
    return next(filter(None, map(_problem_of_reading, _readings(relative))), None)


def _problem_of_reading(reading: str) -> str | None:
    names = reading.split("/")
    if hidden := next((name for name in names if name.startswith((".", "-"))), None):
        return f"{hidden!r} begins with {'a dot' if hidden[0] == '.' else 'a dash'}"
    if found := _SPECIAL.search(reading):
        return f"it contains {found[0]!r}"
    last = same_document(_CONFLICT.sub("", names[-1]))
    if is_control(names) or last in map(same_document, OBEYED_TEXTS):
        return "programs look for files of that name, and obey them"
    if not last.endswith(TEXTS):
        return "its ending is not one for texts"
    return None
