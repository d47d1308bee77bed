"""What the daemon has freed does not stay with it."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import psutil
import pytest

from agent_worker.daemon.process.heap import give_back

MIB = 1024 * 1024

_THREADS = """
import ctypes, sys, threading
from agent_worker.daemon.process.heap import share_heaps

if sys.argv[1] == "shared":
    share_heaps()
meet = threading.Barrier(8)

def work():
    meet.wait()
    kept = [bytes(3000) for _ in range(1000)]
    meet.wait()

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
libc.malloc_info(0, ctypes.c_void_p(libc.fdopen(1, b"w")))
libc.fflush(None)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library cannot give memory back")
def test_memory_that_is_free_between_what_is_used_goes_back_to_the_system() -> None:
    pieces = [bytes(3000) for _ in range(30_000)]
    kept = pieces[::50]  # so that what is free is not at the end, from where it goes back by itself
    del pieces
    before = psutil.Process().memory_info().rss
    assert give_back()
    assert before - psutil.Process().memory_info().rss > 40 * MIB
    assert len(kept) == 600


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="the C library does not tell of its heaps")
def test_threads_share_two_heaps_instead_of_having_one_each() -> None:
    heaps = {}
    for how in ("shared", "by itself"):
        done = subprocess.run((sys.executable, "-c", _THREADS, how), capture_output=True, text=True, check=True)
        heaps[how] = done.stdout.count("<heap nr=")
    assert heaps["shared"] <= 2 < heaps["by itself"]
