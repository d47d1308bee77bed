"""With a model: what it adds to the rules where a project names one for small questions, and what that costs.

The everyday claims of data/claims.yaml, put to agents in the real ring by `memory_write`: what is news takes the place
of what was known, what says the same stays one, what only looks alike stays apart. Once by rules alone, and once with
the model, which is asked over HTTP by the same judge as always, within the same budget. It costs a few cents.

    uv run python bench/guard --only with_model --model anthropic/claude-haiku-5-5
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from agent_worker.agents.model_judge import REQUESTS
from agent_worker.compose import RuntimeSettings, open_runtime
from agent_worker.core.clock import SystemClock
from agent_worker.definitions.guard import GuardModel
from agent_worker.files.root import Root
from agent_worker.memory import memory
from agent_worker.service.agents import agent_info
from agent_worker.service.run import RunRequest, serve
from agent_worker.service.service import Service
from guard import claims
from guard.promise import Bar, Promise

KINDS = {
    "updates": "news that took its place",
    "changed": "news in other words that took its place",
    "again": "facts told again that stayed one",
    "reworded": "facts told again in other words that stayed one",
    "apart": "facts about two things that stayed apart",
    "beside": "facts about one thing that stayed side by side",
}
UPDATES, SAME = ("updates", "changed"), ("again", "reworded")  #: all others stay as they are
ABOUT = (
    "The everyday claims of bench/data/claims.yaml again, this time remembered by agents in the real ring, by rules "
    "alone and with a model for small questions, which is asked over HTTP within its budget. It is examined first, and "
    "not asked what it cannot judge."
)
NOT_MEASURED = (
    "**Not measured with a real model: none was named when this page was written.** bench/README.md says how to "
    "measure with one, also with a small one on your own machine."
)


@dataclass(frozen=True, slots=True)
class Case:
    kind: str
    half: str
    known: tuple[str, str]  #: key and value
    new: tuple[str, str]


@dataclass(slots=True)
class Counted:
    good: Counter[tuple[str, str]] = field(default_factory=Counter)  #: by kind and half
    requests: list[int] = field(default_factory=list)  #: of each run
    tokens: list[int] = field(default_factory=list)
    usd: float = 0.0
    examined: list[str] = field(default_factory=list)  #: what the model may decide in the end


def cases() -> list[Case]:
    return [
        Case(kind, half, (claim[0], claim[1]), (claim[2], claim[3]))
        for kind in KINDS
        for half, found in claims.halves(claims.load()[kind]).items()
        for claim in found
    ]


def measure(model: str | None = None) -> Promise:
    if model is None:
        return Promise("with a model", NOT_MEASURED, [])
    every = cases()
    return compared(model, every, asyncio.run(played(every, None)), asyncio.run(played(every, model)))


def compared(model: str, every: list[Case], rules: Counted, with_it: Counted) -> Promise:
    bars = []
    for kind, what in KINDS.items():
        for half in claims.HALVES:
            there = sum((case.kind, case.half) == (kind, half) for case in every)
            before, after = rules.good[kind, half], with_it.good[kind, half]
            bars.append(Bar(f"{what}, {half}", f"{after} of {there}", f"≥ {before}, by rules", after >= before))
    right, by_rules = with_it.good.total(), rules.good.total()
    bars.append(Bar("right in all", f"{right} of {len(every)}", f"≥ {by_rules}, by rules", right >= by_rules))
    most, budget = max(with_it.requests), GuardModel().budget
    largest, median = max(with_it.tokens), sorted(with_it.tokens)[len(with_it.tokens) // 2]
    bars += [
        Bar("requests a run", f"{most} at most, {sum(with_it.requests)} in all", f"≤ {REQUESTS}", most <= REQUESTS),
        Bar("tokens a run", f"{largest:,} at most (median {median:,})", f"≤ {budget:,}", largest <= budget),
        Bar("cost in all", f"{with_it.usd:.4f} USD"),
        *(Bar("the model", told) for told in with_it.examined),
    ]
    return Promise(f"with {model}", f"{ABOUT} The model was `{model}`.", bars)


async def played(every: list[Case], model: str | None) -> Counted:
    """Each case with an agent of its own."""
    found = Counted()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _write(root, every, model)
        async with open_runtime(RuntimeSettings(database=":memory:"), clock=SystemClock()) as runtime:
            service = Service(runtime)
            for number, case in enumerate(every):
                await _play(service, root, f"a{number}", case, found)
            await service.close()
    return found


def _write(root: Path, every: list[Case], model: str | None) -> None:
    small = f"{{ model: {json.dumps(model)}, llm_curation: true }}" if model else "{ llm_curation: false }"
    (root / "moniro.yaml").write_text(f"guard: {small}\n")
    for number, case in enumerate(every):
        key, value = case.known
        home = root / ".agents" / f"a{number}"
        (home / "memory").mkdir(parents=True)
        known = {key: {"value": value, "source": "r_0", "by": "self", "learned": "2026-11-16"}}
        (home / "memory" / "working.yaml").write_text(yaml.safe_dump(known, allow_unicode=True))
        remember = {"tool": "memory_write", "with": {"key": case.new[0], "value": case.new[1]}}
        script = {"backend": "mock", "script": [{"call": remember}, {"say": "noted"}]}
        home.with_suffix(".yaml").write_text(yaml.safe_dump(script, allow_unicode=True))


async def _play(service: Service, root: Path, agent: str, case: Case, found: Counted) -> None:
    served = await serve(service, RunRequest("remember it", agent, project=str(root)))
    assert served.state == "done", served.reason
    found.good[case.kind, case.half] += _is_right(case, _held(Root(root / ".agents" / agent)))
    judged = (await agent_info(service, agent, project=str(root))).judged
    found.requests.append(judged.requests if judged else 0)
    found.tokens.append(judged.tokens if judged else 0)
    found.usd += judged.usd if judged else 0.0
    found.examined = judged.examined if judged else []


def _held(home: Root) -> set[str]:
    return {each.value for each in memory.load(home).entries if each.file != memory.ARCHIVE and not each.disputes}


def _is_right(case: Case, held: set[str]) -> bool:
    known, new = case.known[1], case.new[1]
    if case.kind in UPDATES:
        return held == {new}
    return len(held) == 1 if case.kind in SAME else held == {known, new}
