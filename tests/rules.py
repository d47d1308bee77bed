"""Rules about the source, each a function of a source tree that names every violation. Held by test_architecture.py."""

from __future__ import annotations

import ast
import io
import itertools
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One file of a package, parsed once."""

    root: Path
    path: Path

    @property
    def file(self) -> str:
        return str(self.path.relative_to(self.root))

    @property
    def part(self) -> str:
        """The folder at the top of the package, or the file there."""
        return self.path.relative_to(self.root).parts[0].removesuffix(".py")

    @cached_property
    def name(self) -> str:
        return ".".join([self.root.name, *(each for each in self.path.relative_to(self.root).with_suffix("").parts)])

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text())

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def imports(self) -> list[tuple[int, str]]:
        """Every import with its line, even under TYPE_CHECKING, in functions, by `import_module` or `__import__`."""
        found: list[tuple[int, str]] = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found += [(node.lineno, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = self.name.split(".")[: -node.level] if node.level else []
                stem = ".".join([*base, *([node.module] if node.module else [])])
                found += [(node.lineno, stem), *((node.lineno, f"{stem}.{alias.name}") for alias in node.names)]
            elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
                "import_module",
                "__import__",
            ):
                found += [(node.lineno, str(each.value)) for each in node.args[:1] if isinstance(each, ast.Constant)]
        return found

    @cached_property
    def docstrings(self) -> list[ast.Constant]:
        found = []
        for node in self.nodes:
            if isinstance(node, Documented) and node.body and isinstance(node.body[0], ast.Expr):
                first = node.body[0].value
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    found.append(first)
        return found

    @cached_property
    def said(self) -> list[tuple[int, str]]:
        """What is written for a reader, with its line: docstrings and comments."""
        tokens = tokenize.generate_tokens(io.StringIO(self.path.read_text()).readline)
        comments = [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
        return [*((each.lineno, str(each.value)) for each in self.docstrings), *comments]


@cache
def modules(root: Path) -> list[Module]:
    return [Module(root, path) for path in sorted(root.rglob("*.py"))]


@cache
def known_by(root: Path) -> dict[str, set[str]]:
    """Which modules of the package each module imports; a folder's empty file counts for nothing."""
    files = {module.name.removesuffix(".__init__"): module for module in modules(root)}
    filled = {name for name, module in files.items() if module.path.read_text().strip()}
    found: dict[str, set[str]] = {}
    for name, module in files.items():
        others = {each for _, each in module.imports if each in filled}
        others |= {each.rpartition(".")[0] for _, each in module.imports if each.rpartition(".")[0] in filled}
        found[name] = others - {name, root.name}
    return found


# --- imports ------------------------------------------------------------------------------------------


def relative_imports(root: Path) -> list[str]:
    return [
        f"{module.file}:{node.lineno}"
        for module in modules(root)
        for node in module.nodes
        if isinstance(node, ast.ImportFrom) and node.level
    ]


def upward_imports(root: Path, rows: Sequence[Collection[str]]) -> list[str]:
    """A module imports from rows above its own in the list, or from its own folder."""
    rank = {name: number for number, row in enumerate(rows) for name in row}
    wrong = []
    for module in modules(root):
        me = module.part
        for line, name in module.imports if me != "__init__" else ():
            pieces = name.split(".")
            if pieces[0] != root.name or len(pieces) < 2 or pieces[1] not in rank or pieces[1] == me:
                continue
            if rank[pieces[1]] >= rank[me]:
                wrong.append(f"{module.file}:{line} imports {name}: {pieces[1]} is not below {me}")
    return wrong


def foreign_imports(root: Path, part: str, allowed: Collection[str], late: Collection[str]) -> list[str]:
    """A part imports only from the allowed ones, and from the late ones only when a function is called."""
    wrong = []
    for module in modules(root):
        if module.part != part:
            continue
        inside = _lines_in_functions(module.tree)
        for line, name in module.imports:
            pieces = name.split(".")
            if pieces[0] != root.name or len(pieces) < 2 or pieces[1] in {part, *allowed}:
                continue
            if pieces[1] not in late:
                wrong.append(f"{module.file}:{line} imports {name}")
            elif line not in inside:
                wrong.append(f"{module.file}:{line} imports {name} before it is needed")
    return wrong


