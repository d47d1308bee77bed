"""Stands before everything of a project that can execute or receive a secret: approved by the user, or refused.

Without a home it lets everything pass: a program that embeds the runtime has decided for itself.
Synchronous: call it in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from agent_worker.core.clock import Clock
from agent_worker.core.errors import Untrusted
from agent_worker.definitions.workflow import SetupStep
from agent_worker.files.root import Root
from agent_worker.trust.allowances import Allowance
from agent_worker.trust.powers import Power, changed_files
from agent_worker.trust.preview import one_line
from agent_worker.trust.store import TrustStore, Unapproved


class Gate:
    def __init__(self, home: Root | None, clock: Clock) -> None:
        self._home = home
        self._clock = clock
        self._stores: dict[Path, TrustStore] = {}

    @property
    def is_open(self) -> bool:
        return self._home is None

    def require(self, root: Path, powers: Iterable[Power]) -> None:
        """Raise NotApproved, which lists what the user has not approved."""
        if not self.is_open:
            self._store(root).require(tuple(powers))

    def unapproved(self, root: Path, powers: Iterable[Power]) -> tuple[Unapproved, ...]:
        return () if self.is_open else self._store(root).unapproved(tuple(powers))

    def approve(self, root: Path, powers: Iterable[Power]) -> None:
        if not self.is_open:
            self._store(root).approve(tuple(powers))

    def withdraw(self, root: Path, powers: Iterable[Power]) -> None:
        """Withdraw approvals of somebody who is gone: the next one is asked about again."""
        if not self.is_open:
            self._store(root).withdraw(tuple(powers))

    def allowed_calls(self, root: Path) -> Mapping[str, str]:
        """Tool calls that the user has allowed for good: their digests, and what each does."""
        return self._store(root).calls()

    def allow_call(self, root: Path, digest: str, what: str) -> None:
        """Just this call of a tool is not asked about any more."""
        self._store(root).allow_call(digest, what)

    def revoke_call(self, root: Path, digest: str) -> None:
        self._store(root).revoke_call(digest)

    def worked(self, root: Path, agent: str) -> None:
        """An agent who may change files of the project has worked, or goes on working, there."""
        if not self.is_open:
            self._store(root).worked(agent)

    def settle(self, root: Path, allowances: Iterable[Allowance]) -> None:
        """Files were read: limits that are lower now than they were are what holds from now on."""
        if not self.is_open:
            self._store(root).settle(allowances)

    def held_back(self, root: Path, allowances: Iterable[Allowance]) -> Mapping[tuple[str, str], float]:
        """Limits that files raised and nobody has approved: whose and which, and the number that holds instead."""
        return {} if self.is_open else self._store(root).held_back(allowances)

    def still_approved(self, root: Path, power: Power, step: SetupStep) -> None:
        """Right before this step of a set-up runs: what it runs is still what was approved when set-up began."""
        if self.is_open:
            return
        self.require(root, [power])
        if changed := changed_files(power, step, root):
            raise Untrusted(
                f"set-up of {power.who} was stopped before: {one_line(step.shell)}\n  it would run"
                f" {', '.join(map(one_line, changed))}, which is no longer what you approved",
                hint=f"to look at it and approve it: agent-worker trust {power.who}",
            )

    def _store(self, root: Path) -> TrustStore:
        if root not in self._stores:
            self._stores[root] = TrustStore(self._home, root, clock=self._clock)
        return self._stores[root]
