"""What a project's files would execute is approved before a program has them do it, by both ways in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests import engine, stored
from tests.api.doors import WAYS, connected
from tests.fakes.model_server import ModelServer
from tests.shells.served import Served, served

import agent_worker
from agent_worker import Agent, Team, Untrusted, Workers
from agent_worker.core.errors import BackendFailure
from agent_worker.testing import calls, says

MARKS = "def mark() -> str:\n    '''Leave a mark.'''\n    open('{root}/evil', 'w').close()\n    return 'marked'\n"
_PLAYS = "{ call: { tool: mark } }, { say: done }"
USES_MARKS = f'backend: mock\ntools: ["./marks.py:mark"]\nscript: [{_PLAYS}, {_PLAYS}]\n'
EVIL = "touch evil"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("approval")) as running:
        yield running


@dataclass
class Project:
    """Files that somebody else wrote, and how a program opens them."""

    root: Path
    open: Callable[..., Workers]

    def write(self, **files: str) -> None:
        for name, text in files.items():
            path = self.root / {"ann": ".agents/ann.yaml", "w": ".workflows/w.yaml", "marks": "marks.py"}[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("{root}", str(self.root)))

    @property
    def is_evil(self) -> bool:
        return (self.root / "evil").exists()


BY_ITSELF = (
    "a program that opens a project by itself goes by the approvals in the home, and a daemon's are in the database"
)


@pytest.fixture(params=WAYS)
def project(request: pytest.FixtureRequest, daemon: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The person's home is that of the daemon: the same approvals count by both ways."""
    monkeypatch.setenv("AGENT_WORKER_HOME", str(daemon.home))
    root = tmp_path / "project"
    (root / ".agents").mkdir(parents=True)
    monkeypatch.chdir(root)
    if request.param == "local":
        return Project(root, lambda **how: agent_worker.local(root, **how))
    return Project(root, lambda **how: agent_worker.connect(root, home=daemon.home, start=False, **how))


@dataclass
class Power:
    """Something that files may want, and what a person is told of it."""

    told: str
    files: dict[str, str]
    more: dict[str, str] = field(default_factory=dict)  #: other files, by their path


POWERS = {
    "setup": Power(
        "set-up of w runs: touch evil",
        {"w": f"agents: {{ bob: {{ backend: mock }} }}\nsetup: [{{ shell: {EVIL} }}]\n"},
    ),
    "variables": Power("w puts $PATH into prompts", {"w": "agents: { bob: { backend: mock } }\nenv: [PATH]\n"}),
    "inline": Power(
        "bob@w may run ./marks.py:mark",
        {"w": 'agents: { bob: { backend: mock, tools: ["./marks.py:mark"] } }\nkickoff: "@bob go"\n', "marks": MARKS},
    ),
    "check": Power(
        "the schedule of ann runs, each time, to see whether there is work: touch evil",
        {"ann": f"backend: mock\nschedule: {{ wakeup: every 1h, check: {EVIL} }}\n"},
    ),
    "environment": Power("processes of ann are given $PATH", {"ann": "backend: mock\nenv: [PATH]\n"}),
    "endpoint": Power(
        "ann sends $OPENAI_API_KEY to http://127.0.0.1:9/v1, unencrypted",
        {
            "ann": "model: openai/gpt-5\nprompt: { system: hi }\n"
            "provider: { name: openai, base_url: 'http://127.0.0.1:9/v1', api_key: $OPENAI_API_KEY }\n"
        },
    ),
    "mcp": Power(
        "ann starts the MCP server tools in the project: touch evil",
        {"ann": "backend: mock\nmcp_servers: { tools: { command: [touch, evil] } }\n"},
    ),
    "mcp_url": Power(
        "ann connects to the MCP server tools at http://127.0.0.1:9",
        {"ann": "backend: mock\nmcp_servers: { tools: { url: 'http://127.0.0.1:9/mcp' } }\n"},
    ),
    "python": Power("ann may run ./marks.py:mark in our own process", {"ann": USES_MARKS, "marks": MARKS}),
    "shell": Power(
        "ann may run shell commands without any sandbox",
        {"ann": "backend: mock\ntools: [{ name: bash, unsafe: true }]\nscript: [{ call: { tool: bash } }]\n"},
    ),
    "skills": Power(
        "ann follows the skills in skills",
        {"ann": "backend: mock\nskills: [skills]\n"},
        {"skills/x/SKILL.md": "---\nname: x\ndescription: y\n---\nrun it\n"},
    ),
    "program": Power(
        "ann runs the program: touch evil",
        {"ann": "backend: acp\nprompt: { system: hi }\ncommand: [touch, evil]\n"},
    ),
    "settings": Power(
        "gemini, run by ann, may do what the project's .gemini/settings.json says",
        {"ann": "backend: gemini\nprompt: { system: hi }\n"},
        {".gemini/settings.json": "{}"},
    ),
}


