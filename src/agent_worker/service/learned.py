"""What an agent learned from its runs lately, what a model decided about it, and what that has cost."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from agent_worker.agents import examination
from agent_worker.agents.loader import LoadedProject
from agent_worker.agents.registry import AgentRuntime
from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction
from agent_worker.memory import audit, memory
from agent_worker.service.service import Service
from agent_worker.work import limits

LATELY = timedelta(days=7)
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class LearnedEntry:
    key: str
    value: str  #: as it stands now; '' when it was forgotten or replaced since
    file: str  #: quarantine: held back until a person has looked at it
    run: str
    at: int


@dataclass(frozen=True, slots=True)
class Learned:
    with_model: str  #: in words; '' when it learns nothing by itself
    days: int
    count: int  #: of what was learned in these days
    entries: list[LearnedEntry]  #: the newest of it
    requests: int
    tokens: int
    usd: float
    estimated: bool  #: that money rests on a guess


async def learned_lately(service: Service, loaded: LoadedProject, worker: AgentRuntime | None) -> Learned | None:
    """What an agent has learned lately; None for an agent without files of its own."""
    if worker is not None:
        await service.see_files(worker.agent)
    if worker is None or worker.home is None:
        return None
    since = service.now() - LATELY // timedelta(microseconds=1)
    rows, cost = await service.read(loaded, _look, worker.agent, since=since)
    try:
        held = await asyncio.to_thread(memory.load, worker.home, only=memory.QUARANTINE)
        there = {
            each.key: each for each in (*held.entries, *(await asyncio.to_thread(memory.load, worker.home)).entries)
        }
    except (AgentWorkerError, OSError):
        there = {}
    newest = list({row["about"]: row for row in rows}.values())[-_SHOWN:]
    return Learned(
        with_model=_model_in_words(worker),
        days=LATELY.days,
        count=len({row["about"] for row in rows}),
        entries=[_entry(row, there.get(row["about"])) for row in reversed(newest)],
        requests=cost["runs"],
        tokens=cost["tokens"],
        usd=cost["micros"] / 1e6,
        estimated=bool(cost["estimated"]),
    )


@dataclass(frozen=True, slots=True)
class Judged:
    """Small questions about an agent that a model decided or worded, lately."""

    with_model: str  #: where it works by itself; '' when rules decide there
    days: int
    requests: int
    tokens: int
    usd: float
    estimated: bool
    questions: list[str]  #: the newest
    examined: list[str]  #: what the model may decide and what not, once it was tried


async def judged_lately(service: Service, loaded: LoadedProject, worker: AgentRuntime | None) -> Judged | None:
    """What a model has decided for an agent lately; None where no model is named for that, and none was asked."""
    if worker is None:
        return None
    since = service.now() - LATELY // timedelta(microseconds=1)
    rows, cost = await service.read(loaded, _look_at_judged, worker.agent, since=since)
    if not worker.judge.model and not rows and not cost["runs"]:
        return None
    return Judged(
        with_model=worker.judge.model,
        days=LATELY.days,
        requests=cost["runs"],
        tokens=cost["tokens"],
        usd=cost["micros"] / 1e6,
        estimated=bool(cost["estimated"]),
        questions=[row["about"] for row in reversed(rows[-_SHOWN:])],
        examined=await _examined(service, loaded, worker),
    )


async def _examined(service: Service, loaded: LoadedProject, worker: AgentRuntime) -> list[str]:
    if not worker.judge.model:
        return []
    judge = examination.judge_id(worker.judge.model, worker.judge.credential)
    found = await service.read(loaded, examination.standings, judge, now=service.now())
    return [each.told for each in found.values() if each.of]


def _look_at_judged(tx: Transaction, agent: str, *, since: int) -> tuple[list[Row], Row]:
    asked = [row for row in audit.of_deeds(tx, agent, "judged") if row["at"] >= since]
    return asked, limits.small_cost(tx, agent, limits.JUDGING, since=since)


def _look(tx: Transaction, agent: str, *, since: int) -> tuple[list[Row], Row]:
    learned = [row for row in audit.of_deeds(tx, agent, "learned") if row["at"] >= since]
    return learned, limits.small_cost(tx, agent, limits.LEARNING, since=since)


def _entry(row: Row, known: memory.MemoryEntry | None) -> LearnedEntry:
    value, file = (known.value, known.file) if known else ("", "")
    return LearnedEntry(row["about"], value, file, row["run"], row["at"])


def _model_in_words(worker: AgentRuntime) -> str:
    wanted = worker.definition.auto_memory
    if not wanted:
        return ""
    return wanted.model or ("the cheapest of its provider" if worker.definition.backend == "sdk" else "")
