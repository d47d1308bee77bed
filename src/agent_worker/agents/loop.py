"""One loop per agent: take → assemble the prompt → step → (yield?) → … → finish.

It waits on events, never polls, and decides between two steps only. What follows a failure is decided in
retries.py; every change of state is a transaction in run_begin.py or run_end.py.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import field, replace
from functools import partial
from typing import Any, TypeVar

from agent_worker.agents import prompt, prompt_data, run_begin, run_end
from agent_worker.agents.guarding import guarding
from agent_worker.agents.learning import learn
from agent_worker.agents.limiter import SPREAD, Limiter, Pass
from agent_worker.agents.observing import RunSeen, observe
from agent_worker.agents.prompt import Prompt, PromptText
from agent_worker.agents.prompt_data import PromptData, prompt_memory
from agent_worker.agents.publishing import PublicMemory
from agent_worker.agents.recorder import RecorderContext, RunRecorder
from agent_worker.agents.registry import AgentKit, AgentRuntime, Registry
from agent_worker.agents.retries import LONGEST_GUESS, GiveUp, Retry, after
from agent_worker.agents.run_begin import Assignment, NotYet, Pending, Suspect, Terms
from agent_worker.agents.waiting import WaitingAgent, Waits, WaitsFor
from agent_worker.agents.wording import Wording
from agent_worker.backends.backend import Finished, Reply, Suspended, Turn, Unfinished, Usage
from agent_worker.core.clock import Clock, sleep_unless
from agent_worker.core.disk_space import Space
from agent_worker.core.errors import (
    AgentWorkerError,
    BackendFailure,
    Crashed,
    EmptyAnswer,
    Fenced,
    NoKey,
    Overloaded,
    Permanent,
    StorageFault,
)
from agent_worker.core.failpoints import failpoint
from agent_worker.core.later import dataclass
from agent_worker.core.text import plural
from agent_worker.definitions.settings import Settings
from agent_worker.memory import outside_words
from agent_worker.tools.tool import RunIdentity, Tool, ToolContext
from agent_worker.work.agent_rows import Fence
from agent_worker.work.queue import Ageing

T = TypeVar("T")

SPACE_WAIT = 5.0  # seconds
CLOSED = "the provider of its model asked all who use this key to come back later"
NARROW = "others with the same key go first: its provider had refused them, and they are let in by and by"


@dataclass(frozen=True, slots=True)
class NoSpace:
    """There is work, and no space on the disk to do it."""

    work: Pending
    reason: str


@dataclass(frozen=True, slots=True)
class Keyless:
    """There is work, and no key to do it with."""

    work: Pending
    missing: NoKey


Later = NotYet | NoSpace | Keyless  # work that cannot be done now


class Slots:
    """How many runs there may be at once on this machine."""

    def __init__(self, *, runs: int = 8, programs: int = 4) -> None:
        self._count = runs
        self._runs = asyncio.Semaphore(runs)
        self._one_for_all = asyncio.Lock()
        self._programs_count = programs
        self._programs = asyncio.Semaphore(programs)

    def all_taken(self, worker: AgentRuntime) -> str:
        """Why a worker would have to wait for a slot, as a sentence; empty when there is one."""
        if worker.is_program and self._programs.locked():
            return f"{plural(self._programs_count, 'coding program')} may run at once, and all of them do"
        return f"{plural(self._count, 'run')} may go on at once, and all of them do" if self._runs.locked() else ""

    @asynccontextmanager
    async def one(self, worker: AgentRuntime) -> AsyncIterator[None]:
        # A program waits for its turn before it takes a place: those that hang must not keep all the others out.
        async with self._programs if worker.is_program else contextlib.nullcontext(), self._runs:
            yield

    @asynccontextmanager
    async def all(self) -> AsyncIterator[None]:
        """Take every slot: nobody else runs meanwhile."""
        async with AsyncExitStack() as held:
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
    waits: Waits
    public: PublicMemory
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
        self._given: Pass | None = None  # leave to call the provider
        self._answered = False  # has the model answered anything in the run that is under way?
        self._project_seen: tuple[PromptText, ...] | None = None  # what its repository told it in its last run
        self._own_soul = False  # of the run that is under way: its agent is more than its definition says
        self._setbacks: dict[str, BackendFailure] = {}  # instruction → why it is tried again later
        self._asking: dict[str, str | None] = {}  # instruction that waits for a person → its workspace

    def wake(self) -> None:
        self._arrived.set()

    def settled(self, instruction: str) -> None:
        """The person has answered what this work asked, or it was cancelled."""
        self._asking.pop(instruction, None)

    def stop(self) -> None:
        """Ask the loop to end after the current step."""
        self._stopping = True
        self._arrived.set()

    async def work(self) -> None:
        while not self._stopping:
            # Clear before looking: what arrives while we look must not be slept through.
            self._arrived.clear()
            match await self._next():
                case NotYet() as later:
                    self._tell_setback(later)
                    await self._sleep(later.wait / 1e6)
                case NoSpace(work, reason):
                    self._wait(work, "disk", reason)
                    await self._sleep(SPACE_WAIT)
                case Keyless(work, missing):
                    await self._ask_for_key(work, missing)
                    await self._arrived.wait()
                case None:
                    self._rest()
                    await self._arrived.wait()

    def _rest(self) -> None:
        """There is nothing to do, unless a person answers."""
        self._setbacks.clear()
        if not self._asking:
            return self._waits.end(self.fence.agent)
        instruction, workspace = next(iter(self._asking.items()))
        self._wait(Pending(instruction, workspace), "person", "it has asked you something: agent-worker inbox")

    async def _next(self) -> Later | bool | None:
        """Do one piece of work, if there is one. True: there may be more; None: there is nothing to do."""
        worker = self._loop_context.registry.worker(self.fence.agent)
        if (found := await self._has_key()) is not True:
            return found
        async with AsyncExitStack() as places:
            if (found := await self._come_in(places, worker)) is not True:
                return found
            async with AsyncExitStack() as slot:
                if (found := await self._take_slot(slot, worker)) is not True:
                    return found
                done = await self._take_and_do()
            if isinstance(done, Suspect):
                # Whoever runs when the process dies is blamed for it. The last try is made by itself.
                async with self._loop_context.slots.all():
                    done = await self._take_and_do(alone=True)
        assert not isinstance(done, Suspect)
        return done

    # --- waiting for a key, or a turn -----------------------------------------------------------------

    async def _has_key(self) -> Later | bool | None:
        """Whether the next piece of work has the key it needs. True: it has, as far as we can see."""
        registry = self._loop_context.registry
        if not registry.lacks_key(self.fence.agent):
            return True
        found = await self._look()
        if not isinstance(found, Pending):
            return found
        worker = registry.worker(self.fence.agent, found.workspace)
        missing = worker.lacks_key() if worker.lacks_key else None
        return Keyless(found, missing) if missing else True

    async def _ask_for_key(self, work: Pending, missing: NoKey) -> None:
        """Put it before the person, once for each wait: it is closed when the key is there (service/providers.py)."""
        wait = self._waits.of(self.fence.agent)
        reason = f"{missing.message}: {missing.hint}"
        self._wait(work, "key", reason)
        if wait is None or wait.what != "key":
            await self._write(run_end.ask_for_key, self.fence, work.workspace, missing.subject, reason)

    async def _come_in(self, places: AsyncExitStack, worker: AgentRuntime) -> Later | bool | None:
        """Pass the gate of the agent's key, for one request or until `places` end. True: we are in."""
        key, limiter = worker.credential, self._loop_context.limiter
        if not key:
            return True
        if limiter.is_open(key):
            await places.enter_async_context(self._gate(key))
            return True

        async def line_up(work: Pending) -> float | None:
            left = self._settings.longest_wait - self._waited(work.since)
            if left <= 0:
                await self._give_up_waiting(work)
                return 0.0
            if work.since is None:  # kept: whoever looks after a restart sees how long it is
                await self._write(run_begin.begin_wait, self.fence, work.instruction)
            opens = limiter.opens_in(key)
            self._wait(work, "model", CLOSED if opens else NARROW, seconds=opens or None)
            return min(left, opens or left)

        return await self._in_line(places.enter_async_context(self._gate(key)), line_up)

    async def _take_slot(self, slot: AsyncExitStack, worker: AgentRuntime) -> Later | bool | None:
        """One of the runs at once, which ends with `slot`. True: we have it."""
        slots = self._loop_context.slots
        why = slots.all_taken(worker)
        if not why:
            await slot.enter_async_context(slots.one(worker))
            return True

        async def line_up(work: Pending) -> None:
            self._wait(work, "slot", why)

        return await self._in_line(slot.enter_async_context(slots.one(worker)), line_up)

    async def _in_line(
        self,
        entering: Coroutine[None, None, object],
        line_up: Callable[[Pending], Awaitable[float | None]],
    ) -> Later | bool | None:
        """Wait for our turn, as long as there is work to wait for. True: it is our turn.

        `line_up` is told for which work, each time that may have changed, and says after how many seconds to ask it
        again.
        """
        clock, turn = self._loop_context.clock, asyncio.ensure_future(entering)
        try:
            while not turn.done():
                self._arrived.clear()
                found = await self._look()
                if not isinstance(found, Pending):
                    return found
                await _first_of(turn, self._arrived, clock, await line_up(found))
            turn.result()
            return True
        finally:  # if our turn came in this very moment it ends with what we were to enter
            turn.cancel()
            await asyncio.wait({turn})

    async def _look(self) -> Pending | NotYet | None:
        context = self._loop_context
        now, longest = context.now(), self._longest_told
        return await self._database.read(run_begin.look, self.fence.agent, now=now, longest=longest)

    async def _give_up_waiting(self, work: Pending) -> None:
        setback = self._setbacks.pop(work.instruction, None)
        why = setback.message if setback else "its provider lets nobody with this key in"
        await self._write(run_end.give_up_waiting, self.fence, work.instruction, self._too_long(why))

    def _waited(self, since: int | None) -> float:
        """Seconds that work has waited for its model by now."""
        return 0.0 if since is None else max(0.0, (self._loop_context.now() - since) / 1e6)

    def _too_long(self, why: str) -> str:
        seconds = self._settings.longest_wait
        waited = plural(round(seconds / 60), "minute") if seconds >= 120 else plural(round(seconds), "second")
        return f"it waited {waited} for its model: {why}"

    def _tell_setback(self, later: NotYet) -> None:
        setback = self._setbacks.get(later.work.instruction)
        # Without one it was in another process: what is stored tells for what it waits, though not the words.
        is_overload = isinstance(setback, Overloaded) if setback else later.work.since is not None
        unknown = CLOSED if is_overload else "it failed, and is tried again"
        what: WaitsFor = "model" if is_overload else "retry"
        self._wait(later.work, what, setback.message if setback else unknown, seconds=later.wait / 1e6)

    def _wait(self, work: Pending, what: WaitsFor, reason: str, *, seconds: float | None = None) -> None:
        name = self._loop_context.registry.worker(self.fence.agent, work.workspace).name
        who = WaitingAgent(self.fence.project, self.fence.agent, name, work.workspace)
        self._waits.begin(who, what, reason, seconds=seconds, since=work.since if what == "model" else None)

    @property
    def _waits(self) -> Waits:
        return self._loop_context.waits

    @property
    def _settings(self) -> Settings:
        return self._loop_context.registry.settings_of(self.fence.project)

    @property
    def _ageing(self) -> Ageing:
        chosen = self._settings
        return Ageing(round(chosen.ageing * 1e6), chosen.preemptions)

    @property
    def _longest_told(self) -> float:
        """Seconds that work is ever told to wait; a gate adds a little to what was asked for."""
        return max(self._settings.longest_wait, LONGEST_GUESS) * (1 + SPREAD)

    # --- doing it -------------------------------------------------------------------------------------

    async def _take_and_do(self, *, alone: bool = False) -> Later | Suspect | bool | None:
        if self._stopping or not self._may_call():
            return True
        space = self._loop_context.space.look()
        if space.state == "stopped":  # nobody tells us when there is space again
            found = await self._look()
            return NoSpace(found, space.told()) if isinstance(found, Pending) else found
        failpoint("lease.before")
        job = await self._write(
            run_begin.begin,
            self.fence,
            self._terms,
            ageing=self._ageing,
            alone=alone,
            longest=self._longest_told,
        )
        failpoint("lease.after")
        if not isinstance(job, Assignment):
            return job
        self._waits.end(self.fence.agent)
        self.run, self.workspace = job.run, job.workspace
        self._answered = False
        self.free.clear()
        try:
            return await self._do(job) or None
        except Fenced:
            return True  # cancelled, or no longer ours: begin() finds out which
        finally:
            self.run = self.workspace = None
            self.free.set()

    async def _do(self, job: Assignment) -> bool:
        """False: nothing else was queued when it ended, and whatever is queued later is told to us."""
        worker = self._loop_context.registry.worker(self.fence.agent, job.workspace)
        terms = self._terms(job.workspace)
        try:
            if job.unreadable:
                raise Permanent(job.unreadable.message, hint=job.unreadable.hint)
            kit = await _kit_of(worker)
            tools = await _tools(job, kit)
            recorder = self.recorder = RunRecorder(
                job,
                terms,
                self._context(job, worker, kit),
                tools,
                self._loop_context.recording,
                partial(self._one_request, worker.credential),
            )
            turn, gathered, composed = await self._prepare(job, worker, tools)
            recorder.hear(await self._heard(job, gathered, composed), gathered.passed_on)
            recorder.stand_beside(gathered.beside)
            context = self._loop_context
            keeping = context.recording.prompts.keep(self._database, job, composed, turn.tools, now=context.now())
            try:  # it is written before anything that comes of the run: nobody has to wait for it
                async with guarding(job, worker, context.recording):
                    return await self._steps(job, worker, kit, turn, recorder, gathered.seen)
            finally:
                await keeping
        except (Fenced, StorageFault):
            raise
        except Suspended:
            self._asking[job.lead.id] = job.workspace  # first: the answer may be faster than we
            await self._write(run_end.suspend, job)
        except NoKey as failure:
            await self._without_key(job, worker, failure)
        except BackendFailure as failure:
            await self._failed(job, worker, failure)
        except (Exception, asyncio.CancelledError) as error:  # boundary: whatever else it raises is its crash, not ours
            if _is_cancelled(error):
                raise
            await self._failed(job, worker, Crashed(f"{type(error).__name__}: {error}"))
        return True

    async def _steps(
        self, job: Assignment, worker: AgentRuntime, kit: AgentKit, turn: Turn, recorder: RunRecorder, seen: int
    ) -> bool:
        async with aclosing(kit.backend.work(turn, recorder)) as outcomes:
            async for outcome in outcomes:
                match outcome:
                    case Finished(step, reply):
                        _refuse_empty(reply, recorder)
                        recorder.finish_saying()
                        outside = recorder.origin_of(reply.text)
                        more = await self._write(
                            run_end.finish, job, step, reply, terms_model(worker), seen=seen, outside=outside
                        )
                        failpoint("finish.after_commit")
                        await self._learn(job, worker, kit, recorder, reply.text)
                        await observe(worker, job, self._seen(worker, recorder), self._loop_context.recording)
                        await self._loop_context.public.follow(worker, job.workspace)
                        return more
                    case Unfinished():
                        if await self._leaves(job, recorder):
                            return True
        raise Crashed("the backend stopped without an answer")

    def _seen(self, worker: AgentRuntime, recorder: RunRecorder) -> RunSeen:
        used = {call.tool for step in recorder.done for call in step.reply.calls}
        is_program = worker.definition.backend not in ("sdk", "mock")
        return RunSeen(recorder.own_tools, None if is_program else used, self._own_soul)

    async def _learn(
        self, job: Assignment, worker: AgentRuntime, kit: AgentKit, recorder: RunRecorder, final: str
    ) -> None:
        recording = self._loop_context.recording
        lesson = await learn(
            worker,
            kit.learner,
            job.run,
            recorder.done,
            final,
            said=run_begin.said_in(job),
            outside=bool(recorder.outside),
            heard=recorder.heard,
            allowed=partial(self._has_budget, job),
            recording=recording,
            asking=self._one_request(worker.learning_credential),
            charge=recorder.charge,
        )
        if lesson:
            await self._write(run_begin.charge_lesson, job, lesson.reply, lesson.model)
            texts = (lesson.asked.system, lesson.asked.prompt, recording.redact(lesson.reply.text))
            await recording.prompts.add_lesson(self._database, job, lesson.model, texts, now=self._loop_context.now())

    async def _has_budget(self, job: Assignment) -> bool:
        return await self._database.read(
            run_begin.has_budget, job, self._terms(job.workspace), now=self._loop_context.now()
        )

    async def _leaves(self, job: Assignment, recorder: RunRecorder) -> bool:
        """Between two steps: stop for a limit, for the end of the host, or for something more urgent?"""
        if recorder.reached:
            await self._write(run_end.stop_at_limit, job, recorder.reached)
            return True
        if self._stopping:
            await self._write(run_end.put_back, job, why="stopping", ageing=self._ageing)
            return True
        if self._arrived.is_set() or job.others_wait:
            self._arrived.clear()
            if await self._write(run_begin.should_yield, job, ageing=self._ageing):
                await self._write(run_end.put_back, job, why="preempted", preempted=True, ageing=self._ageing)
                return True
        return False

    async def _prepare(
        self, job: Assignment, worker: AgentRuntime, tools: dict[str, Tool]
    ) -> tuple[Turn, PromptData, Prompt]:
        # Both at once: the database does not wait for files, nor they for it.
        recalling = asyncio.get_running_loop().run_in_executor(
            None, prompt_memory, worker, job.lead.text, self._loop_context.clock.now()
        )
        gathered = await self._database.read(prompt_data.gather, job, worker, tuple(tools))
        known = await recalling
        self._own_soul = known.own_soul
        gathered = replace(gathered, heard=(*gathered.heard, *known.from_others), beside=bool(known.from_others))
        brief = replace(
            gathered.brief,
            soul=known.soul,
            project=known.project,
            project_changed=self._project_seen not in (None, known.project),
            memory=known.memory,
            memory_left_out=known.left_out,
            memory_considered=known.considered,
            todos=known.todos,
            was_empty=isinstance(self._setbacks.get(job.lead.id), EmptyAnswer),
        )
        self._project_seen = known.project
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
        return turn, gathered, composed

    async def _heard(self, job: Assignment, gathered: PromptData, composed: Prompt) -> Sequence[str]:
        """What the prompt, and what was done before in this work, shows that may come from outside."""
        if not gathered.outside_known:
            return gathered.heard
        before = [result.text for step in job.past for result in step.results.values()]
        shown = "\n".join([composed.system, composed.user, *before])
        return (*gathered.heard, *await self._database.read(outside_words.among, shown))

    async def _failed(self, job: Assignment, worker: AgentRuntime, failure: BackendFailure) -> None:
        waited, chosen = self._waited(None if self._answered else job.lead.waits_since), self._settings
        longest, tries = chosen.longest_wait, chosen.tries
        match after(failure, failures=job.lead.failures, waited=waited, longest=longest, tries=tries):
            case Retry(wait, counts):
                if isinstance(failure, Overloaded) and worker.credential:
                    # At least as long as by itself: that others get through does not make it come back sooner.
                    wait = max(wait, self._loop_context.limiter.opens_in(worker.credential))
                self._setbacks[job.lead.id] = failure
                await self._write(run_end.retry_later, job, failure, wait=wait, counts=counts)
            case GiveUp(state):
                self._setbacks.pop(job.lead.id, None)
                if isinstance(failure, Overloaded):
                    failure = Overloaded(self._too_long(failure.message), hint=failure.hint)
                await self._write(run_end.give_up, job, failure, state)

    async def _without_key(self, job: Assignment, worker: AgentRuntime, failure: NoKey) -> None:
        """Its key was taken away meanwhile: the work goes back and waits for it, unless it would be tried at once."""
        if worker.lacks_key and worker.lacks_key():
            await self._write(run_end.put_back, job, why=failure.message, ageing=self._ageing)
        else:  # in a program that embeds us there is nobody to store one
            hint = failure.hint if worker.lacks_key else "set it in the environment of this program"
            await self._failed(job, worker, Permanent(failure.message, hint=hint))

    def _wording(self, job: Assignment, worker: AgentRuntime, kit: AgentKit) -> Wording | None:
        if not worker.wording or kit.words is None:
            return None
        asking = partial(self._one_request, worker.wording_credential)
        allowed = partial(self._has_budget, job)
        return Wording(kit.words, worker.wording, job.run, allowed, asking, partial(self._charge, job))

    def _charge(self, job: Assignment, usage: Usage, model: str) -> None:
        self._database.write(run_begin.charge_lost, job, usage, model, now=self._loop_context.now())

    def _context(self, job: Assignment, worker: AgentRuntime, kit: AgentKit) -> ToolContext:
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
            libraries=self._loop_context.registry.libraries,
            definition=worker.definition,
            env=worker.definition.env,
            home_of=lambda agent: self._loop_context.registry.worker(agent).home,
            waits=lambda agent: wait.what if (wait := self._waits.of(agent)) else "",
            said=run_begin.said_in(job),
            wording=self._wording(job, worker, kit),
        )

    def _terms(self, workspace: str | None) -> Terms:
        worker = self._loop_context.registry.worker(self.fence.agent, workspace)
        return Terms(worker.name, worker.definition.backend, terms_model(worker), worker.limits)

    @asynccontextmanager
    async def _gate(self, credential: str) -> AsyncIterator[None]:
        self._given = await self._loop_context.limiter.enter(credential)
        try:
            yield
        finally:
            self._leave_gate()

    def _leave_gate(self) -> None:
        given, self._given = self._given, None
        if given is not None:
            self._loop_context.limiter.leave(given)

    @asynccontextmanager
    async def _one_request(self, credential: str) -> AsyncIterator[None]:
        """One request to a model, through the gate of its key. That is left before any tool is called."""
        limiter = self._loop_context.limiter
        given = self._given = self._pass_for(credential)
        try:
            yield
            self._answered = True
            if given is not None:
                limiter.succeeded(given)
        except Overloaded as failure:
            if credential:  # before we leave: nobody is let in because we were refused
                asked = failure.retry_after and min(failure.retry_after, self._settings.longest_wait)
                limiter.refused(credential, asked or None)
            raise
        finally:
            self._leave_gate()

    def _pass_for(self, credential: str) -> Pass | None:
        """The pass that we came in with, or another one; None for a model without a key."""
        limiter = self._loop_context.limiter
        if self._given is not None and self._given.credential == credential:
            return self._given
        self._leave_gate()
        if not credential:
            return None
        if (given := limiter.enter_at_once(credential)) is None:
            opens = limiter.opens_in(credential)
            raise Overloaded(CLOSED if opens else NARROW, retry_after=opens or None)
        return given

    def _may_call(self) -> bool:
        return self._given is None or self._loop_context.limiter.still_open(self._given)

    async def _write(self, change: Callable[..., T], *args: object, **kwargs: object) -> T:
        return await self._database.write(change, *args, now=self._loop_context.now(), **kwargs)

    async def _sleep(self, seconds: float) -> None:
        """Sleep for so many seconds, or until something arrives."""
        await sleep_unless(self._arrived, self._loop_context.clock, max(0.001, seconds))


