"""What an agent remembers: `memory/*.yaml`, a key with a value, or with a record that says where it came from.

`core.yaml` is always in the prompt, `archive.yaml` only found on demand, every other file is working memory.
People edit these files by hand; what they wrote (order, comments) stays as it is when we add to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from agent_worker.definitions.rewriting import rewritten
from agent_worker.definitions.source import parse_source
from agent_worker.errors import BadInput, DefinitionError, NotFound, Refused
from agent_worker.personal.pages import rewrite, text_of
from agent_worker.storage.files import Root

FOLDER = "memory"
CORE, WORKING, ARCHIVE = "core", "working", "archive"
LONGEST_KEY = 120
LONGEST_VALUE = 4 * 1024

Tier = Literal["core", "working", "archive"]
_FILE = re.compile(r"[a-z][a-z0-9-]{0,40}")


@dataclass(frozen=True, slots=True)
class Entry:
    key: str
    value: str
    file: str  #: without its ending: core, working, decisions …
    visibility: str = "private"  #: private | shareable | public
    source: str = ""  #: the run it was learned in; '' when a person wrote it
    updated: str = ""  #: a date

    @property
    def tier(self) -> Tier:
        return self.file if self.file in (CORE, ARCHIVE) else WORKING  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Memories:
    entries: tuple[Entry, ...] = ()
    problems: tuple[str, ...] = ()  #: files that cannot be read, each with its line


def load(root: Root, *, only: str | None = None) -> Memories:
    """Everything in the files, or in one. A file with a mistake in it is named, the others are read."""
    entries: list[Entry] = []
    problems: list[str] = []
    for name in files(root) if only is None else [only]:
        try:
            entries += _entries(root, name)
        except (DefinitionError, BadInput) as error:
            problems.append(error.message)
    return Memories(tuple(entries), tuple(problems))


def files(root: Root) -> list[str]:
    try:
        names = [e.name for e in root.list(FOLDER) if e.name.endswith(".yaml") and not e.is_directory]
    except NotFound:
        return []
    return sorted(name.removesuffix(".yaml") for name in names)


def path_of(file: str) -> str:
    return f"{FOLDER}/{file}.yaml"


def find(root: Root, key: str) -> Entry | None:
    found = [e for e in load(root).entries if e.key == key and e.file != ARCHIVE]
    return min(found, key=lambda e: e.file != CORE, default=None)


def write(root: Root, entry: Entry) -> Literal["new", "changed", "known"]:
    """Remember it under its key, in its file. The same value again changes nothing; core is never changed unasked."""
    _check(entry)
    known = find(root, entry.key)
    if known is None:
        _edit(root, entry.file, entry.key, _record(entry))
        return "new"
    made_core = entry.file == CORE != known.file
    if known.value == entry.value and not made_core:
        return "known"
    if known.file == CORE != entry.file:
        raise Refused(f"{entry.key!r} is part of core memory", hint="use another key, or tier core")
    _edit(root, CORE if made_core else known.file, entry.key, _record(entry))
    if made_core:
        _edit(root, known.file, entry.key, None)
    return "changed"


def forget(root: Root, key: str, *, when: datetime) -> None:
    """Into the archive: nothing is deleted."""
    known = find(root, key)
    if known is None:
        near = ", ".join(e.key for e in load(root).entries[:20] if e.file != ARCHIVE)
        raise NotFound(f"nothing is remembered under {key!r}", hint=f"there are: {near or 'none'}")

    archived = {entry.key for entry in _entries(root, ARCHIVE)}
    dated = f"{key} ({when.date().isoformat()})"
    names = (key, dated, *(f"{dated} {n}" for n in range(2, len(archived) + 3)))
    free = next(name for name in names if name not in archived)
    _edit(root, ARCHIVE, free, _record(known))  # first: if we stop in between it is there twice, never nowhere
    _edit(root, known.file, key, None)


def _parsed(text: str, file: str) -> dict[str, Any]:
    source = parse_source(text, file=path_of(file))
    if source.problems:
        raise DefinitionError(list(source.problems))
    if source.data is not None and not isinstance(source.data, dict):
        raise BadInput(f"{path_of(file)}: must be keys with values")
    return source.data or {}


def _entries(root: Root, file: str) -> Iterator[Entry]:
    for key, value in _parsed(text_of(root, path_of(file)) or "", file).items():
        record = value if isinstance(value, dict) and "value" in value else {"value": value}
        yield Entry(
            key=str(key),
            value=_plain(record["value"]),
            file=file,
            visibility=str(record.get("visibility", "private")),
            source=str(record.get("source") or ""),
            updated=str(record.get("updated") or ""),
        )


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{k}: {_plain(v)}" for k, v in value.items())
    if isinstance(value, list):
        return "; ".join(map(_plain, value))
    return "" if value is None else str(value)


def _record(entry: Entry) -> dict[str, str]:
    record = {"value": entry.value, "source": entry.source, "updated": entry.updated}
    if entry.visibility != "private":
        record["visibility"] = entry.visibility
    return {key: value for key, value in record.items() if value}


def _check(entry: Entry) -> None:
    if not entry.key.strip() or len(entry.key) > LONGEST_KEY or not entry.key.isprintable():
        raise BadInput(f"a key is one line of at most {LONGEST_KEY} characters")
    if entry.key == "<<":  # YAML has its own idea of it
        raise BadInput("<< cannot be a key")
    if not entry.value.strip():
        raise BadInput("there is nothing to remember", hint="to drop an entry use memory_forget")
    if len(entry.value) > LONGEST_VALUE:
        raise BadInput(f"an entry holds at most {LONGEST_VALUE} characters", hint="write a note instead")
    if not _FILE.fullmatch(entry.file) or entry.file == ARCHIVE:
        raise BadInput(f"{entry.file!r} is not a place for memories", hint="use core or working")


def _edit(root: Root, file: str, key: str, record: dict[str, str] | None) -> None:
    """Put a record under a key, or take the key out. All else in the file stays as it was written."""

    def changed(text: str) -> str:
        there = _parsed(text, file)  # says where it is wrong
        return rewritten(text, {key: record}, keys=there, file=path_of(file))

    rewrite(root, path_of(file), changed)
