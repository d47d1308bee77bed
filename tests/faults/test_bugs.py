"""The table of deliberate bugs fits the source; `uv run poe bugs` makes them and shows that each is noticed."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests.faults.breaking import Bug, Edit, Inside, Stale, symbols
from tests.faults.bugs import BUGS

pytestmark = pytest.mark.usefixtures("keep_all")

ROOT = Path(__file__).parent.parent.parent
KNOWN = "test_every_bug_fits_the_source_and_its_proof_exists"


def test_there_are_at_least_ninety_and_each_has_a_name_of_its_own() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 90


def test_every_bug_fits_the_source_and_its_proof_exists() -> None:
    assert {bug.name: why for bug in BUGS if (why := unfit(bug))} == {}


def unfit(bug: Bug) -> str:
    """What is wrong with a bug, if anything is."""
    try:
        assert bug.test(ROOT)
        for path, _, symbol, node in bug.broken(ROOT):
            broken = ast.unparse(node)
            ast.parse(broken)  # a slip of the pen would prove nothing
            if broken in plain(path)[symbol]:
                return "it changes nothing"
    except (Stale, SyntaxError, ValueError) as error:
        return str(error) or repr(error)
    return ""


@cache
def plain(path: Path) -> dict[str, list[str]]:
    """The symbols of a file of the source as they are, in the layout that broken ones have."""
    found = defaultdict(list)
    for name, node in symbols(ast.parse(path.read_text("utf-8"))):
        found[name].append(ast.unparse(node))
    return found


@pytest.mark.parametrize(
    ("bug", "why"),
    [
        (Bug("a bug", "Q1", "test_nothing", ()), "a bug: 0 tests are called test_nothing"),
        (Bug("a bug", "Q1", KNOWN, (Edit("find_mentions", "no_such_word", "1"),)), "this was found 0 times"),
        (Bug("a bug", "Q1", KNOWN, (Edit("OURS", "'moniro.yaml'", "'moniro.yaml'"),)), "it changes nothing"),
        (Bug("a bug", "Q1", KNOWN, (Edit("OURS", "'moniro.yaml'", "if"),)), "invalid syntax"),
    ],
)
def test_one_that_does_not_is_told_with_the_reason(bug: Bug, why: str) -> None:
    assert why in unfit(bug)


SOURCE = '''
LIMIT = 1  # of something

def told(name):
    return f"""select a
                 from b where name = {name}"""

class Door:
    def open(self, who):
        # the lock first
        self.lock.turn(
            who,
        )
        if who == 'nobody':
            return False
        self.swing()
        return True
'''


def made(tree: Path, *edits: Edit | Inside) -> str:
    (changed,) = Bug("a bug", "Q1", "test_nothing", edits).made(tree).values()
    return changed


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "src" / "agent_worker" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "agent_worker" / "deep" / "door.py").write_text(SOURCE)
    return tmp_path


def test_a_bug_is_found_by_its_symbol_whatever_the_layout(tree: Path) -> None:
    assert "turn(None)" in made(tree, Edit("Door.open", "self.lock.turn(who)", "self.lock.turn(None)"))
    assert "if True" in made(tree, Edit("open", 'who == "nobody"', "True"))
    assert "LIMIT = 2" in made(tree, Edit("LIMIT", "1", "2"))
    assert "from c where" in made(tree, Inside("told", "select a from b", "select a from c"))


def test_statements_are_exchanged_left_out_or_kept_inside_of_others(tree: Path) -> None:
    assert "lock" not in made(tree, Edit("Door", "self.lock.turn(who)", ""))
    assert "return False" not in made(tree, Edit("Door.open", 'if who == "nobody": ...', ""))
    kept = made(tree, Edit("Door.open", 'if who == "nobody": ...', "while who: ..."))
    assert "while who:\n            return False" in kept


@pytest.mark.parametrize(
    "edit",
    [
        Edit("Door.shut", "self.swing()", "None"),
        Edit("Door.open", "self.shut()", "None"),
        Edit("Door.open", "who", "None"),
        Inside("told", "select b", "select c"),
    ],
)
def test_what_is_not_there_once_is_stale(tree: Path, edit: Edit | Inside) -> None:
    with pytest.raises(Stale):
        made(tree, edit)
