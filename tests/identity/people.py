"""An agent and its person over days: what is said, what becomes of the agent's soul. Time is handed in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from tests.teams import Team

from agent_worker.agents.observing import evolution_of
from agent_worker.backends.mock import says
from agent_worker.core.clock import TestClock
from agent_worker.identity.evolution import Evolution
from agent_worker.identity.proposals import SoulProposal
from agent_worker.identity.soul import CurrentSoul

SOUL = "soul: { role: reviewer, principles: [Explain the why] }\n"


@dataclass
class Life:
    """One agent of a team, as its person knows it."""

    team: Team
    root: Path
    name: str = "alice"

    @property
    def home(self) -> Path:
        return self.root / ".agents" / self.name

    @property
    def evolution(self) -> Evolution:
        worker = self.team.runtime.registry.worker(self.team.id_of(self.name))
        found = evolution_of(worker, self.team.database, self.team.clock)
        assert found is not None
        return found

    async def told(self, *messages: str, answer: str = "Done.") -> None:
        """The person says these, one after the other, and each is answered."""
        for message in messages:
            self.team.backends[self.name].then(says(answer))
            await self.team.dm(self.name, message)
            await self.team.idle()
            await self.team.still()

    async def days_pass(self, days: float = 1) -> None:
        assert isinstance(self.team.clock, TestClock)
        await self.team.elapse(days * 86400)

    async def soul(self) -> CurrentSoul:
        return await self.evolution.settled()

    async def proposals(self) -> Sequence[SoulProposal]:
        return (await self.evolution.known()).entries

    async def open_changes(self) -> list[str]:
        return [each.change.diff for each in await self.proposals() if each.state == "open"]

    def written(self) -> dict[str, object]:
        """What soul.yaml says; nothing when there is none."""
        path = self.home / "soul.yaml"
        found = yaml.safe_load(path.read_text()) if path.exists() else {}
        assert isinstance(found, dict)
        return found
