"""What a coding program does with its own tools, kept beside the calls of ours: nobody waits for it."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from agent_worker.agents.call_texts import CallTexts, as_json
from agent_worker.agents.run_begin import Assignment
from agent_worker.core.clock import Clock
from agent_worker.database.database import ProjectDatabase
from agent_worker.tools.tool import Call, Result
from agent_worker.work import steps

log = logging.getLogger(__name__)

KEPT_OF_PROGRAM = 8000  # characters of arguments and results that are kept of what a program does by itself
CALLS_OF_PROGRAM = 2000  # that are kept of one run


class ProgramCalls:
    def __init__(self, job: Assignment, database: ProjectDatabase, clock: Clock, texts: CallTexts) -> None:
        self._job = job
        self._database = database
        self._clock = clock
        self._texts = texts
        self._begun: dict[str, int] = {}  # calls that have begun → their number in the run
        self._count = 0

    def begin(self, call: Call, step: int) -> None:
        if self._count >= CALLS_OF_PROGRAM:
            return
        number = self._begun[call.id] = self._count
        self._count += 1
        self._written(
            self._database.write(
                steps.begin_program_call,
                work=self._job.lead.work,
                run=self._job.run,
                n=number,
                step=step,
                tool=call.tool[:200],
                arguments=self._texts.beginning(as_json(call), KEPT_OF_PROGRAM),
                now=self._clock.micros(),
            )
        )

    def end(self, call: Call, result: Result) -> None:
        if (number := self._begun.pop(call.id, None)) is None:
            return
        self._written(
            self._database.write(
                steps.end_program_call,
                work=self._job.lead.work,
                run=self._job.run,
                n=number,
                result=self._texts.beginning(result.text, KEPT_OF_PROGRAM),
                ok=result.ok,
                now=self._clock.micros(),
            )
        )

    def _written(self, writing: asyncio.Future[None]) -> None:
        writing.add_done_callback(partial(say_if_lost, "what a program did by itself"))


def say_if_lost(what: str, written: asyncio.Future[None]) -> None:
    if not written.cancelled() and (error := written.exception()):
        log.warning("%s could not be stored: %s", what, error)
