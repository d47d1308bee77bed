"""How the source is broken on purpose: a bug says in which symbol it is made, what is right there, and what is wrong.

A symbol is a function, a class, or a name that a module or a class is given: `Limiter.refused`, `finish`, `TEXTS`.
It is looked for in the whole package, so it may live in any file; where several have the name, only one may hold what
is right. An `Edit` compares syntax, not text: layout, quotes and comments do not matter. `Inside` is for words within a
string, mostly SQL. Proofs are found by the name of the test function alone.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path("src") / "agent_worker"

Block = list[ast.stmt]


class Stale(Exception):
    """The table no longer fits the tree."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Statements, or one expression, and what stands there instead; no statements at all: they are left out.

    `...` as the only thing inside of a statement is whatever is inside: `if late: ...` becomes `if True: ...`.
    """

    symbol: str
    right: str
    wrong: str

    def found(self, node: ast.AST) -> int:
        """How often what is right stands in this symbol."""
        if self._is_expression:
            is_right = _likeness(_expression(self.right))
            return sum(map(is_right, ast.walk(node)))
        return sum(1 for _ in _places(node, _statements(self.right)))

    def make(self, node: ast.AST) -> None:
        if self._is_expression:
            _Exchange(_expression(self.right), _expression(self.wrong)).generic_visit(node)
            return
        right, wrong = _statements(self.right), _statements(self.wrong)
        for block, start in list(_places(node, right)):
            kept = [each.body for each in block[start : start + len(right)] if hasattr(each, "body")]
            for each in filter(_is_open, wrong):
                each.body = kept[0]  # type: ignore[attr-defined]
            block[start : start + len(right)] = wrong
            if not block:
                block.append(ast.Pass())

    @property
    def _is_expression(self) -> bool:
        return all(
            len(code) == 1 and isinstance(code[0], ast.Expr)
            for code in (_statements(self.right), _statements(self.wrong))
        )


@dataclass(frozen=True, slots=True)
class Inside:
    """Words in one of the strings of a symbol; how they are spaced does not matter."""

    symbol: str
    right: str
    wrong: str

    def found(self, node: ast.AST) -> int:
        return sum(len(self._words.findall(str(each.value))) for each in _strings(node))

    def make(self, node: ast.AST) -> None:
        for each in _strings(node):
            each.value = self._words.sub(lambda _: self.wrong, str(each.value))

    @property
    def _words(self) -> re.Pattern[str]:
        return re.compile(r"\s+".join(map(re.escape, self.right.split())))


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    row: str  #: of the promise or attack that it breaks
    proof: str  #: the test function that must turn red, with the one case of it that is enough
    edits: tuple[Edit | Inside, ...]

    @property
    def function(self) -> str:
        return self.proof.partition("[")[0]

    def test(self, root: Path) -> str:
        """Its proof as pytest calls it."""
        files = _tests(root).get(self.function, [])
        if len(files) != 1:
            raise Stale(f"{self.name}: {len(files)} tests are called {self.function}")
        return f"{files[0].relative_to(root)}::{self.proof}"

    def made(self, root: Path) -> dict[Path, str]:
        """The files that it changes, as they are with it."""
        trees = {path: tree for path, tree, _, _ in self.broken(root)}
        return {path: ast.unparse(tree) + "\n" for path, tree in trees.items()}

    def broken(self, root: Path) -> list[tuple[Path, ast.Module, str, ast.AST]]:
        """For each edit: its file with all of them, its symbol, and that symbol in the file."""
        trees: dict[Path, ast.Module] = {}
        found = []
        for edit in self.edits:
            path, symbol = self._place(root, edit)
            tree = trees.setdefault(path, ast.parse(path.read_text("utf-8")))
            (node,) = (each for name, each in symbols(tree) if name == symbol and edit.found(each))
            edit.make(node)
            found.append((path, tree, symbol, node))
        return found

    def _place(self, root: Path, edit: Edit | Inside) -> tuple[Path, str]:
        named = [each for each in _package(root)[edit.symbol.rpartition(".")[2]] if _is(each[1], edit.symbol)]
        found = [(path, name) for path, name, node in named for _ in range(edit.found(node))]
        if len(found) != 1:
            where = f"{len(named)} places called {edit.symbol}"
            raise Stale(f"{self.name}: in {where} this was found {len(found)} times: {edit.right!r}")
        return found[0]


def _is(name: str, wanted: str) -> bool:
    return f".{name}".endswith(f".{wanted}")


@cache
def _package(root: Path) -> Mapping[str, list[tuple[Path, str, ast.AST]]]:
    """Everything that has a name, by the last part of it."""
    found = defaultdict(list)
    for path in sorted((root / PACKAGE).rglob("*.py")):
        for name, node in symbols(ast.parse(path.read_text("utf-8"))):
            found[name.rpartition(".")[2]].append((path, name, node))
    return found


@cache
def _tests(root: Path) -> Mapping[str, list[Path]]:
    found = defaultdict(list)
    for path in sorted((root / "tests").rglob("test_*.py")):
        for name in re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE):
            found[name].append(path)
    return found


def symbols(node: ast.AST, within: str = "") -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield within + name, child
                yield from symbols(child, f"{within}{name}.")
            case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
                if isinstance(node, ast.Module | ast.ClassDef):
                    yield within + name, child
            case ast.stmt():
                yield from symbols(child, within)


def _places(node: ast.AST, right: Block) -> Iterator[tuple[Block, int]]:
    for each in ast.walk(node):
        for _, block in ast.iter_fields(each):
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                for start in range(len(block) - len(right) + 1):
                    if all(map(_fits, right, block[start:])):
                        yield block, start


def _fits(right: ast.stmt, found: ast.stmt) -> bool:
    if _is_open(right) and type(right) is type(found):
        return _dump_open(right) == _dump_open(found)
    return type(right) is type(found) and ast.dump(right) == ast.dump(found)


def _is_open(statement: ast.stmt) -> bool:
    match getattr(statement, "body", None):
        case [ast.Expr(ast.Constant(value))]:
            return value is ...
    return False


def _dump_open(statement: ast.stmt) -> str:
    """All of a statement but what is inside of it."""
    fields = {name: [] if name == "body" else value for name, value in ast.iter_fields(statement)}
    return ast.dump(type(statement)(**fields))


def _strings(node: ast.AST) -> Iterator[ast.Constant]:
    return (each for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str))


def _statements(code: str) -> Block:
    return ast.parse(textwrap.dedent(code)).body


def _expression(code: str) -> ast.expr:
    (only,) = _statements(code)
    assert isinstance(only, ast.Expr)
    return only.value


class _Exchange(ast.NodeTransformer):
    def __init__(self, right: ast.expr, wrong: ast.expr) -> None:
        self._is_right = _likeness(right)
        self._wrong = wrong

    def visit(self, node: ast.AST) -> ast.AST:
        return self._wrong if self._is_right(node) else self.generic_visit(node)


def _likeness(wanted: ast.expr) -> Callable[[ast.AST], bool]:
    """Whether some code is this, whatever its layout; most of all code is told apart by its kind already."""
    kind, text = type(wanted), ast.dump(wanted)
    return lambda node: type(node) is kind and ast.dump(node) == text
