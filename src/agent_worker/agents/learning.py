"""Auto-memory: after a run that did something, a cheap model draws out what is worth remembering.

It sees only what the person said to the agent directly, and what the agent itself said and did in that run: no
recalled memory, no message or file of others. One small request, within the limits of the work it learns from.
What it finds goes into decisions.yaml, patterns.yaml and work-log.yaml, each entry with its run and date. But an agent
may repeat what it has read: what is learned from work that another agent asked for, or that read from outside, is held
back in quarantine.yaml until a person releases it. It is metered like any step and never fails the work it learns from.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime

from agent_worker.agents.model_judge import tokens_of
from agent_worker.agents.recorder import RecorderContext
from agent_worker.agents.registry import AgentRuntime, Learner
from agent_worker.backends.backend import LoneSink, PastStep, Reply, Turn, Usage
from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.later import dataclass, pattern
from agent_worker.memory import audit, claims, memory
from agent_worker.memory.facts import says_too_little
from agent_worker.memory.judging import Judge, Pair, Verdict
from agent_worker.tools.tool import Result

log = logging.getLogger(__name__)

FILES = {"decision": "decisions", "pattern": "patterns", "outcome": "work-log"}
MOST = 5  # entries of one run
_SENTENCE = pattern(r"[^.!?\n]+[.!?]*")
#: Bytes of what is asked, of these of what the person said, and tokens of the answer: about 1,000 tokens in all. With
#: a small question about the same run (model_judge.py) it is 1,500 at most.
ASKED, TOLD, ANSWER = 1_800, 700, 300

SYSTEM = (
    "You read what a person told a worker and what it said and did in one piece of work, and note what will still "
    "matter in a month: what the person wants or told of their work, decisions that were made, patterns that were "
    "found, outcomes. Most work leaves nothing; then answer []. "
    f"Answer with a JSON list of at most {MOST} objects "
    '{"kind": "decision" | "pattern" | "outcome", "key": a few words, "value": one or two sentences}, nothing else.'
)
#: Tokens that learning from a run takes at most.
LESSON = tokens_of(SYSTEM, "x" * (ASKED + 60), ANSWER)


@dataclass(frozen=True, slots=True)
class Lesson:
    model: str
    asked: Turn
    reply: Reply  #: what the model said, with what it cost
    entries: tuple[memory.MemoryEntry, ...]  #: what it was about, kept or not


@dataclass(frozen=True, slots=True)
class WorkDone:
    """The run that is learned from."""

    run: str
    steps: Sequence[PastStep]
    final: str  #: its last words
    said: Sequence[tuple[str, str]] = ()  #: by whom, what: the messages it answered
    outside: bool = False  #: it read from outside
    heard: Sequence[str] = ()  #: what others said in it


@dataclass(frozen=True, slots=True)
class LearningMeans:
    """What learning from a run works with: how to record, whom to ask, and whether it may."""

    recording: RecorderContext
    allowed: Callable[[], Awaitable[bool]]  #: whether no limit is reached
    asking: AbstractAsyncContextManager[None]  #: the gate of the model's key: at a closed one nothing is learned
    charge: Callable[[Usage, str], None]  #: is told what an answer of which model has used that came to nothing
    judge: Judge | None = None


async def learn(worker: AgentRuntime, learner: Learner | None, done: WorkDone, means: LearningMeans) -> Lesson | None:
    """Learn from a run; None when there is nothing to learn from, or no model to learn with. Never raises for a bad
    answer."""
    wanted, run = worker.definition.auto_memory, done.run
    told = [text for who, text in done.said if who == memory.USER]
    if learner is None or not wanted or worker.home is None or not is_worth_a_look(done.steps, told):
        return None
    if not await means.allowed():
        return None
    try:
        model = wanted.model or await learner.choose()
        prompt = transcript(told, done.steps, done.final)
        turn = Turn(run=run, system=SYSTEM, prompt=prompt, model=model, max_tokens=ANSWER)
        async with means.asking:
            reply = await learner.model.reply(turn, (), LoneSink(lambda usage: means.charge(usage, model)))
    except AgentWorkerError as error:
        log.warning("%s could not learn from %s: %s", worker.name, run, error)
        return None
    recording = means.recording
    found = read_answer(recording.redact(reply.text), run, recording.clock.now())
    entries = tuple(
        replace(each, by=claims.author(each.value, done.said, outside=done.outside, heard=done.heard)) for each in found
    )
    judged = await claims.judged(means.judge, worker.home, entries)
    for entry in entries:
        try:
            await _keep(worker, entry, recording, judged)
        except (AgentWorkerError, OSError) as error:
            log.warning("%s could not keep what it learned from %s: %s", worker.name, run, error)
    return Lesson(model, turn, reply, entries)


async def _keep(
    worker: AgentRuntime, entry: memory.MemoryEntry, recording: RecorderContext, judged: Mapping[Pair, Verdict]
) -> None:
    assert worker.home is not None
    if entry.by not in (memory.USER, memory.SELF):
        held = replace(entry, file=memory.QUARANTINE)
        await asyncio.to_thread(memory.hold_back, worker.home, held, when=recording.clock.now())
        return await _note(worker, recording, claims.ClaimOutcome("new", held))
    kept = await asyncio.to_thread(claims.keep, worker.home, entry, now=recording.clock.now(), judged=judged)
    if kept.outcome not in claims.UNWRITTEN:
        await _note(worker, recording, kept, run=entry.source[0])


async def _note(worker: AgentRuntime, recording: RecorderContext, kept: claims.ClaimOutcome, run: str = "") -> None:
    run = run or kept.entry.source[0]
    done = audit.AuditEntry(agent=worker.agent, who=worker.name, deed="learned", about="", run=run)
    await recording.database.of(worker.project).write(claims.record, kept, done, now=recording.clock.micros())


def is_worth_a_look(done: Sequence[PastStep], told: Sequence[str]) -> bool:
    """Whether a call in this run worked, or the person said something that is more than a greeting or a question."""
    if any(result.ok for step in done for result in step.results.values()):
        return True
    sentences = (each for text in told for each in _SENTENCE.findall(text))
    return any(not each.rstrip().endswith("?") and not says_too_little(each, least=2) for each in sentences)


def transcript(told: Sequence[str], done: Sequence[PastStep], final: str) -> str:
    """What the person said, and the agent's own words and deeds. Results are left out: they are what others wrote."""
    said = _cut("\n".join(each.strip() for each in told), TOLD)
    lines = []
    for step in done:
        if step.reply.text.strip():
            lines.append(step.reply.text.strip())
        for call in step.reply.calls:
            result = step.results.get(call.id)
            lines.append(f"[{call.tool} {json.dumps(call.arguments, ensure_ascii=False)[:300]}: {_went(result)}]")
    worked = _cut("\n".join([*lines, final]), ASKED - TOLD, end=True)
    return f"The person said:\n{said}\n\nThe worker said and did:\n{worked}" if said else worked


