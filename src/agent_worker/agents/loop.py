"""One loop per agent: take → assemble the prompt → step → (yield?) → … → finish.

It waits on events, never polls, and decides between two steps only. What follows a failure is decided in
retries.py; every change of state is a transaction in run_begin.py or run_end.py.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from agent_worker.agents import prompt, prompt_data, run_begin, run_end
from agent_worker.agents.learning import learn
from agent_worker.agents.limiter import Limiter
from agent_worker.agents.prompt_data import prompt_memory
from agent_worker.agents.recorder import RecorderContext, RunRecorder
from agent_worker.agents.registry import AgentRuntime, Registry
from agent_worker.agents.retries import GiveUp, Retry, after
from agent_worker.agents.run_begin import Assignment, NotYet, Suspect, Terms
from agent_worker.backends.backend import Finished, Suspended, Turn, Unfinished
from agent_worker.core.clock import Clock, sleep_unless
from agent_worker.core.disk_space import Space
from agent_worker.core.errors import BackendFailure, Crashed, Fenced, Overloaded, Permanent, StorageFault
from agent_worker.core.failpoints import failpoint
from agent_worker.tools.tool import RunIdentity, Tool, ToolContext
from agent_worker.work import queue
from agent_worker.work.agent_rows import Fence
from agent_worker.work.queue import Ageing

T = TypeVar("T")

SPACE_WAIT = 5_000_000  # microseconds


class Slots:
    """How many runs there may be at once on this machine."""

    def __init__(self, *, runs: int = 8, programs: int = 4) -> None:
        self._count = runs
        self._runs = asyncio.Semaphore(runs)
        self._one_for_all = asyncio.Lock()
        self._programs = asyncio.Semaphore(programs)

    @asynccontextmanager
    async def one(self, worker: AgentRuntime) -> AsyncIterator[None]:
        # A program waits for its turn before it takes a place: those that hang must not keep all the others out.
        async with self._programs if worker.is_program else contextlib.nullcontext(), self._runs:
            yield

    @asynccontextmanager
    async def all(self) -> AsyncIterator[None]:
        """Take every slot: nobody else runs meanwhile."""
        async with contextlib.AsyncExitStack() as held:
            await held.enter_async_context(self._one_for_all)  # two of these would wait for each other
            for _ in range(self._count):
                await held.enter_async_context(self._runs)
            yield


@dataclass(frozen=True, slots=True)
class LoopContext:
    """What all loops of a host share."""

    recording: RecorderContext
    registry: Registry
    limiter: Limiter
    slots: Slots
    ageing: Ageing = field(default_factory=Ageing)
    space: Space = field(default_factory=Space)  #: on the disk

    @property
    def clock(self) -> Clock:
        return self.recording.clock

    def now(self) -> int:
        return self.recording.clock.micros()


class Loop:
    def __init__(self, fence: Fence, loop_context: LoopContext) -> None:
        self.fence = fence
        self.run: str | None = None  #: what it works on now
        self.workspace: str | None = None  #: where that is
        self.recorder: RunRecorder | None = None  #: through which that run acts
        self.free = asyncio.Event()  #: it works on nothing
        self.free.set()
        self._loop_context = loop_context
        self._database = loop_context.recording.database.of(fence.project)
        self._arrived = asyncio.Event()
        self._stopping = False
        self._waited: dict[str, float] = {}  # instruction → seconds spent at a closed gate

    def wake(self) -> None:
        self._arrived.set()

    def stop(self) -> None:
        """Ask the loop to end after the current step."""
        self._stopping = True
        self._arrived.set()

    async def work(self) -> None:
        while not self._stopping:
            # Clear before looking: what arrives while we look must not be slept through.
            self._arrived.clear()
            match await self._next():
                case NotYet(wait=wait):
                    await self._sleep(wait / 1e6)
                case None:
                    await self._arrived.wait()

    async def _next(self) -> NotYet | bool | None:
        """Do one piece of work, if there is one; True when there was."""
        worker = self._loop_context.registry.worker(self.fence.agent)
        async with self._gate(worker.credential):
            async with self._loop_context.slots.one(worker):
                done = await self._take_and_do(worker.credential)
            if isinstance(done, Suspect):
                # Whoever runs when the process dies is blamed for it. The last try is made by itself.
                async with self._loop_context.slots.all():
                    done = await self._take_and_do(worker.credential, alone=True)
        assert not isinstance(done, Suspect)
        return done

    async def _take_and_do(self, credential: str, *, alone: bool = False) -> NotYet | Suspect | bool | None:
        if self._stopping or not self._may_call(credential):
            return True
        if self._loop_context.space.look().state == "stopped":  # nobody tells us when there is space again
            return NotYet(self._loop_context.now() + SPACE_WAIT, SPACE_WAIT)
        failpoint("lease.before")
        job = await self._write(run_begin.begin, self.fence, self._terms, ageing=self._loop_context.ageing, alone=alone)
        failpoint("lease.after")
        if not isinstance(job, Assignment):
            return job
        self.run, self.workspace = job.run, job.workspace
        self.free.clear()
        try:
            await self._do(job)
        except Fenced:
            pass  # cancelled, or no longer ours: begin() finds out which
        finally:
            self.run = self.workspace = None
            self.free.set()
        return True

    async def _do(self, job: Assignment) -> None:
        worker = self._loop_context.registry.worker(self.fence.agent, job.workspace)
        terms = self._terms(job.workspace)
        try:
            if job.unreadable:
                raise Permanent(job.unreadable.message, hint=job.unreadable.hint)
            tools = await _tools(job, worker)
            recorder = self.recorder = RunRecorder(
                job, terms, self._context(job, worker), tools, self._loop_context.recording
            )
            turn, seen, manifest = await self._prepare(job, worker, tools)
            keeping = self._database.write(queue.keep_manifest, job.run, manifest)
            try:  # it is written before anything that comes of the run: nobody has to wait for it
                await self._steps(job, worker, turn, recorder, seen)
            finally:
                await keeping
        except (Fenced, StorageFault):
            raise
        except Suspended:
            await self._write(run_end.suspend, job)
        except BackendFailure as failure:
            await self._failed(job, worker, failure)
        except (Exception, asyncio.CancelledError) as error:  # boundary: whatever else it raises is its crash, not ours
            if _is_cancelled(error):
                raise
            await self._failed(job, worker, Crashed(f"{type(error).__name__}: {error}"))

    async def _steps(self, job: Assignment, worker: AgentRuntime, turn: Turn, recorder: RunRecorder, seen: int) -> None:
        async with aclosing(worker.backend.work(turn, recorder)) as outcomes:
            async for outcome in outcomes:
                if worker.credential:
                    self._loop_context.limiter.succeeded(worker.credential)
                match outcome:
                    case Finished(step, reply):
                        recorder.finish_saying()
                        await self._write(run_end.finish, job, step, reply, terms_model(worker), seen=seen)
                        failpoint("finish.after_commit")
                        await self._learn(job, worker, recorder, reply.text)
                        self._waited.pop(job.lead.id, None)
                        return
                    case Unfinished():
                        if await self._leaves(job, recorder):
                            return
        raise Crashed("the backend stopped without an answer")

    async def _learn(self, job: Assignment, worker: AgentRuntime, recorder: RunRecorder, final: str) -> None:
        doubtful = bool(recorder.outside) or any(item.hop for item in job.taken)
        lesson = await learn(
            worker,
            job.run,
            recorder.done,
            final,
            doubtful=doubtful,
            recording=self._loop_context.recording,
            charge=recorder.charge,
        )
        if lesson:
            await self._write(run_begin.charge_lesson, job, lesson.reply, lesson.model)

    async def _leaves(self, job: Assignment, recorder: RunRecorder) -> bool:
        """Between two steps: stop for a limit, for the end of the host, or for something more urgent?"""
        if recorder.reached:
            await self._write(run_end.stop_at_limit, job, recorder.reached)
            return True
        if self._stopping:
            await self._write(run_end.put_back, job, why="stopping", ageing=self._loop_context.ageing)
            return True
        if self._arrived.is_set() or job.others_wait:
            self._arrived.clear()
            if await self._write(run_begin.should_yield, job, ageing=self._loop_context.ageing):
                await self._write(
                    run_end.put_back, job, why="preempted", preempted=True, ageing=self._loop_context.ageing
                )
                return True
        return False

    async def _prepare(self, job: Assignment, worker: AgentRuntime, tools: dict[str, Tool]) -> tuple[Turn, int, str]:
        # Both at once: the database does not wait for files, nor they for it.
        recalling = asyncio.get_running_loop().run_in_executor(
            None, prompt_memory, worker, job.lead.text, self._loop_context.clock.now()
        )
        gathered = await self._database.read(prompt_data.gather, job, worker, tuple(tools))
        known = await recalling
        brief = replace(gathered.brief, memory=known.memory, memory_left_out=known.left_out, todos=known.todos)
        composed = prompt.compose(brief)
        turn = Turn(
            run=job.run,
            system=composed.system,
            prompt=composed.user,
            tools=tuple(tool.spec for tool in tools.values()),
            past=job.past,
            model=terms_model(worker),
            max_steps=job.done_before + worker.definition.max_steps,
            max_tokens=worker.definition.max_tokens,
            settings=worker.definition.settings,
            asked=brief.instruction,
            members=tuple(brief.members),
            open_votes=gathered.open_votes,
        )
        return turn, gathered.seen, composed.manifest

    async def _failed(self, job: Assignment, worker: AgentRuntime, failure: BackendFailure) -> None:
        waited = self._waited.get(job.lead.id, 0.0)
        match after(failure, failures=job.lead.failures, waited=waited):
            case Retry(wait, counts):
                if isinstance(failure, Overloaded) and worker.credential:
                    wait = self._loop_context.limiter.refused(worker.credential, wait if failure.retry_after else None)
                if not counts:
                    self._waited[job.lead.id] = waited + wait
                await self._write(run_end.retry_later, job, failure, wait=wait, counts=counts)
            case GiveUp(state):
                self._waited.pop(job.lead.id, None)
                await self._write(run_end.give_up, job, failure, state)

    def _context(self, job: Assignment, worker: AgentRuntime) -> ToolContext:
        identity = RunIdentity(
            agent=job.fence.agent,
            name=job.name,
            project=job.project,
            run=job.run,
            root=job.lead.root,
            hop=max(item.hop for item in job.taken),
            workspace=job.workspace,
        )
        recording = self._loop_context.recording
        return ToolContext(
            identity,
            self._database,
            recording.clock,
            cwd=worker.cwd,
            own_copy=worker.own_copy,
            places=lambda: self._loop_context.registry.places(worker.project),
            home=worker.home,
            library=worker.library,
            env=worker.definition.env,
            home_of=lambda agent: self._loop_context.registry.worker(agent).home,
        )

    def _terms(self, workspace: str | None) -> Terms:
        worker = self._loop_context.registry.worker(self.fence.agent, workspace)
        return Terms(worker.name, worker.definition.backend, terms_model(worker), worker.limits)

    @asynccontextmanager
    async def _gate(self, credential: str) -> AsyncIterator[None]:
        if not credential:
            yield
            return
        await self._loop_context.limiter.enter(credential)
        try:
            yield
        finally:
            self._loop_context.limiter.leave(credential)

    def _may_call(self, credential: str) -> bool:
        return not credential or self._loop_context.limiter.still_open(credential)

    async def _write(self, change: Callable[..., T], *args: object, **kwargs: object) -> T:
        return await self._database.write(change, *args, now=self._loop_context.now(), **kwargs)

    async def _sleep(self, seconds: float) -> None:
        """Sleep for so many seconds, or until something arrives."""
        await sleep_unless(self._arrived, self._loop_context.clock, max(0.001, seconds))


def _is_cancelled(error: BaseException) -> bool:
    """Does somebody want us to end? A backend or a tool may also raise this without anybody's having asked for it."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and bool(task.cancelling())


async def _tools(job: Assignment, worker: AgentRuntime) -> dict[str, Tool]:
    """All it has for this work. Those of others stand behind ours, whatever they are called."""
    others = await worker.more_tools() if worker.more_tools else ()
    return {t.name: t for t in (*others, *worker.tools) if t.personal or job.workspace}


def terms_model(worker: AgentRuntime) -> str:
    return worker.definition.model or worker.definition.backend
