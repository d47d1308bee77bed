"""Rules that nothing checks decay: which way imports point, what importing does, who may use which library."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "agent_worker"

#: From the ground up. A module imports from rows above it in this list, or from its own folder.
ROWS: tuple[tuple[str, ...], ...] = (
    ("core", "demo"),
    ("files", "processes", "client"),
    ("definitions", "database"),
    ("work",),
    ("trust", "workspaces", "memory", "schedules"),
    ("proposals",),
    ("tools",),
    ("backends",),
    ("agents",),
    ("workflows",),
    ("service",),
    ("compose",),
    ("api",),
    ("daemon",),
    ("local",),
    ("cli",),
)
RANK = {name: number for number, row in enumerate(ROWS) for name in row}

#: Each third-party library is imported in one to three places.
LIBRARIES = {
    "apsw": {"database", "memory"},
    "yaml": {"definitions", "memory", "tools"},
    "pydantic": {"definitions", "tools", "backends", "service"},
    "pydantic_core": {"definitions", "backends"},
    "cronsim": {"definitions", "schedules"},
    "click": {"cli"},
    "psutil": {"processes"},
    "acp": {"backends"},
    "pydantic_ai": {"backends"},
    "httpx2": {"backends", "tools"},
    "anthropic": {"backends"},
    "openai": {"backends"},
    "filelock": {"daemon"},
    "starlette": {"daemon"},
    "uvicorn": {"daemon"},
    "markdown_it": {"daemon"},
    "nh3": {"daemon"},
    "pygments": {"daemon"},
    "mcp": {"tools", "daemon"},
    "mcp_types": {"tools", "daemon"},
    "tree_sitter": {"trust"},
    "tree_sitter_bash": {"trust"},
    "ruamel": {"definitions"},
    "numpy": {"memory"},
    "wordllama": {"memory"},
}


def part_of(path: Path) -> str:
    relative = path.relative_to(SOURCE)
    return relative.parts[0].removesuffix(".py")


def modules() -> list[Path]:
    return sorted(p for p in SOURCE.rglob("*.py"))


def imports_of(path: Path) -> Iterator[str]:
    """Every import, also under TYPE_CHECKING and inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_part_has_its_place() -> None:
    assert {part_of(path) for path in modules()} - {"__init__"} <= set(RANK)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_down(path: Path) -> None:
    me = part_of(path)
    if me == "__init__":
        return
    for name in imports_of(path):
        pieces = name.split(".")
        if pieces[0] != "agent_worker" or len(pieces) < 2 or pieces[1] not in RANK:
            continue
        other = pieces[1]
        allowed = RANK[other] < RANK[me] or other == me
        assert allowed, f"{path.relative_to(SOURCE)} imports {name}: {other} is not below {me}"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_libraries_stay_where_they_belong(path: Path) -> None:
    for name in imports_of(path):
        library = name.split(".")[0]
        if library in sys.stdlib_module_names or library == "agent_worker":
            continue
        assert library in LIBRARIES, f"{library} is not in the list: is it needed?"
        assert part_of(path) in LIBRARIES[library], f"{path.relative_to(SOURCE)} imports {library}"


def test_package_files_are_empty() -> None:
    filled = [p for p in SOURCE.rglob("__init__.py") if p.read_text().strip() and p.parent != SOURCE]
    assert not filled


def test_importing_the_package_is_cheap() -> None:
    """The command line must not pay for what it does not use."""
    code = (
        "import sys, agent_worker, agent_worker.cli.main\n"
        "heavy = {'asyncio', 'pydantic', 'rich', 'apsw', 'yaml', 'pydantic_ai', 'mcp'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


#: Importing one of these brings in libraries whose modules import each other.
HEAVY = {
    f"agent_worker.{name}"
    for name in (
        "backends.models.library",
        "backends.models.anthropic_model",
        "backends.models.openai_model",
        "backends.programs.acp_talk",
        "tools.mcp_client",
        "daemon.mcp.server",
    )
}


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_heavy_modules_are_imported_in_turns(path: Path) -> None:
    """Two threads that import them at once may get a half-made module."""

    def late(node: ast.AST, *, alone: bool) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ImportFrom) and child.module in HEAVY and not alone:
                yield f"{path.relative_to(SOURCE)}:{child.lineno}"
            turns = isinstance(child, ast.With) and ast.unparse(child.items[0].context_expr) == "taking_turns"
            yield from late(child, alone=alone or turns)

    functions = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)]
    assert not [place for function in functions for place in late(function, alone=False)]


def starts_git(node: ast.AST) -> bool:
    """A command line that begins with git, or a call of something that starts programs with git among its words."""
    if isinstance(node, ast.List | ast.Tuple) and node.elts and isinstance(node.elts[0], ast.Constant):
        others = [each for each in node.elts if isinstance(each, ast.Constant) and not isinstance(each.value, str)]
        return not others and str(node.elts[0].value).rpartition("/")[2] == "git"
    starters = {"run", "Popen", "call", "check_call", "check_output", "getoutput", "system", "popen", "spawn", "start"}
    starters |= {"run_command", "create_subprocess_exec", "create_subprocess_shell", "execv", "execvp", "which"}
    if not isinstance(node, ast.Call) or ast.unparse(node.func).rpartition(".")[2] not in starters:
        return False
    words = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str))
    return any(re.search(r"(^|[\s/;&|])git($|\s)", word) for word in words)


def test_git_is_started_in_one_place() -> None:
    """There every repository is one of ours: elsewhere it would obey what it finds."""
    found = [p for p in modules() if any(map(starts_git, ast.walk(ast.parse(p.read_text()))))]
    assert {str(p.relative_to(SOURCE)) for p in found} == {"processes/git.py"}


def test_a_git_repository_is_only_used_where_it_is_made() -> None:
    users = {str(p.relative_to(SOURCE)) for p in modules() if "agent_worker.processes.git" in set(imports_of(p))}
    assert users == {
        "local/checks.py",
        *(f"workflows/{name}.py" for name in ("working_copy", "remote", "repositories", "trees", "walk")),
    }


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_every_module_says_what_it_is(path: Path) -> None:
    if path.name == "__init__.py" and path.parent != SOURCE:
        return
    assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"


def test_no_module_is_called_by_a_name_that_means_nothing() -> None:
    empty = {"utils", "helpers", "common", "misc", "base", "shared", "types", "constants", "manager", "handler"}
    assert not [p for p in modules() if p.stem in empty]
