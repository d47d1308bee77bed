"""Keeps the loops: starts one when its agent first gets work, restarts it when it crashes, ends them all.

A crash of a loop puts its work back and starts it again after 1, 2, 4 … 30 s; more than five in ten minutes and
the agent stays in `error` until a person starts it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Concatenate, ParamSpec, TypeVar

from agent_worker.agents import recovery
from agent_worker.agents.limiter import KeyPass
from agent_worker.agents.loop import Loop
from agent_worker.agents.loop_context import LoopContext
from agent_worker.agents.recorder import RunRecorder
from agent_worker.agents.retries import restart_wait, too_many
from agent_worker.agents.run_steps import NotJoined
from agent_worker.agents.waiting import Waits
from agent_worker.backends.programs.probe import ProbeSink
from agent_worker.core.errors import Fenced, NotNow, NotStored, StorageFault
from agent_worker.core.events import AgentChanged, Ended, Event, HostChanged, Queued, WorkspaceChanged
from agent_worker.core.ids import new_id
from agent_worker.database.database import ProjectDatabase, Row, Transaction, WholeTransaction
from agent_worker.database.patient import until_possible
from agent_worker.tools.tool import RunIdentity
from agent_worker.work import agent_rows, project_rows
from agent_worker.work.agent_rows import Fence
from agent_worker.workspaces import member_rows

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

PARTING = 10.0  # seconds
LEFT_TO_OTHERS = 0.5  # seconds until a host looks again at an agent that another one has


Working = RunRecorder | ProbeSink


class Supervisor:
    def __init__(self, loop_context: LoopContext) -> None:
        self.hosting = loop_context.hosting
        self.owner = self.hosting.me.id if self.hosting else new_id("h")
        self.grace = PARTING  #: seconds that steps have to end when we stop
        self._loop_context = loop_context
        self._loops: dict[str, Loop] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._others: set[asyncio.Task[None]] = set()
        self._guests: dict[str, ProbeSink] = {}  # by run
        self._leaving: set[str] = set()  # agents whose loop shall end and not begin anew
        self._interrupted: set[str] = set()  # agents whose run was ended by a person: their loop goes on
        self._elsewhere: set[str] = set()  # agents with work in a workspace that is not known here
        self._called: set[str] = set()  # agents for whom something came while their loop was ending
        self._unlisten: Callable[[], None] = lambda: None
        self._hosts_changed = asyncio.Event()  # set once, when a host is gone; then there is another one
        self._stopping = False

    async def start(self) -> None:
        """Take back what a dead host left running, then listen for work."""
        database = self._loop_context.recording.database
        self._unlisten = self._loop_context.recording.bus.listen(
            self._hear, Queued, AgentChanged, WorkspaceChanged, Ended, HostChanged
        )
        if self.hosting is None:
            await database.write(recovery.recover, self.owner, now=self._loop_context.now())
            return
        self.hosting.fenced = self._end_all
        self.hosting.renewed = lambda: self._later(self.wake_all)
        await self.hosting.enter()

    async def wake_all(self) -> None:
        """Look at every queue that has something in it: after a start there is nobody to tell us."""
        for agent in await self._loop_context.recording.database.read(_with_work):
            self.wake(agent)

    def wake(self, agent: str) -> None:
        if self._stopping or not self._loop_context.registry.knows(agent):
            return
        if self.hosting and (
            agent in self._elsewhere or not self.hosting.may_run(self._loop_context.registry.worker(agent))
        ):
            return
        if loop := self._loops.get(agent):
            loop.wake()
        elif agent in self._tasks:
            self._called.add(agent)
        else:
            project = self._loop_context.registry.worker(agent).project
            task = asyncio.create_task(self._keep(project, agent), name=f"loop {agent}")
            self._tasks[agent] = task
            task.add_done_callback(lambda _: self._forget(agent))

    def _forget(self, agent: str) -> None:
        self._tasks.pop(agent, None)
        self._interrupted.discard(agent)
        if agent in self._called:
            self._called.discard(agent)
            self.wake(agent)

    def key_pass(self) -> KeyPass:
        """A pass for asking a model outside of a run, through the same gate as all who use its key."""
        return KeyPass(self._loop_context.limiter, lambda: self._loop_context.registry.settings.longest_wait)

    def recorder(self, run: str) -> Working | None:
        """The recorder of a run that is under way here."""
        return self._guests.get(run) or next((loop.recorder for loop in self._loops.values() if loop.run == run), None)

    @contextmanager
    def visited(self, guest: ProbeSink) -> Iterator[None]:
        """Let a run be known, while this lasts, that belongs to no agent: a backend is being tried out."""
        self._guests[guest.run] = guest
        try:
            yield
        finally:
            del self._guests[guest.run]

    @property
    def host(self) -> str | None:
        """Our id among the hosts that share the database; None when we are alone."""
        return self.hosting.me.id if self.hosting else None

    @property
    def waits(self) -> Waits:
        """The agents of this host that have work and wait."""
        return self._loop_context.waits

    def identity(self, run: str) -> RunIdentity | None:
        recorder = self.recorder(run)
        return recorder.identity if recorder else None

    async def stop(self, *, grace: float | None = None) -> None:
        """Let steps end, put the rest back, leave nothing running."""
        grace = self.grace if grace is None else grace
        self._stopping = True
        self._unlisten()
        self._unlisten = lambda: None
        for agent, task in self._tasks.items():
            self._end(agent, task)
        tasks = [*self._tasks.values(), *self._others]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace)
            await _ended(late)

    def _end_all(self) -> None:
        """End all loops, because our lease may be over: nothing goes on here that another host may have begun."""
        for task in self._tasks.values():
            task.cancel()

    async def dismiss(self, agent: str) -> None:
        """End one agent's loop, between two steps if it can be had soon."""
        task = self._tasks.get(agent)
        if task is None:
            return
        self._leaving.add(agent)
        try:
            self._end(agent, task)
            _, late = await asyncio.wait({task}, timeout=10)
            if late:
                task.cancel()
                await asyncio.wait({task})
        finally:
            self._leaving.discard(agent)

    def works_in(self, agent: str) -> str | None:
        """The workspace that an agent's run is in, if it is at work here."""
        loop = self._loops.get(agent)
        return loop.workspace if loop and loop.run else None

    async def leaves(self, agent: str, workspace: str) -> None:
        """Wait until an agent has put away its work in a workspace: a run that is done or cancelled may still be ending
        its processes.
        """
        loop = self._loops.get(agent)
        if loop and loop.workspace == workspace:
            await loop.free.wait()

    def _end(self, agent: str, task: asyncio.Task[None]) -> None:
        loop = self._loops.get(agent)
        if loop and loop.run:
            loop.stop()
        else:
            task.cancel()  # it only waits: for work, at a gate, or to be started again

    # --- hearing --------------------------------------------------------------------------------------

    def _hear(self, event: Event) -> None:
        match event:
            case Queued(agent=agent, instruction=instruction):
                self._settle(agent, instruction)
                self.wake(agent)
            case AgentChanged(agent=agent, state="idle") if (loop := self._loops.get(agent)) and loop.run is None:
                loop.wake()  # one that works looks again by itself, unless there is nothing
            case HostChanged(state="left" | "dead"):
                self._hosts_changed.set()
                self._hosts_changed = asyncio.Event()
                self._elsewhere.clear()
                self._later(self.wake_all)
            case WorkspaceChanged(project=project, workspace=str(workspace), state="running"):
                self._elsewhere.clear()
                self._later(lambda: self._wake_members(project, workspace))
            case Ended(agent=agent, run=run, instruction=instruction, state="cancelled"):
                self._settle(agent, instruction)
                self._interrupt(agent, run)
                if agent in self._loops:
                    self._loops[agent].wake()  # it need not wait any longer for a turn

    def _settle(self, agent: str, instruction: str) -> None:
        if loop := self._loops.get(agent):
            loop.settled(instruction)

    def _interrupt(self, agent: str, run: str) -> None:
        """A person ended this run: unlike anything else, that does not wait for the step."""
        loop = self._loops.get(agent)
        if loop and loop.run == run and agent not in self._interrupted:
            self._interrupted.add(agent)
            self._tasks[agent].cancel()

    async def _wake_members(self, project: str, workspace: str) -> None:
        for row in await self._database(project).read(member_rows.members, workspace):
            self.wake(row["agent"])

    def _later(self, look: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(self._looked(look))
        self._others.add(task)
        task.add_done_callback(self._others.discard)

    async def _looked(self, look: Callable[[], Awaitable[None]]) -> None:
        with contextlib.suppress(StorageFault):  # we are ending
            await self._patiently(look)

    # --- keeping --------------------------------------------------------------------------------------

    async def _keep(self, project: str, agent: str) -> None:
        crashes: list[float] = []
        while not self._stopping and agent not in self._leaving:
            if (fence := await self._patiently(lambda: self._claimed(project, agent))) is None:
                return
            loop = self._loops[agent] = Loop(fence, self._loop_context)
            self._called.discard(agent)  # whoever called while it was claimed: this loop looks now
            try:
                await loop.work()
                await self._abandon(loop, "idle", "")
                self._loops.pop(agent, None)  # it hears nothing any more: who calls from now on is noted, for `_forget`
                if self._stopping or await self._released(fence):
                    return
            except asyncio.CancelledError:
                await asyncio.shield(self._abandon(loop, "idle", "stopped"))
                if not self._goes_on(agent):
                    raise
            except Fenced:
                return  # another host runs it now
            except NotJoined:
                self._elsewhere.add(agent)
                return await self._store(project, agent_rows.let_go, fence)
            except NotStored as error:  # it may be what this loop does that cannot be stored
                if not await self._recovers(loop, crashes, error):
                    return
            except NotNow as error:
                await self._abandon(loop, "idle", error.message)
            except StorageFault:
                log.exception("agent %s: the database is gone", agent)
                return
            except Exception as error:  # boundary: a crash of the loop itself
                if not await self._recovers(loop, crashes, error):
                    return
            finally:
                self._loops.pop(agent, None)
                self.waits.end(agent)

    async def _claimed(self, project: str, agent: str) -> Fence | None:
        """The fence of an agent that we may run; None when another host has it, or was faster."""
        if self.hosting:
            await self._loop_context.clock.sleep(self.hosting.hesitation(self._busy()))
            found = await self._database(project).read(agent_rows.prospect, agent, self.owner)
            if found == "elsewhere":
                await self._leave_to_others()
            if found != "work":
                return None
            await self.hosting.refresh(project)
            if not await self.hosting.has_folder_of(self._loop_context.registry.worker(agent)):
                self._elsewhere.add(agent)
                return None
        try:
            return await self._store(project, recovery.claim, agent, self.owner, now=self._loop_context.now())
        except Fenced:
            return None

    async def _leave_to_others(self) -> None:
        """Do not ask again for a moment, whatever comes for the agent, unless a host is gone: its own host hears it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEFT_TO_OTHERS):
                await self._hosts_changed.wait()

    def _busy(self) -> int:
        return sum(loop.run is not None for loop in self._loops.values())

    async def _released(self, fence: Fence) -> bool:
        """Whether an agent's loop may end: on a host that is alone it ends with the host, or when it is dismissed."""
        return self.hosting is None or await self._store(fence.project, agent_rows.release, fence)

    def _goes_on(self, agent: str) -> bool:
        """Was it only its run that was cancelled, by us? A cancellation that came from anybody else is obeyed."""
        task = asyncio.current_task()
        assert task is not None
        if agent in self._interrupted:
            self._interrupted.discard(agent)
            task.uncancel()
        return not task.cancelling() and not self._stopping

    async def _recovers(self, loop: Loop, crashes: list[float], error: Exception) -> bool:
        log.error("loop of %s crashed", loop.fence.agent, exc_info=error)
        crashes.append(self._loop_context.clock.monotonic())
        reason = f"{type(error).__name__}: {error}".encode(errors="replace").decode()  # it must be possible to store
        await self._abandon(loop, "error", reason)
        if too_many(crashes, self._loop_context.clock.monotonic()):
            await self._store(
                loop.fence.project, recovery.give_agent_up, loop.fence, reason, now=self._loop_context.now()
            )
            return False
        recent = [at for at in crashes if self._loop_context.clock.monotonic() - at < 600]
        await self._loop_context.clock.sleep(restart_wait(len(recent)))
        await self._store(loop.fence.project, agent_rows.set_state, loop.fence.agent, "idle")
        return True

    async def _abandon(self, loop: Loop, state: str, reason: str) -> None:
        with contextlib.suppress(Fenced, StorageFault):
            told = {"state": state, "reason": reason}
            await self._store(loop.fence.project, recovery.abandon, loop.fence, **told, now=self._loop_context.now())

    def _database(self, project: str) -> ProjectDatabase:
        return self._loop_context.recording.database.of(project)

    async def _store(
        self, project: str, change: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Write to the database, and wait where it cannot be stored now: nobody tells us when it can."""
        return await self._patiently(lambda: self._database(project).write(change, *args, **kwargs))

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        return await until_possible(ask, self._loop_context.clock, unless=lambda: self._stopping)


async def _ended(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel tasks, and wait until they are gone. One that a tool holds on to is left behind after a while."""
    for task in tasks:
        task.cancel()
    if tasks:
        _, stubborn = await asyncio.wait(tasks, timeout=PARTING)
        for task in stubborn:
            log.error("%s does not end", task.get_name())


def _with_work(tx: WholeTransaction) -> list[str]:
    """The agents that have work, those that were interrupted first: there may not be slots for all at once."""
    found = [row for project in project_rows.ids(tx) for row in _queues(tx.of(project))]
    return [row["agent"] for row in sorted(found, key=lambda row: (-row["tried"], row["since"], row["agent"]))]


def _queues(tx: Transaction) -> list[Row]:
    return tx.all(
        """select agent, max(attempts) as tried, min(queued_at) as since from instruction
            where project = :project and state = 'queued' group by agent"""
    )
