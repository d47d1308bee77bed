"""Group G: an agent prepares files, and the git of an approved set-up command reads them at the next run, outside."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.faults.report import report
from tests.repositories import Repository
from tests.traps import SPRUNG_BY, Bait, settings

from agent_worker.definitions.project_files import load_project
from agent_worker.definitions.workflow import SetupStep
from agent_worker.workflows.setup import run_setup

ROOT = Path(__file__).parent.parent.parent
GUIDE = ROOT / "docs/guides/git.md"
SHIPPED = [*(ROOT / "src/agent_worker/definitions/templates").iterdir(), *(ROOT / "examples").iterdir()]
ATTRIBUTES = "* filter=trap diff=trap merge=trap\n"
SETS = {"every setting": settings(), "those that work": tuple(SPRUNG_BY)}


def shipped() -> list[str]:
    """The set-up commands with git that people copy from us."""
    projects = [load_project(folder) for folder in SHIPPED if (folder / ".workflows").is_dir()]
    flows = [flow for project in projects for flow in project.workflows.values()]
    found = [step.shell for flow in flows for step in flow.setup if "git " in step.shell]
    return [*found, *re.findall(r"shell: (git .*)", GUIDE.read_text())]


@pytest.fixture
def bait(tmp_path: Path) -> Bait:
    (tmp_path / "bait/taken").mkdir(parents=True)
    return Bait(tmp_path / "bait")


@pytest.fixture
def project(tmp_path: Path) -> Repository:
    made = Repository.at(tmp_path / "project", **{"app.py": "old\n"})
    made.git("checkout", "-q", "-b", "side")
    made.commit({"app.py": "side\n"})
    return made


def prepare(project: Repository, bait: Bait, names: tuple[str, ...]) -> None:
    """All that an agent can write who may not touch the repository's configuration and hooks."""
    nested = Repository.at(project.path / "sub", **{"inner.txt": "aaaa\n", ".gitattributes": ATTRIBUTES})
    project.git("add", "sub")
    bait.set(nested.path / ".git", names)
    (nested.path / "inner.txt").write_text("bbbb\n")
    modules = '[submodule "sub"]\n\tpath = sub\n\turl = ../x\n\tignore = none\n'
    (project.path / ".gitmodules").write_text(modules)
    for place in (project.path / ".gitattributes", project.path / ".git/info/attributes"):
        place.parent.mkdir(exist_ok=True)
        place.write_text(ATTRIBUTES)
    (project.path / "app.py").write_text("new\n")
    shutil.rmtree(bait.folder / "taken")
    (bait.folder / "taken").mkdir()


async def run(command: str, project: Repository) -> str:
    steps = (SetupStep.model_validate({"shell": command, "as": "printed"}),)
    return (await run_setup(steps, {"params.base": "main"}, root=project.path))["printed"]


async def test_G14s_the_obvious_command_springs_a_trap_of_an_agent(project: Repository, bait: Bait) -> None:
    """Or the test below would prove nothing."""
    prepare(project, bait, ("filter.trap.clean",))
    await run("git diff HEAD", project)
    assert "filter-trap-clean" in bait.taken


def test_G14s_there_are_commands_to_copy() -> None:
    assert len(shipped()) >= 3


@pytest.mark.parametrize("names", SETS.values(), ids=SETS)
@pytest.mark.parametrize("command", shipped())
async def test_G14s_what_we_ship_runs_nothing_that_an_agent_prepared(
    command: str, names: tuple[str, ...], project: Repository, bait: Bait
) -> None:
    prepare(project, bait, names)
    printed = await run(command, project)
    assert bait.taken == []
    assert ("+side" if "..." in command else "+new") in printed
    report.count("G14s settings tried, by command", len(names))


@pytest.mark.parametrize("command", re.findall(r"^git .*", GUIDE.read_text(), re.MULTILINE))
async def test_G14s_what_the_guide_tells_a_person_to_type_is_safe(
    command: str, project: Repository, bait: Bait
) -> None:
    prepare(project, bait, tuple(SPRUNG_BY))
    assert "app.py" in await run(command, project)
    assert bait.taken == []


@pytest.mark.parametrize("command", shipped())
async def test_G14s_of_the_projects_own_settings_only_filters_run(
    command: str, project: Repository, bait: Bait
) -> None:
    """Those belong to the person, and the guide says what that means."""
    prepare(project, bait, ())
    bait.set(project.path / ".git", SPRUNG_BY)
    await run(command, project)
    assert {name.rpartition("-")[0] for name in bait.taken} <= {"filter-trap"}
    assert "filter" in GUIDE.read_text()
