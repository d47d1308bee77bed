"""Asks a model small questions, where a project or a workflow names one for them: metered, and within a budget.

Of one run it is two requests at most, one of them for what the run teaches if its agent learns by itself, and each kind
of question once. Whenever the model cannot answer, has not passed the examination for that kind of question, a limit is
reached or the budget is spent, '' is the answer, and the rules hold. What was asked is noted in the audit.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import field

from agent_worker.agents.examination import Examiner, Standing, exams
from agent_worker.backends.backend import LoneSink, Model, Turn, Usage
from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.later import dataclass
from agent_worker.memory.judging import Task

log = logging.getLogger(__name__)

BYTES = 3  #: of a token, at least: English has four, code and other scripts fewer
REQUESTS = 2  #: of one run, with the one that learns


@dataclass(slots=True)
class JudgeBudget:
    """What one run may still ask its judge, in requests and tokens."""

    tokens: int
    requests: int = REQUESTS

    def take(self, tokens: int) -> bool:
        if self.requests < 1 or tokens > self.tokens:
            return False
        self.requests -= 1
        self.tokens -= tokens
        return True


@dataclass(slots=True)
class ModelJudge:
    model: Model
    name: str  #: of the model
    run: str
    budget: JudgeBudget
    allowed: Callable[[], Awaitable[bool]]  #: whether no limit is reached
    asking: Callable[[], AbstractAsyncContextManager[None]]  #: the gate of the key
    charge: Callable[[Usage, str], None]
    note: Callable[[str], Awaitable[None]]  #: in the audit
    examiner: Examiner | None  #: None: it is known to judge well
    asked: set[Task] = field(default_factory=set)

    async def ask(self, task: Task, about: str, system: str, prompt: str, *, answer: int) -> str:
        if task in self.asked:
            return ""
        found = await self.examiner.standing(task) if self.examiner else None
        if found is None or found.state == "passed":
            return await self._asked(task, about, system, prompt, answer)
        if self.examiner and found.state == "open":
            await self._sit(self.examiner, found)
        return ""

    async def _sit(self, examiner: Examiner, found: Standing) -> None:
        paper = exams()[found.task].papers[found.paper]
        about = f"examination, paper {found.paper + 1}"
        if told := await self._asked(found.task, about, paper.system, paper.prompt, paper.answer):
            await examiner.hand_in(found, told)

    async def _asked(self, task: Task, about: str, system: str, prompt: str, answer: int) -> str:
        if not await self.allowed() or not self.budget.take(tokens_of(system, prompt, answer)):
            return ""
        self.asked.add(task)
        turn = Turn(run=self.run, system=system, prompt=prompt, model=self.name, max_tokens=answer)
        try:
            async with self.asking():
                reply = await self.model.reply(turn, (), LoneSink(lambda usage: self.charge(usage, self.name)))
        except AgentWorkerError as error:
            log.warning("%s (%s) was left to the rules in %s: %s", task, about, self.run, error)
            self.budget.requests = 0  # whoever cannot be reached now is not tried again with the next question
            return ""
        self.charge(reply.usage, self.name)
        await self.note(f"{task}: {about}")
        return reply.text.strip()


def tokens_of(system: str, prompt: str, answer: int) -> int:
    """What a request takes at most, with all that its answer may hold."""
    return len(f"{system}{prompt}".encode(errors="replace")) // BYTES + answer
