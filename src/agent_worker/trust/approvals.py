"""What the user approved of a project, as values: powers by their digests, limits, tool calls.

Approved is a digest; beside it the last approved text of each power is kept, so that a change is shown as one. What can
run any file of the project is approved until an agent who may change files has worked there: `worked` is told. Where
they are kept: store.py and shared_approvals.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import field
from typing import Any, Self

from agent_worker.core.later import dataclass
from agent_worker.core.text import plural
from agent_worker.trust.allowances import Allowance, settled
from agent_worker.trust.powers import Power
from agent_worker.trust.preview import difference, masked, revealed

KEPT = 64 * 1024  #: characters of an approved text
LISTED = 20  #: powers in an error
FIELDS = ("approved", "texts", "files", "open", "worked", "limits", "calls")

_SHORT = 16  # characters of a digest that are kept to say which file it was
_AT = " at "  # between a digest and the checkout that it is approved for


@dataclass(frozen=True, slots=True)
class Unapproved:
    """A power that waits for a yes."""

    power: Power
    before: str | None  #: what was approved last under this name; None when nothing was
    worked: str = ""  #: it is as it was approved, but this agent has worked there since and may have changed files
    changed: tuple[str, ...] = ()  #: files that are not what they were

    @property
    def why(self) -> str:
        """Why a yes that was given does not hold any more; empty when none was."""
        if self.worked:
            return f"since you approved it, {self.worked} has worked here and may have changed what it runs"
        if self.changed:
            return f"changed: {', '.join(self.changed[:LISTED])}"
        return "changed: its definition" if self.before is not None else ""

    def shown(self) -> str:
        """What a person is shown: the difference to what was approved, or all of it."""
        if self.before is None or self.worked:
            return revealed(_text(self.power))
        unseen = "(it changed in a part that is too long, secret, or not text)"
        return difference(self.before, _kept(self.power)) or unseen


@dataclass(slots=True)
class Approvals:
    """The approvals of one project, as they are stored.

    What can run files that nobody has looked at is approved for one checkout: on another host they are other files.
    """

    when: dict[str, str] = field(default_factory=dict)  # digest → time
    texts: dict[str, str] = field(default_factory=dict)  # key of a power → what was approved last
    files: dict[str, str] = field(default_factory=dict)  # key of a power → the files that this covered, as JSON
    open: dict[str, str] = field(default_factory=dict)  # digest of what can run any file → whose own runs do not count
    worked: dict[str, str] = field(default_factory=dict)  # such a digest → who has worked there since
    limits: dict[str, str] = field(default_factory=dict)  # whose and which → the number that holds
    calls: dict[str, str] = field(default_factory=dict)  # digest of a tool call allowed for good → what it does

    place: str = ""  # of the checkout, among those of several hosts; '' where there is only one

    @classmethod
    def read(cls, record: Any, place: str = "") -> Self:
        approvals = cls(place=place)
        for name, held in zip(FIELDS, approvals._held(), strict=True):
            held.update(_strings(record, name))
        return approvals

    def written(self) -> dict[str, Any]:
        return dict(zip(FIELDS, self._held(), strict=True))

    def _held(self) -> tuple[dict[str, str], ...]:
        return self.when, self.texts, self.files, self.open, self.worked, self.limits, self.calls

    def look(self, power: Power) -> Unapproved | None:
        """Why a power is not approved; None when it is, and nobody has worked there since who could have changed it."""
        if power.allowance is not None:
            holds = self.holds(power.allowance) == power.allowance.value
            return None if holds else Unapproved(power, None)
        worked = self.worked.get(self._known_as(power), "")
        if self._known_as(power) in self.when and not worked:
            return None
        before = self.texts.get(_key(power))
        return Unapproved(power, before, worked, () if worked else self._changed(power))

    def holds(self, allowance: Allowance) -> float:
        try:
            held = float(self.limits[_limit(allowance)])
        except (KeyError, ValueError):
            held = None
        return settled(allowance, held)

    def settle(self, allowances: Iterable[Allowance]) -> bool:
        """Let lower limits hold from now on, and forget those that are gone. Whether that changed anything."""
        before = dict(self.limits)
        for each in allowances:
            if each.written is None:
                self.limits.pop(_limit(each), None)
            elif (holds := self.holds(each)) == each.value:
                self.limits[_limit(each)] = repr(holds)
        return self.limits != before

    def _changed(self, power: Power) -> tuple[str, ...]:
        try:
            old = dict(json.loads(self.files.get(_key(power), "{}")))
        except (ValueError, TypeError, RecursionError):
            return ()
        new = {path: digest[:_SHORT] for path, digest in power.files} if _key(power) in self.files else {}
        return tuple(path for path in sorted({*old, *new}) if old.get(path) != new.get(path))

    def approve(self, power: Power, now: str) -> None:
        if power.allowance is not None:
            self.limits[_limit(power.allowance)] = repr(power.allowance.value)
            return
        self.when[self._known_as(power)] = now
        self.texts[_key(power)] = _kept(power)
        self.files[_key(power)] = json.dumps({path: digest[:_SHORT] for path, digest in power.files})
        if power.any_file:
            # A program works by its own rules and with all rights: it need not be kept from changing itself.
            self.open[self._known_as(power)] = power.who if power.kind == "program" else ""
            self.worked.pop(self._known_as(power), None)

    def withdraw(self, power: Power) -> None:
        if power.allowance is not None:
            self.limits.pop(_limit(power.allowance), None)
        for by_digest in (self.when, self.open, self.worked):
            by_digest.pop(self._known_as(power), None)
        for by_key in (self.texts, self.files):
            by_key.pop(_key(power), None)

    def mark_worked(self, agent: str) -> None:
        """An agent that may change files has worked in this checkout."""
        for known, own in self._open_here():
            if agent != own:
                self.worked.setdefault(known, agent)

    def would_mark(self, agent: str) -> bool:
        return any(known not in self.worked and agent != own for known, own in self._open_here())

    def move(self, place: str) -> None:
        """Let what was approved for this checkout be approved for another path of the same one."""
        for by_digest in (self.when, self.worked, self.open):
            for known in [known for known, _ in self._open_here() if known in by_digest]:
                by_digest[_placed(known.partition(_AT)[0], place)] = by_digest.pop(known)
        self.place = place

    def become(self, other: Approvals) -> None:
        """Take over exactly what is approved in another set."""
        for mine, theirs in zip(self._held(), other._held(), strict=True):
            mine.clear()
            mine.update(theirs)

    def _open_here(self) -> list[tuple[str, str]]:
        return [(known, own) for known, own in self.open.items() if known.partition(_AT)[2] == self.place]

    def _known_as(self, power: Power) -> str:
        return _placed(power.digest, self.place) if power.any_file else power.digest


def _placed(digest: str, place: str) -> str:
    return f"{digest}{_AT}{place}" if place else digest


def _strings(record: Any, field_name: str) -> dict[str, str]:
    return {key: value for key, value in record[field_name].items() if isinstance(value, str)}


def _key(power: Power) -> str:
    return json.dumps(power.key)


def _limit(allowance: Allowance) -> str:
    return json.dumps([allowance.of, allowance.name])


def _text(power: Power) -> str:
    return masked(power.what if power.content == power.what else f"{power.what}\n\n{power.content}")


def _kept(power: Power) -> str:
    text = _text(power)
    return text if len(text) <= KEPT else f"{text[:KEPT]}\n({plural(len(text) - KEPT, 'more character')})"