@pytest.mark.parametrize("power", POWERS)
async def test_a_power_of_a_file_is_refused_until_it_is_approved(project: Project, power: str) -> None:
    wanted = POWERS[power]
    project.write(**wanted.files)
    for name, text in wanted.more.items():
        (project.root / name).parent.mkdir(parents=True, exist_ok=True)
        (project.root / name).write_text(text)
    async with project.open() as workers:
        with pytest.raises(Untrusted, match=re.escape(wanted.told)) as refused:
            await (workers.run("w") if "w" in wanted.files else workers.ask("ann", "go"))
    assert "agent-worker trust" in refused.value.hint
    assert "trust=True" in refused.value.hint
    assert str(project.root) in refused.value.hint
    assert not project.is_evil


async def test_sending_and_starting_are_refused_as_asking_is(project: Project) -> None:
    project.write(ann=USES_MARKS, marks=MARKS, w="agents: { ann: { ref: ann } }\nkickoff: '@ann go'\n")
    async with project.open() as workers:
        with pytest.raises(Untrusted, match="marks"):
            await workers.send("ann", "go")
        with pytest.raises(Untrusted, match="marks"):
            await workers.start("w")
        with pytest.raises(Untrusted, match="marks"):
            async for _ in workers.stream("ann", "go"):
                pass
    assert not project.is_evil


async def test_the_program_may_say_yes_and_a_change_is_refused_again(project: Project) -> None:
    project.write(ann=USES_MARKS, marks=MARKS, w="agents: { ann: { ref: ann } }\nsetup: [{ shell: touch ready }]\n")
    async with project.open(trust=True) as workers:
        assert (await workers.ask("ann", "go")).text == "done"
        await (await workers.start("w")).stop()
        assert project.is_evil
        assert (project.root / "ready").exists()
        project.write(w="agents: { ann: { ref: ann } }\nsetup: [{ shell: touch more }]\n")
        with pytest.raises(Untrusted, match="touch more"):
            await workers.start("w")


async def test_a_person_says_yes_while_the_program_is_open(
    project: Project, daemon: Served, request: pytest.FixtureRequest
) -> None:
    if engine.is_postgresql() and request.node.callspec.params["project"] == "local":
        pytest.skip(BY_ITSELF)
    project.write(ann=USES_MARKS, marks=MARKS)
    async with project.open() as workers:
        with pytest.raises(Untrusted):
            await workers.ask("ann", "go")
        assert daemon.client.request("POST", "/trust", {"project": str(project.root)})[1] == 1
        assert (await workers.ask("ann", "go")).text == "done"
    async with project.open() as workers:  # it is kept
        assert (await workers.ask("ann", "go")).state == "done"


async def test_a_team_of_the_program_does_not_vouch_for_an_agent_in_a_file(project: Project) -> None:
    project.write(ann=USES_MARKS, marks=MARKS)
    async with project.open() as workers:
        with pytest.raises(Untrusted, match="ann may run"):
            await workers.run(Team("crew", agents=["ann"], kickoff="@ann go"))
    assert not project.is_evil


def approvals(home: Path, root: Path) -> dict[str, str]:
    """What is kept of this project."""
    if engine.is_postgresql():
        id = {row["root"]: row["project"] for row in stored.read(home / "state.db", stored.checkouts)}.get(str(root))
        kept = stored.read(home / "state.db", stored.approvals, project=id, field="approved")
        return {row["key"]: row["value"] for row in kept}
    file = home / "trust.json"
    projects = json.loads(file.read_text())["projects"] if file.exists() else {}
    return dict(projects.get(str(root), {}).get("approved", {}))


