"""Memory as files: what people write is read, what agents write is added to it, and nobody's words are lost."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.faults.report import few
from tests.memory.editors import SAVED, EditedMeanwhile

from agent_worker.core.errors import BadInput, DefinitionError, NotFound, Refused, Stale
from agent_worker.files.root import Root
from agent_worker.memory import memory
from agent_worker.memory.memory import MemoryEntry

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Root:
    return Root(tmp_path / "alice")


def by_hand(home: Root, file: str, text: str) -> Path:
    path = home.location(memory.path_of(file))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def known(home: Root) -> dict[str, str]:
    return {e.key: e.value for e in memory.load(home).entries}


# --- reading ------------------------------------------------------------------------------------------


def test_nothing_is_there_before_something_is_remembered(home: Root) -> None:
    assert memory.load(home) == memory.Memories()
    assert not home.is_there


def test_a_person_may_write_plain_values_or_records(home: Root) -> None:
    text = """
    editor: vim
    retries: 3
    strict: true
    languages: [python, rust]
    deploy: { value: on fridays, source: r_1, learned: 2026-01-02, visibility: shareable }
    """
    by_hand(home, "working", text)
    assert known(home) == {
        "editor": "vim",
        "retries": "3",
        "strict": "True",
        "languages": "python; rust",
        "deploy": "on fridays",
    }
    deploy = memory.find(home, "deploy")
    assert deploy == MemoryEntry("deploy", "on fridays", "working", "shareable", ("r_1",), "2026-01-02", memory.SELF)


def test_the_file_says_the_tier(home: Root) -> None:
    for file in ("core", "working", "archive", "decisions"):
        by_hand(home, file, f"in {file}: yes\n")
    tiers = {e.file: e.tier for e in memory.load(home).entries}
    assert tiers == {"core": "core", "working": "working", "archive": "archive", "decisions": "working"}


def test_an_edit_by_hand_is_seen_at_the_next_look(home: Root) -> None:
    memory.write(home, MemoryEntry("editor", "vim", "working"))
    path = home.location("memory/working.yaml")
    path.write_text(path.read_text().replace("vim", "emacs"))
    assert known(home) == {"editor": "emacs"}


@pytest.mark.parametrize("broken", ["a: [1, 2\n", "a: 1\na: 2\n", "- a list\n", "just text\n", "\tx: 1\n"])
def test_a_broken_file_is_named_and_the_others_are_read(home: Root, broken: str) -> None:
    by_hand(home, "working", broken)
    by_hand(home, "core", "name: Alice\n")
    found = memory.load(home)
    assert [e.key for e in found.entries] == ["name"]
    (problem,) = found.problems
    assert "memory/working.yaml" in problem


@pytest.mark.parametrize("broken", ["a: [1, 2\n", "a: 1\na: 2\n", "- a list\n", "just text\n"])
def test_D8_a_broken_file_is_never_written_over(home: Root, broken: str) -> None:
    path = by_hand(home, "working", broken)
    with pytest.raises((BadInput, DefinitionError), match=r"memory/working\.yaml"):
        memory.write(home, MemoryEntry("b", "2", "working"))
    assert path.read_text() == broken


# --- writing ------------------------------------------------------------------------------------------


def test_what_is_written_is_made_on_demand_and_can_be_read_by_people(home: Root) -> None:
    assert (
        memory.write(home, MemoryEntry("deploy", "on fridays", "core", source=("r_1",), learned="2026-01-05")) == "new"
    )
    stored = yaml.safe_load(home.location("memory/core.yaml").read_text())
    assert stored["deploy"]["value"] == "on fridays"
    assert stored["deploy"]["source"] == "r_1"
    assert [p.name for p in home.location("memory").iterdir()] == ["core.yaml"]


def test_the_same_again_changes_nothing_and_another_value_replaces(home: Root) -> None:
    memory.write(home, MemoryEntry("deploy", "on fridays", "working"))
    before = home.location("memory/working.yaml").stat().st_mtime_ns
    assert memory.write(home, MemoryEntry("deploy", "on fridays", "working")) == "known"
    assert home.location("memory/working.yaml").stat().st_mtime_ns == before
    assert memory.write(home, MemoryEntry("deploy", "on mondays", "working")) == "changed"
    assert known(home) == {"deploy": "on mondays"}


def test_order_and_comments_of_a_person_are_kept(home: Root) -> None:
    text = """\
