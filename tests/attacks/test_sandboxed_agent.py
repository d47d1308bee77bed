"""C15: an agent with a shell in a sandbox, in a whole daemon, that wants to be heard outside of it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests import stored
from tests.needs import needs_sandbox
from tests.patience import eventually
from tests.shells.served import Served, served

from agent_worker.definitions.project_files import load_project

pytestmark = needs_sandbox()

EVIL = "limits: { usd_per_day: 9999 }"
TRIES = f"""
echo '{EVIL}' > moniro.yaml; rmdir moniro.yaml; echo '{EVIL}' > moniro.yaml; mv moniro.yaml x; ln -s /tmp/x moniro.yaml
echo '{EVIL}' > new && mv -f new moniro.yaml; mv -T new moniro.yaml; cp new MONIRO.yaml; ln new moniro.yaml
echo evil > .envrc; mkdir .vscode/x; echo evil > .agents/alice.yaml; echo evil > .workflows/new.yaml
echo evil > room/channel.jsonl; mv room away; echo evil > .workspace/x; echo evil > kept/bob/memory/core.yaml
echo evil > prompts/alice.md; mv prompts elsewhere; mkdir prompts; echo evil > prompts/alice.md
cat kept/bob/notes.md; mkdir sub; echo evil > sub/.envrc; echo tried > tried
"""
WRITTEN = (
    "moniro.yaml",
    ".envrc",
    "sub/.mcp.json",
    "room/documents/x.md",
    "prompts/alice.md",
    "kept/bob/x",
    "fine.txt",
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    calls = [{"tool": "bash", "with": {"command": TRIES}}]
    calls += [{"tool": "write_file", "with": {"path": path, "text": "evil"}} for path in WRITTEN]
    script = [{"call": [call]} for call in calls] + [{"say": "done"}]
    alice = "backend: mock\ntools: [bash, write_file]\nprompt: { system_file: ../prompts/alice.md }\n"
    alice += f"script: {json.dumps(script)}\n"
    bob = "backend: mock\ncontext: { dir: kept/bob }\n"
    tmp = tmp_path_factory.mktemp("sandboxed")
    with served(tmp, alice="backend: mock\n", bob=bob) as made:
        (made.project / "prompts").mkdir()
        (made.project / "prompts/alice.md").write_text("You are alice.")
        (made.project / "kept/bob").mkdir(parents=True, exist_ok=True)
        (made.project / "kept/bob/notes.md").write_text("canary")
        (made.project / ".agents/alice.yaml").write_text(alice)
        workspace = "agents: { alice: { ref: alice } }\nworkspace: { dir: room }\n"
        (made.project / ".workflows/review.yaml").write_text(workspace)
        made.do("POST", "/trust")
        asked = made.do("POST", "/send", to="alice", message="go")
        assert eventually(lambda: made.is_done(asked)), made.log()[-3000:]
        yield made


def results(daemon: Served) -> str:
    return json.dumps(daemon.read(stored.calls), default=str)


def test_C15_no_limit_and_no_setting_of_the_project_changes(daemon: Served) -> None:
    assert (daemon.project / "tried").exists()
    project = load_project(daemon.project)
    assert (project.definition.limits.usd_per_day, project.problems) == (None, ())
    assert not (daemon.project / "moniro.yaml").exists()
    assert set(project.workflows) >= {"review"}
    assert project.agents["alice"].system == "You are alice."


def test_C15_nothing_of_it_reached_a_place_that_programs_or_we_obey(daemon: Served) -> None:
    evil = [path for path in daemon.project.rglob("*") if path.is_file() and "evil" in path.read_text()]
    names = {str(path.relative_to(daemon.project)) for path in evil} - {".agents/alice.yaml"}  # its own script
    conversations = {name for name in names if "conversations" in name or "history" in name}
    assert names - conversations == {"sub/.envrc", "fine.txt"}
    assert (daemon.project / "prompts/alice.md").read_text() == "You are alice."


def test_C15_no_stand_in_is_left_and_what_we_fill_is_private(daemon: Served) -> None:
    empty = [path for path in daemon.project.rglob("*") if path.is_dir() and not list(path.iterdir())]
    assert {path.name for path in empty} <= {"room", ".workspace", "alice", "memory", "notes"}
    assert all(path.stat().st_mode & 0o777 == 0o700 for path in empty)


def test_C15_what_could_not_be_prevented_is_put_before_the_person(daemon: Served) -> None:
    told = [item["text"] for item in daemon.client.request("GET", daemon.query("/inbox"))[1]]
    assert [text for text in told if "sub/.envrc" in text], told


def test_B11_the_memory_of_another_agent_is_hidden_wherever_it_is_kept(daemon: Served) -> None:
    assert (daemon.project / "kept/bob/notes.md").read_text() == "canary"
    assert "canary" not in results(daemon)


def test_the_agent_is_told_why(daemon: Served) -> None:
    said = results(daemon)
    for words in ("controls what other programs run", "part of this project's team", "Read-only file system"):
        assert words in said, said
