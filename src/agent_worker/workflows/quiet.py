"""When is a team quiet? When nothing is queued, running, waiting or put to the vote, and has not been for a moment.

Decided by events, never by polling: whatever may begin work there, or end it, begins the moment anew. What is only said
does not.
"""

from __future__ import annotations

import asyncio

from agent_worker.core.clock import Clock, sleep_unless
from agent_worker.core.errors import NotRunning
from agent_worker.core.events import (
    AgentChanged,
    Bus,
    Decided,
    Ended,
    Event,
    InboxItemAdded,
    InboxItemSettled,
    Proposed,
    Queued,
    Retrying,
    Started,
    WorkspaceChanged,
)
from agent_worker.database.database import ProjectDatabase, Transaction
from agent_worker.definitions.settings import QUIET_MOMENT
from agent_worker.proposals import store
from agent_worker.proposals.lifecycle import cancel_all
from agent_worker.work import inbox, open_work
from agent_worker.workspaces import workspace_rows, workspace_state

MOMENT = QUIET_MOMENT  # seconds

_MAY_END_WORK = (Ended, Decided, WorkspaceChanged)
_MAY_BEGIN_WORK = (Queued, Started, Retrying, Proposed, InboxItemAdded, InboxItemSettled, AgentChanged)


class QuietWatch:
    def __init__(
        self, database: ProjectDatabase, bus: Bus, clock: Clock, workspace: str, *, moment: float = MOMENT
    ) -> None:
        self._database = database
        self._clock = clock
        self._workspace = workspace
        self._moment = moment
        self._stirred = asyncio.Event()  # something happened here
        self._turned = asyncio.Event()  # and it may have been the last there was to do
        self._over = False
        self.at_limit = asyncio.Event()  #: set while what is left waits at a limit until a person lets it go on
        self._unlisten = bus.listen(self._hear, *_MAY_END_WORK, *_MAY_BEGIN_WORK)

    def close(self) -> None:
        """Let go of whoever waits here."""
        self._unlisten()
        self._unlisten = lambda: None  # ended by itself and stopped at the same moment, it is closed twice
        self._over = True
        self._stirred.set()
        self._turned.set()

    async def quiet(self) -> str:
        """Wait for it. Empty, or why there is work left that will not go on by itself."""
        while True:
            if self._over:
                raise NotRunning("it was closed before the team was quiet")
            self._stirred.clear()
            self._turned.clear()
            work, held_by = await self._database.read(_look, self._workspace)
            if work:
                await self._turned.wait()  # steps and words end no work: they are not worth a look
            elif await self._undisturbed():
                return held_by

    async def resumed(self) -> None:
        """Wait until nothing that is left here waits for a person to resume it."""
        while True:
            self._stirred.clear()
            if self._over:
                raise NotRunning("it was closed before it was resumed")
            kept, limit = await self._database.read(_rest, self._workspace)
            if not kept:
                return self.at_limit.clear()
            if limit:
                self.at_limit.set()
            await self._stirred.wait()

    async def _undisturbed(self) -> bool:
        await sleep_unless(self._stirred, self._clock, self._moment)
        return not self._stirred.is_set()

    def _hear(self, event: Event) -> None:
        held_up = isinstance(event, AgentChanged) and event.state not in ("idle", "running")
        if isinstance(event, AgentChanged) and self.at_limit.is_set():
            self._stirred.set()
        if held_up or event.workspace == self._workspace:
            self._stirred.set()
            if held_up or isinstance(event, _MAY_END_WORK):
                self._turned.set()


def _look(tx: Transaction, workspace: str) -> tuple[bool, str]:
    work = _under_way(tx, workspace)
    return work, "" if work else held_up(tx, workspace)


def _under_way(tx: Transaction, workspace: str) -> bool:
    """Whether there is work, or an open proposal. Each ends by itself, by time if by nothing else."""
    asked = not workspace_rows.get(tx, workspace)["paused"] and bool(store.open_in(tx, workspace))
    return asked or open_work.going_on(tx, workspace)


def held_up(tx: Transaction, workspace: str) -> str:
    """Why work that is left here waits for a person; empty when there is none."""
    if paused := workspace_rows.get(tx, workspace)["paused"]:
        return str(paused)
    return "; ".join(f"{row['name']}: {row['reason']}" for row in open_work.held(tx, workspace))


def _rest(tx: Transaction, workspace: str) -> tuple[str, str]:
    return kept_by(tx, workspace), inbox.about(tx, "limit", workspace, since=0)


def kept_by(tx: Transaction, workspace: str) -> str:
    """Why an instance in which nobody works is not over: it is paused, or a member is paused at a limit."""
    return str(workspace_rows.get(tx, workspace)["paused"]) or inbox.held_at_limit(tx, workspace)


def close_if_quiet(tx: Transaction, workspace: str, *, keeps: bool = False, now: int) -> bool:
    """End the instance in the very transaction that finds it idle: what came a moment ago is not lost."""
    if _under_way(tx, workspace) or (keeps and kept_by(tx, workspace)):
        return False
    cancel_all(tx, workspace, "the workflow ended", now=now)
    workspace_state.close_workspace(tx, workspace, now=now)
    return True
