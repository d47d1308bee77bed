"""What a person's trials of providers and backends cost: charged to the project they are in, though
no agent spent it.
"""

from __future__ import annotations

import asyncio
from dataclasses import field

from agent_worker.agents.loader import LoadedProject
from agent_worker.backends.backend import Usage
from agent_worker.core.later import dataclass
from agent_worker.service.service import Service
from agent_worker.work.limits import Charge, charge_project, price_of


@dataclass(slots=True)
class Trial:
    """What one trial has used so far. Each use is charged when it is told: it is spent, whatever comes of the trial."""

    service: Service
    loaded: LoadedProject
    model: str
    tokens: int = 0
    usd: float = 0.0
    estimated: bool = False
    _charging: list[asyncio.Future[None]] = field(default_factory=list)

    def charge(self, usage: Usage) -> None:
        use = usage.plausible
        usd, estimated = price_of(use.tokens, use.usd, guessed=use.guessed)
        self.tokens += use.tokens
        self.usd += usd
        self.estimated = self.estimated or estimated
        item = Charge("", -1, self.model, use.input, use.cached, use.output, use.usd, use.guessed)
        self._charging.append(self.service.write(self.loaded, charge_project, item, now=self.service.now()))

    async def charged(self) -> None:
        """Wait until every charge is stored."""
        await asyncio.gather(*self._charging)