def _cut(text: str, size: int, *, end: bool = False) -> str:
    """The beginning of a text, or its end, by bytes: a character of another script than ours costs more tokens."""
    raw = text.encode(errors="replace")
    return (raw[-size:] if end else raw[:size]).decode(errors="ignore")


def read_answer(text: str, run: str, now: datetime) -> tuple[memory.MemoryEntry, ...]:
    """Read what of the model's answer can be kept. Anything malformed counts as nothing."""
    start, end = text.find("["), text.rfind("]")
    try:
        found = json.loads(text[start : end + 1])
    except (ValueError, RecursionError):
        return ()
    entries = []
    for item in found[:MOST] if isinstance(found, list) else ():
        if not isinstance(item, dict) or str(item.get("kind")) not in FILES:
            continue
        key, value = " ".join(str(item.get("key", "")).split()), str(item.get("value", "")).strip()
        if key and value:
            entries.append(
                memory.MemoryEntry(
                    key=key[: memory.LONGEST_KEY],
                    value=value[:1000],
                    file=FILES[item["kind"]],
                    source=(run,),
                    learned=now.isoformat(timespec="seconds"),
                    by=memory.SELF,
                )
            )
    return tuple(entries)


def _went(result: Result | None) -> str:
    return "no result" if result is None else "ok" if result.ok else "failed"
