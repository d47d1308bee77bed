"""What the user approved, per project, in the daemon's home and never in the project.

A file that lies in the project it speaks for is not believed, nor one that is damaged: then nothing is approved. Hosts
that share a database keep approvals there (shared_approvals.py). Synchronous: call it in a thread. Above: whoever
starts a workflow or equips an agent. Asking the person is theirs too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from agent_worker.core.clock import Clock
from agent_worker.core.errors import NotFound, Refused, Untrusted
from agent_worker.files.root import Root
from agent_worker.files.swap import Conflict, content_hash
from agent_worker.trust.allowances import Allowance
from agent_worker.trust.approvals import LISTED, Approvals, Unapproved
from agent_worker.trust.powers import Power

FILE = "trust.json"
ALL_KEPT = 4 * 1024 * 1024  #: characters of all texts; beyond, those of the projects not approved longest go

_TRIES = 10


class NotApproved(Untrusted):
    """The project would do something that the user has not approved. `waiting` says what."""

    def __init__(self, waiting: tuple[Unapproved, ...]) -> None:
        lines = [f"  {one.power.what}{f' ({one.why})' if one.why else ''}" for one in waiting[:LISTED]]
        if len(waiting) > LISTED:
            lines.append(f"  … and {len(waiting) - LISTED} more")
        super().__init__(
            "this project wants to do things that you have not approved:\n" + "\n".join(lines),
            hint="to look at it and approve it: agent-worker trust (where nobody is there to ask: --trust)",
        )
        self.waiting = waiting


class ApprovalKeeper(Protocol):
    """Where the approvals of one project are kept."""

    def read(self) -> Approvals:
        """A copy, which may be changed."""
        ...

    def change(self, change: Callable[[Approvals], object]) -> None: ...

    def stamp(self) -> object:
        """A value that changes with what is kept; None when that cannot be said."""
        ...


class InMemory:
    """Approvals that last as long as this object."""

    def __init__(self) -> None:
        self._held = Approvals()

    def read(self) -> Approvals:
        return Approvals.read(self._held.written())

    def change(self, change: Callable[[Approvals], object]) -> None:
        changed = self.read()  # others may look at what is held
        change(changed)
        self._held = changed

    def stamp(self) -> object:
        return None


class InFile:
    """Approvals in a file of the home, beside those of all other projects."""

    def __init__(self, home: Root, project: str) -> None:
        self._home = home
        self._project = project

    def read(self) -> Approvals:
        return self._all()[0].get(self._project, Approvals())

    def change(self, change: Callable[[Approvals], object]) -> None:
        for _ in range(_TRIES):
            everything, expected = self._all()
            approvals = everything.pop(self._project, Approvals())
            everything[self._project] = approvals  # to the end: seen last
            change(approvals)
            outcome = self._home.swap(FILE, _rendered(everything), expected=expected)
            if not isinstance(outcome, Conflict):
                return
            self._home.remove(outcome.kept)
        raise Refused(f"{FILE} keeps being changed by somebody else")

    def stamp(self) -> object:
        try:
            status = os.stat(self._home.location(FILE))
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def _all(self) -> tuple[dict[str, Approvals], str | None]:
        """Every project's approvals, and the hash of the file they come from."""
        try:
            content = self._home.read_bytes(FILE, limit=16 * ALL_KEPT)  # each character may be written as \uXXXX
        except NotFound:
            return {}, None
        return _parsed(content), content_hash(content)


def kept_in(home: Root | None, project: Path | str) -> ApprovalKeeper:
    """Where approvals are kept. Without a home, they last as long as what keeps them.

    A project that was fetched is named by where it comes from, without the version, so that the next version
    is seen as a change; one on this machine by its path.
    """
    inside = isinstance(project, Path) and home and home.location().resolve().is_relative_to(project.resolve())
    name = project if isinstance(project, str) else str(project.resolve())
    return InMemory() if home is None or inside else InFile(home, name)


class TrustStore:
    """The approvals of one project."""

    def __init__(self, kept: ApprovalKeeper, *, clock: Clock) -> None:
        self._kept = kept
        self._clock = clock
        self._told: dict[str, object] = {}  # agent → the stamp of what says it all

    def unapproved(self, powers: Iterable[Power]) -> tuple[Unapproved, ...]:
        """Powers that need a yes, in their order."""
        approvals = self._kept.read()
        return tuple(waiting for power in powers if (waiting := approvals.look(power)))

    def require(self, powers: Iterable[Power]) -> None:
        """Raises NotApproved unless every one is approved that forbids something while it waits."""
        if waiting := self.unapproved(power for power in powers if power.forbids):
            raise NotApproved(waiting)

    def approve(self, powers: Iterable[Power]) -> None:
        """Approve powers: the user said yes, or it was us who wrote this for the user."""
        wanted, now = tuple(powers), self._clock.now().isoformat()

        def approve_all(approvals: Approvals) -> None:
            for power in wanted:
                approvals.approve(power, now)

        if wanted:
            self._kept.change(approve_all)

    def withdraw(self, powers: Iterable[Power]) -> None:
        """Withdraw the approvals of an agent that is gone."""
        gone = tuple(powers)

        def take(approvals: Approvals) -> None:
            for power in gone:
                approvals.withdraw(power)

        if gone:
            self._kept.change(take)

    def calls(self) -> dict[str, str]:
        """Tool calls that need not be asked about any more: their digests, and what each does."""
        return dict(self._kept.read().calls)

    def allow_call(self, digest: str, what: str) -> None:
        self._kept.change(lambda approvals: approvals.calls.__setitem__(digest, what))

    def revoke_call(self, digest: str) -> None:
        self._kept.change(lambda approvals: approvals.calls.pop(digest, None))

    def worked(self, agent: str) -> None:
        """Note that an agent who may change files works here: what can run any of them needs another yes."""
        stamp = self._kept.stamp()
        if stamp is not None and self._told.get(agent) == stamp:
            return  # asked at every step, and nothing is approved anew since the last time
        if self._kept.read().would_mark(agent):
            self._kept.change(lambda record: record.mark_worked(agent))
        else:
            self._told[agent] = stamp

    def settle(self, allowances: Iterable[Allowance]) -> None:
        """Take the limits that files say now: what is lower than before holds, and raising it again needs a yes."""
        wanted = tuple(allowances)
        if self._kept.read().settle(wanted):
            self._kept.change(lambda record: record.settle(wanted))

    def held_back(self, allowances: Iterable[Allowance]) -> dict[tuple[str, str], float]:
        """The limits that wait for a yes, each with the number that holds until then."""
        approvals = self._kept.read()
        return {(each.of, each.name): holds for each in allowances if (holds := approvals.holds(each)) != each.value}


def _parsed(text: str | bytes) -> dict[str, Approvals]:
    try:
        projects = json.loads(text)["projects"]
        return {name: Approvals.read(record) for name, record in projects.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _rendered(everything: dict[str, Approvals]) -> str:
    size = {name: sum(map(len, approvals.texts.values())) for name, approvals in everything.items()}
    over = sum(size.values()) - ALL_KEPT
    for name, approvals in everything.items():
        if over > 0:
            over -= size[name]
            approvals.texts.clear()
    projects = {name: one.written() for name, one in everything.items()}
    return json.dumps({"version": 1, "projects": projects}, indent=1)
