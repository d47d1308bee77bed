"""Who an agent is, as files: `soul.yaml` is the soul now, `soul.history/` holds every version there was.

Without `soul.yaml` the soul is what the definition says, which is version 1. People edit `soul.yaml` by hand: what they
wrote becomes a version, and a mistake in it is named with its line while the last good version is used. A file that is
gone is written again: to go back there is `rollback`. Knows no proposals and no database.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from functools import lru_cache
from threading import Lock
from typing import Any, Literal

from agent_worker.core.difference import changed_lines
from agent_worker.core.errors import AgentWorkerError, BadInput, DefinitionError, NotFound, Stale
from agent_worker.core.later import dataclass
from agent_worker.definitions.agent_blocks import Soul
from agent_worker.definitions.problems import validate
from agent_worker.definitions.rewriting import rewritten
from agent_worker.definitions.source import parse_source
from agent_worker.files.root import Root
from agent_worker.files.swap import Conflict, content_hash
from agent_worker.identity.change import Change, Evidence
from agent_worker.memory.edits import text_of
from agent_worker.memory.own_files import OwnFiles

FILE = "soul.yaml"
HISTORY = "soul.history"
BY_HAND = "edited by hand"
FROM_DEFINITION = "the definition was edited"

By = Literal["definition", "user", "guard", "agent"]
_TURNS = [Lock() for _ in range(64)]  # two of our threads that change the same soul


@dataclass(frozen=True, slots=True)
class SoulVersion:
    """One version of a soul. Once written it is never changed."""

    number: int
    at: str  #: when it began, as 2026-11-16T12:00:44Z
    by: By
    reason: str
    text: str  #: the whole of soul.yaml, byte for byte
    diff: str = ""  #: against the version before
    evidence: tuple[Evidence, ...] = ()
    definition: str = ""  #: the soul that the definition had, where that is what this version came from

    @property
    def record(self) -> dict[str, Any]:
        return read(self.text, file=path_of(self.number))


@dataclass(frozen=True, slots=True)
class CurrentSoul:
    """The soul that holds now."""

    text: str
    record: dict[str, Any]
    version: int
    problem: str = ""  #: what is wrong with soul.yaml: then this is the last good version
    versions: tuple[SoulVersion, ...] = field(default=(), repr=False)  #: oldest first; none if it never changed

    @property
    def principles(self) -> list[str]:
        return [str(each) for each in self.record.get("principles") or ()]

    @property
    def spoken(self) -> dict[str, Any]:
        """What of it stands in the prompt: how it is measured is for us."""
        return {key: value for key, value in self.record.items() if key != "probes"}


def read(text: str, *, file: str) -> dict[str, Any]:
    """What a soul says. Raises DefinitionError, which names every mistake with its line."""
    source = parse_source(text, file=file)
    if source.data is None:
        return {}
    return validate(Soul, source, defaults={}).record()


def written(record: Mapping[str, Any]) -> str:
    """A soul as a file that nobody has edited yet."""
    return _written(json.dumps(record))


@lru_cache(1000)
def _written(record: str) -> str:
    """As `written`, from JSON, and cached: it is asked for in every run, and for most agents never changes."""
    return rewritten("", json.loads(record), file=FILE)


def has_own(home: Root) -> bool:
    """Whether an agent may be somebody else by now than its definition says. Looks at its folder only."""
    return home.may_hold(FILE, HISTORY)


def look(home: Root, definition: Soul) -> CurrentSoul:
    """The soul that holds now; nothing is written. Reads files: call it in a thread."""
    base = definition.record()
    if not has_own(home):
        return CurrentSoul(written(base), base, 1)
    versions = history(home)
    last = versions[-1] if versions else None
    text = text_of(home, FILE)
    if text is None:
        return _merged(last, base, versions) if last else CurrentSoul(written(base), base, 1)
    try:
        record = read(text, file=FILE)
    except (DefinitionError, BadInput) as error:
        if last is None:
            return CurrentSoul(written(base), base, 1, error.message)
        return replace(_merged(last, base, versions), problem=error.message)
    if last is not None and text == last.text:
        return _merged(last, base, versions)
    return CurrentSoul(text, record, (last.number if last else 1) + 1, versions=tuple(versions))


def _merged(last: SoulVersion, base: Mapping[str, Any], versions: Sequence[SoulVersion]) -> CurrentSoul:
    """The last version, with whatever was changed in the definition since."""
    text = _followed(last.text, _definition_in(versions), base)
    number = last.number if text == last.text else last.number + 1
    return CurrentSoul(text, read(text, file=FILE), number, versions=tuple(versions))


def settle(home: Root, definition: Soul, *, now: datetime) -> tuple[CurrentSoul, list[SoulVersion]]:
    """Write down as versions what people did to the soul by hand, and what became of the definition."""
    with _turn(home):
        return _settle(home, definition, now=now)


def _settle(home: Root, definition: Soul, *, now: datetime) -> tuple[CurrentSoul, list[SoulVersion]]:
    OwnFiles.settle_in(home)
    found, base, made = look(home, definition), definition.record(), list[SoulVersion]()
    last = found.versions[-1] if found.versions else None
    if found.problem or (last is None and not home.may_hold(FILE)):
        return found, made
    if last is None:
        last = _keep(
            home, None, by="definition", reason="as the definition says", text=written(base), at=now, base=base
        )
    if found.text != last.text:
        by_definition = text_of(home, FILE) in (None, last.text)
        reason = FROM_DEFINITION if by_definition else BY_HAND
        by: By = "definition" if by_definition else "user"
        last = _keep(home, last, by=by, reason=reason, text=found.text, at=now, base=base if by_definition else None)
        made.append(last)
    following = _followed(last.text, _definition_in(history(home)), base)
    if following != last.text:  # edited by hand, and the definition too: one after the other
        last = _keep(home, last, by="definition", reason=FROM_DEFINITION, text=following, at=now, base=base)
        made.append(last)
    if text_of(home, FILE) != last.text:
        home.replace(FILE, last.text)
    return look(home, definition), made


def amend(
    home: Root,
    definition: Soul,
    make: Callable[[CurrentSoul], str],
    *,
    by: By,
    reason: str,
    now: datetime,
    evidence: Sequence[Evidence] = (),
) -> tuple[SoulVersion | None, list[SoulVersion]]:
    """Give the soul the text that `make` makes of it, as a new version; None when that is what it says already.

    Also returns what had to be settled first. Raises Stale when a person saves the file at the same moment.
    """
    with _turn(home):
        found, settled = _settle(home, definition, now=now)
        if found.problem:
            raise BadInput(found.problem, hint=f"fix {home.location(FILE)} first")
        text = make(found)
        read(text, file=FILE)  # says where it is wrong
        if text == found.text:
            return None, settled
        last = found.versions[-1] if found.versions else None
        if last is None:
            base = definition.record()
            last = _keep(
                home, None, by="definition", reason="as the definition says", text=found.text, at=now, base=base
            )
        before = text_of(home, FILE)
        outcome = home.swap(FILE, text, expected=None if before is None else content_hash(before))
        if isinstance(outcome, Conflict):
            raise Stale(
                f"{FILE} was edited by someone else at the same moment; your version is kept as {outcome.kept}",
                hint="look at both, then try again",
            )
        made = _keep(home, last, by=by, reason=reason, text=text, at=now, evidence=evidence)
        return made, settled


def applied(change: Change, found: CurrentSoul) -> str:
    """The text of the soul with this change in it; the same text when it is in it already."""
    value = change.applied_to(found.record.get(change.field))
    if value == found.record.get(change.field):
        return found.text
    return rewritten(found.text, {change.field: value}, file=FILE)


# --- history ------------------------------------------------------------------------------------------


def path_of(number: int) -> str:
    return f"{HISTORY}/{number:04}.yaml"


def history(home: Root) -> list[SoulVersion]:
    """Every version, oldest first. One whose file cannot be read is left out."""
    try:
        names = [each.name for each in home.list(HISTORY) if not each.is_directory]
    except NotFound:
        return []
    numbers = sorted(int(stem) for name in names if (stem := name.removesuffix(".yaml")).isdecimal() and stem != name)
    found = []
    for number in numbers:
        try:
            found.append(version_at(home, number))
        except AgentWorkerError:
            continue
    return found


def version_at(home: Root, number: int) -> SoulVersion:
    text = text_of(home, path_of(number))
    if text is None:
        raise NotFound(f"there is no version {number} of this soul")
    source = parse_source(text, file=path_of(number))
    match source.data:
        case {"version": int(n), "at": str(at), "by": str(by), "soul": str(soul), **more} if not source.problems:
            return SoulVersion(
                number=n,
                at=at,
                by=by,  # type: ignore[arg-type]
                reason=str(more.get("reason") or ""),
                text=soul,
                diff=str(more.get("diff") or ""),
                evidence=Evidence.of(more.get("evidence")),
                definition=str(more.get("definition") or ""),
            )
    raise BadInput(f"{path_of(number)} is not a version of a soul")


def _keep(
    home: Root,
    before: SoulVersion | None,
    *,
    by: By,
    reason: str,
    text: str,
    at: datetime,
    evidence: Sequence[Evidence] = (),
    base: Mapping[str, Any] | None = None,
) -> SoulVersion:
    """Add a version. A number that is taken, by a file that cannot be read, is left to it."""
    number = before.number + 1 if before else 1
    diff = diff_between(before.text, text) if before else ""
    definition = "" if base is None else written(base)
    while True:
        made = SoulVersion(number, stamp(at), by, reason, text, diff, tuple(evidence), definition)
        if not isinstance(home.swap(path_of(number), _dumped(made), expected=None), Conflict):
            return made
        number += 1


def diff_between(before: str, after: str) -> str:
    """Lines that went and came, each with its sign, and no heads."""
    lines = changed_lines(before.splitlines(), after.splitlines(), around=0)
    return "".join(f"{line}\n" for line in lines if not line.startswith("@@"))


def _dumped(made: SoulVersion) -> str:
    facts: dict[str, Any] = {"version": made.number, "at": made.at, "by": made.by, "reason": made.reason}
    if made.evidence:
        facts["evidence"] = [each.record for each in made.evidence]
    head = rewritten("", facts, file=HISTORY)
    blocks = {"diff": made.diff, "definition": made.definition, "soul": made.text}
    return head + "".join(_block(key, text) for key, text in blocks.items() if text or key == "soul")


def _block(key: str, text: str) -> str:
    """A text as a block that a person can read, or in quotes where a block would not give it back byte for byte."""
    block = f"{key}: |\n" + "".join(f"  {line}\n" for line in text.split("\n")[:-1])
    try:
        if parse_source(block, file="").data == {key: text}:
            return block
    except DefinitionError:
        pass
    return rewritten("", {key: text}, file=HISTORY)


def stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _turn(home: Root) -> Lock:
    return _TURNS[hash(home.location()) % len(_TURNS)]


# --- what became of the definition --------------------------------------------------------------------


def _definition_in(versions: Sequence[SoulVersion]) -> dict[str, Any]:
    """The definition's soul as it was when we last followed it."""
    known = next((each.definition for each in reversed(versions) if each.by == "definition"), "")
    return read(known, file=HISTORY)


def _followed(text: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The soul, with what was changed in its definition carried over, entry by entry."""
    if before == after:
        return text
    record, changes = read(text, file=FILE), dict[str, Any]()
    for key in [*before, *(key for key in after if key not in before)]:
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        if isinstance(old or [], list) and isinstance(new or [], list) and isinstance(record.get(key) or [], list):
            gone = [each for each in old or [] if each not in (new or [])]
            kept = [each for each in record.get(key) or [] if each not in gone]
            changes[key] = [*kept, *(each for each in new or [] if each not in kept)] or None
        else:
            changes[key] = new
    changed = {key: value for key, value in changes.items() if value is not None or key in record}
    return rewritten(text, changed, file=FILE) if changed else text
