"""How the suite is organised: what it needs, what it may skip, and which of its tests start programs of others."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest

from tests.conftest import LONG
from tests.needs import MISSING, STARTS_PROGRAMS, STRICT, missing

pytestmark = pytest.mark.usefixtures("keep_all")

ROOT = Path(__file__).parent.parent
FILES = sorted(path for path in (ROOT / "tests").rglob("*.py") if path.name != "needs.py")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


SKIPPING = f"""
import pytest
def test_a(): pytest.skip({missing("a horse")!r})
@pytest.mark.skipif(True, reason={missing("a horse")!r})
def test_b(): pass
def test_c(): pytest.skip("only Linux has horses")
@pytest.fixture
def horse(): pytest.skip({missing("a horse")!r})
def test_d(horse): pass
"""


@pytest.mark.parametrize(("strict", "counts"), [("1", "1 failed, 1 skipped, 2 errors"), ("0", "4 skipped")])
def test_a_skip_for_something_missing_fails_where_nothing_may_be_missing(
    tmp_path: Path, strict: str, counts: str
) -> None:
    (tmp_path / "test_skipping.py").write_text(SKIPPING)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "--rootdir", tmp_path]
    done = subprocess.run(
        [*command, tmp_path],
        cwd=tmp_path,
        env=os.environ | {STRICT: strict, "PYTHONPATH": ROOT},
        text=True,
        capture_output=True,
    )
    assert counts in done.stdout, done.stdout + done.stderr
    assert ("missing: a horse (uv run poe test-setup): with" in done.stdout) == (strict == "1")


def test_what_is_missing_is_skipped_in_one_way() -> None:
    """A skip that looks for a program or speaks of installing goes through `tests.needs`, so that CI can refuse it."""
    loose = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in FILES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        and _last_word(node.func) in ("skip", "skipif", "importorskip")
        and any(word in ast.unparse(node) for word in ("install", "which(", "sandbox", MISSING, "importorskip('"))
        and "missing(" not in ast.unparse(node)
        and path.name != "test_suite.py"
    ]
    assert not loose


def test_the_files_the_suite_knows_by_name_exist() -> None:
    assert [file for file in (*LONG, *STARTS_PROGRAMS) if not (ROOT / file).is_file()] == []
    assert len(set(LONG)) == len(LONG)


def test_whatever_starts_programs_of_others_is_in_their_tier() -> None:
    starting = {
        str(path.relative_to(ROOT))
        for path in FILES
        if path.name.startswith("test_") and {"programs.world", "NPM", "PYPI"} & set(_imported(path))
    }
    assert starting == set(STARTS_PROGRAMS)


def _imported(path: Path) -> list[str]:
    found = [node for node in ast.walk(tree(path)) if isinstance(node, ast.ImportFrom) and node.module]
    modules = [".".join(str(node.module).split(".")[-2:]) for node in found]
    return [*modules, *(alias.name for node in found for alias in node.names)]


def test_setting_up_where_nothing_can_be_installed_says_so_and_ends_well(tmp_path: Path) -> None:
    script = tmp_path / "scripts" / "test_setup.py"
    script.parent.mkdir()
    script.write_bytes((ROOT / "scripts" / "test_setup.py").read_bytes())
    done = subprocess.run([sys.executable, script], env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "there is no apt-get: bubblewrap, chromium, pgbouncer, postgresql, util-linux." in done.stderr
    assert "there is no npm: @modelcontextprotocol/inspector-cli@" in done.stderr


def test_setting_up_where_the_network_is_gone_says_so_and_ends_well(tmp_path: Path) -> None:
    script = tmp_path / "scripts" / "test_setup.py"
    script.parent.mkdir()
    script.write_bytes((ROOT / "scripts" / "test_setup.py").read_bytes())
    for name in ("npm", "apt-get"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 100\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run([sys.executable, script], env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "because npm could not do it: " in done.stderr
    refused = "apt-get could not do it" if os.geteuid() == 0 else "only root can install packages"
    assert f"because {refused}: " in done.stderr


#: Who says SQL, with the reason. All others look at what is stored with the views of tests/stored.py.
SAYS_SQL = {
    "tests/stored.py": "the views",
    "tests/engine.py": "which databases a server has",
    "tests/database/": "the database itself",
    "tests/hosts/test_outages.py": "whether somebody waits for a lock, which the server knows",
    "tests/faults/oracle.py": "judges what our own code has left behind, and so does without it",
    "tests/faults/test_backup.py": "what is in a copy of the database, and copies made by others",
    "tests/faults/test_broken_disk.py": "writes on a disk that fails, below everything that knows tables",
    "tests/faults/test_bugs.py": "a bug may be in a statement",
    "tests/faults/test_damage.py": "looks at every table of a damaged file, whatever it is",
    "tests/faults/test_growth.py": "the size of the log beside the database",
    "tests/faults/test_migrations.py": "tables that no release has",
    "tests/faults/test_power_cut.py": "writes on a disk that loses its power",
    "tests/faults/test_recovery.py": "a long past, made in one statement",
    "tests/faults/test_taken_away.py": "the database below everything that knows tables",
    "tests/attacks/test_words.py": "a local user who tampers with the audit",
    "tests/memory/test_audit.py": "the same",
    "tests/memory/test_index.py": "the version of the index, which is a file of its own",
}
SQL = re.compile(r"\s*(select\s.*\sfrom\s|insert\s+into\s|update\s+\w+\s+set\s|delete\s+from\s|pragma\s)", re.I | re.S)


def test_tests_know_no_tables() -> None:
    """A column that is renamed is renamed in one place of the suite."""
    found = {str(path.relative_to(ROOT)) for path in FILES if any(statements(tree(path)))}
    loose = {file for file in found if not file.startswith(tuple(SAYS_SQL))}
    assert loose == set()
    assert [known for known in SAYS_SQL if not any(file.startswith(known) for file in found)] == []


@pytest.mark.parametrize(
    "source",
    [
        'rows("select state from run")',
        'rows(f"select * from {table}")',
        'tx.run("""\n  update agent\n     set paused = 1""")',
        'LEFT = """\nSELECT 1\nFROM run"""',
    ],
)
def test_one_that_does_is_seen(source: str) -> None:
    assert list(statements(ast.parse(source)))


def test_words_about_a_choice_are_no_statement() -> None:
    assert not list(statements(ast.parse('say("select one of them, and update it")')))


def statements(module: ast.Module) -> Iterator[str]:
    """The texts of a module that are SQL."""
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            text = "".join(str(each.value) if isinstance(each, ast.Constant) else "x" for each in node.values)
        else:
            continue
        if SQL.match(text):
            yield text


WAITING = {"timeout", "within", "patience"}  #: arguments that say how long something may take
CLOCKS = {"monotonic", "perf_counter", "perf_counter_ns", "time"}


def test_no_test_asks_a_machine_to_be_quick() -> None:
    """One that waits uses tests.patience; a few tenths of a second are for what must run out, whatever the machine."""
    assert [place for path in FILES for place in hurried(tree(path), str(path.relative_to(ROOT)))] == []


@pytest.mark.parametrize(
    "source",
    [
        "subprocess.run(command, timeout=30)",
        "assert eventually(holds, within=20)",
        "async with asyncio.timeout(5): pass",
        "await asyncio.wait_for(work, 10)",
        "await wait_for(work, 10)",
        "child.wait(10)",
        "@pytest.mark.timeout(60)\ndef test_a(): pass",
        "assert time.monotonic() - began < 4",
    ],
)
def test_one_that_does_is_found(source: str) -> None:
    assert list(hurried(ast.parse(source), "x.py")) == ["x.py:1"]


def hurried(module: ast.Module, name: str) -> Iterator[str]:
    for node in ast.walk(module):
        if (isinstance(node, ast.Call) and any(map(_is_short, _patience_of(node)))) or _is_measured(node):
            yield f"{name}:{node.lineno}"


def _patience_of(call: ast.Call) -> Iterator[ast.expr]:
    yield from (each.value for each in call.keywords if each.arg in WAITING)
    if _last_word(call.func) in ("timeout", "wait", "join", "result"):
        yield from call.args[:1]
    if _last_word(call.func) == "wait_for":
        yield from call.args[1:2]


def _last_word(function: ast.expr) -> str:
    """Of `a.b.c`, c; of a name that was imported by itself, that."""
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else ""


def _is_short(value: ast.expr) -> bool:
    """Long enough to be meant as patience, and too short for it."""
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float) and 1 < value.value < 100


def _is_measured(node: ast.AST) -> TypeGuard[ast.Compare]:
    """By the machine's own clock; that of a `TestClock` is handed in."""
    spent = node.left if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Lt | ast.LtE) else None
    return isinstance(spent, ast.BinOp) and ast.unparse(spent.left) in {f"time.{clock}()" for clock in CLOCKS}
