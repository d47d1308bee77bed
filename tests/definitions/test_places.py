"""Which folders and files of a project are ours, and so not for an agent's shell to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_worker.definitions.layout import own_places
from agent_worker.definitions.project_files import load_project

FILES = {
    "moniro.yaml": "agents: [team/al.yaml]\nworkflows: { ship: flows/ship.yaml, hire: flows/hire.yaml }\n"
    "workspace: { base: state/rooms }\n",
    "team/al.yaml": "name: al\nbackend: mock\nprompt: { system_file: ../words/al.md }\nskills: [how]\n"
    "context: { dir: kept/al }\n",
    "flows/ship.yaml": "name: ship\nagents: { al: { ref: al } }\nworkspace: { bind: room }\n",
    "flows/hire.yaml": "name: hire\nparams: [{ name: who }]\nworkspace: { dir: 'rooms/${{ params.who }}' }\n"
    "agents: { new: { backend: mock, prompt: { system_file: ../words/new.md } } }\n",
    "words/al.md": "al",
    "words/new.md": "new",
    "how/x/SKILL.md": "x",
    "rooms/carol/channel.jsonl": "",
    "rooms/other/plan.md": "",
}


def test_C15_everything_that_definitions_name_is_known_to_be_ours(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    project = load_project(tmp_path)
    assert not project.problems
    places = own_places(project)
    assert {str(path.relative_to(tmp_path)) for path in places.folders} == {
        *("state/rooms", "room", "rooms/carol", "kept/al"),
    }
    assert [path.relative_to(tmp_path) for path in places.homes] == [Path("kept/al")]
    assert {str(path.relative_to(tmp_path)) for path in places.files} == {
        *("team/al.yaml", "flows/ship.yaml", "flows/hire.yaml", "words/al.md", "words/new.md", "how"),
    }


def test_C15_what_is_named_but_broken_or_missing_or_a_link_is_ours_too(tmp_path: Path) -> None:
    for name, text in {
        "moniro.yaml": "agents: [team/al.yaml, team/new.yaml, team/odd.yaml]\nworkflows: { ship: flows/ship.yaml }\n",
        "team/al.yaml": "backend: mock\nprompt: { system_file: ../words/al.md }\nskills: [how]\n",
        "team/odd.yaml": "backend: nonsense\nprompt: { system_file: ../words/odd.md }\n",
        "real/al.md": "al",
        "real/how/SKILL.md": "x",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "words").mkdir()
    (tmp_path / "words/al.md").symlink_to("../real/al.md")
    (tmp_path / "how").symlink_to("real/how")
    places = own_places(load_project(tmp_path))
    assert {str(path.relative_to(tmp_path)) for path in places.files} == {
        *("team/al.yaml", "team/new.yaml", "team/odd.yaml", "flows/ship.yaml"),
        *("words/al.md", "real/al.md", "words/odd.md", "how", "real/how"),
    }


@pytest.mark.parametrize("name", ["x" * 300, "a/" * 3000 + "b"])
def test_C15_a_file_that_cannot_exist_is_in_nobodys_way(tmp_path: Path, name: str) -> None:
    (tmp_path / "moniro.yaml").write_text(f"agents: [{name}]\n")
    assert own_places(load_project(tmp_path)).files == ()


def test_C15_nobody_works_and_nothing_is_kept_among_control_files(tmp_path: Path) -> None:
    for name, text in {
        ".agents/a.yaml": "backend: mock\ncwd: .vscode\n",
        ".agents/b.yaml": "backend: mock\ncwd: .workspace/review\n",
        ".agents/c.yaml": "backend: mock\ncontext: { dir: .git/c }\n",
        ".agents/d.yaml": "backend: mock\n",
        ".workflows/w.yaml": "agents: { d: { ref: d } }\nworkspace: { bind: .claude }\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    project = load_project(tmp_path)
    assert set(project.agents) == {"d"}
    assert {problem.field for problem in project.problems} == {"cwd", "context.dir", "workspace.bind"}
