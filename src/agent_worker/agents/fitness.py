"""What a person is told when an agent cannot be made ready.

Such an agent is registered all the same, and says why to whoever writes to it; the others work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from agent_worker.agents.registry import AgentKit, AgentRuntime, LazyKit
from agent_worker.core.errors import AgentWorkerError, Refused, trouble_of
from agent_worker.core.ids import new_id

log = logging.getLogger(__name__)


def made_or_told(name: str, make: Callable[[], AgentKit]) -> AgentKit:
    """The kit that `make` makes. Whatever it raises becomes an error that a person can read."""
    try:
        return make()
    except AgentWorkerError:
        raise
    except Exception as error:  # boundary: what is wrong with one agent is its own trouble
        raise trouble_with(name, error) from None


def trouble_with(name: str, error: Exception) -> AgentWorkerError:
    """What a person is told when an agent cannot be made ready. One that we did not expect is logged, with a number."""
    if isinstance(error, AgentWorkerError):
        return error
    if isinstance(error, OSError) and (told := trouble_of(error)):
        return told
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return Refused(f"{where}{error.strerror or error}", hint="agent-worker doctor")
    id = new_id("e")
    log.error("agent %s cannot be made ready: %s", name, id, exc_info=error)
    return Refused(f"this should not have happened: {id}", hint="agent-worker daemon logs")


def unfit(worker: AgentRuntime, why: AgentWorkerError) -> AgentRuntime:
    trouble = f"{why.message} ({why.hint})" if why.hint else why.message
    return replace(worker, kit=LazyKit(partial(_refuse, why)), trouble=trouble, remedy=why.remedy, is_fit=False)


def _refuse(why: AgentWorkerError) -> AgentKit:
    raise why
