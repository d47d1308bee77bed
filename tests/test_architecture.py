"""Rules that nothing checks decay: which way imports point, what importing does, who may use which library.

The rules are functions of a source tree (rules.py); here each is held for ours, and proved by a tree that breaks it.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import rules

pytestmark = pytest.mark.usefixtures("keep_all")

REPOSITORY = Path(__file__).parent.parent
SOURCE = REPOSITORY / "src" / "agent_worker"

#: From the ground up. A module imports from rows above it in this list, or from its own folder.
ROWS: tuple[tuple[str, ...], ...] = (
    ("core", "demo"),
    ("files", "processes", "client"),
    ("definitions", "database"),
    ("work",),
    ("trust", "workspaces", "memory", "schedules"),
    ("proposals", "identity"),
    ("tools",),
    ("backends",),
    ("agents",),
    ("workflows",),
    ("service",),
    ("compose",),
    ("api",),
    ("testing", "pytest_fixtures"),
    ("doors",),
    ("daemon",),
    ("offline",),
    ("cli",),
)

#: Each third-party library is imported in a few places: all of these, and no others.
LIBRARIES = {
    "apsw": {"database", "memory"},
    "psycopg": {"database"},
    "yaml": {"definitions"},
    "pydantic": {"core", "definitions", "tools", "backends", "service"},
    "pydantic_core": {"definitions"},
    "cronsim": {"definitions", "schedules"},
    "click": {"cli"},
    "psutil": {"processes"},
    "acp": {"backends", "doors"},
    "genai_prices": {"backends"},
    "httptools": {"backends"},
    "httpx2": {"tools"},
    "starlette": {"doors", "daemon"},
    "opentelemetry": {"doors"},
    "uvicorn": {"daemon"},
    "markdown_it": {"daemon"},
    "nh3": {"daemon"},
    "pygments": {"daemon"},
    "mcp": {"tools", "daemon"},
    "mcp_types": {"tools", "daemon"},
    "tree_sitter": {"trust"},
    "tree_sitter_bash": {"trust"},
    "numpy": {"memory"},
    "wordllama": {"memory"},
    "safetensors": {"memory"},
    "tokenizers": {"memory"},
}

#: Importing one of these brings in libraries whose modules import each other.
HEAVY = {
    f"agent_worker.{name}"
    for name in (
        "backends.programs.acp_talk",
        "tools.mcp_client",
        "daemon.mcp.server",
    )
}

#: Who asks the system for the time, or sleeps, without a clock that a test could hand in; each with its reason.
CLOCKS = {
    "core/clock.py": "the clock itself",
    "core/ids.py": "the time an id was made only puts ids into a rough order",
    "core/failpoints.py": "waits to be killed, in tests",
    "api/connected.py": "waits for a daemon that is gone, which sends no event",
    "client/": "the command line waits for another process",
    "cli/": "a program that ends before a clock could matter; ages are shown to a person",
    "offline/cluster.py": "shows how long other processes take",
    "offline/stored.py": "waits for a daemon that is stopping, and names files by the time",
    "database/runtime_lock.py": "waits for another process that is about to end",
    "database/sqlite.py": "the writer has a thread of its own; the time of an event is shown and decides nothing",
    "database/postgres.py": "the same; and it waits for a server that is away",
    "database/postgres_faults.py": "how long a server is away, for that thread and the readers'",
    "database/postgres_readers.py": "the same",
    "database/postgres_feed.py": "the same thread, which looks again after seconds",
    "database/postgres_trips.py": "patience with a server that says nothing",
    "database/postgres_lease.py": "a thread of its own; how long a beat took, and when the next is due",
    "agents/hosting.py": "by the time of the event loop, in which the thread of the lease says when it has beaten",
    "files/root.py": "waits for another host that writes the same file",
    "daemon/process/lock.py": "waits for another process that is about to write its name",
    "daemon/http/connection.py": "patience with a socket, by the time of the event loop",
    "daemon/http/server.py": "the same",
    "doors/event_stream.py": "lets the last bytes leave before the process ends",
    "daemon/web/rendering.py": "patience with another process, in a thread",
    "daemon/web/home.py": "which days a person is shown",
    "processes/child.py": "waits for a real process to be gone",
    "backends/programs/runner.py": "waits for a real program to end",
    "backends/models/http_connection.py": "patience with a socket, by the time of the event loop",
    "backends/models/model_client.py": "for how long a socket was not used, by the same",
    "backends/programs/acp_pipe.py": "the same",
    "backends/programs/probe.py": "how long a real program took",
}

#: Writes into a database that was damaged, or a new one in its place: every table, by the names in the schema.
REBUILDS = {"database/recovery.py"}


def none(found: list[str]) -> None:
    assert not found, "\n".join(found)


def test_every_part_has_its_place() -> None:
    assert {module.part for module in rules.modules(SOURCE)} - {"__init__"} == {name for row in ROWS for name in row}


def test_imports_are_absolute() -> None:
    none(rules.relative_imports(SOURCE))


def test_imports_point_down() -> None:
    none(rules.upward_imports(SOURCE, ROWS))


def test_the_command_line_knows_the_client_and_the_core() -> None:
    """What a command does itself, without the daemon, is in offline/, and loaded when that command runs."""
    none(rules.foreign_imports(SOURCE, "cli", allowed={"client", "core"}, late={"offline", "doors"}))


def test_every_command_has_its_module() -> None:
    from agent_worker.cli.main import COMMANDS

    for module, function, _ in COMMANDS.values():
        assert callable(getattr(importlib.import_module(module), function))


def test_no_module_knows_more_than_25_others() -> None:
    exempt = {"agent_worker.compose", "agent_worker.service.catalogue"}
    none(rules.knows_too_many(SOURCE, 25, exempt, like_the_standard_library={"agent_worker.core.later"}))


def test_no_modules_import_each_other() -> None:
    none(rules.import_cycles(SOURCE))


def test_libraries_stay_where_they_belong() -> None:
    none(rules.misplaced_libraries(SOURCE, LIBRARIES))
    imported = {(name.partition(".")[0], module.part) for module in rules.modules(SOURCE) for _, name in module.imports}
    unused = [(name, part) for name, parts in LIBRARIES.items() for part in parts if (name, part) not in imported]
    assert not unused, "nobody imports it there any more"


def test_heavy_modules_are_imported_in_turns() -> None:
    none(rules.unheard_imports(SOURCE, HEAVY))


def test_package_files_are_empty() -> None:
    none([str(p) for p in SOURCE.rglob("__init__.py") if p.read_text().strip() and p.parent != SOURCE])


def test_importing_the_package_is_cheap() -> None:
    """The command line must not pay for what it does not use."""
    code = (
        "import sys, agent_worker, agent_worker.cli.main\n"
        "heavy = {'asyncio', 'pydantic', 'rich', 'apsw', 'yaml', 'httptools', 'mcp'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_somebody_listens_for_ctrl_c_before_the_program_imports_anything() -> None:
    """Whoever presses it sooner sees a traceback."""
    code = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import agent_worker.cli.__main__\n"
        "others = {m for m in set(sys.modules) - before if not m.startswith('agent_worker')} - {'__future__'}\n"
        "assert not others, others"
    )
    subprocess.run([sys.executable, "-S", "-c", code], check=True, env=os.environ | {"PYTHONPATH": str(SOURCE.parent)})


def test_agents_in_this_process_load_only_what_every_project_needs() -> None:
    """What one project needs and the next does not is imported by whoever needs it; nothing is built before."""
    code = (
        "import sys, agent_worker.api.local, agent_worker.api.runtime\n"
        "ours = {f'agent_worker.{each}' for each in ('cli', 'daemon', 'offline', 'backends.programs.known')}\n"
        "libraries = {'acp', 'click', 'genai_prices', 'httpx2', 'markdown_it', 'mcp', 'nh3', 'psutil', 'httptools', "
        "'starlette', 'uvicorn', 'importlib.metadata'}\n"
        "built = {'pydantic.plugin._loader'}  # loaded when the first model is built\n"
        "heavy = (ours | libraries | built) & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_program_that_uses_the_daemon_does_not_load_what_runs_agents() -> None:
    code = (
        "import sys\n"
        "from agent_worker import Agent, Answer, Team, connect\n"
        "connect('.')\n"
        "heavy = {'pydantic', 'apsw', 'yaml', 'agent_worker.service', 'agent_worker.compose'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_sending_a_message_does_not_load_what_draws_answers() -> None:
    code = (
        "import sys, agent_worker.cli.messages\n"
        "drawing = {m for m in sys.modules if m.endswith(('cli.console', 'cli.prose', 'cli.live'))}\n"
        "assert not drawing, drawing"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_each_table_has_one_writer() -> None:
    schema = "\n".join(path.read_text() for path in sorted((SOURCE / "database" / "schema").glob("*.sql")))
    tables = re.findall(r"(?i)^create table (\w+)", schema, re.MULTILINE)
    assert "message" in tables
    none(rules.second_writers(SOURCE, tables, exempt=REBUILDS))


def test_only_the_clock_asks_for_the_time() -> None:
    found = rules.own_clocks(SOURCE)
    none([place for place in found if not place.startswith(tuple(CLOCKS))])
    assert [known for known in CLOCKS if not any(place.startswith(known) for place in found)] == [], "nobody there asks"


def test_git_is_started_in_one_place() -> None:
    """There every repository is one of ours: elsewhere it would obey what it finds."""
    assert rules.git_starters(SOURCE) == ["processes/git.py"]


def test_a_git_repository_is_only_used_where_it_is_made() -> None:
    users = {name for name, known in rules.known_by(SOURCE).items() if "agent_worker.processes.git" in known}
    assert users == {
        "agent_worker.offline.checks",
        *(f"agent_worker.workflows.{name}" for name in ("working_copy", "remote", "repositories", "trees", "walk")),
    }


def test_every_module_says_what_it_is() -> None:
    none(rules.wordless_modules(SOURCE))


def test_no_file_is_longer_than_one_sitting() -> None:
    none(rules.long_files(SOURCE, 450, exempt=()))


def test_no_head_is_longer_than_a_glance() -> None:
    none(rules.long_heads(SOURCE, 12, exempt={"core/errors.py"}))  # which draws the tree of errors


def test_no_function_takes_more_than_nine_arguments() -> None:
    none(rules.crowded_functions(SOURCE, 9))


def test_docstrings_and_comments_cite_only_what_is_here() -> None:
    none(rules.dead_citations(SOURCE, REPOSITORY))


def test_no_class_name_is_used_twice() -> None:
    none(rules.doubled_classes(SOURCE))


def test_names_of_workspaces_are_spelled_and_taken_apart_in_one_place() -> None:
    none(rules.taken_apart_names(SOURCE, exempt={"core/address.py"}))


def test_every_package_is_in_the_page_of_words() -> None:
    none(rules.unexplained_packages(SOURCE, (REPOSITORY / "docs" / "words.md").read_text()))


def test_every_noun_of_the_service_is_in_the_page_of_words() -> None:
    none(rules.unexplained_nouns(SOURCE, (REPOSITORY / "docs" / "words.md").read_text()))


def test_one_of_a_thing_is_not_spoken_of_as_several() -> None:
    none(rules.lone_plurals(SOURCE))


def test_no_module_is_called_by_a_name_that_means_nothing() -> None:
    empty = {"utils", "helpers", "common", "misc", "base", "shared", "types", "constants", "manager", "handler"}
    none([module.file for module in rules.modules(SOURCE) if module.path.stem in empty])


# --- each rule notices what breaks it -----------------------------------------------------------------

Check = Callable[[Path], list[str]]
TWO_ROWS = (("low",), ("high",))

#: A rule, and the smallest package that breaks it: file → content. The package is called `house`.
VIOLATIONS: dict[str, tuple[Check, dict[str, str]]] = {
    "a relative import": (rules.relative_imports, {"high/a.py": "from ..low import b"}),
    "a relative import that points up": (
        lambda root: rules.upward_imports(root, TWO_ROWS),
        {"low/a.py": "from ..high import b", "high/b.py": ""},
    ),
    "an import that points up, in a function": (
        lambda root: rules.upward_imports(root, TWO_ROWS),
        {"low/a.py": "def f():\n    from house.high import b", "high/b.py": ""},
    ),
    "an import that points up, for types only": (
        lambda root: rules.upward_imports(root, TWO_ROWS),
        {"low/a.py": "if TYPE_CHECKING:\n    import house.high.b", "high/b.py": ""},
    ),
    "a command that knows the service": (
        lambda root: rules.foreign_imports(root, "cli", {"client"}, {"offline"}),
        {"cli/a.py": "def f():\n    from house.service import runs"},
    ),
    "a command that loads what it may not need": (
        lambda root: rules.foreign_imports(root, "cli", {"client"}, {"offline"}),
        {"cli/a.py": "from house.offline import checks"},
    ),
    "a module that knows too many": (
        lambda root: rules.knows_too_many(root, 2, exempt=set()),
        {
            "a.py": "from house import b, c\ndef f():\n    import house.d",
            **dict.fromkeys(("b.py", "c.py", "d.py"), "x = 1"),
        },
    ),
    "modules that import each other": (
        rules.import_cycles,
        {"a.py": "from house.b import x", "b.py": "def f():\n    from house.c import x", "c.py": "import house.a"},
    ),
    "a library in the wrong place": (
        lambda root: rules.misplaced_libraries(root, {"click": {"cli"}}),
        {"core/a.py": "import click"},
    ),
    "a library that nobody listed": (lambda root: rules.misplaced_libraries(root, {}), {"a.py": "import leftpad"}),
    "a heavy module that two threads may import at once": (
        lambda root: rules.unheard_imports(root, {"house.heavy"}),
        {"a.py": "def f():\n    from house.heavy import x"},
    ),
    "a heavy module that is imported by its whole name": (
        lambda root: rules.unheard_imports(root, {"house.heavy"}),
        {"a.py": "def f():\n    import house.heavy"},
    ),
    "a heavy module that is imported from its folder": (
        lambda root: rules.unheard_imports(root, {"house.low.heavy"}),
        {"a.py": "async def f():\n    from house.low import heavy"},
    ),
    "a second writer of a table": (
        lambda root: rules.second_writers(root, {"message"}, exempt=set()),
        {"a.py": "A = 'insert into message(id) values (:id)'", "b.py": 'f"""delete from message where {X}"""'},
    ),
    "a second writer in another spelling": (
        lambda root: rules.second_writers(root, {"message"}, exempt=set()),
        {"a.py": "A = '-- why\\nUPDATE OR IGNORE main.\"message\" set x = 1'", "b.py": "B = 'delete from message'"},
    ),
    "a module that sleeps": (rules.own_clocks, {"a.py": "await asyncio.sleep(1)"}),
    "a module that asks for the time": (
        rules.own_clocks,
        {"a.py": "datetime.datetime.now(UTC)"},
    ),
    "a module that asks under another name": (
        rules.own_clocks,
        {"a.py": "from time import monotonic as now\nnow()"},
    ),
    "a module that hands the time on": (rules.own_clocks, {"a.py": "x = time.time"}),
    "a module that asks the event loop": (rules.own_clocks, {"a.py": "self._loop.time()"}),
    "a module that asks the event loop it runs in": (
        rules.own_clocks,
        {"a.py": "asyncio.get_running_loop().time()"},
    ),
    "git started somewhere": (rules.git_starters, {"a.py": "subprocess.run(['git', 'status'])"}),
    "a module without a word": (rules.wordless_modules, {"a.py": "x = 1"}),
    "a file that is too long": (lambda root: rules.long_files(root, 3, exempt=()), {"a.py": "x = 1\n" * 4}),
    "a head that is too long": (lambda root: rules.long_heads(root, 2, exempt=()), {"a.py": '"""One.\n\nTwo.\n"""'}),
    "a function that takes too much": (
        lambda root: rules.crowded_functions(root, 2),
        {"a.py": "class X:\n    async def f(self, a, *, b): ..."},
    ),
    "a page that is not there": (
        lambda root: rules.dead_citations(root, REPOSITORY),
        {"a.py": '"""See docs/nowhere.md."""'},
    ),
    "a page that is not there, in a comment": (
        lambda root: rules.dead_citations(root, REPOSITORY),
        {"a.py": "x = 1  # as docs/nowhere.md says"},
    ),
    "a file that is not there": (
        lambda root: rules.dead_citations(root, REPOSITORY),
        {"a.py": '"""Above: gone.py."""'},
    ),
    "a file of another folder, without that folder": (
        lambda root: rules.dead_citations(root, REPOSITORY),
        {"low/a.py": '"""Above: b.py."""', "high/b.py": ""},
    ),
    "a paper that is not here": (lambda root: rules.dead_citations(root, REPOSITORY), {"a.py": '"""As in SPEC §4."""'}),
    "a row of a table elsewhere": (lambda root: rules.dead_citations(root, REPOSITORY), {"a.py": '"""Held (C11)."""'}),
    "a class name twice": (rules.doubled_classes, {"a.py": "class X: pass", "b.py": "class X: pass"}),
    "a workspace's name taken apart": (
        lambda root: rules.taken_apart_names(root, exempt=()),
        {"a.py": "workflow, _, tag = text.partition(':')"},
    ),
    "the workflow taken from a workspace's name": (
        lambda root: rules.taken_apart_names(root, exempt=()),
        {"a.py": "x = row['name'].partition(':')[0]"},
    ),
    "a workspace's name put together": (
        lambda root: rules.taken_apart_names(root, exempt=()),
        {"a.py": "x = f'{row.workflow}:{row.tag}'"},
    ),
    "one of a thing spoken of as several": (rules.lone_plurals, {"a.py": 'x = f"{len(found)} older messages"'}),
    "a package without a word": (
        lambda root: rules.unexplained_packages(root, "| `low/` | the ground |"),
        {"low/__init__.py": "", "attic/a.py": ""},
    ),
    "a noun without a word": (
        lambda root: rules.unexplained_nouns(root, "one per noun: `runs`"),
        {"service/gadgets.py": "@operation('GET', '/gadgets')\nasync def gadgets(service): ..."},
    ),
}


def test_each_rule_notices_what_breaks_it(tmp_path: Path) -> None:
    for number, (what, (check, files)) in enumerate(VIOLATIONS.items()):
        house = tmp_path / str(number) / "house"
        for name, content in files.items():
            (house / name).parent.mkdir(parents=True, exist_ok=True)
            (house / name).write_text(content)
        assert check(house), f"nobody noticed {what}"
