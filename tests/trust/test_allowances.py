"""A limit that a file raises holds once it is approved; one that it lowers holds at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.shells.served import Served, served
from tests.shells.terminal import Terminal
from tests.teams import open_team

from agent_worker.core.clock import TestClock
from agent_worker.definitions.project_files import ProjectFiles, load_project
from agent_worker.files.root import Root
from agent_worker.trust.allowances import Allowance, Written, allowances_of, settled
from agent_worker.trust.powers import powers_of
from agent_worker.trust.store import TrustStore, kept_in
from agent_worker.work.limits import WorkLimits


@pytest.mark.parametrize(
    ("written", "held", "holds"),
    [
        (None, None, 50),
        (20, None, 20),
        (50, None, 50),
        (51, None, 50),
        ("off", None, 50),
        (9999, 80, 80),
        ("off", 80, 80),
        (80, 80, 80),
        (60, 80, 60),
        (9999, 10, 10),
        (40, 10, 40),
        (9999, math.inf, 9999),
        ("off", math.inf, math.inf),
    ],
)
def test_Y24_only_what_is_above_the_default_and_above_what_held_has_to_wait(
    written: Written, held: float | None, holds: float
) -> None:
    assert settled(Allowance("the project", "usd_per_day", written, 50), held) == holds


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for folder in (".agents", ".workflows"):
        (root / folder).mkdir(parents=True)
    (root / ".agents/alice.yaml").write_text("backend: mock\n")
    (root / ".workflows/w.yaml").write_text("agents: { alice: { ref: alice } }\n")
    return root


@pytest.fixture
def store(tmp_path: Path, root: Path) -> TrustStore:
    return TrustStore(kept_in(Root.private(tmp_path / "home"), root), clock=TestClock())


def read(root: Path, store: TrustStore) -> tuple[ProjectFiles, dict[tuple[str, str], float]]:
    """As it is done whenever files change."""
    project = load_project(root)
    assert not project.problems, project.problems
    store.settle(allowances_of(project))
    return project, store.held_back(allowances_of(project))


CASES = [
    ("moniro.yaml", "name: p\nlimits: { usd_per_day: %s }\n", ("the project", "usd_per_day"), 50),
    (".agents/alice.yaml", "backend: mock\nlimits: { usd_per_day: %s }\n", ("alice", "usd_per_day"), 20),
    (".workflows/w.yaml", "agents: { alice: { ref: alice } }\nlimits: { turns: %s }\n", ("w", "turns"), 50),
    (".workflows/w.yaml", "agents: { alice: { ref: alice } }\nlimits: { usd: %s }\n", ("w", "usd"), 5),
    (
        ".workflows/w.yaml",
        "agents: { alice: { ref: alice, limits: { usd_per_day: %s } } }\n",
        ("alice@w", "usd_per_day"),
        20,
    ),
    (
        ".workflows/w.yaml",
        "agents: { helper: { backend: mock, limits: { usd_per_day: %s } } }\n",
        ("helper@w", "usd_per_day"),
        20,
    ),
]


@pytest.mark.parametrize("raised", ["9999", "off"])
@pytest.mark.parametrize(("file", "text", "key", "default"), CASES)
def test_Y24_every_limit_of_every_file_waits_until_it_is_approved_and_is_lowered_at_once(
    root: Path, store: TrustStore, file: str, text: str, key: tuple[str, str], default: float, raised: str
) -> None:
    (root / file).write_text(text % raised)
    project, held = read(root, store)
    assert held == {key: default}
    store.require(powers_of(project, project.workflows["w"]))  # it forbids nothing
    (waiting,) = store.unapproved(powers_of(project, project.workflows["w"]))
    assert f"instead of {default:g}" in waiting.shown()
    store.approve([waiting.power])
    assert read(root, store)[1] == {}
    lower = int(default) + 10
    (root / file).write_text(text % lower)
    assert read(root, store)[1] == {}
    (root / file).write_text(text % raised)
    assert read(root, store)[1] == {key: lower}


def test_Y24_what_was_taken_out_of_a_file_is_asked_about_when_it_comes_back(root: Path, store: TrustStore) -> None:
    limit = "name: p\nlimits: { usd_per_day: 99 }\n"
    (root / "moniro.yaml").write_text(limit)
    store.approve(powers_of(load_project(root)))
    assert read(root, store)[1] == {}
    (root / "moniro.yaml").write_text("name: p\n")
    read(root, store)
    (root / "moniro.yaml").write_text(limit)
    assert read(root, store)[1] == {("the project", "usd_per_day"): 50}


def test_a_limit_at_or_below_its_default_is_nobodys_question(root: Path, store: TrustStore) -> None:
    (root / "moniro.yaml").write_text("name: p\nlimits: { usd_per_day: 50 }\n")
    (root / ".agents/alice.yaml").write_text("backend: mock\nlimits: { usd_per_day: 1 }\n")
    (root / ".workflows/w.yaml").write_text("agents: { alice: { ref: alice } }\nlimits: { turns: 3, minutes: 900 }\n")
    project, held = read(root, store)
    assert held == {}
    assert powers_of(project) == ()


async def test_Y24_the_lower_limit_holds_for_those_who_work(tmp_path: Path) -> None:
    flow = "workspace: { provider: sqlite }\nlimits: { turns: off, usd: 500 }\n"
    home = Root.private(tmp_path / "home")
    extra = {"alice": "limits: { usd_per_day: off }\n"}
    async with open_team(tmp_path / "p", "alice", clock=TestClock(), workflow=flow, extra=extra, trust=home) as team:
        registry = team.runtime.registry
        assert registry.worker(team.id_of("alice"), team.workspace.id).limits == WorkLimits()
        assert registry.worker(team.id_of("alice")).limits == WorkLimits()


async def test_a_program_that_embeds_the_engine_gets_the_limits_it_wrote(tmp_path: Path) -> None:
    flow = "workspace: { provider: sqlite }\nlimits: { turns: off, usd: 500 }\n"
    async with open_team(tmp_path / "p", "alice", clock=TestClock(), workflow=flow) as team:
        limits = team.runtime.registry.worker(team.id_of("alice"), team.workspace.id).limits
        assert (limits.runs_per_root, limits.usd_per_root) == (None, 500)


# --- in a daemon --------------------------------------------------------------------------------------


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as daemon:
        yield daemon


def allowed(daemon: Served, of: str) -> tuple[float | None, str]:
    (found,) = [each for each in daemon.do("GET", "/limits") if each["of"] == of]
    return found["limit"], found["waits"]


def test_Y24_a_project_file_that_appears_raises_nothing_until_it_is_approved(daemon: Served) -> None:
    file = daemon.project / "moniro.yaml"
    file.write_text("name: p\nlimits: { usd_per_day: 9999 }\n")
    assert allowed(daemon, "project") == (50, "9,999 USD a day, once you approve it")
    terminal = Terminal(daemon)
    assert "a file says 9,999 USD a day, once you approve it (agent-worker trust)" in terminal.says("status")
    waiting = "the project may use 9,999 USD a day instead of 50 USD a day, once you approve it (agent-worker trust)"
    assert waiting in terminal.says("validate")
    assert "approved: 1" in terminal.says("trust", "--yes")
    assert allowed(daemon, "project") == (9999, "")
    file.write_text("name: p\nlimits: { usd_per_day: 30 }\n")
    assert allowed(daemon, "project") == (30, "")
    file.write_text("name: p\nlimits: { usd_per_day: off }\n")
    assert allowed(daemon, "project")[0] == 30


def test_Y24_a_run_goes_on_with_the_lower_limit_and_says_so(daemon: Served) -> None:
    flow = "agents: { ann: { backend: mock } }\nkickoff: '@ann hi'\nlimits: { turns: off }\n"
    (daemon.project / ".workflows/w.yaml").write_text(flow)
    done = Terminal(daemon).run("run", "w")
    assert done.returncode == 0
    assert "w may use any number of runs for one request instead of 50 runs for one request" in done.stderr
    assert "agent-worker trust w" in done.stderr
    assert "any number of runs" not in Terminal(daemon).run("run", "w", "--trust").stderr
    assert "any number of runs" not in Terminal(daemon).run("run", "w").stderr


def test_what_our_own_commands_write_is_approved(daemon: Served) -> None:
    terminal = Terminal(daemon)
    terminal.says("agent", "edit", "alice", "limits={usd_per_day: 100}")
    assert allowed(daemon, "alice") == (100, "")
    terminal.says("agent", "edit", "alice", "max_steps=4")
    assert allowed(daemon, "alice") == (100, "")
    (daemon.project / ".agents/bob.yaml").write_text("backend: mock\nlimits: { usd_per_day: 100 }\n")
    terminal.says("agent", "edit", "bob", "max_steps=4")  # which says nothing about the limit
    assert allowed(daemon, "bob")[0] == 20