def _lines_in_functions(tree: ast.Module) -> set[int]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {line for node in functions for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def knows_too_many(
    root: Path, most: int, exempt: Collection[str], like_the_standard_library: Collection[str] = ()
) -> list[str]:
    counted = {name: others - set(like_the_standard_library) for name, others in known_by(root).items()}
    return [
        f"{name} knows {len(others)} modules"
        for name, others in counted.items()
        if len(others) > most and name not in exempt
    ]


def import_cycles(root: Path) -> list[str]:
    """Modules that know each other, directly or by others: take away whoever knows nobody that is left."""
    left = known_by(root)
    while free := {name for name, others in left.items() if not others & left.keys()}:
        left = {name: others for name, others in left.items() if name not in free}
    while free := left.keys() - {other for others in left.values() for other in others}:
        left = {name: others for name, others in left.items() if name not in free}
    return sorted(left)


def misplaced_libraries(root: Path, allowed: Mapping[str, Collection[str]]) -> list[str]:
    wrong = []
    for module in modules(root):
        for line, name in module.imports:
            library = name.split(".")[0]
            if library in sys.stdlib_module_names or library == root.name:
                continue
            if library not in allowed:
                wrong.append(f"{module.file}:{line}: {library} is not in the list: is it needed?")
            elif module.part not in allowed[library]:
                wrong.append(f"{module.file}:{line} imports {library}")
    return wrong


def unheard_imports(root: Path, heavy: Set[str]) -> list[str]:
    """Heavy modules that a function imports without `taking_turns`: two threads may get a half-made module."""

    def late(module: Module, node: ast.AST, *, alone: bool) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if not alone and not heavy.isdisjoint(_imported(child)):
                yield f"{module.file}:{child.lineno}"
            turns = isinstance(child, ast.With) and ast.unparse(child.items[0].context_expr) == "taking_turns"
            yield from late(module, child, alone=alone or turns)

    return [
        place
        for module in modules(root)
        for node in module.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for place in late(module, node, alone=False)
    ]


def _imported(node: ast.AST) -> set[str]:
    """What a statement imports, if it is an import: modules, and what may be modules."""
    if isinstance(node, ast.ImportFrom):
        return {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()


# --- names and words ----------------------------------------------------------------------------------


def doubled_classes(root: Path) -> list[str]:
    found: dict[str, list[str]] = defaultdict(list)
    for module in modules(root):
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(module.file)
    return [f"{name}: {', '.join(files)}" for name, files in found.items() if len(files) > 1]


def unexplained_packages(root: Path, words: str) -> list[str]:
    """Packages that the page of words does not name, in a line of its table."""
    packages = {module.path.parent.name for module in modules(root) if module.path.parent != root}
    named = set(re.findall(r"`(?:\w+/)*(\w+)/`", words))
    return sorted(packages - named)


def unexplained_nouns(root: Path, words: str) -> list[str]:
    """Files of operations, one per noun, that the page of words does not name."""
    nouns = {
        module.path.stem
        for module in modules(root)
        for node in module.nodes
        if module.part == "service" and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if any(ast.unparse(each).startswith("operation(") for each in node.decorator_list)
    }
    return sorted(noun for noun in nouns if f"`{noun}`" not in words)


#: What a docstring may cite: a page of ours, a file of ours. Numbers of rows elsewhere tell a stranger nothing.
_PAGE = re.compile(r"\bdocs/[\w./-]+\.md\b")
_FILE = re.compile(r"(?<![\w.*/<-])((?:\w+/)*\w+\.py)\b")
_ROW = re.compile(r"\((?:[a-z ]* )?([A-Z]\d{1,2})\b")
_ABSENT = re.compile(r"§ ?\d|\b(?:SPEC|RELIABILITY|STACK|HOUSE|STYLE|POSTGRES)\b")


def dead_citations(root: Path, repository: Path) -> list[str]:
    """What is cited and is not there. A file without a folder is one of the module's own folder, or of the top."""
    files = [module.file for module in modules(root)]
    wrong = []
    for module in modules(root):
        for line, text in module.said:
            dead = [*_ABSENT.findall(text), *(page for page in _PAGE.findall(text) if not (repository / page).exists())]
            for name in _FILE.findall(text):
                here = (module.path.parent / name).exists() or (root / name).exists() or (repository / name).exists()
                if not here and not ("/" in name and any(f"/{file}".endswith(f"/{name}") for file in files)):
                    dead.append(name)
            dead += _ROW.findall(text)
            wrong += [f"{module.file}:{line} cites {name}" for name in dead]
    return wrong


#: Things that are counted for people; `plural` in core/text.py knows when there is only one.
_COUNTED = re.compile(
    r"\s(?:more |older )?(?:bytes|characters|commits|days|entries|files|items|lines|messages|minutes|others|"
    r"steps|voters|votes)\b"
)


def lone_plurals(root: Path) -> list[str]:
    """Texts such as `{count} messages`, which say `1 messages`. A number that is a constant of ours is known."""
    wrong = []
    for module in modules(root):
        for text in module.nodes:
            pieces = text.values if isinstance(text, ast.JoinedStr) else []
            for value, words in itertools.pairwise(pieces):
                if not (isinstance(value, ast.FormattedValue) and isinstance(words, ast.Constant)):
                    continue
                names = {each.id for each in ast.walk(value.value) if isinstance(each, ast.Name)}
                if _COUNTED.match(str(words.value)) and not all(name.isupper() for name in names):
                    wrong.append(f"{module.file}:{text.lineno}{str(words.value)[:20]}")
    return wrong


def taken_apart_names(root: Path, exempt: Collection[str]) -> list[str]:
    """Whoever spells `workflow:tag`, or takes it apart, without the module that knows what a missing tag means."""
    wrong = []
    for module in modules(root):
        for node in module.nodes if module.file not in exempt else ():
            if isinstance(node, ast.Assign) and _cut_at_colon(node.value):
                names = {each.id for each in ast.walk(node.targets[0]) if isinstance(each, ast.Name)}
                found = bool(names & {"workflow", "tag"})
            elif isinstance(node, ast.Subscript) and _cut_at_colon(node.value):
                found = bool(_WORKSPACE.search(ast.unparse(node.value).partition(".partition")[0]))
            elif isinstance(node, ast.JoinedStr):
                found = any(_is_tag_behind_colon(*pair) for pair in itertools.pairwise(node.values))
            else:
                continue
            wrong += [f"{module.file}:{node.lineno}"] if found else []
    return wrong


_WORKSPACE = re.compile(r"(?:workflow|workspace|instance|\bname|\bplace|\bat|\['name'\])$|^name\[")


def _cut_at_colon(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
        return False
    return node.func.attr in ("partition", "split") and ast.unparse(node.args[0]) == "':'"


def _is_tag_behind_colon(before: ast.AST, behind: ast.AST) -> bool:
    if not (isinstance(before, ast.Constant) and isinstance(behind, ast.FormattedValue)):
        return False
    return before.value == ":" and re.search(r"\btag\b", ast.unparse(behind.value)) is not None


def wordless_modules(root: Path) -> list[str]:
    """Files without a docstring; those that make a folder a package are empty."""
    return [
        module.file
        for module in modules(root)
        if (module.path.name != "__init__.py" or module.path.parent == root) and not ast.get_docstring(module.tree)
    ]


def long_files(root: Path, most: int, exempt: Collection[str]) -> list[str]:
    """Files that hold more than one can read in one sitting."""
    lines = {module.file: len(module.path.read_text().splitlines()) for module in modules(root)}
    return [f"{file} has {n} lines" for file, n in lines.items() if n > most and file not in exempt]


def long_heads(root: Path, most: int, exempt: Collection[str]) -> list[str]:
    """Modules that say more about themselves than anybody reads before the code."""
    heads = {module.file: len((ast.get_docstring(module.tree) or "").splitlines()) for module in modules(root)}
    return [f"the head of {file} has {n} lines" for file, n in heads.items() if n > most and file not in exempt]


def crowded_functions(root: Path, most: int) -> list[str]:
    """Functions that take so many arguments that some of them should be one value."""
    wrong = []
    for module in modules(root):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                taken = len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])
                wrong += [f"{module.file}:{node.lineno} {node.name} takes {taken} arguments"] if taken > most else []
    return wrong


# --- who does what ------------------------------------------------------------------------------------

_WRITES = re.compile(
    r"\b(?:insert(?:\s+or\s+\w+)?\s+into|replace\s+into|delete\s+from|update(?:\s+or\s+\w+)?)\s+"
    r"(?:\"?\w+\"?\.)?[\"`\[]?([a-z_]+)\b(?!\s*:)",
    re.IGNORECASE,
)
_STATEMENT = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:insert|replace|delete|update|with)\b", re.IGNORECASE | re.DOTALL
)