# what alice must never forget
zebra: first on purpose   # I mean it

# numbers
answer: 42
"""
    path = by_hand(home, "working", text)
    memory.write(home, MemoryEntry("new", "entry", "working"))
    assert path.read_text().startswith(text)
    assert known(home) == {"zebra": "first on purpose", "answer": "42", "new": "entry"}


def test_comments_are_kept_when_there_is_nothing_else_in_the_file(home: Root) -> None:
    path = by_hand(home, "working", "# put things here\n")
    memory.write(home, MemoryEntry("new", "entry", "working"))
    assert path.read_text().startswith("# put things here\n")
    assert known(home) == {"new": "entry"}


def test_comments_are_kept_when_the_last_entry_goes(home: Root) -> None:
    path = by_hand(home, "working", "# put things here\nold: entry\n")
    memory.forget(home, "old", when=NOW)
    assert "# put things here" in path.read_text()
    memory.write(home, MemoryEntry("new", "entry", "working"))
    assert "# put things here" in path.read_text()
    assert memory.find(home, "new") == MemoryEntry("new", "entry", "working")


def test_an_entry_stays_in_the_file_where_a_person_put_it(home: Root) -> None:
    by_hand(home, "habits", "tea: green\n")
    memory.write(home, MemoryEntry("tea", "black", "working"))
    assert [(e.file, e.value) for e in memory.load(home).entries] == [("habits", "black")]


def test_A5_core_memory_is_changed_only_by_who_asks_for_core(home: Root) -> None:
    by_hand(home, "core", "owner: Ann\n")
    with pytest.raises(Refused, match="core"):
        memory.write(home, MemoryEntry("owner", "Mallory", "working"))
    assert known(home) == {"owner": "Ann"}
    assert memory.write(home, MemoryEntry("owner", "Bea", "core")) == "changed"
    assert known(home) == {"owner": "Bea"}


def test_a_working_entry_may_be_made_core(home: Root) -> None:
    memory.write(home, MemoryEntry("owner", "Ann", "working"))
    assert memory.write(home, MemoryEntry("owner", "Ann", "core")) == "changed"
    assert [(e.key, e.tier) for e in memory.load(home).entries] == [("owner", "core")]


@pytest.mark.parametrize(
    ("key", "value", "file"),
    [
        ("", "x", "working"),
        ("two\nlines", "x", "working"),
        ("k" * 200, "x", "working"),
        ("k", " ", "working"),
        ("k", "x" * 5000, "working"),
        ("<<", "x", "working"),
        ("k", "x", "archive"),
        ("k", "x", "../core"),
        ("k", "x", "Core"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_a_sentence(home: Root, key: str, value: str, file: str) -> None:
    with pytest.raises(BadInput):
        memory.write(home, MemoryEntry(key, value, file))
    assert not home.is_there


# --- forgetting ---------------------------------------------------------------------------------------


def test_forgetting_archives(home: Root) -> None:
    memory.write(home, MemoryEntry("deploy", "on fridays", "core", source=("r_1",)))
    memory.forget(home, "deploy", when=NOW)
    (entry,) = memory.load(home).entries
    assert (entry.key, entry.value, entry.tier, entry.source) == ("deploy", "on fridays", "archive", ("r_1",))
    assert memory.find(home, "deploy") is None


def test_forgetting_twice_keeps_both(home: Root) -> None:
    for value in ("on fridays", "on mondays"):
        memory.write(home, MemoryEntry("deploy", value, "working"))
        memory.forget(home, "deploy", when=NOW)
    assert known(home) == {"deploy": "on fridays", "deploy (2026-01-05)": "on mondays"}


def test_forgetting_three_times_on_one_day_keeps_all(home: Root) -> None:
    for value in ("one", "two", "three"):
        memory.write(home, MemoryEntry("deploy", value, "working"))
        memory.forget(home, "deploy", when=NOW)
    assert sorted(known(home).values()) == ["one", "three", "two"]


def unwritable(home: Root, file: str, text: str = "") -> Path:
    """It can be read and not be written: it has another name elsewhere."""
    path = by_hand(home, file, text)
    os.link(path, home.path / f"{file}-elsewhere")
    return path


def everywhere(home: Root) -> dict[str, list[str]]:
    """Key → the files that hold it, those that are out of the agent's reach too."""
    found: dict[str, list[str]] = {}
    for path in sorted(home.location(memory.FOLDER).glob("*.yaml")):
        for key in yaml.safe_load(path.read_text()) or {}:
            found.setdefault(key, []).append(path.stem)
    return found