def _refuse_empty(reply: Reply, recorder: RunRecorder) -> None:
    """No text and no call is a model that failed. After calls it is an agent that has done its work, and is silent."""
    if reply.text.strip() or recorder.has_acted:
        return
    recorder.spent(reply.usage)
    raise EmptyAnswer("its answer was empty", hint="try again, or use another model")


async def _first_of(turn: asyncio.Future[object], arrived: asyncio.Event, clock: Clock, seconds: float | None) -> None:
    """Until it is our turn, something arrives, or so many seconds are over (None: never)."""
    either: set[asyncio.Future[Any]] = {turn, asyncio.ensure_future(sleep_unless(arrived, clock, seconds))}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in either - {turn}:
            each.cancel()


def _is_cancelled(error: BaseException) -> bool:
    """Does somebody want us to end? A backend or a tool may also raise this without anybody's having asked for it."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and bool(task.cancelling())


async def _kit_of(worker: AgentRuntime) -> AgentKit:
    """What the agent works with, made now if it was not needed before."""
    try:
        if worker.kit.made is None:
            return await asyncio.to_thread(worker.kit.get)
        return worker.kit.made
    except AgentWorkerError as error:
        raise Permanent(error.message, hint=error.hint) from None


async def _tools(job: Assignment, kit: AgentKit) -> dict[str, Tool]:
    """All it has for this work. Those of others stand behind ours, whatever they are called."""
    others = await kit.more_tools() if kit.more_tools else ()
    return {t.name: t for t in (*others, *kit.tools) if t.personal or job.workspace}


def terms_model(worker: AgentRuntime) -> str:
    return worker.definition.model or worker.definition.backend
