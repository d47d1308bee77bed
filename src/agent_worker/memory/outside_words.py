"""Sentences that may come from outside our workspaces: known again wherever they stand, whoever passed them on.

The one writer of table `outside_words`. Of a sentence only a hash of its first words is kept: one that was cut short,
or stands behind the name of who said it, is found all the same, and what was taken back is not to be read here. Words
stay marked for as long as there is the project, because somebody may have written them down.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import islice

from agent_worker.core.later import pattern
from agent_worker.database.database import Soon, Transaction
from agent_worker.memory.facts import facts

FIRST = 8  # words of a sentence by which it is known
LEAST = 3  # words of content that a sentence must have: shorter ones are said by everybody
BEFORE = 9  # words that a tool may put before a line: its number, a date, a name
MOST = 2_000  # sentences of one text
TOGETHER = 4  # sentences that are taken for one text when they stand one after the other

_SENTENCE = pattern(r"(?<=[.!?;])\s+")
_WORD = pattern(r"[^\W_]+")


def mark(tx: Transaction, run: str, texts: Iterable[str]) -> None:
    """Note that these words of a run may come from outside."""
    for text in texts:
        for sentence, _ in islice(_sentences(text), MOST):
            if is_telling(sentence):
                words = _words(sentence)[:FIRST]
                tx.run(
                    """insert into outside_words(project, mark, words, run) values (:project, :mark, :words, :run)
                       on conflict (project, mark) do nothing""",
                    mark=_mark(words),
                    words=len(words),
                    run=run,
                )


def among(tx: Transaction, text: str) -> tuple[str, ...]:
    """The sentences of a text that are marked; some that follow each other are one."""
    if not text or not any_known(tx):
        return ()
    found, before = list[list[str]](), False
    for sentence, begins_line in islice(_sentences(text), MOST):
        known = is_telling(sentence) and _is_known(tx, sentence, BEFORE if begins_line else 0)
        if known and before and len(found[-1]) < TOGETHER:
            found[-1].append(sentence)
        elif known:
            found.append([sentence])
        before = known
    return tuple(" ".join(each) for each in found)


def any_known(tx: Transaction) -> bool:
    """Whether anything of the project came from outside."""
    return any_known_soon(tx)()


def any_known_soon(tx: Transaction) -> Soon[bool]:
    asked = tx.one_soon("select 1 from outside_words where project = :project limit 1")
    return lambda: asked() is not None


def is_telling(sentence: str) -> bool:
    said = facts(sentence)
    return len(said.words | said.fixed) >= LEAST


def _is_known(tx: Transaction, sentence: str, before: int) -> bool:
    words = _words(sentence)
    look = "select 1 from outside_words where project = :project and mark = :mark"
    return any(tx.one(look, mark=_mark(words[first:])) for first in range(min(before + 1, len(words))))


def _sentences(text: str) -> Iterator[tuple[str, bool]]:
    """Each sentence, and whether a line begins with it, but for its number."""
    for line in text.splitlines():
        begins = True
        for sentence in filter(None, _SENTENCE.split(line.strip())):
            yield sentence, begins
            begins = begins and len(_words(sentence)) == 1


def _words(sentence: str) -> list[str]:
    return _WORD.findall(sentence.casefold())


def _mark(words: list[str]) -> str:
    return blake2b(" ".join(words[:FIRST]).encode(), digest_size=12).hexdigest()
