"""What an agent remembers: `memory/*.yaml`, a key with a value, or with a record that says where it came from.

A record is a claim: who says so, where and when it was learned, since when it holds, how often it was confirmed and
what it replaced. All of that may be missing: a person may write a key and a value. Which claims are kept is decided by
claims.py, before anything is written here.

`core.yaml` is always in the prompt, `archive.yaml` only found on demand, every other file is working memory. But not
`quarantine.yaml`: what may have been put into the agent's mouth waits there, out of its reach, until a person looks.
People edit these files by hand; what they wrote (order, comments) stays as it is when we add to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from itertools import count
from typing import Any, Literal

from agent_worker.core.errors import BadInput, DefinitionError, NotFound, Refused
from agent_worker.core.later import dataclass, pattern
from agent_worker.definitions.rewriting import rewritten
from agent_worker.definitions.source import parse_source
from agent_worker.files.paths import is_text, text_names
from agent_worker.files.root import Root
from agent_worker.memory.edits import rewrite, text_of
from agent_worker.memory.own_files import OwnFiles

FOLDER = "memory"
CORE, WORKING, ARCHIVE, QUARANTINE = "core", "working", "archive", "quarantine"
USER, SELF, IMPORT, OUTSIDE = "user", "self", "import", "outside"  #: who says so; a colleague is `agent:<name>`
DISPUTED = " (disputed)"  #: end of the key of what says otherwise than a claim that is trusted more
LONGEST_KEY = 120
LONGEST_VALUE = 4 * 1024
MOST_SOURCES = 20  #: of one claim, the newest

Tier = Literal["core", "working", "archive"]
_FILE = pattern(r"[a-z][a-z0-9-]{0,40}")


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One thing an agent remembers. Times are ISO 8601, as written; '' where nobody said."""

    key: str
    value: str
    file: str  #: without its ending: core, working, decisions …
    visibility: str = "private"  #: private | shareable | public
    source: tuple[str, ...] = ()  #: the runs it was learned and confirmed in; empty when a person wrote it
    learned: str = ""
    by: str = USER  #: who says so; trust follows from it
    about: str = ""  #: its subject
    since: str = ""  #: it holds from then on
    until: str = ""  #: it held until then
    seen: int = 1  #: how often it was said, each time by another source
    replaces: str = ""  #: what is in the archive since this holds
    replaced_by: str = ""
    disputes: str = ""  #: the key of what says otherwise, and is more trusted
    check_after: str = ""  #: a day, after which somebody should look whether it still holds
    share_with: tuple[str, ...] = ()  #: colleagues who get to hear it beside what `visibility` says

    @property
    def tier(self) -> Tier:
        return self.file if self.file in (CORE, ARCHIVE) else WORKING  # type: ignore[return-value]

    @property
    def from_outside(self) -> bool:
        """Whether it was learned while the agent read what others wrote."""
        return self.by == OUTSIDE

    @property
    def is_of_others(self) -> bool:
        """Whether it was written outside our workspaces: read there, or brought in from another memory."""
        return self.by in (OUTSIDE, IMPORT)

    @property
    def day(self) -> str:
        """The day on which it was learned."""
        return self.learned[:10]


@dataclass(frozen=True, slots=True)
class Memories:
    entries: tuple[MemoryEntry, ...] = ()
    problems: tuple[str, ...] = ()  #: files that cannot be read, each with its line


def from_record(record: dict[str, Any]) -> MemoryEntry:
    """An entry as the audit keeps it, in JSON."""
    given: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in record.items()}
    return MemoryEntry(**given)


def load(root: Root, *, only: str | None = None) -> Memories:
    """Everything in the files, or in one. A file with a mistake in it is named, the others are read."""
    OwnFiles.settle_in(root)
    entries: list[MemoryEntry] = []
    problems: list[str] = []
    for name in files(root) if only is None else [only]:
        try:
            entries += _entries(root, name)
        except (DefinitionError, BadInput) as error:
            problems.append(error.message)
    return Memories(tuple(entries), tuple(problems))


