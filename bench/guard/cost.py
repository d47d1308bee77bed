"""Cost: what remembering costs in calls of a model and in tokens, per run.

Scripted pieces of work of every length, from one word to far more than a request may hold. Without a model the Guard
asks none; with auto-memory one request a run is made, and what is in it, and may come of it, is bounded.
"""

from __future__ import annotations

import random

from agent_worker.agents.learning import ANSWER, SYSTEM, transcript
from agent_worker.backends.backend import Call, PastStep, Reply
from agent_worker.tools.tool import Result
from guard.promise import Bar, Promise

RUNS = 1_000
BYTES = 3  # of a token, at least, in a transcript: English has four, code and other scripts fewer
MOST_CALLS, MOST_TOKENS = 2, 1_500
WORDS = ("the", "parser", "reads", "line", "by", "line", "größer", "配置", "x=1;", "deploys", "on", "mondays", "\n")
ABOUT = (
    f"{RUNS:,} scripted runs, from one word to a hundred kilobytes. Everything but auto-memory works without a model. "
    f"A request is counted with a token for every {BYTES} bytes, and with all that its answer may hold."
)


def measure() -> Promise:
    dice = random.Random(16)
    tokens = sorted(_tokens(dice, 2 ** dice.randrange(14)) for _ in range(RUNS))
    shown = f"{tokens[-1]:,} at most (median {tokens[RUNS // 2]:,})"
    return Promise(
        "cost",
        ABOUT,
        [
            Bar("requests a run with auto-memory", f"1, by construction; ≤ {MOST_CALLS} are allowed"),
            Bar("tokens a run with auto-memory", shown, f"≤ {MOST_TOKENS:,}", tokens[-1] <= MOST_TOKENS),
        ],
    )


def _tokens(dice: random.Random, words: int) -> int:
    """Of the request after a piece of work in which everybody said so much."""
    step = PastStep(
        Reply(_talk(dice, words), calls=(Call("c1", "memory_write", {"value": _talk(dice, words)}),)),
        {"c1": Result(_talk(dice, words))},
    )
    prompt = transcript([_talk(dice, words)], [step] * dice.randrange(1, 4), _talk(dice, words))
    return len(f"{SYSTEM}{prompt}".encode()) // BYTES + ANSWER


def _talk(dice: random.Random, words: int) -> str:
    return " ".join(dice.choices(WORDS, k=words))


if __name__ == "__main__":
    print(measure().markdown())
