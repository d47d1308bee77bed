"""Changes of a soul that wait for a person: `soul.proposals/<id>.yaml`, plain files that they may edit.

A proposal is open, then approved, rejected, expired or withdrawn; its file stays, so that what was rejected does not
come back. The id is made of its words, for people to type. Knows files, and nothing of who decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Literal

from agent_worker.core.errors import BadInput, DefinitionError, NotFound, Refused
from agent_worker.core.later import dataclass, pattern
from agent_worker.definitions.rewriting import rewritten
from agent_worker.definitions.source import parse_source
from agent_worker.files.paths import is_text
from agent_worker.files.root import Root
from agent_worker.files.swap import Conflict, content_hash
from agent_worker.identity.change import Change, Evidence
from agent_worker.identity.corrections import as_correction
from agent_worker.identity.soul import stamp
from agent_worker.memory.edits import rewrite, text_of

FOLDER = "soul.proposals"
LASTS = timedelta(days=30)
STATES = ("open", "approved", "rejected", "expired", "withdrawn")
_ID = pattern(r"[a-z0-9][a-z0-9-]{0,60}")

State = Literal["open", "approved", "rejected", "expired", "withdrawn"]


@dataclass(frozen=True, slots=True)
class SoulProposal:
    """A change of a soul that somebody thinks is right, with what it rests on."""

    id: str
    change: Change
    by: str  #: guard | agent | user
    evidence: tuple[Evidence, ...]
    at: str  #: when it was made
    expires: str  #: a day
    state: State = "open"
    decided: str = ""  #: when
    reason: str = ""  #: of a rejection; or how it was worded

    @property
    def digest(self) -> str:
        """Names exactly this change: what a person was shown is what they approve."""
        return content_hash(json.dumps(self.change.record, sort_keys=True))

    def is_about(self, change: Change) -> bool:
        """Whether this proposal and a change come to the same."""
        if self.change.field != change.field or (self.change.verb == "remove") != (change.verb == "remove"):
            return False
        mine, theirs = as_correction(self.change.value), as_correction(change.value)
        return self.change.value == change.value or mine.means(theirs)


@dataclass(frozen=True, slots=True)
class Proposals:
    entries: tuple[SoulProposal, ...] = ()  #: oldest first
    problems: tuple[str, ...] = ()  #: files that cannot be read, each with its line

    @property
    def open(self) -> list[SoulProposal]:
        return [each for each in self.entries if each.state == "open"]


def load(home: Root) -> Proposals:
    """Every proposal there ever was. A file with a mistake in it is named, the others are read."""
    if not home.may_hold(FOLDER):
        return Proposals()
    try:
        names = [each.name for each in home.list(FOLDER) if each.name.endswith(".yaml") and not each.is_directory]
    except NotFound:
        return Proposals()
    found, problems = [], []
    for name in filter(is_text, names):
        try:
            found.append(get(home, name.removesuffix(".yaml")))
        except (DefinitionError, BadInput) as error:
            problems.append(error.message)
    return Proposals(tuple(sorted(found, key=lambda each: (each.at, each.id))), tuple(problems))


def get(home: Root, id: str) -> SoulProposal:
    """One proposal. Raises NotFound, or DefinitionError for a file with a mistake in it."""
    text = text_of(home, _path(id)) if _ID.fullmatch(id) else None
    if text is None:
        raise NotFound(f"there is no proposal {id!r} for this soul")
    source = parse_source(text, file=_path(id))
    if source.problems:
        raise DefinitionError(list(source.problems))
    if not isinstance(source.data, dict):
        raise BadInput(f"{_path(id)}: must be keys with values")
    return _read(id, source.data)


def named(home: Root, given: str) -> SoulProposal:
    """The proposal with this id, or with an id that begins so. Among several, the open one."""
    known = load(home).entries
    found = [each for each in known if each.id == given] or [each for each in known if each.id.startswith(given)]
    found = [each for each in found if each.state == "open"] or found
    if len(found) == 1 and given:
        return found[0]
    if len(found) > 1:
        raise BadInput(f"{given!r} could be any of {len(found)}", hint=", ".join(each.id for each in found[:5]))
    there = ", ".join(each.id for each in known if each.state == "open")
    raise NotFound(f"there is no proposal {given!r} for this soul (open: {there or 'none'})")


def add(
    home: Root, change: Change, *, by: str, evidence: Sequence[Evidence], now: datetime, reason: str = ""
) -> SoulProposal:
    """Put a proposal into the folder, under an id that is free."""
    change.check()
    stem = re.sub(r"[^a-z0-9]+", "-", change.value.lower())[:50].strip("-") or "change"
    number = 1
    while True:
        made = SoulProposal(
            id=stem if number == 1 else f"{stem}-{number}",
            change=change,
            by=by,
            evidence=tuple(evidence),
            at=stamp(now),
            expires=(now + LASTS).date().isoformat(),
            reason=reason,
        )
        if not isinstance(home.swap(_path(made.id), _dumped(made), expected=None), Conflict):
            return made
        number += 1


def settle(home: Root, proposal: SoulProposal, state: State, *, now: datetime, reason: str = "") -> SoulProposal:
    """Close a proposal that is open. All else in its file stays as a person wrote it."""
    decided = f"{proposal.expires}T23:59:59Z" if state == "expired" else stamp(now)

    def changed(text: str) -> str:
        if get(home, proposal.id).state != "open":
            raise Refused(f"{proposal.id} is {get(home, proposal.id).state} already")
        given = {"state": state, "decided": decided, **({"reason": reason} if reason else {})}
        return rewritten(text, given, file=_path(proposal.id))

    rewrite(home, _path(proposal.id), changed)
    return replace(proposal, state=state, decided=decided, reason=reason or proposal.reason)


def overdue(found: Proposals, now: datetime) -> list[SoulProposal]:
    """The proposals that nobody has decided on in time."""
    today = now.date().isoformat()
    return [each for each in found.open if each.expires and each.expires < today]


def resting_on(found: Proposals, runs: Collection[str]) -> list[SoulProposal]:
    """Open ones whose evidence is from one of these runs."""
    return [each for each in found.open if any(piece.run in runs for piece in each.evidence)]


def _path(id: str) -> str:
    return f"{FOLDER}/{id}.yaml"


def _dumped(made: SoulProposal) -> str:
    values: dict[str, Any] = {
        "change": made.change.record,
        "evidence": [each.record for each in made.evidence],
        "by": made.by,
        "risk": made.change.risk,
        "at": made.at,
        "expires": made.expires,
        "state": made.state,
    }
    return rewritten("", {**values, **({"reason": made.reason} if made.reason else {})}, file=FOLDER)


def _read(id: str, data: dict[str, Any]) -> SoulProposal:
    state = data.get("state", "open")
    if state not in STATES:
        raise BadInput(f"{_path(id)}: state must be one of {', '.join(STATES)}")
    try:
        change = Change.of(data.get("change"))
        change.check()
    except BadInput as error:
        raise BadInput(f"{_path(id)}: {error.message}", hint=error.hint) from None
    return SoulProposal(
        id=id,
        change=change,
        by=str(data.get("by") or "user"),
        evidence=Evidence.of(data.get("evidence")),
        at=str(data.get("at") or ""),
        expires=str(data.get("expires") or ""),
        state=state,
        decided=str(data.get("decided") or ""),
        reason=str(data.get("reason") or ""),
    )
