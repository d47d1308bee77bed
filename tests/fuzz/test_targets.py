"""What fuzzers begin with and what they have found, played again; `uv run poe fuzz` looks for more."""

from __future__ import annotations

import pytest

from tests.fuzz.targets import TARGETS

SEEDS = [(name, seed) for name, target in TARGETS.items() for seed in target.seeds]


@pytest.mark.parametrize(("name", "seed"), SEEDS)
def test_D9p_no_input_breaks(name: str, seed: bytes) -> None:
    TARGETS[name].play(seed)