async def test_what_the_program_hands_over_needs_no_approval_and_leaves_none(project: Project, daemon: Served) -> None:
    project.write(marks=MARKS)

    def add(a: int) -> int:
        """Add one."""
        return a + 1

    own = Agent(
        "own",
        tools=[add, "./marks.py:mark"],
        script=[calls("add", a=1), calls("mark"), says("done")],
    )
    team = Team("crew", agents=[own], more={"setup": [{"shell": "touch ready"}]}, kickoff="hello")
    async with project.open() as workers:
        assert (await workers.ask(own, "go")).text == "done"
        await (await workers.start(team)).stop()
    assert project.is_evil
    assert (project.root / "ready").exists()
    assert approvals(daemon.home, project.root) == {}


async def test_what_a_program_says_yes_to_is_kept_by_the_daemon_and_by_nobody_here(
    project: Project, daemon: Served, request: pytest.FixtureRequest
) -> None:
    project.write(ann=USES_MARKS, marks=MARKS)
    async with project.open(trust=True) as workers:
        await workers.ask("ann", "go")
    is_daemon = request.node.callspec.params["project"] == "connect"
    assert len(approvals(daemon.home, project.root)) == is_daemon
    async with project.open() as workers:
        if is_daemon:
            assert (await workers.ask("ann", "go")).state == "done"
        else:
            with pytest.raises(Untrusted):
                await workers.ask("ann", "go")


async def test_a_key_that_the_project_brings_is_not_used_unapproved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_WORKER_HOME", str(tmp_path / "nobody"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    root = tmp_path / "project"
    (root / ".agents").mkdir(parents=True)
    (root / ".agents" / "ann.yaml").write_text("model: openai/gpt-5\nprompt: { system: hi }\n")
    (root / ".env").write_text("OPENAI_API_KEY=sk-of-the-project\n")
    async with agent_worker.local(root) as workers:
        with pytest.raises(BackendFailure, match="OPENAI_API_KEY"):
            await workers.ask("ann", "hi")
    assert not (tmp_path / "nobody").exists(), "a home is not made only to be looked into"


async def test_a_key_that_the_person_stored_counts_before_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the daemon; with a project and without one."""
    home = tmp_path / "person"
    home.mkdir(mode=0o700)
    (home / "keys.json").write_text(json.dumps({"version": 1, "keys": {"OPENAI_API_KEY": "sk-stored-by-the-person"}}))
    (home / "keys.json").chmod(0o600)
    monkeypatch.setenv("AGENT_WORKER_HOME", str(home))
    (tmp_path / ".agents").mkdir()
    async with ModelServer() as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.url("ok", "/v1"))
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        ann = Agent("ann", model="openai/gpt-5", system="hi")
        async with agent_worker.local() as workers:
            assert (await workers.ask(ann, "hi")).text == "All is well."
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
        async with agent_worker.local(tmp_path) as workers:
            assert (await workers.ask(ann, "hi")).text == "All is well."
        assert {each.headers["authorization"] for each in model.requests} == {"Bearer sk-stored-by-the-person"}


@pytest.mark.sqlite(BY_ITSELF)
def test_the_daemon_that_is_asked_about_approvals_does_not_take_the_project(daemon: Served, tmp_path: Path) -> None:
    (tmp_path / ".agents").mkdir()
    (tmp_path / ".agents" / "ann.yaml").write_text(USES_MARKS)
    (tmp_path / "marks.py").write_text(MARKS.replace("{root}", str(tmp_path)))
    asked = {"project": str(tmp_path)}
    assert len(daemon.client.request("GET", f"/trust?project={tmp_path}")[1]) == 1
    assert daemon.client.request("POST", "/trust", asked)[1] == 1
    assert len(daemon.client.request("GET", f"/trust/approved?project={tmp_path}")[1]) == 1
    assert daemon.client.request("DELETE", f"/trust?project={tmp_path}")[1] == 1
    with agent_worker.local(tmp_path, trust=True) as workers:
        assert workers.ask_sync("ann", "go").state == "done"


async def test_both_doors_lead_to_one_daemon(daemon: Served) -> None:
    async with connected(daemon) as workers:
        assert (await workers.ask("alice", "hi")).state == "done"
