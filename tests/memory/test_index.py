"""The index is derived: whatever happens to it, a search gives what a fresh one would."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.faults.report import few

from agent_worker.memory.index import Index, IndexedSource, file_stamp
from agent_worker.memory.index_tables import IndexChanges, IndexEntry, Tables
from agent_worker.memory.recall import Recalled, SearchScope, recall

NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)
WORDS = ("deploy", "friday", "basket", "printer", "coupon", "garden", "piano", "機房", "東京", "plan")
QUERIES = ("deploy on friday", "the printer of ann", "what about 東京", "3 March", "basket coupon piano", "bob")


def entry(number: int, text: str, *, source: str = "talk") -> IndexEntry:
    at = datetime(2026, 3, 1, 9, 0, tzinfo=UTC) + timedelta(hours=number)
    return IndexEntry(str(number), "history", source, text, ("ann", "bob", "cem")[number % 3], at, number)


def library(files: int = 6, lines: int = 30) -> dict[str, list[IndexEntry]]:
    dice = random.Random(3)
    return {
        f"file-{file}": [
            entry(number, " ".join(dice.choices(WORDS, k=5)), source=f"file-{file}") for number in range(lines)
        ]
        for file in range(files)
    }


def sources_of(files: dict[str, list[IndexEntry]]) -> Callable[[], list[IndexedSource]]:
    return lambda: [
        IndexedSource(name, lambda entries=entries: entries, stamp=str(hash(tuple(entries))))  # type: ignore[misc]
        for name, entries in files.items()
    ]


def results(index: Index) -> list[list[Recalled]]:
    return [recall([SearchScope(index)], query, now=NOW, limit=20) for query in QUERIES]


def fresh(files: dict[str, list[IndexEntry]]) -> list[list[Recalled]]:
    index = Index(None, sources_of(files))
    index.refresh()
    return results(index)


def delete(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def overwrite(path: Path) -> None:
    path.write_bytes(b"this was a shopping list" * 1000)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def scramble_the_middle(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 3 : 2 * len(raw) // 3] = random.Random(1).randbytes(2 * len(raw) // 3 - len(raw) // 3)
    path.write_bytes(raw)


def turn_one_bit(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) * 2 // 3] ^= 4
    path.write_bytes(raw)


def make_it_old(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("pragma user_version = 0")
    db.close()


def put_another_database_there(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("pragma user_version = 1")
        db.execute("create table shopping (what text)")
    db.close()


def put_a_folder_there(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE = [
    delete,
    empty,
    overwrite,
    truncate,
    scramble_the_middle,
    turn_one_bit,
    make_it_old,
    put_another_database_there,
    put_a_folder_there,
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_index_gives_what_a_fresh_one_gives(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    files, path = library(), tmp_path / ".index" / "recall.db"
    index = Index(path, sources_of(files))
    index.refresh()
    index.close()
    damage(path)
    again = Index(path, sources_of(files))
    again.refresh()
    assert results(again) == fresh(files)
    again.close()


@pytest.mark.parametrize("seed", range(20))
def test_a_single_wrong_byte_anywhere_is_noticed(tmp_path: Path, seed: int) -> None:
    files, path = library(), tmp_path / "recall.db"
    index = Index(path, sources_of(files))
    index.refresh()
    index.close()
    dice, raw = random.Random(seed), bytearray(path.read_bytes())
    raw[dice.randrange(len(raw))] ^= dice.randrange(1, 256)
    path.write_bytes(raw)
    again = Index(path, sources_of(files))
    assert again.refresh() == IndexChanges(added=sum(map(len, files.values())))
    assert results(again) == fresh(files)
    again.close()


@pytest.mark.parametrize("damage", [overwrite, truncate, scramble_the_middle])
def test_an_index_damaged_while_in_use_heals_in_the_middle_of_a_search(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    files, path = library(files=20, lines=100), tmp_path / "recall.db"
    first = Index(path, sources_of(files))
    first.refresh()
    first.close()
    index = Index(path, sources_of(files))
    damage(path)
    assert results(index) == fresh(files)
    index.close()


def test_G2_an_index_of_another_version_is_read_in_again_even_if_nobody_sealed_it(tmp_path: Path) -> None:
    files, path = library(), tmp_path / "recall.db"
    index = Index(path, sources_of(files))
    index.refresh()
    index.close()
    make_it_old(path)
    path.with_name("recall.db.seal").unlink()  # as after a crash
    again = Index(path, sources_of(files))
    assert again.refresh() == IndexChanges(added=sum(map(len, files.values())))
    again.close()


def test_G2_an_index_that_is_lost_while_it_is_brought_up_to_date_lacks_nothing(tmp_path: Path) -> None:
    """What was known at the beginning, and therefore not read, is gone with it."""
    files, path = library(files=20, lines=100), tmp_path / "recall.db"
    first = Index(path)
    first.sync(sources_of(files)())
    first.close()
    index = Index(path)

    def disaster() -> list[IndexEntry]:
        overwrite(path)
        return [entry(0, "the printer is on fire", source="news")]

    index.sync([*sources_of(files)(), IndexedSource("news", disaster, stamp="1")])
    assert set(index.read(Tables.stamps)) == {*files, "news"}
    index.close()


def test_an_index_left_open_by_a_crash_is_used_again(tmp_path: Path) -> None:
    files, path = library(), tmp_path / "recall.db"
    crashed = Index(path, sources_of(files))
    crashed.refresh()
    again = Index(path, sources_of(files))
    assert again.refresh() == IndexChanges()
    assert results(again) == fresh(files)
    again.close()


def test_a_sound_index_is_not_read_in_again(tmp_path: Path) -> None:
    files, path = library(), tmp_path / "recall.db"
    index = Index(path, sources_of(files))
    index.refresh()
    index.close()
    again = Index(path, sources_of(files))
    assert again.refresh() == IndexChanges()
    assert results(again) == fresh(files)
    again.close()


def test_without_a_place_for_a_file_the_index_lives_in_memory(tmp_path: Path) -> None:
    (tmp_path / "not-a-folder").write_text("")
    files = library()
    index = Index(tmp_path / "not-a-folder" / ".index" / "recall.db", sources_of(files))
    index.refresh()
    assert index.path is None
    assert results(index) == fresh(files)
    index.close()


def test_an_edited_line_is_found_and_the_old_one_is_not() -> None:
    index = Index()
    index.put("talk", [entry(number, f"line about {word}") for number, word in enumerate(WORDS)])
    edited = [entry(number, f"line about {word}") for number, word in enumerate(WORDS)]
    edited[4] = entry(4, "line about tulips")
    # The line itself, and the three whose neighbour it is.
    assert index.put("talk", edited) == IndexChanges(added=4, removed=4)
    assert recall([SearchScope(index)], "tulips", now=NOW)[0].entry.text == "line about tulips"
    assert recall([SearchScope(index)], "coupon", now=NOW) == []


def test_only_changed_sources_are_read() -> None:
    read: list[str] = []

    def source(name: str, stamp: str) -> IndexedSource:
        def entries() -> list[IndexEntry]:
            read.append(name)
            return [entry(1, f"{name} {stamp}", source=name)]

        return IndexedSource(name, entries, stamp)

    index = Index()
    index.sync([source("a", "1"), source("b", "1")])
    index.sync([source("a", "1"), source("b", "2")])
    assert read == ["a", "b", "b"]


def test_a_source_no_longer_listed_is_forgotten() -> None:
    files = library(files=2)
    index = Index()
    index.sync(sources_of(files)())
    del files["file-0"]
    assert index.sync(sources_of(files)()) == IndexChanges(removed=30)
    assert results(index) == fresh(files)


def test_sources_under_another_name_are_left_alone() -> None:
    index = Index()
    index.put("memory/core.yaml", [entry(1, "deploy", source="memory/core.yaml")])
    index.put("notes/a.md", [entry(1, "deploy", source="notes/a.md")])
    index.sync([], under="notes/")
    assert [found.entry.source for found in recall([SearchScope(index)], "deploy", now=NOW)] == ["memory/core.yaml"]


def test_a_file_that_vanishes_while_it_is_read_is_forgotten() -> None:
    def vanished() -> list[IndexEntry]:
        raise FileNotFoundError

    files = library(files=1)
    index = Index(None, sources_of(files))
    index.refresh()
    index.sync(
        [
            IndexedSource("file-0", vanished, "2"),
            IndexedSource("other", lambda: [entry(1, "deploy", source="other")], "1"),
        ]
    )
    assert [found.entry.source for found in recall([SearchScope(index)], "deploy", now=NOW)] == ["other"]


def test_a_failing_reader_leaves_the_index_as_it_was() -> None:
    def wrong() -> list[IndexEntry]:
        raise ValueError("a mistake of ours")

    files = library(files=1)
    index = Index(None, sources_of(files))
    index.refresh()
    with pytest.raises(ValueError, match="mistake"):
        index.sync([IndexedSource("file-0", wrong, "2")])
    assert results(index) == fresh(files)


def test_appending_gives_what_putting_it_all_gives() -> None:
    lines = library(files=1)["file-0"]
    appended = Index()
    for line in lines:
        appended.append("file-0", [line])
    assert results(appended) == fresh({"file-0": lines})
    assert appended.put("file-0", lines) == IndexChanges()


def test_appending_the_same_twice_does_no_harm() -> None:
    lines = library(files=1)["file-0"]
    index = Index()
    index.append("file-0", lines)
    assert index.append("file-0", lines[-2:]) == IndexChanges()
    assert results(index) == fresh({"file-0": lines})


def test_the_same_line_twice_is_two_entries() -> None:
    index = Index()
    twice = [IndexEntry("", "note", "a.md", "deploy"), IndexEntry("", "note", "a.md", "deploy")]
    assert index.put("a.md", twice) == IndexChanges(added=2)
    assert index.put("a.md", twice[:1]) == IndexChanges(removed=1)
    assert index.remove("a.md") == IndexChanges(removed=1)


Edit = st.tuples(
    st.sampled_from(["a", "b", "c"]),
    st.lists(st.sampled_from(WORDS), max_size=6),
    st.sampled_from(["put", "remove", "append"]),
)


@settings(max_examples=few(60))
@given(st.lists(Edit, max_size=12))
@example([(name, WORDS[:1] * 6, how) for how in ("put", "append") for name in "cba"])  # more alike than are found
def test_any_sequence_of_edits_ends_where_a_fresh_index_begins(edits: list[tuple[str, list[str], str]]) -> None:
    index, files = Index(), dict[str, list[IndexEntry]]()
    for name, words, what in edits:
        begin = len(files.get(name, [])) if what == "append" else 0
        lines = [entry(begin + number, f"{word} here", source=name) for number, word in enumerate(words)]
        if what == "remove":
            files.pop(name, None)
            index.remove(name)
        elif what == "append":
            files[name] = files.get(name, []) + lines
            index.append(name, lines)
        else:
            files[name] = lines
            index.put(name, lines)
    assert results(index) == fresh(files)
    index.close()


def test_many_threads_search_while_files_change(tmp_path: Path) -> None:
    files = library(files=10)
    index = Index(tmp_path / "recall.db", sources_of(files))
    failures: list[BaseException] = []

    def search() -> None:
        try:
            for _ in range(5):
                results(index)
        except BaseException as error:
            failures.append(error)

    searchers = [threading.Thread(target=search) for _ in range(4)]
    for searcher in searchers:
        searcher.start()
    for round in range(10):
        files["file-3"] = [entry(number, f"deploy {round}", source="file-3") for number in range(round)]
        index.refresh()
    for searcher in searchers:
        searcher.join()
    assert failures == []
    assert results(index) == fresh(files)
    index.close()


def test_a_stamp_changes_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "note.md"
    path.write_text("one")
    first = file_stamp(path)
    assert file_stamp(path) == first
    with path.open("a") as file:
        file.write(" two")
    assert file_stamp(path) != first


def test_G2_a_file_that_was_put_in_place_of_another_has_another_stamp(tmp_path: Path) -> None:
    """Even if it is as long and as old."""
    path, another = tmp_path / "a.yaml", tmp_path / "b.yaml"
    for file, text in ((path, "editor: vim"), (another, "editor: joe")):
        file.write_text(text)
        os.utime(file, ns=(0, 0))
    before = file_stamp(path)
    another.replace(path)
    assert file_stamp(path) != before


def test_the_index_knows_how_much_it_holds() -> None:
    index = Index()
    index.put("talk", library(files=1)["file-0"])
    assert index.read(Tables.count) == 30
