"""Heavy libraries are imported late, in threads, one at a time.

Two threads may import at once; where modules import each other, Python then breaks the deadlock by handing one thread
a half-made module. The MCP and model libraries share modules that do, so whoever imports one of them late takes turns.
"""

from __future__ import annotations

import threading

taking_turns = threading.RLock()
