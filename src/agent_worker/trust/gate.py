"""The trust gate: everything of a project that can execute or receive a secret is approved by the user, or refused.

Approved is what stands in the user's home, or in the database that several hosts share; beside it what a program of the
user's has said yes to or handed over, for as long as this process lives. An open gate lets everything pass: what is
tested or measured here has decided so. Synchronous: call it in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from agent_worker.core.clock import Clock
from agent_worker.core.errors import Untrusted
from agent_worker.definitions.workflow import SetupStep
from agent_worker.files.root import Root
from agent_worker.trust.allowances import Allowance
from agent_worker.trust.approvals import Unapproved
from agent_worker.trust.powers import Power, changed_files
from agent_worker.trust.preview import one_line
from agent_worker.trust.shared_approvals import SharedApprovals
from agent_worker.trust.store import InMemory, NotApproved, TrustStore, kept_in


class Gate:
    def __init__(
        self,
        home: Root | None,
        clock: Clock,
        *,
        is_open: bool | None = None,
        shared: SharedApprovals | None = None,
    ) -> None:
        """Without a home it is open, unless it is said not to be: then nothing is approved yet.

        `shared`: approvals are in the database that several hosts have, and not in the home.
        """
        self.is_open = home is None if is_open is None else is_open
        self._home = home
        self.shared = shared
        self._clock = clock
        self._stores: dict[Path, TrustStore] = {}
        self._programs: dict[Path, TrustStore] = {}  # what programs said yes to, which no file keeps

    async def look(self, root: Path, project: str) -> None:
        """Look up what was approved of a project that is being opened, if hosts share that."""
        if self.shared:
            await self.shared.look(root, project)

    def require(self, root: Path, powers: Iterable[Power]) -> None:
        """Raise NotApproved, which lists what the user has not approved and is forbidden until then."""
        if waiting := self.unapproved(root, (power for power in powers if power.forbids)):
            raise NotApproved(waiting)

    def unapproved(self, root: Path, powers: Iterable[Power]) -> tuple[Unapproved, ...]:
        """Powers that need a yes, in their order."""
        if self.is_open:
            return ()
        waiting = self._store(root).unapproved(tuple(powers))
        if not waiting or root not in self._programs:
            return waiting
        still = {one.power for one in self._programs[root].unapproved(one.power for one in waiting)}
        return tuple(one for one in waiting if one.power in still)

    def approve(self, root: Path, powers: Iterable[Power]) -> None:
        """Approve powers: the user said yes, or it was us who wrote this for the user."""
        if not self.is_open:
            self._store(root).approve(tuple(powers))

    def let_pass(self, root: Path, powers: Iterable[Power]) -> None:
        """A program of the user's says yes, or hands it over: it passes for as long as this process lives."""
        if not self.is_open:
            self._of_programs(root).approve(tuple(powers))

    def withdraw(self, root: Path, powers: Iterable[Power]) -> None:
        """Withdraw approvals of somebody who is gone: the next one is asked about again."""
        if not self.is_open:
            for store in (self._store(root), self._of_programs(root)):
                store.withdraw(tuple(powers))

    def allowed_calls(self, root: Path) -> Mapping[str, str]:
        """Tool calls that the user has allowed for good: their digests, and what each does."""
        return self._store(root).calls()

    def allow_call(self, root: Path, digest: str, what: str) -> None:
        """Allow exactly this tool call for good: it is not asked about any more."""
        self._store(root).allow_call(digest, what)

    def revoke_call(self, root: Path, digest: str) -> None:
        self._store(root).revoke_call(digest)

    def worked(self, root: Path, agent: str) -> None:
        """Note that an agent who may change files of the project has worked there, or goes on working."""
        if not self.is_open:
            for store in (self._store(root), self._of_programs(root)):
                store.worked(agent)

    def settle(self, root: Path, allowances: Iterable[Allowance]) -> None:
        """Take the limits that files say now: one that is lower than before is what holds from now on."""
        if not self.is_open:
            allowances = tuple(allowances)
            for store in (self._store(root), self._of_programs(root)):
                store.settle(allowances)

    def held_back(self, root: Path, allowances: Iterable[Allowance]) -> Mapping[tuple[str, str], float]:
        """Limits that files raised and nobody has approved: whose and which, and the number that holds instead."""
        if self.is_open:
            return {}
        allowances = tuple(allowances)
        passed = self._of_programs(root).held_back(allowances)
        return {which: holds for which, holds in self._store(root).held_back(allowances).items() if which in passed}

    def still_approved(self, root: Path, power: Power, step: SetupStep) -> None:
        """Check, right before a step of a set-up runs, that what it runs is still what was approved when the set-up
        began.
        """
        if self.is_open:
            return
        self.require(root, [power])
        if changed := changed_files(power, step, root):
            raise Untrusted(
                f"set-up of {power.who} was stopped before this command: {one_line(step.shell)}\n  it would run"
                f" {', '.join(map(one_line, changed))}, which is no longer what you approved",
                hint=f"to look at it and approve it: agent-worker trust {power.who}",
            )

    def _of_programs(self, root: Path) -> TrustStore:
        if root not in self._programs:
            self._programs[root] = TrustStore(InMemory(), clock=self._clock)
        return self._programs[root]

    def _store(self, root: Path) -> TrustStore:
        if root not in self._stores:
            kept = self.shared.of(root) if self.shared else kept_in(self._home, root)
            self._stores[root] = TrustStore(kept, clock=self._clock)
        return self._stores[root]
