"""How much is done, and what came of it: `AGENT_WORKER_FAULTS=long` does about ten times as much and says so."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

LONG = os.environ.get("AGENT_WORKER_FAULTS") == "long"
#: The long runs look for what nobody has seen yet; the short ones do the same every time, so that no luck is in them.
#: AGENT_WORKER_FAULTS_SEED=1234 plays one seed again.
SEED = int(os.environ.get("AGENT_WORKER_FAULTS_SEED") or (random.SystemRandom().randrange(10**9) if LONG else 1))


def few(many: int) -> int:
    """How many examples a short run makes up where a long one makes up so many."""
    return many if LONG else max(many // 5, 10)


@dataclass
class Report:
    counts: Counter[str] = field(default_factory=Counter)
    seeds: dict[str, list[int]] = field(default_factory=dict)
    failing: list[str] = field(default_factory=list)

    @contextmanager
    def seeded(self, row: str, seed: int) -> Iterator[random.Random]:
        """Chance for one trial; a failing seed is named."""
        self.seeds.setdefault(row, []).append(seed)
        try:
            yield random.Random(seed)
        except BaseException:
            self.failing.append(f"{row}: AGENT_WORKER_FAULTS_SEED={seed}")
            raise

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] += number

    def lines(self) -> Iterator[str]:
        for what, number in sorted(self.counts.items()):
            yield f"{what}: {number:,}"
        for row, seeds in sorted(self.seeds.items()):
            yield f"{row} seeds: {min(seeds)} to {max(seeds)} ({len(seeds)})"
        for seed in self.failing:
            yield f"FAILED {seed}"


report = Report()
