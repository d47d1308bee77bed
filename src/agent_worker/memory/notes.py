"""Reflections of an agent: `notes/<date>-<slug>.md`, plain Markdown."""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime

from agent_worker.core.errors import BadInput, NotFound, Stale
from agent_worker.files.paths import is_text, text_names
from agent_worker.files.root import Root
from agent_worker.memory.edits import rewrite, text_of

FOLDER = "notes"
QUARANTINE = "quarantine"
LIMIT = 64 * 1024


def write(root: Root, title: str, text: str, *, when: datetime) -> str:
    """Write a note; its name. The same note again is the same file."""
    if not text.strip():
        raise BadInput("an empty note was not written")
    if len(text) > LIMIT:
        raise BadInput(f"a note holds at most {LIMIT // 1024} KiB")
    content = f"# {' '.join(title.split())}\n\n{text.rstrip()}\n"
    stem = f"{when.date().isoformat()}-{slug(title)}"
    for number in range(1, 1000):
        name = f"{stem}.md" if number == 1 else f"{stem}-{number}.md"
        there = text_of(root, _path(name))
        if there == content:
            return name
        if there is None:
            root.replace(_path(name), content)
            return name
    raise BadInput("there are too many notes with this title today", hint="choose another title")


def names(root: Root) -> list[str]:
    """Names of the notes, newest first."""
    try:
        entries = root.list(FOLDER)
    except NotFound:
        return []
    files = (e.name for e in entries if e.name.endswith(".md") and not e.is_directory)
    return sorted(filter(is_text, files), reverse=True)


def read(root: Root, name: str) -> str:
    text = text_of(root, _path(name)) if "/" not in name else None
    if text is None:
        raise NotFound(f"there is no note {name}", hint=f"notes: {', '.join(names(root)[:20]) or 'none yet'}")
    return text


def edit(root: Root, name: str, text: str, *, was: str) -> None:
    """Give a note another text, if it still says what it said."""
    if read(root, name) != was:
        raise Stale(f"{name} was changed in the meantime", hint="look at it again")
    if not text.strip() or len(text) > LIMIT:
        raise BadInput(f"a note holds between one character and {LIMIT // 1024} KiB")
    rewrite(root, _path(name), lambda _: text)


def hold_back(root: Root, name: str) -> bool:
    """Move a note into a folder that only a person looks into. False when it is not there any more."""
    text = text_of(root, _path(name))
    if text is None:
        return False
    root.replace(_path(f"{QUARANTINE}/{name}"), text)
    root.remove(_path(name))
    return True


def _path(name: str) -> str:
    return "/".join((FOLDER, *text_names(name)))


def slug(title: str) -> str:
    """Letters and digits of any alphabet, joined by dashes: a file name that can be read."""
    plain = unicodedata.normalize("NFKC", title).lower()
    return re.sub(r"[^\w]+", "-", plain).strip("-_")[:60].rstrip("-") or "note"
