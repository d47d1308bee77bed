"""The recorder of one run: what its backend shows, keeps and calls is stored here.

A stored tool and the record of its result are one transaction. A tool that reaches outside is noted before and
after; if its outcome is unknown after a crash the model is told so, unless the tool says it may be repeated.
Calls that a model asks for in one breath run side by side where that makes no difference, else in the order asked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import field, replace
from functools import partial
from typing import Any

from agent_worker.agents.call_record import CallRecord, CallTexts, ProgramCalls, call_digest, say_if_lost
from agent_worker.agents.prompt_texts import PromptTexts
from agent_worker.agents.run_begin import Assignment, Terms, charge_lost, keep_step
from agent_worker.agents.run_origin import RunOrigin
from agent_worker.backends.backend import PastStep, Reply, Suspended, Usage
from agent_worker.core.clock import Clock
from agent_worker.core.disk_space import amount
from agent_worker.core.errors import AgentWorkerError, BadInput, Fenced, StorageFault
from agent_worker.core.events import Bus, Called, Delta, Returned
from agent_worker.core.failpoints import failpoint
from agent_worker.core.later import dataclass, pattern
from agent_worker.core.redaction import Passage, Redactor
from agent_worker.core.text import plural
from agent_worker.database.database import Database
from agent_worker.files.folder import disk_explained
from agent_worker.tools import images
from agent_worker.tools.tool import Call, Result, RunIdentity, Tool, ToolContext, ToolSpec
from agent_worker.work import inbox
from agent_worker.work.limits import Reached
from agent_worker.work.steps import CallPosition

log = logging.getLogger(__name__)

_NO = pattern(rf"{inbox.NO}\b[\s:,.]*")


@dataclass(frozen=True, slots=True)
class RecorderContext:
    """What a recorder needs to store and to show: database, bus, clock, redactor."""

    database: Database
    bus: Bus
    clock: Clock
    redact: Redactor = field(default_factory=Redactor)  #: takes secrets out of what is shown, and what tools print
    prompts: PromptTexts = field(default_factory=PromptTexts)  #: keeps what models are sent
    always: Callable[[str, str], bool] = lambda project, digest: False  #: is just this call allowed for good? Blocks
    kept: Callable[[], Awaitable[None]] | None = None  #: until what tools wrote into the agents' files is kept
    tell_written: Callable[[], Awaitable[None]] | None = None  #: to other hosts; None where there are none


class RunRecorder:
    def __init__(
        self,
        job: Assignment,
        terms: Terms,
        context: ToolContext,
        tools: Mapping[str, Tool],
        recording: RecorderContext,
        asking: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        self._job = job
        self._terms = terms
        self._context = context
        self._tools = tools
        self._recording = recording
        self.asking = asking  #: around each request to the model
        self._database = recording.database.of(job.project)
        self.reached: Reached | None = None  #: a limit met by the last step
        self._done = {n: PastStep(step.reply, dict(step.results)) for n, step in enumerate(job.past)}
        self._keeping: asyncio.Future[Reached | None] | None = None  # the model's answer, on its way to the disk
        self._noted = ""  # by what it reads from outside, as far as that is stored
        self._saying = Passage(recording.redact)
        self._turns = CallOrder()
        self._texts = CallTexts(recording.redact)
        self._origin = RunOrigin(tools, job.past)
        self._record = CallRecord(job, recording.clock, recording.redact, self._origin)
        self._own = ProgramCalls(job, self._database, recording.clock, self._texts)
        seen = [image for step in job.past for result in step.results.values() for image in result.images]
        self._pictured = sum(len(image.base64) for image in seen)
        self.has_acted = any(step.reply.calls for step in job.past)  #: this work has called a tool, ours or its own

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools of this run, as a model sees them."""
        return tuple(tool.spec for tool in self._tools.values())

    @property
    def own_tools(self) -> frozenset[str]:
        """The tools of this run that return nothing which others wrote outside our workspaces."""
        return frozenset(name for name, tool in self._tools.items() if not tool.foreign)

    @property
    def outside(self) -> str:
        """The first tool by which this work has read what others wrote outside our workspaces; '' when none has."""
        return self._origin.outside

    def hear(self, heard: Sequence[str], passed_on: str, *, beside: bool = False) -> None:
        """Note what the prompt shows that came from outside, and who passed this very work on from there.

        `beside`: it shows memory that others wrote.
        """
        self._origin.hear(heard)
        self._origin.reads_by(passed_on)
        self._context = replace(self._context, beside=beside)

    @property
    def heard(self) -> tuple[str, ...]:
        return self._origin.heard

    def origin_of(self, answer: str) -> str:
        """The tool by which the words of an answer may come from outside, also by earlier work; '' when they do not."""
        return self._origin.of(answer)

    @property
    def identity(self) -> RunIdentity:
        return self._context.identity

    @property
    def step(self) -> int:
        """The step that is being worked on: a program is at one all the time."""
        return max(self._done, default=len(self._job.past) - 1) + 1

    @property
    def done(self) -> tuple[PastStep, ...]:
        """The completed steps of this work so far, those of earlier runs too."""
        return tuple(self._done.values())

    def say(self, text: str) -> None:
        self._utter(self._saying.add(text))

    def finish_saying(self) -> None:
        """Show the text that was held back because it might have become a secret: it is whole now."""
        self._utter(self._saying.end())

    async def all_said(self) -> None:
        """Show what is left of the text, on other hosts too, before they hear that it was the answer."""
        self.finish_saying()
        if self._recording.tell_written:
            await self._recording.tell_written()

    def _utter(self, text: str) -> None:
        if text:
            self._recording.bus.publish(Delta(**self._about(), text=text))

    def show(self, call: Call, result: Result | None = None) -> None:
        self._origin.reads_by(call.tool)  # a program's own tools read what they like
        self._show(call, result, own=True)
        if result is None:
            self._own.begin(call, self.step)
        else:
            self._own.end(call, result)

    def _show(self, call: Call, result: Result | None = None, *, own: bool = False) -> None:
        self.has_acted = True
        self.finish_saying()
        redact = self._recording.redact
        about = self._about() | {"tool": redact(call.tool), "call": redact(call.id), "own": own}
        if result is None:
            self._recording.bus.publish(Called(**about, arguments=self._texts.arguments(call)))
        else:
            self._recording.bus.publish(Returned(**about, text=self._texts.shown(result.text), ok=result.ok))

    def preface(self, text: str) -> None:
        writing = self._recording.prompts.add_preface(
            self._database, self._job, text, now=self._recording.clock.micros()
        )
        writing.add_done_callback(partial(say_if_lost, "what a program was told first"))

    def spent(self, usage: Usage) -> None:
        self.charge(usage, self._terms.model)

    def charge(self, usage: Usage, model: str) -> None:
        """Charge for an answer of any model that comes to nothing, also after the end of the run."""
        charged = self._database.write(charge_lost, self._job, usage, model, now=self._recording.clock.micros())
        # Nobody waits for it: whoever calls is on its way out.
        charged.add_done_callback(partial(say_if_lost, "what a failed answer has cost"))

    async def keep(self, step: int, reply: Reply) -> None:
        self.finish_saying()
        failpoint("step.after_call")
        self._done[step] = PastStep(reply, {})
        self._origin.asks(reply)
        outside = "" if self._noted else self.outside
        now = self._recording.clock.micros()
        self._keeping = self._database.write(keep_step, self._job, step, reply, self._terms, outside=outside, now=now)
        self.reached = await self._keeping
        self._noted = self._noted or outside
        failpoint("step.after_persist")

    async def call(self, step: int, call: Call) -> Result:
        self._show(call)
        tool = self._tools.get(call.tool)
        async with self._turns.take(alone=tool is not None and tool.in_turn) as turn:
            result = await self._make(self._place(step, call), call, tool, turn)
        if step in self._done:
            self._done[step].results[call.id] = result
        self._show(call, result)
        return result

    def _place(self, step: int, call: Call) -> CallPosition:
        return CallPosition(self._job.lead.work, step, self._recording.redact(call.id))

    async def _make(self, place: CallPosition, call: Call, tool: Tool | None, turn: CallSlot) -> Result:
        try:
            if tool is None:
                raise BadInput(f"there is no tool {call.tool!r}; you have: {', '.join(self._tools)}")
            arguments = tool.check(call.arguments)
            if tool.approve and (denied := await self._leave_to(place, call)):
                return denied
            await turn.comes()
            if tool.stored:
                result = await self._database.write(
                    self._record.perform, place, call, tool, arguments, self._context_for(place)
                )
                return _or_suspend(result)
            with disk_explained():
                return await self._reach_out(place, call, tool, arguments)
        except (Fenced, StorageFault, Suspended):
            raise
        except AgentWorkerError as error:
            text = f"{error.message} ({error.hint})" if error.hint else error.message
            return await self._database.write(self._record.note, place, call, Result(text, ok=False))
        except Exception as error:  # boundary: a broken tool is told to the model, it does not end the work
            log.exception("tool %s failed", call.tool)
            text = f"{call.tool} broke: {type(error).__name__}: {error}"
            return await self._database.write(self._record.note, place, call, Result(text, ok=False))

    async def _leave_to(self, place: CallPosition, call: Call) -> Result | None:
        """Ask the person about a call: None when they said yes, a result when they said no. Until then the work is
        suspended.
        """
        digest = call_digest(self._job.name, call)
        if await asyncio.to_thread(self._recording.always, self._job.project, digest):
            return None
        answer = _or_suspend(await self._database.write(self._record.ask_leave, place, call, digest))
        if answer.text in (inbox.YES, inbox.YES_TO_ALL):
            return None
        reason = _NO.sub("", answer.text)
        refusal = Result(f"The person said no. {reason}".strip(), ok=False)
        return await self._database.write(self._record.note, place, call, refusal)

    async def _reach_out(self, place: CallPosition, call: Call, tool: Tool, arguments: dict[str, Any]) -> Result:
        # Handed over behind the answer, without waiting for it: as a rule both are in one commit.
        known = await self._database.write(self._record.start, place, call, tool)
        if self._keeping:
            await self._keeping  # raises when the answer could not be stored: then nothing of it is made
        if known is not None:
            return known
        failpoint("call.before")
        made = await tool.function(self._context_for(place), **arguments)
        failpoint("call.after")
        if self._recording.kept:
            await self._recording.kept()
        result = self._with_few_images(made) if isinstance(made, Result) else Result(str(made))
        return await self._database.write(self._record.note, place, call, result)

    def _with_few_images(self, result: Result) -> Result:
        """Leave out images that would make the next request larger than a provider takes, and say so."""
        kept = []
        for image in result.images:
            if self._pictured + len(image.base64) <= images.MOST_OF_WORK:
                self._pictured += len(image.base64)
                kept.append(image)
        if len(kept) == len(result.images):
            return result
        left_out = plural(len(result.images) - len(kept), "image")
        said = f"[{left_out} not shown: one piece of work is shown {amount(images.MOST_OF_WORK)} of them at most]"
        return replace(result, text=f"{result.text}\n{said}", images=tuple(kept))

    def _context_for(self, place: CallPosition) -> ToolContext:
        return replace(self._context, key=place.key, outside=self.outside, heard=self.heard)

    def _about(self) -> dict[str, Any]:
        job = self._job
        about = {"project": job.project, "workspace": job.workspace, "agent": job.fence.agent}
        return about | {"name": job.name, "run": job.run}


def _or_suspend(result: Result | None) -> Result:
    if result is None:
        raise Suspended
    return result


@dataclass(slots=True, eq=False)
class CallSlot:
    alone: bool
    before: list[CallSlot]  #: those that this one waits for
    over: asyncio.Event = field(default_factory=asyncio.Event)
    rests: bool = False  #: it waits for a person

    async def comes(self) -> None:
        """Wait until the calls before this one are over. If one of them waits for a person, so does this: it may build
        on that one's effect.
        """
        for turn in self.before:
            await turn.over.wait()
            if turn.rests:
                raise Suspended


class CallOrder:
    """Calls of one run are made side by side, except those that change what others look at."""

    def __init__(self) -> None:
        self._taken: list[CallSlot] = []

    @asynccontextmanager
    async def take(self, *, alone: bool) -> AsyncGenerator[CallSlot]:
        """Take a turn: one that is `alone` comes after all that were taken before it, any other after those that are
        alone.
        """
        mine = CallSlot(alone, [turn for turn in self._taken if alone or turn.alone])
        self._taken.append(mine)
        try:
            yield mine
        except Suspended:
            mine.rests = True
            raise
        finally:
            self._taken.remove(mine)
            mine.over.set()
