"""What tokens of a model cost, looked up once for each model and kept.

The list of prices (genai-prices) is a library of 60 MB and a second of CPU, so it is asked in a process of its own
(price_lookup.py), beside the first request. What it said is kept in the home, for as long as the list is the same.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.later import dataclass
from agent_worker.files.root import Root
from agent_worker.processes.child import run_command
from agent_worker.processes.environment import safe_environment

_FILE = "prices.json"
_PATIENCE = 60.0  # seconds
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rate:
    """Dollars for a million tokens, and for more once the whole input is larger: (tokens, dollars), ascending."""

    base: float
    tiers: tuple[tuple[int, float], ...] = ()

    def at(self, read: int) -> float:
        return next((usd for start, usd in reversed(self.tiers) if read > start), self.base)


@dataclass(frozen=True, slots=True)
class Price:
    read: Rate
    written: Rate
    cached: Rate | None = None  #: read from the provider's cache; None: as anything else that is read
    stored: Rate | None = None  #: put into the provider's cache

    def of(self, *, read: int, cached: int, stored: int, written: int) -> float:
        """Dollars for one answer; `cached` and `stored` are part of `read`."""
        plain = read - cached - stored
        parts = ((plain, self.read), (cached, self.cached or self.read), (stored, self.stored or self.read))
        return sum(count * rate.at(read) for count, rate in (*parts, (written, self.written))) / 1e6

    @classmethod
    def load(cls, record: Mapping[str, Any]) -> Price:
        rates = {name: Rate(said["base"], tuple(map(tuple, said["tiers"]))) for name, said in record.items() if said}
        return cls(**rates)


FREE = Price(Rate(0.0), Rate(0.0))


@dataclass(slots=True)
class PriceList:
    kept: Root | None = None  #: where prices are kept from one start to the next
    _found: dict[str, asyncio.Task[Price | None]] = field(default_factory=dict)

    def expect(self, provider: str, model: str) -> None:
        """The price of this model will be wanted: begin to look it up."""
        self._find(provider, model)

    def known(self, provider: str, model: str) -> Price | None:
        """The price, if it was looked up already."""
        found = self._find(provider, model)
        return found.result() if found.done() and not found.cancelled() else None

    async def of(self, provider: str, model: str) -> Price | None:
        """The price of a model; None when nobody knows it."""
        return await asyncio.shield(self._find(provider, model))

    async def close(self) -> None:
        looking = [task for task in self._found.values() if not task.done()]
        for task in looking:
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)

    def _find(self, provider: str, model: str) -> asyncio.Task[Price | None]:
        name = f"{provider}/{model}"
        if name not in self._found or self._found[name].cancelled():
            self._found[name] = asyncio.create_task(self._look_up(provider, model), name=f"price of {name}")
        return self._found[name]

    async def _look_up(self, provider: str, model: str) -> Price | None:
        name = f"{provider}/{model}"
        known = await asyncio.to_thread(self._read)
        if name not in known:
            try:
                known = {name: await _ask(provider, model)}
            except (AgentWorkerError, OSError, ValueError) as error:
                _log.warning("the price of %s could not be looked up: %s", name, error)
                return None
            await asyncio.to_thread(self._keep, known)
        return Price.load(known[name]) if known[name] else None

    def _read(self) -> dict[str, Any]:
        """What was kept, unless the list of prices is another one now."""
        try:
            record = json.loads(self.kept.read_text(_FILE)) if self.kept else {}
        except (AgentWorkerError, ValueError, RecursionError):
            return {}
        is_current = isinstance(record, dict) and record.get("list") == _edition()
        return record["models"] if is_current and isinstance(record.get("models"), dict) else {}

    def _keep(self, found: Mapping[str, Any]) -> None:
        if self.kept:
            record = {"list": _edition(), "models": self._read() | dict(found)}
            try:
                self.kept.replace(_FILE, json.dumps(record, indent=1))
            except (AgentWorkerError, OSError) as error:  # it will be looked up again
                _log.warning("prices cannot be kept: %s", error)


def _edition() -> str:
    from importlib.metadata import version  # reading it takes as long as all of this module

    return version("genai-prices")


async def _ask(provider: str, model: str) -> Any:
    asked = [sys.executable, "-m", "agent_worker.backends.models.price_lookup", provider, model]
    done = await run_command(asked, cwd=Path(sys.prefix), env=safe_environment(), timeout=_PATIENCE)
    if done.exit_code != 0:
        raise ValueError(done.output.strip()[-200:] or "it did not answer in time")
    return json.loads(done.output)
