"""A run between its beginning and its end: assemble the prompt → step → (yield?) → … → what follows.

Decides between two steps only. What follows a failure is decided in retries.py; every change of state is a transaction
in run_begin.py or run_end.py.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TypeVar

from agent_worker.agents import prompt, prompt_data, run_begin, run_end
from agent_worker.agents.admission import Admission
from agent_worker.agents.examination import Examiner
from agent_worker.agents.held_files import guarding
from agent_worker.agents.learning import LESSON, LearningMeans, WorkDone, learn
from agent_worker.agents.loop_context import LoopContext
from agent_worker.agents.model_judge import REQUESTS, JudgeBudget, ModelJudge
from agent_worker.agents.observing import RunSeen, observe, shorten
from agent_worker.agents.prompt import Prompt, PromptText
from agent_worker.agents.prompt_data import Begun, PromptData, prompt_memory
from agent_worker.agents.recorder import RunRecorder
from agent_worker.agents.registry import AgentKit, AgentRuntime
from agent_worker.agents.retries import GiveUp, Retry, after
from agent_worker.agents.run_begin import Assignment, Terms
from agent_worker.backends.backend import Finished, Reply, Suspended, Turn, Unfinished, Usage
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
from agent_worker.core.later import pattern
from agent_worker.memory import outside_words
from agent_worker.memory.memory import MemoryEntry
from agent_worker.tools.tool import RunIdentity, Tool, ToolContext
from agent_worker.work.agent_rows import Fence
from agent_worker.work.queue import Ageing

T = TypeVar("T")


class RunSteps:
    """Does the runs of one agent, one after the other."""

    def __init__(self, fence: Fence, loop_context: LoopContext, admission: Admission) -> None:
        self.recorder: RunRecorder | None = None  #: through which the run that is under way acts
        self.stopping = False  #: end after the current step
        self.asking: dict[str, str | None] = {}  #: instruction that waits for a person → its workspace
        self._fence = fence
        self._loop_context = loop_context
        self._admission = admission
        self._database = loop_context.recording.database.of(fence.project)
        self._project_seen: tuple[PromptText, ...] | None = None  # what its repository told it in its last run
        self._judge: ModelJudge | None = None  # of the run that is under way
        self._long: tuple[MemoryEntry, ...] = ()  # entries that its prompt had no space for
        self._own_soul = False  # of the run that is under way: its agent is more than its definition says

    async def do(self, begun: Begun) -> bool:
        """Do one run. False: nothing else was queued when it ended, and whatever is queued later is announced to us."""
        job, worker = begun.job, self.worker(begun.job.workspace)
        terms = self.terms(job.workspace)
        try:
            if job.unreadable:
                raise Permanent(job.unreadable.message, hint=job.unreadable.hint, remedy=job.unreadable.remedy)
            kit = await _kit_of(worker)
            self._judge = self._judge_for(job, worker, kit)
            tools = await _tools(job, worker, kit)
            recorder = self.recorder = RunRecorder(
                job,
                terms,
                self._context(job, worker, kit),
                tools,
                self._loop_context.recording,
                partial(self._admission.key_pass.one_request, worker.credential),
            )
            if self._loop_context.personal:
                await self._loop_context.personal.begin(worker)
            turn, gathered, composed = await self._prepare(begun, worker, tools)
            heard = await self._heard(job, gathered, composed)
            recorder.hear(heard, gathered.passed_on, beside=gathered.beside)
            context = self._loop_context
            keeping = context.recording.prompts.keep(self._database, job, composed, turn.tools, now=context.now())
            try:  # it is written before anything that comes of the run: nobody has to wait for it
                async with guarding(job, worker, context.recording, context.registry.journal):
                    return await self._steps(job, worker, kit, turn, recorder, gathered.seen)
            finally:
                await keeping
        except (Fenced, StorageFault):
            raise
        except Suspended:
            self.asking[job.lead.id] = job.workspace  # first: the answer may be faster than we
            await self._write(run_end.suspend, job)
        except NoKey as failure:
            await self._without_key(job, worker, failure)
        except BackendFailure as failure:
            await self._failed(job, worker, failure)
        except (Exception, asyncio.CancelledError) as error:  # boundary: whatever else it raises is its crash, not ours
            if _is_cancelled(error):
                raise
            remedy = error.remedy if isinstance(error, AgentWorkerError) else ""
            await self._failed(job, worker, Crashed(f"{type(error).__name__}: {error}", remedy=remedy))
        return True

    async def _steps(
        self, job: Assignment, worker: AgentRuntime, kit: AgentKit, turn: Turn, recorder: RunRecorder, seen: int
    ) -> bool:
        async with aclosing(kit.backend.work(turn, recorder)) as outcomes:
            async for outcome in outcomes:
                match outcome:
                    case Finished(step, reply):
                        _refuse_empty(reply, recorder, {each.name for each in turn.tools})
                        await recorder.all_said()
                        outside = recorder.origin_of(reply.text)
                        more = await self._write(
                            run_end.finish, job, step, reply, terms_model(worker), seen=seen, outside=outside
                        )
                        failpoint("finish.after_commit")
                        await self._learn(job, worker, kit, recorder, reply.text)
                        await self._look_back(job, worker, recorder)
                        await self._loop_context.public.follow(worker, job.workspace)
                        return more
                    case Unfinished():
                        if await self._leaves(job, recorder):
                            return True
        raise Crashed("the backend stopped without an answer")

    async def _look_back(self, job: Assignment, worker: AgentRuntime, recorder: RunRecorder) -> None:
        recording, seen = self._loop_context.recording, self._seen(worker, recorder)
        await observe(worker, job, seen, recording, self._judge)
        await shorten(worker, self._judge, self._long)

    def _seen(self, worker: AgentRuntime, recorder: RunRecorder) -> RunSeen:
        used = {call.tool for step in recorder.done for call in step.reply.calls}
        is_program = worker.definition.backend not in ("sdk", "mock")
        return RunSeen(recorder.own_tools, None if is_program else used, self._own_soul)

    async def _learn(
        self, job: Assignment, worker: AgentRuntime, kit: AgentKit, recorder: RunRecorder, final: str
    ) -> None:
        recording = self._loop_context.recording
        said, outside = run_begin.said_in(job), bool(recorder.outside)
        done = WorkDone(job.run, recorder.done, final, said, outside=outside, heard=recorder.heard)
        asking = self._admission.key_pass.one_request(worker.learning_credential)
        means = LearningMeans(recording, partial(self._has_budget, job), asking, recorder.charge, self._judge)
        lesson = await learn(worker, kit.learner, done, means)
        if lesson:
            await self._write(run_begin.charge_lesson, job, lesson.reply, lesson.model)
            texts = (lesson.asked.system, lesson.asked.prompt, recording.redact(lesson.reply.text))
            await recording.prompts.add_lesson(self._database, job, lesson.model, texts, now=self._loop_context.now())

    async def _has_budget(self, job: Assignment) -> bool:
        return await self._database.read(
            run_begin.has_budget, job, self.terms(job.workspace), now=self._loop_context.now()
        )

    async def _leaves(self, job: Assignment, recorder: RunRecorder) -> bool:
        """Between two steps: stop for a limit, for the end of the host, or for something more urgent?"""
        if recorder.reached:
            await self._write(run_end.stop_at_limit, job, recorder.reached)
            return True
        if self.stopping:
            await self._write(run_end.put_back, job, why="stopping", ageing=self.ageing)
            return True
        if self._admission.arrived.is_set() or job.others_wait:
            self._admission.arrived.clear()
            if await self._write(run_begin.should_yield, job, ageing=self.ageing):
                await self._write(run_end.put_back, job, why="preempted", preempted=True, ageing=self.ageing)
                return True
        return False

    @property
    def ageing(self) -> Ageing:
        chosen = self._admission.settings
        return Ageing(round(chosen.ageing * 1e6), chosen.preemptions)

    async def _prepare(
        self, begun: Begun, worker: AgentRuntime, tools: dict[str, Tool]
    ) -> tuple[Turn, PromptData, Prompt]:
        job, gathered = begun.job, begun.data
        if gathered is None:
            gathered = await self._database.read(prompt_data.gather, job, worker)
        known = await asyncio.to_thread(prompt_memory, worker, job.lead.text, self._loop_context.clock.now())
        self._own_soul, self._long = known.own_soul, known.long
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
            was_empty=isinstance(self._admission.setbacks.get(job.lead.id), EmptyAnswer),
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
        waited, chosen = (
            self._admission.waited(None if self._admission.key_pass.answered else job.lead.waits_since),
            self._admission.settings,
        )
        longest, tries = chosen.longest_wait, chosen.tries
        match after(failure, failures=job.lead.failures, waited=waited, longest=longest, tries=tries):
            case Retry(wait, counts):
                if isinstance(failure, Overloaded) and worker.credential:
                    # At least as long as by itself: that others get through does not make it come back sooner.
                    wait = max(wait, self._loop_context.limiter.opens_in(worker.credential))
                self._admission.setbacks[job.lead.id] = failure
                await self._write(run_end.retry_later, job, failure, wait=wait, counts=counts)
            case GiveUp(state):
                self._admission.setbacks.pop(job.lead.id, None)
                if isinstance(failure, Overloaded):
                    failure = Overloaded(self._admission.too_long(failure.message), hint=failure.hint)
                await self._write(run_end.give_up, job, failure, state)

    async def _without_key(self, job: Assignment, worker: AgentRuntime, failure: NoKey) -> None:
        """Put work back whose key was taken away meanwhile; it waits for the key, unless it would be tried at once."""
        if worker.lacks_key and worker.lacks_key():
            await self._write(run_end.put_back, job, why=failure.message, ageing=self.ageing)
        else:  # in a program that embeds us there is nobody to store one
            hint = failure.hint if worker.lacks_key else "set it in the environment of this program"
            await self._failed(job, worker, Permanent(failure.message, hint=hint, remedy=failure.remedy))

    def _judge_for(self, job: Assignment, worker: AgentRuntime, kit: AgentKit) -> ModelJudge | None:
        terms = worker.judge
        if not terms.model or kit.words is None:
            return None
        learns = bool(worker.definition.auto_memory) and kit.learner is not None and worker.home is not None
        budget = JudgeBudget(terms.tokens - LESSON, REQUESTS - 1) if learns else JudgeBudget(terms.tokens)
        return ModelJudge(
            kit.words,
            terms.model,
            job.run,
            budget,
            partial(self._has_budget, job),
            partial(self._admission.key_pass.one_request, terms.credential),
            partial(self._charge, job),
            partial(self._write, run_begin.note_judged, job),
            Examiner(self._database, self._loop_context.clock, terms.model, terms.credential, job.fence.agent),
        )

    def _charge(self, job: Assignment, usage: Usage, model: str) -> None:
        self._database.write(run_begin.charge_judged, job, usage, model, now=self._loop_context.now())

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
            copies=self._loop_context.copies,
            write_talk=partial(self._loop_context.write_talk, job.project, worker.agent),
            env=worker.definition.env,
            home_of=lambda agent: self._loop_context.registry.worker(agent).home,
            waits=lambda agent: wait.what if (wait := self._loop_context.waits.of(agent)) else "",
            said=run_begin.said_in(job),
            judge=self._judge,
        )

    def worker(self, workspace: str | None) -> AgentRuntime:
        """Our agent as it works there."""
        return self._loop_context.registry.worker(self._fence.agent, workspace)

    def terms(self, workspace: str | None) -> Terms:
        if self._loop_context.hosting and not self._loop_context.registry.works_in(self._fence.agent, workspace):
            raise NotJoined(workspace or "")
        worker = self.worker(workspace)
        return Terms(worker.name, worker.definition.backend, terms_model(worker), worker.limits)

    async def _write(self, change: Callable[..., T], *args: object, **kwargs: object) -> T:
        return await self._database.write(change, *args, now=self._loop_context.now(), **kwargs)


class NotJoined(Exception):
    """Raised for work in a workspace that another host has opened, and whose members are not known here yet."""

    def __init__(self, workspace: str) -> None:
        super().__init__(f"the members of workspace {workspace} are not known here")
        self.workspace = workspace


#: How a model that cannot call tools, or whose server does not understand it, writes a call into its answer. Nothing
#: in it is tried a second time (`*+`): an answer may be a hundred thousand brackets.
_WRITTEN_CALL = pattern(
    r'\W*+(?:json|(tool_calls?|function))?\W*+name"\s*+:\s*+"(\w+)"\s*+,\s*+"(?:arguments|parameters)"\s*+:',
    re.IGNORECASE,
)


def _refuse_empty(reply: Reply, recorder: RunRecorder, tools: Collection[str]) -> None:
    """Treat an answer without text and without calls as a failure of the model; after calls, an agent may be silent.

    A call that is written out as text is no answer either: nobody made it, and nobody wants to read it. If it names no
    tool, it may be JSON that somebody asked for, unless it says itself that it is a call.
    """
    called = written_call(reply.text, tools)
    if recorder.has_acted or (reply.text.strip() and not called):
        return
    recorder.spent(reply.usage)
    if called:
        hint = "its model, or the server that runs it, cannot call tools: use another one"
        raise EmptyAnswer(f"it wrote a call of {called} as text and said nothing else", hint=hint)
    raise EmptyAnswer("its answer was empty", hint="try again, or use another model")


def written_call(text: str, tools: Collection[str]) -> str:
    """The tool that an answer calls in words only; empty if it does not."""
    written = _WRITTEN_CALL.match(text)
    return written[2] if written and (written[1] or written[2] in tools) else ""


def _is_cancelled(error: BaseException) -> bool:
    """Whether somebody asked this task to end. A backend or a tool may also raise CancelledError unasked."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and bool(task.cancelling())


async def _kit_of(worker: AgentRuntime) -> AgentKit:
    """What the agent works with, made now if it was not needed before."""
    try:
        if worker.kit.made is None:
            return await asyncio.to_thread(worker.kit.get)
        return worker.kit.made
    except AgentWorkerError as error:
        raise Permanent(error.message, hint=error.hint, remedy=error.remedy) from None


async def _tools(job: Assignment, worker: AgentRuntime, kit: AgentKit) -> dict[str, Tool]:
    """The tools an agent has for this work. A tool of others never replaces one of ours, whatever it is called."""
    others = await kit.more_tools() if kit.more_tools else ()
    in_team = job.workspace is not None and worker.knows_workspace
    return {t.name: t for t in (*others, *kit.tools) if t.personal or in_team}


def terms_model(worker: AgentRuntime) -> str:
    return worker.definition.model or worker.definition.backend
