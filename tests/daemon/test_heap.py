"""What the daemon has freed does not stay with it."""

from __future__ import annotations

import ctypes

import psutil
import pytest

from agent_worker.daemon.process.heap import give_back

MIB = 1024 * 1024


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library cannot give memory back")
def test_memory_that_is_free_between_what_is_used_goes_back_to_the_system() -> None:
    pieces = [bytes(3000) for _ in range(30_000)]
    kept = pieces[::50]  # so that what is free is not at the end, from where it goes back by itself
    del pieces
    before = psutil.Process().memory_info().rss
    assert give_back()
    assert before - psutil.Process().memory_info().rss > 40 * MIB
    assert len(kept) == 600
