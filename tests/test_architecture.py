"""Rules that nothing checks decay: which way imports point, what importing does, who may use which library."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

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
    ("cli",),
)
RANK = {name: number for number, row in enumerate(ROWS) for name in row}

#: Each third-party library is imported in one to three places.
LIBRARIES = {
    "apsw": {"database", "memory"},
    "yaml": {"definitions", "memory", "tools"},
    "pydantic": {"core", "definitions", "tools", "backends", "service"},
    "pydantic_core": {"definitions", "backends"},
    "cronsim": {"definitions", "schedules"},
    "click": {"cli"},
    "psutil": {"processes"},
    "acp": {"backends"},
    "pydantic_ai": {"backends"},
    "httpx2": {"backends", "tools"},
    "anthropic": {"backends"},
    "openai": {"backends"},
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


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports_of(path: Path) -> Iterator[str]:
    """Every import, also under TYPE_CHECKING, inside functions and by `import_module`."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "import_module":
            yield from (each.value for each in node.args[:1] if isinstance(each, ast.Constant))


def test_every_part_has_its_place() -> None:
    assert {part_of(path) for path in modules()} - {"__init__"} <= set(RANK)


def test_imports_point_down() -> None:
    assert not [
        f"{path.relative_to(SOURCE)} imports {name}: {other} is not below {me}"
        for path in modules()
        if (me := part_of(path)) != "__init__"
        for name in imports_of(path)
        if (other := part_named(name)) and other != me and RANK[other] >= RANK[me]
    ]


def part_named(module: str) -> str:
    """The part of the package that an import reaches for; '' when it is none of ours."""
    package, _, rest = module.partition(".")
    part = rest.partition(".")[0]
    return part if package == "agent_worker" and part in RANK else ""


def test_libraries_stay_where_they_belong() -> None:
    """A library that is in no list, too: is it needed?"""
    assert not [
        f"{path.relative_to(SOURCE)} imports {library}"
        for path in modules()
        for library in sorted({name.split(".")[0] for name in imports_of(path)})
        if library not in sys.stdlib_module_names
        and library != "agent_worker"
        and part_of(path) not in LIBRARIES.get(library, ())
    ]


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


def test_heavy_modules_are_imported_in_turns() -> None:
    """Two threads that import them at once may get a half-made module."""

    def late(node: ast.AST, *, alone: bool) -> Iterator[int]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ImportFrom) and child.module in HEAVY and not alone:
                yield child.lineno
            turns = isinstance(child, ast.With) and ast.unparse(child.items[0].context_expr) == "taking_turns"
            yield from late(child, alone=alone or turns)

    assert not [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in modules()
        for function in ast.walk(tree_of(path))
        if isinstance(function, ast.FunctionDef)
        for line in late(function, alone=False)
    ]


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
    found = [p for p in modules() if any(map(starts_git, ast.walk(tree_of(p))))]
    assert {str(p.relative_to(SOURCE)) for p in found} == {"processes/git.py"}


def test_a_git_repository_is_only_used_where_it_is_made() -> None:
    users = {str(p.relative_to(SOURCE)) for p in modules() if "agent_worker.processes.git" in set(imports_of(p))}
    assert users == {
        "cli/setup.py",
        *(f"workflows/{name}.py" for name in ("working_copy", "remote", "repositories", "trees", "walk")),
    }


def test_every_module_says_what_it_is() -> None:
    assert not [
        str(path.relative_to(SOURCE))
        for path in modules()
        if (path.name != "__init__.py" or path.parent == SOURCE) and not ast.get_docstring(tree_of(path))
    ]


def test_no_module_is_called_by_a_name_that_means_nothing() -> None:
    empty = {"utils", "helpers", "common", "misc", "base", "shared", "types", "constants", "manager", "handler"}
    assert not [p for p in modules() if p.stem in empty]