def second_writers(root: Path, tables: Collection[str], exempt: Collection[str]) -> list[str]:
    """Tables that more than one module writes. `exempt` files rebuild whole databases."""
    writers: dict[str, set[str]] = {table: set() for table in tables}
    for module in modules(root):
        spoken = {id(each) for each in module.docstrings}
        for text in _texts(module.nodes, spoken) if module.file not in exempt else ():
            for table in _WRITES.findall(text) if _STATEMENT.match(text) else ():
                if table.lower() in writers:
                    writers[table.lower()].add(module.file)
    return [f"{table}: {', '.join(sorted(files))}" for table, files in writers.items() if len(files) > 1]


def _texts(nodes: Collection[ast.AST], but: Collection[int]) -> Iterator[str]:
    """Every string, and what is fixed of those that are put together."""
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in but:
            yield node.value


_ASKS = {
    *(
        "time.time",
        "time.time_ns",
        "time.gmtime",
        "time.localtime",
        "time.monotonic",
        "time.monotonic_ns",
        "time.perf_counter",
        "time.sleep",
    ),
    *("datetime.now", "datetime.utcnow", "datetime.today", "date.today", "asyncio.sleep", "anyio.sleep", "loop.time"),
    *("get_running_loop().time", "get_event_loop().time"),
}


