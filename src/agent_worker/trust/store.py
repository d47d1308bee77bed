"""What the user approved, per project, in the daemon's home and never in the project.

Approved is a digest; beside it the last approved text of each power is kept, so that a change is shown as one. What can
run any file of the project is approved until an agent who may change files has worked there: `worked` is told. A file
that lies in the project it speaks for is not believed, nor one that is damaged: then nothing is approved.
Synchronous: call it in a thread. Above: whoever starts a workflow or equips an agent. Asking the person is theirs too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import field
from pathlib import Path
from typing import Any, Self

from agent_worker.core.clock import Clock
from agent_worker.core.errors import NotFound, Refused, Untrusted
from agent_worker.core.later import dataclass
from agent_worker.core.text import plural
from agent_worker.files.root import Root
from agent_worker.files.swap import Conflict, content_hash
from agent_worker.trust.allowances import Allowance, settled
from agent_worker.trust.powers import Power
from agent_worker.trust.preview import difference, masked, revealed

FILE = "trust.json"
KEPT = 64 * 1024  #: characters of an approved text
ALL_KEPT = 4 * 1024 * 1024  #: characters of all texts; beyond, those of the projects not approved longest go
LISTED = 20  #: powers in an error

_TRIES = 10
_SHORT = 16  # characters of a digest that are kept to say which file it was
_FIELDS = ("approved", "texts", "files", "open", "worked", "limits", "calls")


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


class NotApproved(Untrusted):
    """The project would do something that the user has not approved. `waiting` says what."""

    def __init__(self, waiting: tuple[Unapproved, ...]) -> None:
        lines = [f"  {one.power.what}{f' ({one.why})' if one.why else ''}" for one in waiting[:LISTED]]
        if len(waiting) > LISTED:
            lines.append(f"  … and {len(waiting) - LISTED} more")
        super().__init__(
            "this project wants to do things that you have not approved:\n" + "\n".join(lines),
            hint="to look at it and approve it: agent-worker trust (where nobody can be asked: --trust)",
        )
        self.waiting = waiting


@dataclass(slots=True)
class _Approvals:
    """The approvals of one project, as they are stored."""

    when: dict[str, str] = field(default_factory=dict)  # digest → time
    texts: dict[str, str] = field(default_factory=dict)  # key of a power → what was approved last
    files: dict[str, str] = field(default_factory=dict)  # key of a power → the files that this covered, as JSON
    open: dict[str, str] = field(default_factory=dict)  # digest of what can run any file → whose own runs do not count
    worked: dict[str, str] = field(default_factory=dict)  # such a digest → who has worked there since
    limits: dict[str, str] = field(default_factory=dict)  # whose and which → the number that holds
    calls: dict[str, str] = field(default_factory=dict)  # digest of a tool call allowed for good → what it does

    @classmethod
    def read(cls, record: Any) -> Self:
        return cls(*(_strings(record, name) for name in _FIELDS))

    def written(self) -> dict[str, Any]:
        values = (self.when, self.texts, self.files, self.open, self.worked, self.limits, self.calls)
        return dict(zip(_FIELDS, values, strict=True))

    def look(self, power: Power) -> Unapproved | None:
        """None when it is approved, and nobody has worked there since who could make it something else."""
        if power.allowance is not None:
            holds = self.holds(power.allowance) == power.allowance.value
            return None if holds else Unapproved(power, None)
        worked = self.worked.get(power.digest, "")
        if power.digest in self.when and not worked:
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
        """What is lower than before holds from now on, and what is gone is forgotten. Did that change anything?"""
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
        self.when[power.digest] = now
        self.texts[_key(power)] = _kept(power)
        self.files[_key(power)] = json.dumps({path: digest[:_SHORT] for path, digest in power.files})
        if power.any_file:
            # A program works by its own rules and with all rights: it need not be kept from changing itself.
            self.open[power.digest] = power.who if power.kind == "program" else ""
            self.worked.pop(power.digest, None)

    def withdraw(self, power: Power) -> None:
        if power.allowance is not None:
            self.limits.pop(_limit(power.allowance), None)
        for by_digest in (self.when, self.open, self.worked):
            by_digest.pop(power.digest, None)
        for by_key in (self.texts, self.files):
            by_key.pop(_key(power), None)


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
        self._told: dict[str, tuple[int, int, int] | None] = {}  # agent → the stamp of a file that says it all

    def unapproved(self, powers: Iterable[Power]) -> tuple[Unapproved, ...]:
        """Powers that need a yes, in their order."""
        approvals = self._all()[0].get(self._project, _Approvals())
        return tuple(waiting for power in powers if (waiting := approvals.look(power)))

    def require(self, powers: Iterable[Power]) -> None:
        """Raises NotApproved unless every one is approved that forbids something while it waits."""
        if waiting := self.unapproved(power for power in powers if power.forbids):
            raise NotApproved(waiting)

    def approve(self, powers: Iterable[Power]) -> None:
        """Approve powers: the user said yes, or it was us who wrote this for the user."""
        wanted, now = tuple(powers), self._clock.now().isoformat()

        def approve_all(approvals: _Approvals) -> None:
            for power in wanted:
                approvals.approve(power, now)

        if wanted:
            self._change(approve_all)

    def withdraw(self, powers: Iterable[Power]) -> None:
        """Withdraw approvals of somebody who is gone."""
        gone = tuple(powers)

        def take(approvals: _Approvals) -> None:
            for power in gone:
                approvals.withdraw(power)

        if gone:
            self._change(take)

    def calls(self) -> dict[str, str]:
        """Tool calls that need not be asked about any more: their digests, and what each does."""
        return dict(self._all()[0].get(self._project, _Approvals()).calls)

    def allow_call(self, digest: str, what: str) -> None:
        self._change(lambda approvals: approvals.calls.__setitem__(digest, what))

    def revoke_call(self, digest: str) -> None:
        self._change(lambda approvals: approvals.calls.pop(digest, None))

    def worked(self, agent: str) -> None:
        """An agent who may change files works here: what can run any of them needs another yes."""
        stamp = self._stamp()
        if stamp is not None and self._told.get(agent) == stamp:
            return  # asked at every step, and nothing is approved anew since the last time
        approvals = self._all()[0].get(self._project, _Approvals())
        if any(digest not in approvals.worked and agent != own for digest, own in approvals.open.items()):
            self._change(lambda record: _mark(record, agent))
        else:
            self._told[agent] = stamp

    def settle(self, allowances: Iterable[Allowance]) -> None:
        """These are what files say now: what is lower than before holds, and raising it again needs a yes."""
        wanted = tuple(allowances)
        if self._all()[0].get(self._project, _Approvals()).settle(wanted):
            self._change(lambda record: record.settle(wanted))

    def held_back(self, allowances: Iterable[Allowance]) -> dict[tuple[str, str], float]:
        """Those limits that wait for a yes, each with the number that holds until then."""
        approvals = self._all()[0].get(self._project, _Approvals())
        return {(each.of, each.name): holds for each in allowances if (holds := approvals.holds(each)) != each.value}

    def _stamp(self) -> tuple[int, int, int] | None:
        """A value that changes with the file that approvals are kept in."""
        try:
            status = os.stat(self._home.location(FILE)) if self._home else None
        except OSError:
            status = None
        return status and (status.st_ino, status.st_mtime_ns, status.st_size)

    def _change(self, change: Callable[[_Approvals], object]) -> None:
        for _ in range(_TRIES):
            everything, expected = self._all()
            approvals = everything.pop(self._project, _Approvals())
            everything[self._project] = approvals  # to the end: seen last
            change(approvals)
            if self._written(_rendered(everything), expected):
                return
        raise Refused(f"{FILE} keeps being changed by somebody else")

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


def _mark(approvals: _Approvals, agent: str) -> None:
    for digest, own in approvals.open.items():
        if agent != own:
            approvals.worked.setdefault(digest, agent)


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
    projects = {name: one.written() for name, one in everything.items()}
    return json.dumps({"version": 1, "projects": projects}, indent=1)


def _key(power: Power) -> str:
    return json.dumps(power.key)


def _limit(allowance: Allowance) -> str:
    return json.dumps([allowance.of, allowance.name])


def _text(power: Power) -> str:
    return masked(power.what if power.content == power.what else f"{power.what}\n\n{power.content}")


def _kept(power: Power) -> str:
    text = _text(power)
    return text if len(text) <= KEPT else f"{text[:KEPT]}\n({plural(len(text) - KEPT, 'more character')})"
