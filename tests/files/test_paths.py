"""Which paths are let through: rows F1, F2, F5, F11."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_worker.core.errors import BadInput
from agent_worker.files.paths import NAME_BYTES, acceptable, beside, names_in, same_document
from agent_worker.files.root import Root

STEPS_OUT = [
    "../../x",
    "a/../../b",
    "..",
    ".",
    "a/./b",
    "/etc/passwd",
    "//etc/passwd",
    "..\\..\\x",
    "..%2fx",
    "..%2Fx",
    "%2e%2e/x",
    "..%252fx",
    "%2fetc%2fpasswd",
    "．．/x",
    "‥/x",
    "a／b",
    "..／x",
    "＼x",
    "../documents-evil/x",
    "a//b",
    "a/",
    "C:\\x",
]
BAD_NAMES = [
    "a\0b",
    "a\nb",
    "a\x1b[2Jb",
    "a\x7f",
    "a%00b",
    "x" * 300,
    "é" * 128,
    "a.",
    "a ",
    "a\u00a0",
    "a...",
    "con",
    "CON.md",
    "nul .txt",
    "com1",
    "LPT9.log",
    "com¹.txt",
    "a\u202egnp.md",
    "a\u2066b",
    "\u200fa",
    "a\u200bb",
    "a\u2028b",
    "a\ud800b",
    ".tmp-1",
    ".swap-1",
    "/".join("a" * 33),
]


@pytest.mark.parametrize("relative", STEPS_OUT + BAD_NAMES, ids=ascii)
def test_f1_f2_a_path_that_could_mislead_is_refused_and_nothing_is_touched(tmp_path: Path, relative: str) -> None:
    (tmp_path / "x").write_text("outside")
    (tmp_path / "documents-evil").mkdir()
    (tmp_path / "documents-evil/x").write_text("outside")
    root = Root(tmp_path / "documents")
    for attempt in (
        lambda: root.read_text(relative),
        lambda: root.replace(relative, "evil"),
        lambda: root.swap(relative, "evil", expected=None),
        lambda: root.append(relative, "evil"),
        lambda: root.remove(relative),
        lambda: root.remove_tree(relative),
        lambda: root.make_dirs(relative),
        lambda: root.list(relative),
        lambda: root.beneath(relative),
    ):
        with pytest.raises(BadInput, match="cannot be opened as a path"):
            attempt()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["documents-evil", "x", "x"]


def test_f2_the_message_shows_no_control_characters() -> None:
    with pytest.raises(BadInput) as refused:
        names_in("a\x1b]0;owned\x07\u202e" + "b" * 10_000)
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < 250


@pytest.mark.parametrize(
    "relative",
    [
        "notes.md",
        "a/b/c.md",
        ".gitignore",
        "..x",
        "Übersicht.md",
        "会议记录.md",
        "100%.md",
        "a b.md",
        "🎉.md",
        "~x",
        "console.md",
    ],
)
def test_ordinary_names_are_let_through(relative: str) -> None:
    assert names_in(relative) == tuple(relative.split("/"))


def test_a_file_needs_a_name_but_the_root_may_be_listed(tmp_path: Path) -> None:
    root = Root(tmp_path)
    assert root.list("") == ()
    with pytest.raises(BadInput, match="needs a name"):
        root.read_text("")


@given(st.text(st.sampled_from("./\\%2fe．／a\0 \u202e") | st.characters(), max_size=20))
def test_f1_whatever_is_let_through_stays_beneath_the_root(relative: str) -> None:
    try:
        names = names_in(relative)
    except BadInput:
        return
    assert os.path.normpath(os.path.join("/root", *names)) == "/".join(("/root", *names))
    assert all(map(acceptable, names))


@settings(max_examples=50)
@given(st.integers(0, 300), st.sampled_from("aé会🎉"), st.text(st.characters(codec="utf-8"), max_size=5))
def test_a_name_beside_another_always_fits_the_disk(length: int, letter: str, name: str) -> None:
    found = beside("dir/" + letter * length + name.replace("/", ""), ".conflict-12345678")
    assert found.startswith("dir/")
    assert found.endswith(".conflict-12345678")
    assert len(found.removeprefix("dir/").encode()) <= NAME_BYTES


def test_f7_spelling_and_composition_make_no_second_document() -> None:
    assert same_document("Notes.MD") == same_document("notes.md")
    assert same_document("Caf\u00e9") == same_document("cafe\u0301")
    assert same_document("x2.md") != same_document("x².md")