def own_clocks(root: Path) -> list[str]:
    """Whoever asks the system for the time or waits, or hands on what does.

    By whatever name it was imported. To wait for nothing is no waiting.
    """
    wrong = []
    for module in modules(root):
        calls = [node for node in module.nodes if isinstance(node, ast.Call)]
        at_once = {id(call.func) for call in calls if [ast.unparse(each) for each in call.args] == ["0"]}
        known = _imported_names(module)
        for node in module.nodes:
            if not isinstance(node, ast.Attribute | ast.Name) or id(node) in at_once:
                continue
            first, dot, rest = ast.unparse(node).partition(".")
            used = ".".join(f"{known.get(first, first)}{dot}{rest}".split(".")[-2:]).lstrip("_")
            if used in _ASKS:
                wrong.append(f"{module.file}:{node.lineno} uses {used}")
    return wrong


def _imported_names(module: Module) -> dict[str, str]:
    """What each name that was imported stands for: `sleep` is asyncio.sleep, `t` is time."""
    found = {}
    for node in module.nodes:
        if isinstance(node, ast.Import):
            found |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return found


def git_starters(root: Path) -> list[str]:
    """Files with a command line that begins with git, or a call that starts programs with git among its words."""
    return [module.file for module in modules(root) if any(map(_starts_git, module.nodes))]


def _starts_git(node: ast.AST) -> bool:
    if isinstance(node, ast.List | ast.Tuple) and node.elts and isinstance(node.elts[0], ast.Constant):
        others = [each for each in node.elts if isinstance(each, ast.Constant) and not isinstance(each.value, str)]
        return not others and str(node.elts[0].value).rpartition("/")[2] == "git"
    starters = {"run", "Popen", "call", "check_call", "check_output", "getoutput", "system", "popen", "spawn", "start"}
    starters |= {"run_command", "create_subprocess_exec", "create_subprocess_shell", "execv", "execvp", "which"}
    if not isinstance(node, ast.Call) or ast.unparse(node.func).rpartition(".")[2] not in starters:
        return False
    words = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str))
    return any(re.search(r"(^|[\s/;&|])git($|\s)", word) for word in words)
