"""After a run: has its agent become somebody else, or should it? By rules, and after the answer is stored.

Looks only at what the person said directly and at what the agent answered; files a proposal, or under `auto` makes an
addition, and tells the person when a principle is not kept any more. A model, where one is named for it, says whether
principles were kept that rules cannot see, and words proposals. It never fails the work that it looks at.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

from agent_worker.agents.recorder import RecorderContext
from agent_worker.agents.registry import AgentRuntime
from agent_worker.agents.run_begin import Assignment
from agent_worker.core.clock import Clock
from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.later import dataclass
from agent_worker.database.database import ProjectDatabase
from agent_worker.identity import drift, judging, observer, past_work
from agent_worker.identity.evolution import MOST_A_WEEK, Bearer, Evolution
from agent_worker.identity.observer import Noticed
from agent_worker.identity.past_work import PastTurn
from agent_worker.identity.soul import CurrentSoul
from agent_worker.memory.judging import Judge, keep_answers, kept_answers, summary
from agent_worker.memory.memory import MemoryEntry

log = logging.getLogger(__name__)

QUIET = timedelta(days=14)  #: in which a person is not told the same again


def evolution_of(worker: AgentRuntime, database: ProjectDatabase, clock: Clock) -> Evolution | None:
    """What may be done to the soul of an agent; None when it has no files of its own."""
    if worker.home is None:
        return None
    definition = worker.definition
    bearer = Bearer(worker.agent, definition.name, worker.home, definition.soul, definition.evolution)
    return Evolution(bearer, database, clock)


@dataclass(frozen=True, slots=True)
class RunSeen:
    """What is known of a run without looking anything up."""

    tools: Collection[str]  #: that return nothing which others wrote
    used: Collection[str] | None  #: the tools it called; None where a program has tools of its own
    own_soul: bool  #: its agent has become somebody else than its definition says, or may have


async def observe(
    worker: AgentRuntime, job: Assignment, seen: RunSeen, recording: RecorderContext, judge: Judge | None = None
) -> None:
    """Look back from the run that has just ended."""
    evolution = evolution_of(worker, recording.database.of(worker.project), recording.clock)
    if evolution is None or not _is_worth_a_look(worker, job, seen, judge):
        return
    try:
        await _observe(evolution, job, seen.tools, judge)
    except (AgentWorkerError, OSError) as error:
        log.warning("nobody could observe %s in %s: %s", worker.name, job.run, error)


async def shorten(worker: AgentRuntime, judge: Judge | None, long: Sequence[MemoryEntry]) -> None:
    """Have a long memory entry summarised that a prompt had no space for, so that the next one can show it."""
    if judge is None or worker.home is None or not long:
        return
    try:
        await summary(judge, worker.home, long[0])
    except (AgentWorkerError, OSError) as error:
        log.warning("%s of %s could not be shortened: %s", long[0].key, worker.name, error)


def _is_worth_a_look(worker: AgentRuntime, job: Assignment, seen: RunSeen, judge: Judge | None) -> bool:
    record = worker.definition.soul.record()
    if seen.own_soul or seen.used is None or drift.probes_of(record) or (judge and record.get("principles")):
        return True
    return job.lead.sender == past_work.PERSON and observer.may_tell(job.lead.text, seen.used)


async def _observe(evolution: Evolution, job: Assignment, tools: Collection[str], judge: Judge | None) -> None:
    soul, agent = await evolution.settled(), evolution.bearer.agent
    await _tell_changes(evolution, soul)
    if not judge and not drift.probes_of(soul.record) and job.lead.sender != past_work.PERSON:
        return
    lately = await evolution.database.read(past_work.turns, agent, limit=2, with_tools=1)
    if not lately or lately[-1].run != job.run:
        return
    answers = await _with_answers(evolution, soul, lately[-1], judge)
    if drift.is_missed(drift.probes_of(soul.record, answers), lately[-1]):
        await _tell_drift(evolution, soul, answers)
    before = lately[-2].answer if len(lately) > 1 else ""
    if evolution.bearer.policy == "disabled" or not observer.is_telling(lately[-1], before):
        return
    look_back = {"limit": observer.LOOK_BACK, "with_tools": 2 * observer.HABIT_OF}
    turns = await evolution.database.read(past_work.turns, agent, **look_back)
    known = await evolution.known()
    for each in await asyncio.to_thread(observer.notice, turns, soul, known, trusted=tools):
        await _act_on(evolution, each, job.run, judge)


async def _with_answers(
    evolution: Evolution, soul: CurrentSoul, turn: PastTurn, judge: Judge | None
) -> Mapping[str, str]:
    """What a model has said of answers, this one too: of principles that nothing else measures."""
    home = evolution.bearer.home
    known = await asyncio.to_thread(kept_answers, home)
    if judge is None or not (questions := drift.questions_in(soul.record, turn, known)):
        return known
    if new := await judging.probed(judge, questions, turn.answer):
        await asyncio.to_thread(keep_answers, home, new)
    return {**known, **new}


async def _act_on(evolution: Evolution, noticed: Noticed, run: str, judge: Judge | None) -> None:
    now = evolution.clock.now()
    unasked = evolution.bearer.policy == "auto" and noticed.said and noticed.change.verb == "add"
    if unasked and await evolution.made_unasked(now) < MOST_A_WEEK:
        await evolution.grow(noticed.change, evidence=noticed.evidence)
    else:
        change = await judging.worded(judge, noticed.change, noticed.evidence) if noticed.said else noticed.change
        await evolution.propose(change, by="guard", evidence=noticed.evidence, run=run)


async def _tell_drift(evolution: Evolution, soul: CurrentSoul, answers: Mapping[str, str]) -> None:
    who = evolution.bearer
    look_back = {"limit": drift.LOOK_BACK, "with_tools": drift.LOOK_BACK}
    turns = await evolution.database.read(past_work.turns, who.agent, **look_back)
    for each in await asyncio.to_thread(drift.adherence, soul, turns, answers):
        if each.fell:
            kept = f"in {each.kept} of its last {each.of} answers ({each.probe})"
            told = f"{who.name} no longer keeps a principle, or only {kept}:\n\n    {each.principle}\n\n"
            told += f"Look at it: agent-worker agent soul {who.name} drift"
            await evolution.tell(each.principle, told, quiet=QUIET)


async def _tell_changes(evolution: Evolution, soul: CurrentSoul) -> None:
    share, name = drift.changed_lately(soul, evolution.clock.now()), evolution.bearer.name
    if share > drift.FIFTH:
        told = f"The soul of {name} has changed by {share:.0%} within 30 days.\n"
        told += f"Look at it: agent-worker agent soul {name} log"
        await evolution.tell("changes", told, quiet=drift.PERIOD)
