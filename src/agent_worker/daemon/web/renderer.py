"""The process that renders: a text as a line of JSON on its input, HTML as a line of JSON on its output.

Each text has so much computing time, memory and output, and no more: the system ends us in the middle of it, also of a
pattern that would never end. It ends by itself when nobody asks for a while, or whoever asked is gone.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
from typing import Any

from agent_worker.daemon.web.prose import made_code, made_prose

SECONDS = 2.0  #: of computing for one text
MEMORY = 1024**3  #: bytes
LARGEST = 4 * 1024 * 1024  #: characters of HTML; more would hold up the browser
IDLE = 60.0  #: seconds

#: What a person's page needs quickly comes before this.
_NICE = 10


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started us, and then we are told
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    os.nice(_NICE)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while select.select([sys.stdin], [], [], IDLE)[0]:
        line = sys.stdin.readline()
        if not line:
            return
        print(json.dumps({"html": _answer(line)}), flush=True)


def _answer(line: str) -> str | None:
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        html = _rendered(json.loads(line))
        return html if len(html) <= LARGEST else None
    except (RecursionError, MemoryError, ValueError):
        return None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _rendered(job: dict[str, Any]) -> str:
    if job["kind"] == "code":
        return made_code(job["text"], job["about"][0])
    return made_prose(job["text"], tuple(job["about"]))


if __name__ == "__main__":
    main()
