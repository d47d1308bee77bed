"""What one run has seen from outside our workspaces, and which of its words may therefore come from there.

The one place that decides it, whatever it came through: a tool that reads what others wrote, work that was passed on
from there, a line of the prompt, or something that a colleague wrote down and one of our own tools shows again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agent_worker.backends.backend import PastStep, Reply
from agent_worker.database.database import Transaction
from agent_worker.memory import outside_words
from agent_worker.memory.facts import passes_on, sentences
from agent_worker.tools.tool import Call, Tool
from agent_worker.work import run_rows

BEFORE = "what was read before"
MOST_HEARD = 200  # texts that are remembered of one run


class RunOrigin:
    def __init__(self, tools: Mapping[str, Tool], past: Sequence[PastStep]) -> None:
        self._tools = tools
        self.outside = ""  #: the first tool by which the run has read what others wrote, or who passed its work on
        self.heard: tuple[str, ...] = ()  #: what it was shown that earlier work may have from there
        for step in past:
            self.asks(step.reply)

    def asks(self, reply: Reply) -> None:
        """Note that a model asks for these calls: what they return may have been written by others."""
        self.outside = self.outside or next((call.tool for call in reply.calls if self._is_foreign(call)), "")

    def reads_by(self, what: str) -> None:
        """Note the first thing, such as a tool, by which this run got words from outside."""
        self.outside = self.outside or what

    def hear(self, texts: Iterable[str]) -> None:
        self.heard = tuple(dict.fromkeys((*self.heard, *texts)))[-MOST_HEARD:]

    def of(self, text: str) -> str:
        """Why words of this run may come from outside; '' when they do not."""
        if self.outside or not self.heard:
            return self.outside
        return BEFORE if any(passes_on(each, said) for each in self.heard for said in sentences(text)) else ""

    def note_call(self, tx: Transaction, run: str, call: Call) -> None:
        """Label words from outside before a tool of ours writes them down: they keep the label wherever they are read
        again."""
        if self._is_foreign(call) or not (self.outside or self.heard):
            return
        texts = list(_strings(call.arguments))
        if why := next((why for text in texts if (why := self.of(text))), ""):
            run_rows.note_outside(tx, run, why)
            outside_words.mark(tx, run, texts)

    def note_result(self, tx: Transaction, call: Call, result: str) -> None:
        """Note sentences from outside that one of our own tools has shown to the run."""
        if not self._is_foreign(call):
            self.hear(outside_words.among(tx, result))

    def _is_foreign(self, call: Call) -> bool:
        return call.tool in self._tools and self._tools[call.tool].foreign


def _strings(value: Any) -> Iterator[str]:
    """All texts in the arguments of a call."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, Sequence):
        for each in value:
            yield from _strings(each)