def test_D3_what_cannot_be_archived_is_not_forgotten(home: Root) -> None:
    by_hand(home, "working", "editor: vim\n")
    unwritable(home, "archive")
    with pytest.raises(Refused):
        memory.forget(home, "editor", when=NOW)
    assert everywhere(home) == {"editor": ["working"]}


def test_D3_what_cannot_become_core_stays_where_it_is(home: Root) -> None:
    by_hand(home, "working", "editor: vim\n")
    unwritable(home, "core")
    with pytest.raises(Refused):
        memory.write(home, MemoryEntry("editor", "vim", "core"))
    assert everywhere(home) == {"editor": ["working"]}


def test_D3_what_cannot_be_released_stays_held_back(home: Root) -> None:
    memory.hold_back(home, MemoryEntry("editor", "vim", "quarantine", by=memory.OUTSIDE), when=NOW)
    unwritable(home, "working")
    with pytest.raises(Refused):
        memory.release(home, "editor")
    assert everywhere(home) == {"editor": ["quarantine"]}


HELD = MemoryEntry("editor", "vim", "quarantine", by=memory.OUTSIDE)


def test_A6_what_is_held_back_again_is_there_once(home: Root) -> None:
    for _ in range(2):
        memory.hold_back(home, HELD, when=NOW)
    assert everywhere(home) == {"editor": ["quarantine"]}


def test_A6_an_agent_does_not_see_what_is_held_back_from_it(home: Root) -> None:
    by_hand(home, "working", "editor: emacs\n")
    memory.hold_back(home, HELD, when=NOW)
    assert known(home) == {"editor": "emacs"}
    assert memory.files(home) == ["working"]


def test_A6_what_is_released_is_no_longer_from_outside(home: Root) -> None:
    memory.hold_back(home, HELD, when=NOW)
    memory.release(home, "editor")
    (entry,) = memory.load(home).entries
    assert (entry.value, entry.file, entry.by) == ("vim", "working", "user")


def test_D8_what_is_released_does_not_replace_what_is_remembered(home: Root) -> None:
    by_hand(home, "working", "editor: emacs\n")
    memory.hold_back(home, HELD, when=NOW)
    with pytest.raises(Refused, match="is already remembered"):
        memory.release(home, "editor")
    assert known(home) == {"editor": "emacs"}


def test_A5_of_two_entries_under_one_key_the_one_in_core_memory_is_meant(home: Root) -> None:
    by_hand(home, "core", "editor: emacs\n")
    by_hand(home, "working", "editor: vim\n")
    found = memory.find(home, "editor")
    assert found is not None
    assert found.value == "emacs"


def test_A12_what_was_forgotten_is_not_found(home: Root) -> None:
    by_hand(home, "working", "editor: vim\n")
    memory.forget(home, "editor", when=NOW)
    assert memory.find(home, "editor") is None


