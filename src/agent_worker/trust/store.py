"""What the user approved, per project, in the daemon's home and never in the project (C11).

Approved is a digest; beside it the last approved text of each power is kept, so that a change is shown as one. A file
that lies in the project it speaks for is not believed (Y20), nor one that is damaged: then nothing is approved.
Synchronous: call it in a thread. Above: whoever starts a workflow or equips an agent. Asking the person is theirs too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from agent_worker.clock import Clock
from agent_worker.errors import NotFound, Refused, Untrusted
from agent_worker.storage.files import Root
from agent_worker.storage.swap import Conflict, content_hash
from agent_worker.trust.powers import Power
from agent_worker.trust.shown import difference, masked, revealed

FILE = "trust.json"
KEPT = 64 * 1024  #: characters of an approved text
ALL_KEPT = 4 * 1024 * 1024  #: characters of all texts; beyond, those of the projects not approved longest go
LISTED = 20  #: powers in an error

_TRIES = 10


@dataclass(frozen=True, slots=True)
class Unapproved:
    """A power that waits for a yes."""

    power: Power
    before: str | None  #: what was approved last under this name; None when nothing was

    def shown(self) -> str:
        """For a person: the difference to what was approved, or all of it."""
        if self.before is None:
            return revealed(_text(self.power))
        unseen = "(it changed in a part that is too long, secret, or no text)"
        return difference(self.before, _kept(self.power)) or unseen


class NotApproved(Untrusted):
    """The project would do something that the user has not approved. `waiting` says what."""

    def __init__(self, waiting: tuple[Unapproved, ...]) -> None:
        lines = [f"  {'changed: ' if one.before else ''}{one.power.what}" for one in waiting[:LISTED]]
        if len(waiting) > LISTED:
            lines.append(f"  … and {len(waiting) - LISTED} more")
        super().__init__(
            "this project would do what you have not approved:\n" + "\n".join(lines),
            hint="look at its files, then run it again with --trust",
        )
        self.waiting = waiting


@dataclass(slots=True)
class _Approvals:
    """Of one project."""

    when: dict[str, str] = field(default_factory=dict)  # digest → time
    texts: dict[str, str] = field(default_factory=dict)  # key of a power → what was approved last

    @classmethod
    def read(cls, record: Any) -> Self:
        return cls(_strings(record, "approved"), _strings(record, "texts"))


class TrustStore:
    """The approvals of one project."""

    def __init__(self, home: Root | None, project: Path | str, *, clock: Clock) -> None:
        """Without a home, approvals last as long as this store.

        A project that was fetched is named by where it comes from, without the version, so that the next version
        is seen as a change; one on this machine by its path.
        """
        self._project = project if isinstance(project, str) else str(project.resolve())
        inside = isinstance(project, Path) and home and home.location().resolve().is_relative_to(project.resolve())
        self._home = None if inside else home
        self._memory = ""
        self._clock = clock

    def unapproved(self, powers: Iterable[Power]) -> tuple[Unapproved, ...]:
        """Those that need a yes, in their order."""
        approvals = self._all()[0].get(self._project, _Approvals())
        return tuple(
            Unapproved(power, approvals.texts.get(_key(power)))
            for power in powers
            if power.digest not in approvals.when
        )

    def require(self, powers: Iterable[Power]) -> None:
        """Raises NotApproved unless every one is approved."""
        if waiting := self.unapproved(powers):
            raise NotApproved(waiting)

    def approve(self, powers: Iterable[Power]) -> None:
        """The user said yes, or it was us who wrote this for the user."""
        wanted, now = tuple(powers), self._clock.now().isoformat()

        def add(approvals: _Approvals) -> None:
            approvals.when |= {power.digest: now for power in wanted}
            approvals.texts |= {_key(power): _kept(power) for power in wanted}

        if wanted:
            self._change(add)

    def withdraw(self, powers: Iterable[Power]) -> None:
        """Whoever had them is gone."""
        gone = tuple(powers)

        def take(approvals: _Approvals) -> None:
            for power in gone:
                approvals.when.pop(power.digest, None)
                approvals.texts.pop(_key(power), None)

        if gone:
            self._change(take)

    def _change(self, change: Callable[[_Approvals], None]) -> None:
        for _ in range(_TRIES):
            everything, expected = self._all()
            approvals = everything.pop(self._project, _Approvals())
            everything[self._project] = approvals  # to the end: seen last
            change(approvals)
            if self._written(_rendered(everything), expected):
                return
        raise Refused(f"{FILE} is changed by somebody else all the time")

    def _all(self) -> tuple[dict[str, _Approvals], str | None]:
        """Every project's approvals, and the hash of the file they come from."""
        if self._home is None:
            return _parsed(self._memory), None
        try:
            content = self._home.read_bytes(FILE, limit=16 * ALL_KEPT)  # each character may be written as \uXXXX
        except NotFound:
            return {}, None
        return _parsed(content), content_hash(content)

    def _written(self, text: str, expected: str | None) -> bool:
        if self._home is None:
            self._memory = text
            return True
        outcome = self._home.swap(FILE, text, expected=expected)
        if isinstance(outcome, Conflict):
            self._home.remove(outcome.kept)
            return False
        return True


def _parsed(text: str | bytes) -> dict[str, _Approvals]:
    try:
        projects = json.loads(text)["projects"]
        return {name: _Approvals.read(record) for name, record in projects.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _strings(record: Any, field_name: str) -> dict[str, str]:
    return {key: value for key, value in record[field_name].items() if isinstance(value, str)}


def _rendered(everything: dict[str, _Approvals]) -> str:
    size = {name: sum(map(len, approvals.texts.values())) for name, approvals in everything.items()}
    over = sum(size.values()) - ALL_KEPT
    for name, approvals in everything.items():
        if over > 0:
            over -= size[name]
            approvals.texts.clear()
    projects = {name: {"approved": one.when, "texts": one.texts} for name, one in everything.items()}
    return json.dumps({"version": 1, "projects": projects}, indent=1)


def _key(power: Power) -> str:
    return json.dumps(power.key)


def _text(power: Power) -> str:
    return masked(power.what if power.content == power.what else f"{power.what}\n\n{power.content}")


def _kept(power: Power) -> str:
    text = _text(power)
    return text if len(text) <= KEPT else f"{text[:KEPT]}\n({len(text) - KEPT:,} more characters)"
