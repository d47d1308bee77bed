"""The shape of the source beside that of libraries we learned from: sizes, cycles, chains, names.

    uv run python bench/shape.py [--write docs/figures/shape.md]

All imports count, those in functions and under TYPE_CHECKING too. The others are fetched without what they need:
nothing of them is run.
"""

from __future__ import annotations

import argparse
import ast
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from measures.earlier import ROOT, clone
from measures.figure import markdown

BEFORE = "817bc61"  # the commit whose rooms and names were put in order
OTHERS = {
    "starlette": "starlette==1.10.0",
    "huey": "huey==3.5.4",
    "procrastinate": "procrastinate==3.10.0",
    "langgraph": "langgraph==1.2.20",
    "pydantic_ai": "pydantic-ai-slim==2.66.0",
    "crewai": "crewai==1.15.30",
}
COLUMNS = (
    "",
    "files, lines",
    "file median / max",
    "function p90 / max",
    "functions over 50 lines",
    "broad excepts",
    "modules in cycles",
    "longest import chain",
    "most modules one knows",
    "class names twice",
)
HEAD = """# The shape of the source

Written by `uv run python bench/shape.py --write docs/figures/shape.md`; counted alike for all, and nothing is run.

"""
TAIL = """
Lines of a function are counted without its docstring. A *broad* except catches `Exception` or everything. The *longest
chain* is the longest way from module to module, where modules that import each other are one: it grows with the number
of small modules, and shrinks with cycles. How many modules one message and one vote enter, in which order:
`uv run python scripts/walk.py`, and [decision 23](../decisions/0023-as-many-modules-as-there-are-nouns.md).
"""


@dataclass(frozen=True, slots=True)
class Source:
    """One module, parsed."""

    lines: int
    tree: ast.Module
    imports: frozenset[str]


def sources(package: Path) -> dict[str, Source]:
    """The modules of a package by name, with those of the same package that each imports."""
    files = {_name(package, file): file for file in sorted(package.rglob("*.py"))}
    found = {}
    for name, file in files.items():
        text = file.read_text()
        tree = ast.parse(text)
        within = name if file.name == "__init__.py" else name.rpartition(".")[0]
        known = {_module(target, files) for target in _targets(tree, within)}
        found[name] = Source(text.count("\n"), tree, frozenset(known - {"", name}))
    return found


def _name(package: Path, file: Path) -> str:
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def _targets(tree: ast.Module, within: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = within.split(".")[: len(within.split(".")) - node.level + 1] if node.level else []
            stem = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{stem}.{alias.name}" for alias in node.names)


def _module(target: str, known: Mapping[str, Path]) -> str:
    """The module that an imported name is in; '' for one of another package."""
    while target and target not in known:
        target = target.rpartition(".")[0]
    return target


def components(graph: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Of each module, those it imports that import it again, itself among them."""

    @cache
    def reached(start: str) -> frozenset[str]:
        seen, waiting = {start}, [start]
        while waiting:
            new = graph[waiting.pop()] - seen
            seen |= new
            waiting.extend(new)
        return frozenset(seen)

    return {name: frozenset(other for other in reached(name) if name in reached(other)) for name in graph}


def longest_chain(graph: Mapping[str, frozenset[str]]) -> int:
    of = components(graph)

    @cache
    def length(part: frozenset[str]) -> int:
        below = {of[other] for name in part for other in graph[name]} - {part}
        return 1 + max(map(length, below), default=0)

    return max(map(length, set(of.values())))


def _functions(modules: Iterable[Source]) -> list[int]:
    """How many lines each has, without its docstring."""
    found = []
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                said = node.body[0] if ast.get_docstring(node, clean=False) is not None else None
                doc = (said.end_lineno or 0) - said.lineno + 1 if said else 0
                found.append((node.end_lineno or 0) - node.lineno + 1 - doc)
    return sorted(found)


def _excepts(modules: Iterable[Source]) -> tuple[int, int]:
    """How many there are, and how many of them catch everything."""
    found = [node for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.ExceptHandler)]
    broad = [
        node
        for node in found
        if node.type is None or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException"))
    ]
    return len(found), len(broad)


def shape(name: str, package: Path) -> tuple[str, ...]:
    modules = sources(package)
    graph = {each: module.imports for each, module in modules.items()}
    real = [module.lines for module in modules.values() if module.lines > 3]
    functions = _functions(modules.values())
    excepts, broad = _excepts(modules.values())
    classes = Counter(
        node.name for module in modules.values() for node in module.tree.body if isinstance(node, ast.ClassDef)
    )
    return (
        name,
        f"{len(real)}, {sum(real) / 1000:.1f}k",
        f"{statistics.median(real):.0f} / {max(real)}",
        f"{functions[int(0.9 * len(functions))]} / {functions[-1]}",
        str(sum(lines > 50 for lines in functions)),
        f"{100 * broad / max(excepts, 1):.0f} %",
        f"{sum(len(part) > 1 for part in components(graph).values())} of {len(graph)}",
        str(longest_chain(graph)),
        str(max(map(len, graph.values()))),
        str(sum(count > 1 for count in classes.values())),
    )


def rows(folder: Path) -> Iterator[tuple[str, ...]]:
    yield shape("**agent-worker**", ROOT / "src" / "agent_worker")
    yield shape("agent-worker, before its rooms were put in order", clone(BEFORE, folder) / "agent_worker")
    for package, wanted in OTHERS.items():
        into = folder / package
        subprocess.run(("uv", "pip", "install", "--quiet", "--no-deps", "--target", into, wanted), cwd="/", check=True)
        yield shape(wanted.partition("==")[0].removesuffix("-slim"), into / package)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    sys.setrecursionlimit(10_000)
    with tempfile.TemporaryDirectory(prefix="shape-") as folder:
        table = markdown(COLUMNS, rows(Path(folder)))
    print(table)
    if asked.write:
        asked.write.write_text(f"{HEAD}{table}\n{TAIL}")


if __name__ == "__main__":
    main()
