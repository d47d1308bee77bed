"""A process that outlives us by a moment: it ends what our children have started and nobody can end any more.

Killed outright, we take our children with us (launch.py) but not theirs. It waits at a pipe that only we hold open,
and goes by our mark. A shell, because it costs a megabyte and starts at once. The sweep at the next start
(descendants.py) is for the case that this one was killed too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from functools import cache

from agent_worker.processes import descendants

_ROUNDS = 50
_PATH = "/usr/bin:/bin:/run/current-system/sw/bin"
_SCRIPT = f"""\
cd /; read end
round=0 quiet=0
while [ $round -lt {_ROUNDS} ] && [ $quiet -lt 3 ]
do
  found=$(grep -lsE "^Max realtime timeout +$1[0-9]{{5}} " /proc/[0-9]*/limits) && quiet=0 || quiet=$((quiet + 1))
  for file in $found; do pid=${{file#/proc/}}; kill -KILL "${{pid%/limits}}" 2>/dev/null; done
  round=$((round + 1)); sleep 0.1
done
"""


def be_swept_after() -> None:
    """Start the sweeper, once for each process of ours that starts children."""
    if sys.platform == "linux":
        with suppress(OSError):  # no process to be had: then the next start sweeps
            descendants.held.add(_start(os.getpid()))


@cache
def _start(_: int) -> int:
    reading, _writing = os.pipe()  # the other end is open as long as we live
    try:
        sweeper = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "agent-worker-sweeper", descendants.owner()],
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": _PATH},
            start_new_session=True,
        )
    finally:
        os.close(reading)
    sweeper.returncode = 0  # nobody will wait for it: it ends after us
    return sweeper.pid
