"""One broken file does not stop the others, however it is broken; whoever works goes on as it was last right."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.effort import effort
from tests.faults.report import report
from tests.teams import open_team, write_project

from agent_worker.backends.mock import says
from agent_worker.core.clock import TestClock
from agent_worker.core.errors import DefinitionError, Problem
from agent_worker.definitions.project import ProjectDefinition
from agent_worker.definitions.project_files import ProjectFiles, load_project
from agent_worker.definitions.settings import read_settings
from agent_worker.service.projects import status
from agent_worker.service.service import Service

GOOD = 20
AGENT = "backend: mock\nprompt: { system: Be kind. }\n"
WORKFLOW = "agents:\n  good0: { ref: good0 }\n"

#: What a file may hold: name → content, or what is made in its place. Each with the line that must be named.
TEXTS: dict[str, tuple[bytes, int]] = {
    "syntax": (b"backend: mock\nprompt: { system: [\n", 3),
    "unknown": (b"backend: mock\nbakend: mock\n", 2),
    "wrong-type": (b"backend: mock\nmax_steps: many\n", 2),
    "wrong-choice": (b"# a comment\nbackend: carrier-pigeon\n", 2),
    "list": (b"- backend: mock\n", 1),
    "word": (b"mock\n", 1),
    "empty": (b"", 1),
    "only-comment": (b"# nothing\n", 1),
    "number": (b"42\n", 1),
    "twice": (b"backend: mock\nbackend: sdk\n", 2),
    "tag": (b"backend: !!python/object/apply:os.system [id]\n", 1),
    "tab": (b"backend: mock\n\tprompt: x\n", 2),
    "zeros": (b"backend: mock\n\0\0\0\n", 1),
    "utf16": ("backend: mock\n".encode("utf-16"), 1),
    "latin1": (b"backend: mock\nprompt: { system: \xe9 }\n", 2),
    "bomb": (b"a: &a [x, x]\nb: &b [*a, *a]\n" + b"".join(b"c%d: [*b, *b]\n" % n for n in range(9)), 1),
    "deep": (b"soul: " + b"[" * 3000, 1),
    "huge": (b"# " + b"x" * 2_000_000, 1),
    "two-documents": (b"backend: mock\n---\nbackend: mock\n", 2),
    "missing-prompt": (b"backend: mock\nprompt: { system_file: nowhere.md }\n", 2),
    "outside": (b"backend: mock\nprompt: { system_file: ../../../etc/passwd }\n", 2),
    "reserved": (b"name: all\nbackend: mock\n", 1),
    "bad-name": (b"name: ../evil\nbackend: mock\n", 1),
    "taken": (b"name: good0\nbackend: mock\n", 1),
    "secret": (b"backend: sdk\nmodel: openai/x\nprovider: { name: openai, api_key: sk-literal }\n", 3),
    "bad-schedule": (b"backend: mock\nschedule: { wakeup: sometimes, prompt: x }\n", 2),
    "anchor": (b"backend: *nothing\n", 1),
    "colon": (b"backend: mock: mock\n", 1),
    "quote": (b'backend: "mock\n', 1),
    "merge": (b"<<: [1, 2]\nbackend: mock\n", 1),
}


def a_directory(path: Path) -> None:
    path.mkdir()


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_link_to_nothing(path: Path) -> None:
    path.symlink_to("nowhere.yaml")


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def a_link_out(path: Path) -> None:
    path.symlink_to("/etc/hostname")


THINGS: tuple[Callable[[Path], None], ...] = (a_directory, a_pipe, a_link_to_nothing, a_link_to_itself, a_link_out)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """20 good agents, a workflow of each, and 100 files that are broken, one way each."""
    root = tmp_path / "p"
    (root / ".agents").mkdir(parents=True)
    (root / ".workflows").mkdir()
    for n in range(GOOD):
        (root / ".agents" / f"good{n}.yaml").write_text(AGENT)
        (root / ".workflows" / f"good{n}.yaml").write_text(f"agents:\n  good{n}: {{ ref: good{n} }}\n")
    return root


def break_all(root: Path) -> dict[str, int]:
    """File → the line that is wrong; 0 where there are no lines."""
    broken: dict[str, int] = {}
    for folder in (".agents", ".workflows"):
        for name, (content, line) in TEXTS.items():
            (root / folder / f"z-{name}.yaml").write_bytes(content)
            broken[f"{folder}/z-{name}.yaml"] = line if folder == ".agents" else 0
        for make in THINGS:
            make(root / folder / f"{make.__name__.replace('_', '-')}.yaml")
            broken[f"{folder}/{make.__name__.replace('_', '-')}.yaml"] = 0
    for n in range(100 - len(broken)):  # workflows that name what is not there
        file = f".workflows/b{n}.yaml"
        (root / file).write_text(f"agents:\n  good0: {{ ref: good0 }}\n  x: {{ ref: nobody{n} }}\n")
        broken[file] = 3
    return broken


def test_I5_ten_times_as_many_broken_files_take_ten_times_as_long_to_tell_apart(tmp_path: Path) -> None:
    few, many = (calls_to_tell_apart(tmp_path, count) for count in (20, 200))
    assert many < 15 * few


def calls_to_tell_apart(root: Path, count: int) -> int:
    files = {f"bad{n}": root / ".agents" / f"bad{n}.yaml" for n in range(count)}
    problems = tuple(Problem(f".agents/{name}.yaml", 1, 1, "", "is wrong") for name in files)
    project = ProjectFiles(root, ProjectDefinition(name="p"), problems=problems, broken=files)
    with effort() as spent:
        assert all(len(project.wrong_with(name)) == 1 for name in files)
    return spent.calls


def test_I5_a_hundred_broken_files_do_not_stop_twenty_good_ones(root: Path) -> None:
    broken = break_all(root)
    assert len(broken) == 100
    project = load_project(root)
    good = {f"good{n}" for n in range(GOOD)}
    assert good <= set(project.agents)
    assert good <= set(project.workflows)
    told = {problem.file for problem in project.problems}
    assert told == set(broken), told ^ set(broken)
    for problem in project.problems:
        assert problem.message
        assert problem.line >= 1
        str(problem).encode()  # it can be shown
    for file, line in broken.items():
        if line:
            assert line in {p.line for p in project.problems if p.file == file}, (file, line)
    unknown = next(p for p in project.problems if p.file == ".agents/z-unknown.yaml")
    assert (unknown.field, unknown.line) == ("bakend", 2)
    assert "backend" in unknown.hint
    report.count("I5 broken files", len(broken))
    report.count("I5 good files beside them", 2 * GOOD)


@pytest.mark.parametrize("make", THINGS)
def test_I5_what_stands_in_place_of_the_projects_own_file_is_told(root: Path, make: Callable[[Path], None]) -> None:
    """Its limits do not hold, and nobody would know."""
    make(root / "moniro.yaml")
    project = load_project(root)
    assert [problem.file for problem in project.problems] == ["moniro.yaml"]
    assert len(project.agents) == GOOD


def test_what_holds_the_place_of_the_projects_own_file_while_a_command_runs_is_none(root: Path) -> None:
    (root / "moniro.yaml").mkdir(mode=0o555)
    assert not load_project(root).problems


@pytest.mark.parametrize("make", THINGS)
def test_I5_what_stands_in_place_of_the_settings_is_told(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "settings.yaml")
    with pytest.raises(DefinitionError):
        read_settings(tmp_path)


def test_I5_a_file_name_that_is_no_text_stops_nobody(root: Path) -> None:
    odd = os.fsencode(root / ".agents") + b"/\xff\xfe.yaml"
    Path(os.fsdecode(odd)).write_text(AGENT)
    project = load_project(root)
    assert len(project.agents) == GOOD
    assert [str(problem).encode() for problem in project.problems]


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "taken"])
async def test_I5_a_running_agent_keeps_its_last_good_definition(tmp_path: Path, name: str) -> None:
    async with open_team(tmp_path / "p", "alice", "bob", clock=TestClock()) as team:
        service = Service(team.runtime)
        root = str(tmp_path / "p")
        await service.project(root)
        for agent in ("alice", "bob"):
            await team.post("user", f"@{agent} before")
        team.backends["alice"].then(says("one"), says("two"), says("three"))
        team.backends["bob"].then(says("one"), says("two"), says("three"))
        await team.idle()
        (tmp_path / "p" / ".agents" / "alice.yaml").write_bytes(TEXTS[name][0])
        found = await status(service, root)
        assert found.project.problems
        assert ".agents/alice.yaml:" in found.project.problems[0]
        assert [agent.name for agent in found.agents] == ["alice", "bob"]
        for agent in ("alice", "bob"):
            await team.post("user", f"@{agent} after")
        await team.idle()
        assert set(await team.states()) == {"done"}
        report.count("I5 broken edits under running agents")
        write_project(tmp_path / "p", ["alice", "bob"])
        assert not (await status(service, root)).project.problems
        await service.close()
