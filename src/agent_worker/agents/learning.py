"""Auto-memory: after a run that did something, a cheap model draws out what is worth remembering.

It sees only what the agent itself said and did in that run: no recalled memory, no message or file of others.
What it finds goes into decisions.yaml, patterns.yaml and work-log.yaml, each entry with its run and date. But an agent
may repeat what it has read: what is learned from work that another agent asked for, or that read from outside, is held
back in quarantine.yaml until a person releases it. It is metered like any step and never fails the work it learns from.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime

from agent_worker.agents.recorder import RecorderContext
from agent_worker.agents.registry import AgentRuntime
from agent_worker.backends.backend import LoneSink, Model, PastStep, Reply, Turn, Usage
from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.later import dataclass
from agent_worker.memory import audit, gate, memory
from agent_worker.tools.tool import Result

log = logging.getLogger(__name__)

FILES = {"decision": "decisions", "pattern": "patterns", "outcome": "work-log"}
MOST = 5  # entries of one run
TRANSCRIPT = 12_000  # characters

SYSTEM = (
    "You read what a worker said and did in one piece of work and note what will still matter in a month: "
    "decisions that were made, patterns that were found, outcomes. Most work leaves nothing; then answer []. "
    f"Answer with a JSON list of at most {MOST} objects "
    '{"kind": "decision" | "pattern" | "outcome", "key": a few words, "value": one or two sentences}, nothing else.'
)


@dataclass(frozen=True, slots=True)
class Lesson:
    model: str
    reply: Reply  #: what the model said, with what it cost
    entries: tuple[memory.MemoryEntry, ...]  #: what it was about, kept or not


async def learn(
    worker: AgentRuntime,
    learner: Model | None,
    run: str,
    done: Sequence[PastStep],
    final: str,
    *,
    said: Sequence[tuple[str, str]] = (),
    outside: bool = False,
    heard: Sequence[str] = (),
    recording: RecorderContext,
    asking: AbstractAsyncContextManager[None],
    charge: Callable[[Usage, str], None],
) -> Lesson | None:
    """None when there is nothing to learn from, or nothing to learn with. Never raises for a bad answer.

    `asking` is the gate of the model's key, where this request waits for nobody: at a closed one nothing is learned.
    `charge` is told what an answer of which model has used that came to nothing.
    """
    wanted = worker.definition.auto_memory
    if learner is None or not wanted or worker.home is None or not did_something(done):
        return None
    turn = Turn(run=run, system=SYSTEM, prompt=transcript(done, final), model=wanted.model or "", max_tokens=1000)
    sink = LoneSink(lambda usage: charge(usage, turn.model))
    try:
        async with asking:
            reply = await learner.reply(turn, (), sink)
    except AgentWorkerError as error:
        log.warning("%s could not learn from %s: %s", worker.name, run, error)
        return None
    entries = read_answer(recording.redact(reply.text), run, recording.clock.now())
    for entry in entries:
        try:
            by = gate.author(entry.value, said, outside=outside, heard=heard)
            await _keep(worker, replace(entry, by=by), recording)
        except (AgentWorkerError, OSError) as error:
            log.warning("%s could not keep what it learned from %s: %s", worker.name, run, error)
    return Lesson(turn.model, reply, entries)


async def _keep(worker: AgentRuntime, entry: memory.MemoryEntry, recording: RecorderContext) -> None:
    assert worker.home is not None
    if entry.by not in (memory.USER, memory.SELF):
        held = replace(entry, file=memory.QUARANTINE)
        return await asyncio.to_thread(memory.hold_back, worker.home, held, when=recording.clock.now())
    kept = await asyncio.to_thread(gate.keep, worker.home, entry, now=recording.clock.now())
    if kept.outcome in gate.UNWRITTEN:
        return
    done = audit.AuditEntry(agent=worker.agent, who=worker.name, deed="learned", about="", run=entry.source[0])
    await recording.database.of(worker.project).write(gate.record, kept, done, now=recording.clock.micros())


def did_something(done: Sequence[PastStep]) -> bool:
    """Whether a call in this run worked: one without any was only talk."""
    return any(result.ok for step in done for result in step.results.values())


def transcript(done: Sequence[PastStep], final: str) -> str:
    """The agent's own words and deeds. Results are left out: they are what others wrote."""
    lines = []
    for step in done:
        if step.reply.text.strip():
            lines.append(step.reply.text.strip())
        for call in step.reply.calls:
            result = step.results.get(call.id)
            lines.append(f"[{call.tool} {json.dumps(call.arguments, ensure_ascii=False)[:500]}: {_went(result)}]")
    return "\n".join([*lines, final])[-TRANSCRIPT:]


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
