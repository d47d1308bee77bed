"""One loop per agent: take → do → take the next, or wait.

It waits on events and never polls. How it waits for its turn is in admission.py, what it does with it in run_steps.py.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from agent_worker.agents import prompt_data
from agent_worker.agents.admission import Admission, Keyless, Later, NoSpace
from agent_worker.agents.hosting import LINGER
from agent_worker.agents.loop_context import LoopContext
from agent_worker.agents.prompt_data import Begun
from agent_worker.agents.recorder import RunRecorder
from agent_worker.agents.run_begin import NotYet, Pending, Suspect
from agent_worker.agents.run_steps import NotJoined, RunSteps
from agent_worker.core.errors import Fenced
from agent_worker.core.failpoints import failpoint
from agent_worker.work.agent_rows import Fence

SPACE_WAIT = 5.0  # seconds


class Loop:
    def __init__(self, fence: Fence, loop_context: LoopContext) -> None:
        self.fence = fence
        self.run: str | None = None  #: what it works on now
        self.workspace: str | None = None  #: where that is
        self.free = asyncio.Event()  #: it works on nothing
        self.free.set()
        self._loop_context = loop_context
        self._database = loop_context.recording.database.of(fence.project)
        self._admission = Admission(fence, loop_context)
        self._steps = RunSteps(fence, loop_context, self._admission)

    @property
    def recorder(self) -> RunRecorder | None:
        """The recorder of the run that is under way; None between runs."""
        return self._steps.recorder

    def wake(self) -> None:
        self._admission.arrived.set()

    def settled(self, instruction: str) -> None:
        """Note that the person has answered what this work asked, or that it was cancelled."""
        self._steps.asking.pop(instruction, None)

    def stop(self) -> None:
        """Ask the loop to end after the current step."""
        self._steps.stopping = True
        self._admission.arrived.set()

    async def work(self) -> None:
        while not self._steps.stopping:
            # Clear before looking: what arrives while we look must not be slept through.
            self._admission.arrived.clear()
            match await self._next():
                case NotYet() as later:
                    self._admission.tell_setback(later)
                    await self._admission.sleep(later.wait / 1e6)
                case NoSpace(work, reason):
                    self._admission.wait(work, "disk", reason)
                    await self._admission.sleep(SPACE_WAIT)
                case Keyless(work, missing):
                    await self._admission.ask_for_key(work, missing)
                    await self._admission.arrived.wait()
                case None:
                    self._rest()
                    if not await self._arrives():
                        return

    async def _arrives(self) -> bool:
        """Wait for work. False: none came for so long that another host may have the agent."""
        if self._loop_context.hosting is None:
            return await self._admission.arrived.wait()
        await self._admission.sleep(LINGER)
        return self._admission.arrived.is_set()

    def _rest(self) -> None:
        """Say that there is nothing to do, or that we wait for a person's answer."""
        self._admission.setbacks.clear()
        if not self._steps.asking:
            return self._loop_context.waits.end(self.fence.agent)
        instruction, workspace = next(iter(self._steps.asking.items()))
        self._admission.wait(
            Pending(instruction, workspace), "person", "it has asked you something: agent-worker inbox"
        )

    async def _next(self) -> Later | bool | None:
        """Do one piece of work, if there is one. True: there may be more; None: there is nothing to do."""
        worker = self._loop_context.registry.worker(self.fence.agent)
        if (found := await self._admission.has_key()) is not True:
            return found
        async with AsyncExitStack() as places:
            if (found := await self._admission.come_in(places, worker)) is not True:
                return found
            async with AsyncExitStack() as slot:
                if (found := await self._admission.take_slot(slot, worker)) is not True:
                    return found
                done = await self._take_and_do()
            if isinstance(done, Suspect):
                # Whoever runs when the process dies is blamed for it. The last try is made by itself.
                async with self._loop_context.slots.all(worker):
                    done = await self._take_and_do(alone=True)
        assert not isinstance(done, Suspect)
        return done

    async def _take_and_do(self, *, alone: bool = False) -> Later | Suspect | bool | None:
        if self._steps.stopping or not self._admission.key_pass.may_call():
            return True
        space = self._loop_context.space.look()
        if space.state == "stopped":  # nobody tells us when there is space again
            found = await self._admission.look()
            return NoSpace(found, space.told()) if isinstance(found, Pending) else found
        failpoint("lease.before")
        try:
            begun = await self._database.write(
                prompt_data.begin,
                self.fence,
                self._steps.terms,
                self._steps.worker,
                ageing=self._steps.ageing,
                alone=alone,
                longest=self._admission.longest_told,
                now=self._loop_context.now(),
            )
        except NotJoined as error:
            assert self._loop_context.hosting is not None
            await self._loop_context.hosting.join(self.fence.project, error.workspace)
            if not self._loop_context.registry.works_in(self.fence.agent, error.workspace):
                raise
            return True
        failpoint("lease.after")
        if not isinstance(begun, Begun):
            return begun
        self._loop_context.waits.end(self.fence.agent)
        self.run, self.workspace = begun.job.run, begun.job.workspace
        self._admission.key_pass.answered = False
        self.free.clear()
        try:
            return await self._steps.do(begun) or None
        except Fenced:
            return True  # cancelled, or no longer ours: begin() finds out which
        finally:
            self.run = self.workspace = None
            self.free.set()