def test_what_is_not_there_cannot_be_forgotten(home: Root) -> None:
    memory.write(home, MemoryEntry("deploy", "on fridays", "working"))
    with pytest.raises(NotFound) as caught:
        memory.forget(home, "deplyo", when=NOW)
    assert "deploy" in caught.value.hint


# --- a person saves at the same moment ----------------------------------------------------------------


def test_D8_an_edit_at_the_same_moment_is_not_written_over(home: Root) -> None:
    path = by_hand(home, "working", "a: mine\n")
    edited = EditedMeanwhile(home.path)
    with pytest.raises(Stale) as caught:
        memory.write(edited, MemoryEntry("b", "ours", "working"))
    assert path.read_text() == SAVED
    (kept,) = path.parent.glob("*.conflict-*")
    assert kept.name in caught.value.message
    assert "ours" in kept.read_text()
    assert known(home) == {"saved": "just now"}, "what was kept aside is not memory"


# --- F11: a key is data, whatever it looks like -------------------------------------------------------

WEIRD = [
    "../../bob/memory/core",
    "/etc/passwd",
    "null",
    "~",
    "yes",
    "5",
    "2026-01-05",
    "- a",
    "a: b",
    "# no comment",
    "'",
    '"',
    "{a}",
    "[a]",
    "*a",
    "&a",
    "!a",
    "%a",
    "@all",
    "`a`",
    "?",
    "=",
    "value",
    "ключ",
    "鍵 🔑",
]


@pytest.mark.parametrize("key", WEIRD)
def test_F11_a_key_that_looks_like_something_else_is_only_a_key(home: Root, key: str) -> None:
    assert memory.write(home, MemoryEntry(key, "one", "working")) == "new"
    assert memory.write(home, MemoryEntry(key, "two", "working")) == "changed"
    assert known(home) == {key: "two"}
    memory.forget(home, key, when=NOW)
    assert [(e.key, e.tier) for e in memory.load(home).entries] == [(key, "archive")]
    assert sorted(p.name for p in home.location().parent.rglob("*.yaml")) == ["archive.yaml", "working.yaml"]


def test_F11_a_key_that_a_person_wrote_as_a_number_is_the_same_key(home: Root) -> None:
    path = by_hand(home, "working", "5: five\ntrue: yes\n2026-01-05: a day\n")
    for key in ("5", "true", "2026-01-05"):
        assert memory.write(home, MemoryEntry(key, "changed", "working")) == "changed"
    assert known(home) == {"5": "changed", "true": "changed", "2026-01-05": "changed"}, path.read_text()
    memory.forget(home, "5", when=NOW)
    assert memory.find(home, "5") is None


def test_F11_keys_that_are_one_number_to_yaml_stop_nobody(home: Root) -> None:
    by_hand(home, "working", "1: one\ntrue: yes\n")
    with pytest.raises(BadInput, match="the same number"):
        memory.write(home, MemoryEntry("new", "entry", "working"))
    assert known(home) == {"1": "one", "true": "yes"}


readable = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn"]), min_size=1, max_size=40)


@settings(max_examples=few(60))
@given(st.dictionaries(readable.filter(lambda k: k.isprintable() and k.strip() and k != "<<"), readable, max_size=4))
def test_F11_any_text_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, entries: dict[str, str]) -> None:
    home = Root(tmp_path_factory.mktemp("alice"))
    entries = {key: value for key, value in entries.items() if value.strip()}
    for key, value in entries.items():
        memory.write(home, MemoryEntry(key, value, "working"))
    assert known(home) == entries


def test_what_an_agent_remembers_at_the_same_moment_is_all_kept(home: Root) -> None:
    """It may make several calls in one step: they are not somebody else's edits."""
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda n: memory.write(home, MemoryEntry(f"k{n}", "v", "working")), range(40)))
    assert outcomes == ["new"] * 40
    assert {entry.key for entry in memory.load(home).entries} == {f"k{n}" for n in range(40)}
    assert memory.files(home) == ["working"]
