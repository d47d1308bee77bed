"""Heavy libraries are imported late, in threads, one at a time.

Two threads may import at once; where modules import each other, Python then breaks the deadlock by handing one thread
a half-made module. The libraries of MCP and ACP share modules that do, so whoever imports one of them late takes turns.
"""

from __future__ import annotations

import gc
import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

taking_turns = threading.RLock()
_begun: set[str] = set()


def soon(module: str) -> None:
    """Import a module that will be needed, in a thread that nobody waits for, not even at the end of the process."""
    if module not in sys.modules and module not in _begun:
        _begun.add(module)
        threading.Thread(target=_import, args=(module,), name=f"import {module}", daemon=True).start()


@contextmanager
def for_good() -> Iterator[None]:
    """Import something large with garbage collection off, and keep it out of later collections.

    A library is up to a million objects that live as long as the process. A collection that walks over them stops every
    thread for a tenth of a second, during the import and at any time after it, and finds nothing.
    """
    known, collecting = len(sys.modules), gc.isenabled()
    gc.disable()
    try:
        yield
        if len(sys.modules) > known:
            gc.freeze()
    finally:
        if collecting:
            gc.enable()


def _import(module: str) -> None:
    with taking_turns, for_good():
        importlib.import_module(module)
