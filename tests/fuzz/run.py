"""One target, fuzzed for a while with atheris: `uv run --with atheris python -m tests.fuzz.run yaml 60`.

Inputs that take long are failures too. `scripts/fuzz.py` plays all targets.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import atheris

with atheris.instrument_imports(include=["agent_worker"]):
    from tests.fuzz.targets import TARGETS

LONGEST = 0.1  # seconds of processor time
LONGEST_INPUT = 4096  # bytes


def timed(play: Callable[[bytes], None]) -> Callable[[bytes], None]:
    def once(data: bytes) -> float:
        began = time.process_time()
        play(data)
        return time.process_time() - began

    def checked(data: bytes) -> None:
        if once(data) > LONGEST:  # once may be the collector of rubbish: three times is the input
            assert min(once(data) for _ in range(3)) <= LONGEST, "this input takes too long"

    return checked


def main() -> None:
    name, seconds, corpus = sys.argv[1:4]
    settings = (f"-max_total_time={seconds}", f"-max_len={LONGEST_INPUT}", "-timeout=10", "-rss_limit_mb=1024")
    atheris.Setup([sys.argv[0], *settings, f"-artifact_prefix={corpus}/found-", corpus], timed(TARGETS[name].play))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
