"""Fixtures that every test may use."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from agent_worker.core.clock import SystemClock, TestClock
from tests import engine
from tests.engine import Sweeper
from tests.fakes.model_server import ModelServer
from tests.faults.report import LONG as MUCH
from tests.needs import MISSING, STARTS_PROGRAMS, STRICT, is_strict
from tests.postgresql import Cluster, open_cluster
from tests.shells import nursery
from tests.teams import Team, open_team

pytest_plugins = ["tests.workers"]

#: Begun first, in this order: one of them begun last leaves all but one worker idle.
LONG = (
    "tests/backends/programs/test_acp_programs.py",
    "tests/backends/programs/test_real_programs.py",
    "tests/backends/programs/test_mixed_team.py",
    "tests/hosts/test_daemons.py",
    "tests/web/test_every_view.py",
    "tests/hosts/test_hosts.py",
    "tests/web/test_views.py",
    "tests/hosts/test_faults.py",
    "tests/faults/test_processing.py",
    "tests/hosts/test_page.py",
    "tests/daemon/test_process.py",
    "tests/tools/test_sandbox.py",
    "tests/faults/test_failpoints.py",
    "tests/shells/test_events.py",
    "tests/web/test_home.py",
    "tests/web/test_slow_texts.py",
    "tests/tools/test_mcp_servers.py",
    "tests/backends/programs/test_runner.py",
    "tests/shells/test_demo.py",
    "tests/shells/test_mcp.py",
    "tests/shells/test_cli.py",
    "tests/api/test_verbs.py",
    "tests/web/test_making.py",
    "tests/web/test_changing.py",
    "tests/web/test_map.py",
    "tests/web/test_safety.py",
    "tests/web/test_search.py",
    "tests/web/test_runs.py",
    "tests/docs/test_pages.py",
    "tests/web/test_inbox.py",
    "tests/web/test_conversation.py",
    "tests/attacks/test_parser.py",
    "tests/web/test_workspace.py",
    "tests/backends/programs/test_acp.py",
    "tests/printed/test_blocks.py",
    "tests/shells/test_mcp_tickets.py",
    "tests/web/test_documents.py",
    "tests/definitions/test_one_bad_definition.py",
    "tests/shells/test_http.py",
    "tests/printed/test_lines.py",
    "tests/web/test_login.py",
    "tests/faults/test_kills.py",
    "tests/faults/test_growth.py",
    "tests/shells/test_hints.py",
    "tests/docs/test_guide.py",
    "tests/shells/test_conversation.py",
    "tests/attacks/test_local_user.py",
    "tests/agents/test_sdk.py",
    "tests/backends/test_model_api.py",
    "tests/web/test_reconnect.py",
    "tests/faults/test_bugs.py",
    "tests/shells/test_templates.py",
    "tests/test_architecture.py",
    "tests/test_suite.py",
    "tests/attacks/test_approval.py",
    "tests/web/test_memory.py",
    "tests/database/test_postgres.py",
    "tests/web/test_definitions.py",
    "tests/faults/test_damage.py",
)

# What hypothesis makes up is the same in every short run, and it may take its time: no luck, no clock.
settings.register_profile(
    "suite",
    deadline=None,
    derandomize=not MUCH,
    max_examples=100 if MUCH else 40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")

# Hundreds of processes are started here, and each would compile all that it imports: let the first one keep it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What a shell starts in the background ignores Ctrl-C, and so does all that it starts in turn. We try Ctrl-C here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Files are in memory where there is such a place: a killed process leaves the same behind, and syncs cost nothing.
MEMORY = Path("/dev/shm")
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 2_000_000_000:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--backwards", action="store_true", help="the tests of each file from the last to the first")
    parser.addoption("--database", choices=["sqlite", "postgresql"], default="sqlite", help="what teams keep state in")


@pytest.fixture(scope="session", autouse=True)
def sweeper(request: pytest.FixtureRequest) -> Iterator[Sweeper | None]:
    """With `--database postgresql` whatever is kept is kept there: by this process and by all that it starts."""
    if request.config.getoption("--database") != "postgresql":
        yield None
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    cluster.make_tables()
    os.environ[engine.VARIABLE] = cluster.server
    sweeper = Sweeper(cluster.server)
    yield sweeper
    sweeper.close()
    del os.environ[engine.VARIABLE]


@pytest.fixture(autouse=True)
def swept(sweeper: Sweeper | None) -> Iterator[None]:
    yield
    if sweeper:
        sweeper.sweep()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests that schemathesis makes have a name each and one id together; who goes by ids would run only one."""
    _, _, label = item.name.partition("[")
    if label and not item.nodeid.endswith("]"):
        item._id = item.id.with_params(label.removesuffix("]"))
    if file_of(item) in STARTS_PROGRAMS:
        item.add_marker(pytest.mark.programs)
    if item.config.getoption("--database") == "postgresql" and (mark := item.get_closest_marker("sqlite")):
        item.add_marker(pytest.mark.skip(reason=f"SQLite only: {mark.args[0]}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With AGENT_WORKER_NO_SKIPS a test that skips because something is missing has failed; other skips stay skips."""
    report = yield
    if report.skipped and is_strict() and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason.startswith(MISSING):
            report.outcome = "failed"
            report.longrepr = f"{reason}: with {STRICT} this is a failure"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Whatever collecting makes is there to the end: nobody looks through it for garbage, now or after each test."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    twice = [id for id, count in Counter(item.nodeid for item in items).items() if count > 1]
    assert not twice, f"of these only one would run: {twice}"
    place = {file: number for number, file in enumerate(LONG)}
    if config.getoption("--backwards"):  # files keep their order, which a test that leans on another does not survive
        files = {file: number for number, file in enumerate(dict.fromkeys(map(file_of, items)))}
        items.reverse()
        items.sort(key=lambda item: files[file_of(item)])
    items.sort(key=lambda item: place.get(file_of(item), len(LONG)))


def pytest_collection_finish(session: pytest.Session) -> None:
    config = session.config
    if config.getoption("--workers") and config.getoption("--database") == "sqlite" and not config.option.collectonly:
        nursery.door()  # one for all workers


def file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    """Alice and bob in a workspace, on the real clock with a short quiet time."""
    async with open_team(tmp_path, "alice", "bob", clock=SystemClock(), quiet_moment=0.02) as team:
        yield team
        for name, model in team.backends.items():
            assert not model.left_over, f"{name} did not play: {model.left_over}"


@pytest.fixture(scope="module")
def keep_all() -> Iterator[None]:
    """For tests that read the whole source: millions of nodes, none of them garbage, are not looked through for it."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelServer]:
    """A model API on loopback, and a key for it in the environment."""
    monkeypatch.setenv("TEST_KEY", "sk-test")
    async with ModelServer() as server:
        yield server


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL of our own, for all tests of this process that ask for it."""
    with open_cluster() as cluster:
        yield cluster
