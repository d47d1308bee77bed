"""This host among those that share the database: it keeps its lease, cleans up after dead hosts, and knows when it may
work.

A host works while its lease holds. Eight seconds after its last beat it ends its own loops, two before anybody else may
begin them. A host whose lease is over is taken away by whoever sees it first, and in the same commit what it ran goes
back to its lane. After an outage nobody is judged before all had time to say that they live. Nothing here is decided by
a host's own clock but how long its own silence lasts: its `now` follows the database's clock, beat by beat.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

from agent_worker.agents import recovery
from agent_worker.agents.registry import AgentRuntime
from agent_worker.core.clock import SharedClock
from agent_worker.core.errors import NotFound, StorageFault
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.database import host_rows, signal_rows
from agent_worker.database.database import Database, WholeTransaction
from agent_worker.database.host_rows import BEAT, FENCE, LEASE, Beat, Host, Lease
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.files.root import Root
from agent_worker.files.swap import Conflict
from agent_worker.work import project_rows

log = logging.getLogger(__name__)

GRACE = 1.5 * LEASE  #: seconds after an outage in which the silence of others means nothing
PER_RUN = 0.005  # seconds that a host waits before a claim, for each run that it has: so that work spreads
LONGEST_HESITATION = 0.5
ID_FILE = "host-id"  #: in the home
LINGER = 30.0  #: seconds without work after which a host lets go of an agent


@dataclass(frozen=True, slots=True)
class HostGone:
    node: str  #: the name of its machine
    at: int  #: when we heard that it was found dead


class Hosting:
    def __init__(self, me: Host, database: Database, lease: Lease, clock: SharedClock) -> None:
        self.me = me
        self.holds = False  #: whether our lease is good
        self.fenced: Callable[[], None] = lambda: None  #: told when it is not any more
        self.renewed: Callable[[], None] = lambda: None  #: and when it is again
        self.refresh: Callable[[str], Awaitable[None]] = _nothing  #: look at the files of a project, before a claim
        self.can_run: Callable[[AgentRuntime, str, bool], Awaitable[bool]] = _always  #: whether its folder is here
        self.join: Callable[[str, str], Awaitable[None]] = _nowhere  #: make the members of a workspace known here
        self.gone: dict[str, HostGone] = {}  #: hosts that were found dead, and did not come back
        self._database = database
        self._lease = lease
        self._clock = clock
        self._fence: asyncio.TimerHandle | None = None
        self._steady_since: float | None = None  # when beats began to come without a gap; None before the first
        self._entered_at = 0.0  # when our row was there: a beat that was asked for before says nothing
        self._beaten_at = 0.0
        self._hosts = 1  # with us
        self._work: asyncio.Task[None] | None = None

    async def enter(self) -> None:
        """Be one of the hosts. What hosts that are gone left running is put back first."""
        self._clock.follow(await self._lease.open())
        self._hosts = await self._database.write(_enter, self.me, now=self._clock.micros())
        self._entered_at = self._clock_of_loop()
        self._lease.beaten = self._beaten
        self._hold(0.0)

    async def close(self) -> None:
        """Hand over what is left: others hear of it, and begin at once."""
        if self._fence:
            self._fence.cancel()
        if self._work:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        await self._lease.close()
        try:
            await self._database.write(_leave, self.me, now=self._clock.micros())
        except StorageFault as error:  # then the end of our lease says it
            log.warning("the other hosts could not be told that this one ends: %s", error.message)

    def may_run(self, agent: AgentRuntime) -> bool:
        """Whether this host may run an agent: it can be counted on, and has what the agent requires."""
        return self.holds and self.me.labels.issuperset(required_by(agent.definition))

    async def has_folder_of(self, agent: AgentRuntime) -> bool:
        """Whether this host may run an agent as far as its folder goes."""
        return await self.can_run(agent, self.me.node, self._hosts == 1)

    def hesitation(self, runs: int) -> float:
        """Seconds to wait before claiming an agent, so that the host with less to do gets it."""
        return min(LONGEST_HESITATION, runs * PER_RUN) if self._hosts > 1 else 0.0

    # --- beats --------------------------------------------------------------------------------------------

    def _beaten(self, beat: Beat) -> None:
        self._clock.follow(beat.ahead)
        self._hosts = beat.hosts
        now = self._clock_of_loop()
        if beat.asked < self._entered_at:
            return
        if self._steady_since is None:
            self._steady_since = now - GRACE  # others had a host to hear from before we came
        elif now - self._beaten_at > LEASE:
            self._steady_since = now
        self._beaten_at = beat.asked
        if beat.listed and now - beat.asked < FENCE:  # it may have waited for us
            self._hold(now - beat.asked)
        steady = now - self._steady_since >= GRACE
        if (not beat.listed or (beat.dead and steady)) and (self._work is None or self._work.done()):
            self._work = asyncio.create_task(self._see_to(beat), name="hosts")

    def _hold(self, age: float) -> None:
        """Hold the lease, counted from when we asked for it."""
        if self._fence:
            self._fence.cancel()
        self._fence = asyncio.get_running_loop().call_later(max(0.0, FENCE - age), self._lose)
        if not self.holds:
            self.holds = True
            self.renewed()

    def _lose(self) -> None:
        if self.holds:
            log.error("the lease could not be renewed for %g seconds: nothing is run here until it is", FENCE)
            self.holds = False
            self.fenced()

    async def _see_to(self, beat: Beat) -> None:
        try:
            if not beat.listed:
                log.error("another host took this one for dead: its work runs elsewhere now")
                self._lose()
                await self._database.write(_enter, self.me, now=self._clock.micros())
                self._entered_at = self._clock_of_loop()
                self._hold(BEAT)
            await self._database.write(_bury, beat.dead, self.me.id, now=self._clock.micros())
        except StorageFault as error:  # the next beat sees the same
            log.warning("dead hosts could not be cleaned up after: %s", error.message)

    def _clock_of_loop(self) -> float:
        return asyncio.get_running_loop().time()


def required_by(definition: AgentDefinition) -> set[str]:
    """The labels that a host must have to run an agent: those its file says, and the program that it is."""
    backend = definition.backend
    return {*definition.requires, *([] if backend in ("sdk", "mock", "acp") else [f"program:{backend}"])}


async def _nothing(project: str) -> None:
    """Does nothing: nobody here opens projects, and what was loaded holds."""


async def _always(agent: AgentRuntime, node: str, alone: bool) -> bool:
    """Nobody here keeps folders."""
    return True


async def _nowhere(project: str, workspace: str) -> None:
    """Does nothing: nobody here opens workspaces."""


def this_host(home: Path | None, labels: Collection[str]) -> Host:
    """The row of this host. A home has one daemon at a time: an older host of this home is dead, whatever its lease
    says."""
    from importlib.metadata import version  # slow, and only needed here

    node, id = platform.node() or "unknown", new_id("h")
    has = {f"node:{node}", *labels, *_programs()}
    return Host(id, node, _place(home) or id, os.getpid(), version("agent-worker"), frozenset(has), home is not None)


def lasting_id(home: Root | None) -> str:
    """What the checkouts of a host are known by, also after it was started again; '' without a home."""
    if home is None:
        return ""
    with suppress(NotFound):
        return home.read_text(ID_FILE).strip()
    made = new_id("n")
    if isinstance(kept := home.swap(ID_FILE, f"{made}\n", expected=None), Conflict):  # another process was faster
        home.remove(kept.kept)
        return home.read_text(ID_FILE).strip()
    return made


def _programs() -> Iterator[str]:
    """The coding programs that are installed here, as labels."""
    from agent_worker.backends.programs.known import KNOWN, found

    yield from (f"program:{name}" for name in KNOWN if found(name, os.environ.get("PATH", "")))


def _place(home: Path | None) -> str:
    """A home as the kernel knows it, until it is booted again; '' where that cannot be seen."""
    with suppress(OSError):
        if home is not None:
            status, boot = home.stat(), Path("/proc/sys/kernel/random/boot_id").read_text().strip()
            return f"{boot} {status.st_dev} {status.st_ino}"
    return ""


def _enter(tx: WholeTransaction, me: Host, *, now: int) -> int:
    """Become one of the hosts, and put back what dead ones ran; returns how many hosts there are."""
    host_rows.enter(tx, me)
    signal_rows.forget_gone(tx)
    recovery.recover(tx, me.id, shared=True, now=now)
    return host_rows.count(tx)


def _bury(tx: WholeTransaction, dead: Collection[str], me: str, *, now: int) -> None:
    if any([host_rows.bury(tx, id) for id in dead]):
        signal_rows.forget_gone(tx)
        recovery.recover(tx, me, shared=True, now=now)


def _leave(tx: WholeTransaction, me: Host, *, now: int) -> None:
    host_rows.leave(tx, me)
    if not me.has_home:
        project_rows.forget_host(tx)
    signal_rows.forget_gone(tx)
    recovery.recover(tx, "", shared=True, now=now)
