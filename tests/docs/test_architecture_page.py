"""What the pages about the code name is there: every file, folder, module and function."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from agent_worker.trust.powers import python_tree

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "agent_worker"
PAGES = ("docs/architecture.md", "docs/words.md")

#: `agents/loop.Loop`, `agents/loop.py`, `tests/docs/`: something with a slash and without a placeholder.
_NAMED = re.compile(r"[a-z_]+(?:/[\w.]+)*/[\w.]*")
_FILES = {"py", "md", "sql", "yaml", "jsonl", "json"}
_TOP = {path.name for path in (*ROOT.iterdir(), *SOURCE.iterdir()) if path.is_dir()}


def named_in(text: str) -> set[str]:
    """Whatever stands between backticks, or in a block of code, and begins with a folder of ours."""
    quoted = re.findall(r"```(.*?)```", text, re.DOTALL) + re.findall(
        r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    )
    found = {each for piece in quoted for each in _NAMED.findall(piece)}
    return {each.rstrip(".") for each in found if each.split("/")[0] in _TOP}


def is_there(name: str) -> bool:
    path, _, last = name.rpartition(".")
    places = (ROOT, SOURCE)
    if not path or last in _FILES:
        return any((place / name).exists() or (place / f"{name}.py").is_file() for place in places)
    return any(last in names_of(place / f"{path}.py") for place in places)


def names_of(module: Path) -> set[str]:
    if not module.is_file():
        return set()
    defined: set[str] = set()
    for node in python_tree(module.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Assign):
            defined |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            defined.add(node.target.id)
    return defined


@pytest.mark.parametrize("page", PAGES)
def test_everything_a_page_names_is_there(page: str) -> None:
    assert not sorted(name for name in named_in((ROOT / page).read_text("utf-8")) if not is_there(name))


def test_a_name_that_is_not_there_is_noticed() -> None:
    text = "`agents/loop.Loop` and `agents/loop.Ring`, `agents/loops.py`, in `agents/` and `desks/`; or `docs/desk.md`"
    assert named_in(text) == {"agents/loop.Loop", "agents/loop.Ring", "agents/loops.py", "agents/", "docs/desk.md"}
    assert [name for name in sorted(named_in(text)) if not is_there(name)] == [
        "agents/loop.Ring",
        "agents/loops.py",
        "docs/desk.md",
    ]


def test_names_of_one_module_are_found_in_it() -> None:
    """`TEAM` or `TASK` in `tools/toolbox.py`: each of them stands in that file."""
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    pairs = re.findall(r"((?:`\w+`(?: or )?)+) in\s+`(\w[\w/]*\.py)`", text)
    assert len(pairs) > 4
    for names, module in pairs:
        assert set(re.findall(r"\w+", names)) - {"or"} <= names_of(SOURCE / module), module


def test_every_folder_has_a_row_and_every_noun_a_word() -> None:
    architecture, words = ((ROOT / page).read_text("utf-8") for page in PAGES)
    folders = {path.parent.relative_to(SOURCE) for path in SOURCE.rglob("__init__.py")} - {Path()}
    assert not [str(folder) for folder in sorted(folders) if f"`{folder}/`" not in architecture]
    code = (SOURCE / "service" / "catalogue.py").read_text("utf-8")
    nouns = re.search(r"_MODULES = \((.*?)\)", code, re.DOTALL)
    assert nouns
    assert not [noun for noun in re.findall(r"\w+", nouns.group(1)) if f"`{noun}`" not in words]


def test_every_class_that_words_explain_exists() -> None:
    words = (ROOT / "docs/words.md").read_text("utf-8").partition("## Words of the code")[2].partition("\n## ")[0]
    firsts = [line.split("|")[1] for line in words.splitlines() if line.startswith("| ")]
    classes = {name for cell in firsts for name in re.findall(r"\b[A-Z]\w+", cell)}
    defined = {name for path in SOURCE.rglob("*.py") for name in names_of(path)}
    assert len(classes) > 8
    assert not classes - defined


def test_no_word_is_explained_twice() -> None:
    """A row explains the words before the bar, and those that it sets in italics."""
    text = (ROOT / "docs/words.md").read_text("utf-8").partition("\n## Folders")[0]
    assert explained_twice(text) == []
    assert text.count("\n| ") > 80


def explained_twice(text: str) -> list[str]:
    rows = [line.strip("| ").split(" | ", 1) for line in text.splitlines() if line.startswith("| ")]
    words = [word.strip().lower() for cell, _ in rows for word in cell.split(",") if cell != "word"]
    words += [word.lower() for _, meaning in rows for word in re.findall(r"(?<!\*)\*([\w ]+)\*(?!\*)", meaning)]
    return sorted({word for word in words if words.count(word) > 1})


def test_a_word_that_is_explained_twice_is_noticed() -> None:
    assert explained_twice("| word | meaning |\n| desk | who answers |\n| hook | has a *desk* |\n") == ["desk"]
