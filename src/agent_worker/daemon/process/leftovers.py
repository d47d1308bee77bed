"""What a daemon that was killed has left on the machine: processes that nobody waits for, and half-made folders."""

from __future__ import annotations

import logging
import shutil
import threading

from agent_worker.files.makers import abandoned
from agent_worker.processes.descendants import adopt_orphans, kill_orphans

log = logging.getLogger(__name__)


def clear_away() -> None:
    """Adopt what our own processes leave from now on, and remove what is there in a thread that nobody waits for."""
    adopt_orphans()
    threading.Thread(target=_sweep, name="sweep", daemon=True).start()


def _sweep() -> None:
    if killed := kill_orphans():
        log.warning("ended %d processes that an earlier daemon had left behind", killed)
    for folder in abandoned():
        log.info("removing what a killed run left behind: %s", folder)
        shutil.rmtree(folder, ignore_errors=True)
