"""Cost: what remembering costs in calls of a model and in tokens, per run.

Scripted pieces of work of every length, from one word to far more than a request may hold. Without a model the Guard
asks none. With one, what a run teaches is one request and a small question another; the budget of a run refuses more.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from agent_worker.agents.examination import exams
from agent_worker.agents.learning import ANSWER, LESSON, SYSTEM, transcript
from agent_worker.agents.model_judge import BYTES, REQUESTS, JudgeBudget, ModelJudge, tokens_of
from agent_worker.backends.backend import Call, PastStep, Reply, StepSink, Turn
from agent_worker.definitions.guard import GuardModel
from agent_worker.files.root import Root
from agent_worker.identity import judging as of_souls
from agent_worker.identity.change import Change, Evidence
from agent_worker.memory import judging
from agent_worker.memory.memory import MemoryEntry
from agent_worker.tools.tool import Result
from guard.promise import Bar, Promise

RUNS = 1_000
MOST_CALLS, MOST_TOKENS = 2, 1_500
WORDS = ("the", "parser", "reads", "line", "by", "line", "größer", "配置", "x=1;", "deploys", "on", "mondays", "\n")
ABOUT = (
    f"{RUNS:,} scripted runs, from one word to a hundred kilobytes, each of which learns and then asks every kind of "
    "small question there is, and a paper of the examination, twice, with texts of that length. A request is counted "
    f"with a token for every {BYTES} bytes, and with all that its answer may hold."
)


@dataclass
class Counting:
    """A model that counts what it is asked, and answers nothing of use."""

    sizes: list[int] = field(default_factory=list)

    async def reply(self, turn: Turn, steps: Sequence[PastStep], sink: StepSink) -> Reply:
        self.sizes.append(tokens_of(turn.system, turn.prompt, turn.max_tokens or 0))
        return Reply("unsure")


def measure() -> Promise:
    dice = random.Random(16)
    with TemporaryDirectory() as folder:
        runs = [asyncio.run(_run(dice, 2 ** dice.randrange(14), Root(Path(folder)))) for _ in range(RUNS)]
    tokens, requests = sorted(map(sum, runs)), max(map(len, runs))
    shown = f"{tokens[-1]:,} at most (median {tokens[RUNS // 2]:,})"
    return Promise(
        "cost",
        ABOUT,
        [
            Bar("requests a run without a model", "0, by construction"),
            Bar("requests a run with one", f"{requests} at most", f"≤ {MOST_CALLS}", requests <= MOST_CALLS),
            Bar("tokens a run with one", shown, f"≤ {MOST_TOKENS:,}", tokens[-1] <= MOST_TOKENS),
        ],
    )


async def _run(dice: random.Random, words: int, home: Root) -> list[int]:
    """The sizes of all requests of one run whose texts have so many words."""
    model = Counting()
    budget = JudgeBudget(GuardModel().budget - LESSON, REQUESTS - 1)
    judge = ModelJudge(model, "fake/judge", "r_1", budget, _yes, nullcontext, lambda usage, name: None, _noted, None)
    for _ in range(2):
        await _ask_everything(judge, dice, words, home)
    return [_lesson(dice, words), *model.sizes]


async def _ask_everything(judge: judging.Judge, dice: random.Random, words: int, home: Root) -> None:
    entry = MemoryEntry(_talk(dice, 3).replace("\n", " "), _talk(dice, words), "working")
    papers = [paper for exam in exams().values() for paper in exam.papers]
    paper = dice.choice(papers)
    questions = [
        lambda: judge.ask("same", "examination", paper.system, paper.prompt, answer=paper.answer),
        lambda: judging.worded(judge, _talk(dice, words), [entry.value] * 5),
        lambda: judging.verdicts(judge, [(entry, entry)] * 5),
        lambda: judging.summary(judge, home, entry),
        lambda: of_souls.probed(judge, [_talk(dice, words)] * 9, _talk(dice, words)),
        lambda: of_souls.worded(judge, Change("add", "principles", "Be kind"), [Evidence("r_1", entry.value)] * 9),
    ]
    dice.shuffle(questions)
    for ask in questions:
        await ask()


async def _yes() -> bool:
    return True


async def _noted(what: str) -> None:
    pass


def _lesson(dice: random.Random, words: int) -> int:
    """Of the request after a piece of work in which everybody said so much."""
    step = PastStep(
        Reply(_talk(dice, words), calls=(Call("c1", "memory_write", {"value": _talk(dice, words)}),)),
        {"c1": Result(_talk(dice, words))},
    )
    prompt = transcript([_talk(dice, words)], [step] * dice.randrange(1, 4), _talk(dice, words))
    return tokens_of(SYSTEM, prompt, ANSWER)


def _talk(dice: random.Random, words: int) -> str:
    return " ".join(dice.choices(WORDS, k=words))


if __name__ == "__main__":
    print(measure().markdown())
