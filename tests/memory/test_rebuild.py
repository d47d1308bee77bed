"""The index of what an agent remembers is made from its files: lost, damaged or old, it comes back the same."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest
from tests.faults.report import LONG, SEED, report

from agent_worker.files.jsonl import append_records
from agent_worker.files.root import Root
from agent_worker.memory import memory, notes
from agent_worker.memory.library import INDEX, LOOK_AT_ALL, Library
from agent_worker.memory.recall import Recalled

TRIALS = 200 if LONG else 11
CHANGES = 400 if LONG else 60
NUMBERS = itertools.count()  # of lines
NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)
WORDS = ("deploy", "friday", "basket", "printer", "coupon", "garden", "piano", "機房", "東京", "plan", "lamp", "river")
QUERIES = ("deploy on friday", "the printer", "what about 東京", "basket coupon piano", "river lamp", "garden plan")


def words(chance: random.Random, count: int) -> str:
    return " ".join(chance.choices(WORDS, k=count))


def remember_something(home: Root, chance: random.Random) -> None:
    """A memory, a note or a few lines of talk; or something that was there is changed or goes."""
    match chance.randrange(5):
        case 0:
            key = f"key-{chance.randrange(20)}"
            memory.write(home, memory.MemoryEntry(key, words(chance, 8), file="working", learned="2026-03-01"))
        case 1:
            when = NOW - timedelta(days=chance.randrange(60))
            notes.write(home, words(chance, 2), f"{words(chance, 30)}\n\n{words(chance, 10)}", when=when)
        case 2 | 3:
            day = chance.randrange(1, 9)
            at = f"2026-03-0{day}T09:00:00+00:00"
            texts = [words(chance, 6) for _ in range(chance.randrange(1, 6))]
            lines = [{"seq": next(NUMBERS), "at": at, "sender": "ann", "text": text} for text in texts]
            append_records(home, f"conversations/2026-03-0{day}.jsonl", lines)
        case _:
            if known := notes.names(home):
                (home.path / "notes" / chance.choice(known)).unlink()


def results(library: Library, now: datetime = NOW) -> list[dict[tuple[str, ...], float]]:
    """For each question: what is found and why, with how well it fits."""
    kinds = ("memory", "note", "history")
    found = (library.search(query, now=now, kinds=kinds, limit=1000) for query in QUERIES)
    return [{_known_by(each): each.score for each in answers} for answers in found]


def _known_by(found: Recalled) -> tuple[str, ...]:
    return (found.entry.source, found.entry.id, found.entry.text, found.why)


def assert_same(found: list[dict[tuple[str, ...], float]], expected: list[dict[tuple[str, ...], float]]) -> None:
    """Sums of fractions depend a little on their order; so one text may be just near enough, or just not."""
    for ours, theirs in zip(found, expected, strict=True):
        one_sided = ours.keys() ^ theirs.keys()
        assert len(one_sided) <= 1
        assert all(why.startswith("similar in meaning") for *_, why in one_sided)
        assert {key: ours[key] for key in ours.keys() - one_sided} == pytest.approx(
            {key: theirs[key] for key in theirs.keys() - one_sided}, abs=1e-5
        )


def fresh(home: Root, tmp: Path, now: datetime = NOW) -> list[dict[tuple[str, ...], float]]:
    """Of the same files, where nothing was indexed before."""
    copy = tmp / "fresh"
    # With their times: an index goes by them.
    shutil.copytree(home.path, copy, ignore=shutil.ignore_patterns(".index"))
    library = Library(Root(copy), "alice")
    try:
        return results(library, now)
    finally:
        library.close()
        shutil.rmtree(copy)


# --- what happens to it


def delete_the_folder(index: Path, chance: random.Random) -> None:
    shutil.rmtree(index.parent)


def delete_the_file(index: Path, chance: random.Random) -> None:
    index.unlink()


def flip_bits(index: Path, chance: random.Random) -> None:
    content = bytearray(index.read_bytes())
    for _ in range(chance.choice((1, 5, 50))):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    index.write_bytes(content)


def cut(index: Path, chance: random.Random) -> None:
    os.truncate(index, chance.randrange(index.stat().st_size))


def zero_pages(index: Path, chance: random.Random) -> None:
    with index.open("r+b") as file:
        for _ in range(3):
            file.seek(chance.randrange(index.stat().st_size // 4096) * 4096)
            file.write(bytes(4096))


def make_it_old(index: Path, chance: random.Random) -> None:
    (index.parent / f"{index.name}.seal").unlink()
    connection = apsw.Connection(str(index))
    connection.pragma("user_version", 0)
    connection.execute("drop table entry")
    connection.close()


def put_a_letter_there(index: Path, chance: random.Random) -> None:
    index.write_text("dear index, " * 500)


def put_a_folder_there(index: Path, chance: random.Random) -> None:
    index.unlink()
    index.mkdir()
    (index / "x").touch()


def lose_the_seal(index: Path, chance: random.Random) -> None:
    (index.parent / f"{index.name}.seal").unlink()


def take_anothers(index: Path, chance: random.Random) -> None:
    """With its seal: it is in order, and holds what somebody else remembers."""
    other = index.parent.parent.parent / "other"
    shutil.rmtree(other, ignore_errors=True)
    memory.write(
        Root(other), memory.MemoryEntry("secret", "deploy the river lamp", file="working", learned="2026-03-01")
    )
    library = Library(Root(other), "bob")
    library.search("deploy", now=NOW, kinds=("memory",))
    library.close()
    for name in (index.name, f"{index.name}.seal"):
        shutil.copy(other / ".index" / name, index.parent / name)


DAMAGE: tuple[Callable[[Path, random.Random], None], ...] = (
    delete_the_folder,
    delete_the_file,
    flip_bits,
    flip_bits,
    cut,
    zero_pages,
    make_it_old,
    put_a_letter_there,
    put_a_folder_there,
    lose_the_seal,
    take_anothers,
)


@pytest.mark.parametrize("trial", range(TRIALS))
def test_G2_whatever_happened_to_the_index_a_search_gives_what_a_fresh_one_gives(tmp_path: Path, trial: int) -> None:
    with report.seeded("G2", SEED + trial) as chance:
        home = Root(tmp_path / "alice")
        for _ in range(20):
            remember_something(home, chance)
        library = Library(home, "alice")
        results(library)
        library.close()
        DAMAGE[trial % len(DAMAGE)](home.path / INDEX, chance)
        for _ in range(chance.randrange(5)):
            remember_something(home, chance)
        library = Library(home, "alice")
        try:
            assert_same(results(library), fresh(home, tmp_path))
        finally:
            library.close()
        report.count("G2 lost or damaged indexes")


def test_G2_files_that_change_while_they_are_indexed_end_up_as_they_are(tmp_path: Path) -> None:
    with report.seeded("G2", SEED) as chance:
        home = Root(tmp_path / "alice")
        remember_something(home, chance)
        library = Library(home, "alice")
        writer = threading.Thread(target=lambda: [remember_something(home, chance) for _ in range(CHANGES)])
        writer.start()
        while writer.is_alive():
            results(library)  # usable meanwhile
            report.count("G2 searches while files change")
        writer.join()
        later = NOW + LOOK_AT_ALL  # what happened to an older conversation in place is seen by then
        assert_same(results(library, later), fresh(home, tmp_path, later))
        library.close()