def files(root: Root) -> list[str]:
    """All files of memory that the agent itself may see."""
    try:
        names = [e.name for e in root.list(FOLDER) if e.name.endswith(".yaml") and not e.is_directory]
    except NotFound:
        return []
    return sorted({name.removesuffix(".yaml") for name in filter(is_text, names)} - {QUARANTINE})


def path_of(file: str) -> str:
    return "/".join((FOLDER, *text_names(f"{file}.yaml")))


def find(root: Root, key: str) -> MemoryEntry | None:
    found = [e for e in load(root).entries if e.key == key and e.file != ARCHIVE]
    return min(found, key=lambda e: e.file != CORE, default=None)


def write(root: Root, entry: MemoryEntry) -> Literal["new", "changed", "known"]:
    """Remember it under its key, in its file. The same value again changes nothing; core is never changed unasked."""
    _check(entry)
    known = find(root, entry.key)
    if known is None:
        _edit(root, entry.file, entry.key, _record(entry))
        return "new"
    made_core = entry.file == CORE != known.file
    if _said(known) == _said(entry) and not made_core:
        return "known"
    if known.file == CORE != entry.file:
        raise Refused(f"{entry.key!r} is part of core memory", hint="use another key, or tier core")
    _edit(root, CORE if made_core else known.file, entry.key, _record(entry))
    if made_core:
        _edit(root, known.file, entry.key, None)
    return "changed"


def forget(root: Root, key: str, *, when: datetime) -> None:
    """Move an entry into the archive: nothing is deleted."""
    known = find(root, key)
    if known is None:
        near = ", ".join(e.key for e in load(root).entries[:20] if e.file != ARCHIVE)
        raise NotFound(f"nothing is remembered under {key!r}", hint=f"there are: {near or 'none'}")

    _move(root, known, ARCHIVE, when=when)


def hold_back(root: Root, entry: MemoryEntry, *, when: datetime) -> None:
    """Move an entry out of the agent's reach, wherever it stands now; a person may `release` it."""
    if entry.file == QUARANTINE and any(held.value == entry.value for held in _entries(root, QUARANTINE)):
        return
    _move(root, entry, QUARANTINE, when=when)


def release(root: Root, key: str) -> None:
    """Make a held-back entry working memory, no longer from outside: a person has looked at it."""
    held = next((entry for entry in _entries(root, QUARANTINE) if entry.key == key), None)
    if held is None:
        near = ", ".join(entry.key for entry in _entries(root, QUARANTINE))
        raise NotFound(f"nothing is held back under {key!r}", hint=f"there are: {near or 'none'}")
    if (known := find(root, key)) and known.value != held.value:
        raise Refused(f"{key!r} is already remembered, as {known.value[:200]!r}", hint="forget one of them")
    _edit(root, WORKING, key, _record(replace(held, by=USER)))  # who has vouched for it
    _edit(root, QUARANTINE, key, None)


def restore(root: Root, entry: MemoryEntry) -> None:
    """Put an entry back where it was."""
    _edit(root, entry.file, entry.key, _record(entry))


def confirm(root: Root, known: MemoryEntry, source: tuple[str, ...]) -> MemoryEntry:
    """Note that a claim was made again elsewhere; as it stands now."""
    more = tuple(each for each in source if each not in known.source)
    confirmed = replace(known, seen=known.seen + 1, source=(*known.source, *more)[-MOST_SOURCES:])
    _edit(root, known.file, known.key, _record(confirmed))
    return confirmed


def file_away(root: Root, entry: MemoryEntry) -> str:
    """Put a copy of a claim into the archive that held once and does not hold now; the name it has there."""
    there = {each.key for each in _entries(root, ARCHIVE)}
    name = next(version for n in count(1) if (version := f"{entry.key}@{n}") not in there)
    _edit(root, ARCHIVE, name, _record(entry))
    return name


def take_out(root: Root, entry: MemoryEntry) -> None:
    """Remove an entry whose place another has taken, or that has a copy elsewhere."""
    _edit(root, entry.file, entry.key, None)


