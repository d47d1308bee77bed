"""A thousand to a hundred thousand things to remember: what it costs to find some again, and to take in one more."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path

import recall as talk
from agent_worker.memory.index_tables import IndexEntry
from curves.curve import Rounds, Topic, Work

SIZES = (1_000, 10_000, 100_000)
QUERIES = 20
ABOUT = (
    "Invented talk of real words, without `semantic`. A question finds entries that have any of its words, so its "
    "cost may grow with their number."
)
LINEAR = ("a question",)


async def measure(folder: Path) -> Topic:
    turns, questions = talk.load()
    asked = [question.ask for question in questions if question.ask.isascii()][:QUERIES]
    indexes = {size: talk.filled(folder / f"{size}.db", talk.invented(turns, size)) for size in SIZES}
    rounds, numbers = Rounds(), itertools.count()

    def asking(size: int) -> Work:
        search, questions = talk.ours(indexes[size]), itertools.cycle(asked)

        async def ask() -> None:
            search(next(questions))

        return ask

    async def hear(size: int) -> None:
        number = next(numbers)
        heard = IndexEntry(f"new/{number}", "history", "new", "a word that was just said", "zoe", talk.NOW, number)
        indexes[size].append("new", [heard], stamp=str(number))

    await rounds.run("a question", {size: asking(size) for size in SIZES}, rounds=3, calls=len(asked))
    await rounds.run("taking in one more line", {size: partial(hear, size) for size in SIZES}, rounds=9, calls=10)
    for index in indexes.values():
        index.close()
    return Topic("Recall", "entries", ABOUT, rounds.curves(linear=LINEAR))
