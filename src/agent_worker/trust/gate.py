"""Stands before everything of a project that can execute or receive a secret: approved by the user, or refused.

Without a home it lets everything pass: a program that embeds the engine has decided for itself.
Synchronous: call it in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from agent_worker.clock import Clock
from agent_worker.storage.files import Root
from agent_worker.trust.powers import Power
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
        """Raises NotApproved, which lists what the user has not approved."""
        if not self.is_open:
            self._store(root).require(tuple(powers))

    def unapproved(self, root: Path, powers: Iterable[Power]) -> tuple[Unapproved, ...]:
        return () if self.is_open else self._store(root).unapproved(tuple(powers))

    def approve(self, root: Path, powers: Iterable[Power]) -> None:
        if not self.is_open:
            self._store(root).approve(tuple(powers))

    def withdraw(self, root: Path, powers: Iterable[Power]) -> None:
        """Whoever had them is gone: the next one is asked about again."""
        if not self.is_open:
            self._store(root).withdraw(tuple(powers))

    def _store(self, root: Path) -> TrustStore:
        if root not in self._stores:
            self._stores[root] = TrustStore(self._home, root, clock=self._clock)
        return self._stores[root]
