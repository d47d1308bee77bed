"""The model that rounds may ask about memories that are near each other, where a project names one: once a round.

What it has said of a pair is kept beside the agent's index, so that a pair is asked about once and a look ahead costs
the same as the round itself. It has a budget of its own, is charged to the agent's day, and passes the gate of its key.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial

from agent_worker.agents.examination import Examiner
from agent_worker.agents.model_judge import JudgeBudget, ModelJudge, tokens_of
from agent_worker.agents.registry import AgentRuntime
from agent_worker.backends.backend import Usage
from agent_worker.core.errors import AgentWorkerError
from agent_worker.database.database import Transaction
from agent_worker.files.root import Root
from agent_worker.memory import audit, judging
from agent_worker.memory.judging import PAIRS, VERDICTS, Pair, Verdict
from agent_worker.service.service import Service
from agent_worker.work import limits

ROUND = "round"  #: what stands for a run in the ledger


async def judged_pairs(
    service: Service, worker: AgentRuntime, home: Root, pairs: Sequence[Pair]
) -> Mapping[Pair, Verdict]:
    """What a model says, or has said, of these pairs; nothing where there is none."""
    if not worker.judge.model or not pairs:
        return {}
    kept = await asyncio.to_thread(judging.kept_answers, home)
    new = [pair for pair in pairs if _id(pair) not in kept]
    judge = await _judge(service, worker) if new and worker.judge.round_tokens else None
    most = 3 * (worker.judge.round_tokens - tokens_of(PAIRS, "", 0)) // 2  # half of it is left for the answer
    found = await judging.verdicts(judge, new, most=max(judging.ASKED, most))
    if found:
        await asyncio.to_thread(judging.keep_answers, home, {_id(pair): said for pair, said in found.items()})
    known = {_id(pair): pair for pair in pairs}
    said = {known[id]: verdict for id in known for verdict in VERDICTS if kept.get(id) == verdict}
    return {**said, **found}


def _id(pair: Pair) -> str:
    return judging.question_id("pairs", *(json.dumps(asdict(each), sort_keys=True) for each in pair))


async def _judge(service: Service, worker: AgentRuntime) -> ModelJudge | None:
    try:
        kit = await asyncio.to_thread(worker.kit.get)
    except AgentWorkerError:
        return None
    if kit.words is None:
        return None
    database = service.runtime.database.of(worker.project)

    async def allowed() -> bool:
        return await database.read(_has_budget, worker, now=service.now())

    async def note(what: str) -> None:
        done = audit.AuditEntry(worker.agent, "guard", "judged", what)
        await database.write(audit.note, done, now=service.now())

    def charge(usage: Usage, model: str) -> None:
        database.write(_charge, worker.agent, usage, model, now=service.now())

    budget = JudgeBudget(worker.judge.round_tokens, 1)
    asking = partial(service.runtime.supervisor.key_pass().one_request, worker.judge.credential)
    examiner = Examiner(database, service.runtime.clock, worker.judge.model, worker.judge.credential, worker.agent)
    return ModelJudge(kit.words, worker.judge.model, ROUND, budget, allowed, asking, charge, note, examiner)


def _has_budget(tx: Transaction, worker: AgentRuntime, *, now: int) -> bool:
    spent = limits.spent(tx, limits.Payer(worker.agent, ""), hop=0, fruitless=0, now=now)
    return limits.reached(worker.limits.money_only, spent) is None


def _charge(tx: Transaction, agent: str, usage: Usage, model: str, *, now: int) -> None:
    use = usage.plausible
    item = limits.Charge(ROUND, -1, model, use.input, use.cached, use.output, use.usd, use.guessed)
    limits.charge_judged(tx, limits.Payer(agent, ""), item, now=now)
