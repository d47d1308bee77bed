"""Heavy libraries are imported late, in threads, one at a time.

Two threads may import at once; where modules import each other, Python then breaks the deadlock by handing one thread
a half-made module. The MCP and model libraries share modules that do, so whoever imports one of them late takes turns.
"""

from __future__ import annotations

import importlib
import sys
import threading

taking_turns = threading.RLock()
_begun: set[str] = set()


def soon(module: str) -> None:
    """It will be needed: import it in a thread that nobody waits for, also not at the end of the process."""
    if module not in sys.modules and module not in _begun:
        _begun.add(module)
        threading.Thread(target=_import, args=(module,), name=f"import {module}", daemon=True).start()


def _import(module: str) -> None:
    with taking_turns:
        importlib.import_module(module)