def _said(entry: MemoryEntry) -> tuple[object, ...]:
    """The parts of an entry of which one must differ for it to be written anew."""
    return entry.value, entry.visibility, entry.since, entry.about, entry.disputes, entry.check_after, entry.share_with


def _move(root: Root, known: MemoryEntry, file: str, *, when: datetime) -> None:
    """Move an entry to another file, under a name that is free there."""
    there = {entry.key for entry in _entries(root, file)}
    dated = f"{known.key} ({when.date().isoformat()})"
    names = (known.key, dated, *(f"{dated} {n}" for n in range(2, len(there) + 3)))
    free = next(name for name in names if name not in there)
    _edit(root, file, free, _record(known))  # first: if we stop in between it is there twice, never nowhere
    if known.file != file:
        _edit(root, known.file, known.key, None)


def _parsed(text: str, file: str) -> dict[str, Any]:
    source = parse_source(text, file=path_of(file))
    if source.problems:
        raise DefinitionError(list(source.problems))
    if source.data is not None and not isinstance(source.data, dict):
        raise BadInput(f"{path_of(file)}: must be keys with values")
    return source.data or {}


def _entries(root: Root, file: str) -> Iterator[MemoryEntry]:
    for key, value in _parsed(text_of(root, path_of(file)) or "", file).items():
        record = value if isinstance(value, dict) and "value" in value else {"value": value}
        source = _names(record.get("source"))
        yield MemoryEntry(
            key=str(key),
            value=_plain(record["value"]),
            file=file,
            visibility=str(record.get("visibility", "private")),
            source=source,
            learned=str(record.get("learned") or record.get("updated") or ""),  # a person may write either
            by=str(record.get("by") or (SELF if source else USER)),
            seen=_number(record.get("seen")),
            share_with=_names(record.get("share_with")),
            **{name: str(record.get(name) or "") for name in _PLAIN},
        )


_PLAIN = ("about", "since", "until", "replaces", "replaced_by", "disputes", "check_after")  # fields that are a text


def _names(value: Any) -> tuple[str, ...]:
    """The names in a field in which people write one name or a list."""
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),) if value else ()


def _number(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 1


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{k}: {_plain(v)}" for k, v in value.items())
    if isinstance(value, list):
        return "; ".join(map(_plain, value))
    return "" if value is None else str(value)


def _record(entry: MemoryEntry) -> dict[str, Any]:
    """An entry as it is written, without what goes without saying."""
    by = "" if entry.by == (SELF if entry.source else USER) else entry.by
    source = entry.source[0] if len(entry.source) == 1 else list(entry.source)
    record: dict[str, Any] = {"value": entry.value, "source": source, "learned": entry.learned, "by": by}
    record |= {name: getattr(entry, name) for name in _PLAIN}
    record["seen"] = entry.seen if entry.seen > 1 else None
    record["visibility"] = entry.visibility if entry.visibility != "private" else None
    record["share_with"] = list(entry.share_with)
    return {key: value for key, value in record.items() if value}


def _check(entry: MemoryEntry) -> None:
    if not entry.key.strip() or len(entry.key) > LONGEST_KEY or not entry.key.isprintable():
        raise BadInput(f"a key is one line of at most {LONGEST_KEY} characters")
    if entry.key == "<<":  # YAML has its own idea of it
        raise BadInput("<< cannot be a key")
    if not entry.value.strip():
        raise BadInput("there is nothing to remember", hint="to remove an entry use memory_forget")
    if len(entry.value) > LONGEST_VALUE:
        raise BadInput(f"an entry holds at most {LONGEST_VALUE} characters", hint="write a note instead")
    if not _FILE.fullmatch(entry.file) or entry.file in (ARCHIVE, QUARANTINE):
        raise BadInput(f"{entry.file!r} is not a place for memories", hint="use core or working")


def _edit(root: Root, file: str, key: str, record: dict[str, Any] | None) -> None:
    """Put a record under a key, or take the key out. All else in the file stays as it was written."""

    def changed(text: str) -> str:
        _parsed(text, file)  # says where it is wrong
        return rewritten(text, {key: record}, file=path_of(file))

    rewrite(root, path_of(file), changed)
