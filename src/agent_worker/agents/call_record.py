"""The record of one run's calls, as the transactions that write it: a stored tool and its result are one of them.

Each first proves that the run is still ours. How a call comes about is in recorder.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent_worker.agents.call_texts import CallTexts, as_json, capped, in_words
from agent_worker.agents.run_begin import Assignment, hold_run, stored_result
from agent_worker.core.clock import Clock
from agent_worker.core.redaction import Redactor
from agent_worker.database.database import Transaction
from agent_worker.tools import images
from agent_worker.tools.tool import Call, Question, Result, Tool, ToolContext
from agent_worker.work import inbox, steps
from agent_worker.work.steps import CallPosition

UNKNOWN = Result(
    "The outcome of this call is unknown: it had begun when the work was interrupted. "
    "Check what it did before you make it again.",
    ok=False,
)


class CallRecord:
    def __init__(self, job: Assignment, clock: Clock, redact: Redactor) -> None:
        self._job = job
        self._clock = clock
        self._redact = redact
        self._texts = CallTexts(redact)

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
        kind: inbox.Kind,
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
            images=images.dump(result.images) if result else "",
            ok=result.ok if result else True,
        )


def _done(tx: Transaction, place: CallPosition) -> Result | None:
    row = steps.call_at(tx, place)
    return stored_result(row) if row and row["state"] == "done" else None
