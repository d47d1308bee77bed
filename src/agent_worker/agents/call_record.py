"""The record of one run's calls, and how much of a call people get to see.

What our tools do is written by transactions, each of which first proves that the run is still ours; a stored tool and
its result are one of them. What a coding program does with its own tools is kept beside that, and nobody waits for it.
How a call comes about is in recorder.py.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from agent_worker.agents.run_begin import Assignment, hold_run, stored_result
from agent_worker.agents.run_origin import RunOrigin
from agent_worker.core.clock import Clock
from agent_worker.core.item_kinds import Kind
from agent_worker.core.redaction import Redactor
from agent_worker.core.text import plural
from agent_worker.database.database import ProjectDatabase, Transaction
from agent_worker.tools import images
from agent_worker.tools.tool import Call, Question, Result, Tool, ToolContext
from agent_worker.work import inbox, steps
from agent_worker.work.steps import CallPosition

log = logging.getLogger(__name__)

SHOWN = 2000  # characters of arguments and results that whoever looks on gets to see
_MOST = 50  # arguments of a call that are shown
RESULT_LIMIT = 64 * 1024  # characters of one result that a model gets to see
KEPT_OF_PROGRAM = 8000  # characters of arguments and results that are kept of what a program does by itself
CALLS_OF_PROGRAM = 2000  # that are kept of one run
UNKNOWN = Result(
    "The outcome of this call is unknown: it had begun when the work was interrupted. "
    "Check what it did before you make it again.",
    ok=False,
)


class CallRecord:
    def __init__(self, job: Assignment, clock: Clock, redact: Redactor, origin: RunOrigin) -> None:
        self._job = job
        self._clock = clock
        self._redact = redact
        self._texts = CallTexts(redact)
        self._origin = origin

    def perform(
        self,
        tx: Transaction,
        place: CallPosition,
        call: Call,
        tool: Tool,
        arguments: dict[str, Any],
        context: ToolContext,
    ) -> Result | None:
        """Make a call; None when a person was asked and has not answered."""
        hold_run(tx, self._job)
        if known := _done(tx, place):
            return known
        self._origin.note_call(tx, self._job.run, call)
        made = tool.function(tx, context, **arguments)
        if not isinstance(made, Question):
            return self._write_down(tx, place, call, Result(made))
        options = f" ({' / '.join(made.options)})" if made.options else ""
        details = {"question": made.text, "options": list(made.options)}
        answer = self._ask(tx, place, "question", f"{self._job.name} asks: {made.text}{options}", details)
        return self._write_down(tx, place, call, answer) if answer else None

    def ask_leave(self, tx: Transaction, place: CallPosition, call: Call, digest: str) -> Result | None:
        if inbox.allowed(tx, place.work, call.tool):
            return Result(inbox.YES)
        arguments = {name: self._texts.readable(value) for name, value in call.arguments.items()}
        text = f"{self._job.name} wants to use {call.tool}: {self._texts.shown(in_words(arguments))}"
        details = {"tool": call.tool, "arguments": arguments}
        return self._ask(tx, place, "approval", text, details, digest)

    def _ask(
        self,
        tx: Transaction,
        place: CallPosition,
        kind: Kind,
        text: str,
        details: Mapping[str, Any],
        digest: str = "",
    ) -> Result | None:
        hold_run(tx, self._job)
        if (answer := inbox.answer_about(tx, kind, place.key)) is not None:
            return Result(answer)
        inbox.ask(
            tx,
            kind,
            workspace=self._job.workspace,
            agent=self._job.fence.agent,
            ref=place.key,
            text=text,
            now=self._clock.micros(),
            details=details,
            digest=digest,
        )
        return None

    def start(self, tx: Transaction, place: CallPosition, call: Call, tool: Tool) -> Result | None:
        """The outcome of this call if it is known already; None means that it must be made."""
        hold_run(tx, self._job)
        row = steps.call_at(tx, place)
        if row is None:
            self._origin.note_call(tx, self._job.run, call)
            self._put(tx, place, call, None)
            return None
        if row["state"] == "done":
            return stored_result(row)
        return None if tool.repeatable else self._write_down(tx, place, call, UNKNOWN)

    def note(self, tx: Transaction, place: CallPosition, call: Call, result: Result) -> Result:
        hold_run(tx, self._job)
        return self._write_down(tx, place, call, result)

    def _write_down(self, tx: Transaction, place: CallPosition, call: Call, result: Result) -> Result:
        result = replace(result, text=capped(self._redact(result.text)))
        self._origin.note_result(tx, call, result.text)
        self._put(tx, place, call, result)
        return result

    def _put(self, tx: Transaction, place: CallPosition, call: Call, result: Result | None) -> None:
        steps.put_call(
            tx,
            place,
            run=self._job.run,
            tool=call.tool,
            arguments=as_json(call),
            now=self._clock.micros(),
            result=result.text if result else None,
            images=images.dump(result.images) if result and result.images else "",
            ok=result.ok if result else True,
        )


def _done(tx: Transaction, place: CallPosition) -> Result | None:
    row = steps.call_at(tx, place)
    return stored_result(row) if row and row["state"] == "done" else None


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


class CallTexts:
    def __init__(self, redact: Redactor) -> None:
        self._redact = redact

    def shown(self, text: str) -> str:
        """The beginning of a text. Secrets are taken out before it is cut: half a secret is not recognised."""
        return self._redact(text[: 4 * SHOWN])[:SHOWN]

    def arguments(self, call: Call) -> dict[str, Any]:
        """The arguments of a call by their names, for whoever looks on."""
        return {self._redact(name): self._argument(value) for name, value in [*call.arguments.items()][:_MOST]}

    def _argument(self, value: object) -> Any:
        if value is None or isinstance(value, bool | int | float):
            return value
        if not isinstance(value, str) and len(text := json.dumps(value, ensure_ascii=False)) <= SHOWN:
            with suppress(ValueError):  # what was cut out of it may have held it together
                return json.loads(self._redact(text))
        return self.readable(value)

    def readable(self, value: object) -> str:
        """An argument as a person reads it: text as it is, with its line breaks; its beginning, if it is long."""
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        more = f" [… {plural(len(text) - SHOWN, 'more character')}]" if len(text) > SHOWN else ""
        return f"{self.shown(text)}{more}"

    def beginning(self, text: str, most: int) -> str:
        """The beginning of a text that is stored; it says how much was cut."""
        if len(text) <= most:
            return text
        return f"{self._redact(text[: 4 * most])[:most]}\n[cut: {plural(len(text) - most, 'more character')}]"


def capped(text: str) -> str:
    if len(text) <= RESULT_LIMIT:
        return text
    return f"{text[:RESULT_LIMIT]}\n[cut: {plural(len(text) - RESULT_LIMIT, 'more character')}]"


def in_words(arguments: Mapping[str, str]) -> str:
    """A call as one reads it: its only argument as it is, several with their names."""
    if len(arguments) == 1:
        return next(iter(arguments.values()))
    return ", ".join(f"{name}: {value}" for name, value in arguments.items())


def as_json(call: Call) -> str:
    return json.dumps(call.arguments, ensure_ascii=False)


def call_digest(agent: str, call: Call) -> str:
    """The hash that stands for exactly this call by this agent."""
    exact = json.dumps([agent, call.tool, call.arguments], sort_keys=True)
    return hashlib.sha256(exact.encode("utf-8", "surrogatepass")).hexdigest()
