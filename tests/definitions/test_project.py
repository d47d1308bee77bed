"""A project: found from any directory inside it, loaded as far as it is right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_worker.core.errors import DefinitionError
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.block import Block
from agent_worker.definitions.project import ProjectDefinition
from agent_worker.definitions.project_files import ProjectFiles, find_project, load_project
from agent_worker.definitions.schema import Kind, json_schema
from agent_worker.definitions.workflow import WorkflowDefinition
from agent_worker.definitions.workspace import WorkspaceSettings

MOCK = "backend: mock\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    write(root, ".agents/alice.yaml", MOCK)
    write(root, ".agents/bob.yaml", MOCK)
    write(root, ".workflows/review.yaml", "agents: {alice: {ref: alice}, bob: {ref: bob}}\n")
    return root


def write(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def told(project: ProjectFiles) -> list[str]:
    return [str(problem) for problem in project.problems]


def test_the_root_is_the_nearest_directory_with_definitions(root: Path, tmp_path: Path) -> None:
    deep = root / "src" / "deep"
    deep.mkdir(parents=True)
    assert find_project(deep) == root.resolve()
    assert find_project(root / ".agents" / "alice.yaml") == root.resolve()
    write(root, "src/moniro.yaml", "name: inner\n")
    assert find_project(deep) == (root / "src").resolve()
    alone = tmp_path / "alone"
    alone.mkdir()
    assert find_project(alone) == alone.resolve()


def test_definitions_are_found_by_themselves(root: Path) -> None:
    write(root, ".agents/notes.txt", "no definition")
    write(root, ".agents/.#alice.yaml", "an editor's leftover")
    write(root, ".agents/carol.yml", MOCK)
    project = load_project(root)
    assert project.problems == ()
    assert sorted(project.agents) == ["alice", "bob", "carol"]
    assert list(project.workflows) == ["review"]
    assert project.definition.name == "shop"
    assert project.agent_files["alice"] == root.resolve() / ".agents/alice.yaml"


def test_a_directory_without_definitions_is_an_empty_project(tmp_path: Path) -> None:
    project = load_project(tmp_path)
    assert (project.agents, project.workflows, project.problems) == ({}, {}, ())


def test_one_bad_file_does_not_stop_the_others(root: Path) -> None:
    write(root, ".agents/bob.yaml", "backend: moc\n")
    write(root, ".agents/zoe.yaml", MOCK)
    write(root, ".workflows/other.yaml", "agents: {zoe: {ref: zoe}}\n")
    project = load_project(root)
    assert sorted(project.agents) == ["alice", "zoe"]
    assert list(project.workflows) == ["other"]
    bad_agent, bad_workflow = told(project)
    assert ".agents/bob.yaml:1:10: backend" in bad_agent
    assert "agent bob has problems (fix .agents/bob.yaml first)" in bad_workflow


def test_a_broken_edit_keeps_the_last_good_definition(root: Path) -> None:
    good = load_project(root)
    write(root, ".agents/bob.yaml", "backend: [\n")
    write(root, ".workflows/review.yaml", "agents: {alice: {ref: alicia}}\n")
    write(root, ".agents/carol.yaml", MOCK)
    broken = load_project(root, previous=good)
    assert broken.agents["bob"] == good.agents["bob"]
    assert broken.workflows == good.workflows
    assert "carol" in broken.agents
    assert len(broken.problems) == 2
    still = load_project(root, previous=broken)
    assert (still.agents, still.workflows) == (broken.agents, broken.workflows)
    write(root, ".agents/bob.yaml", "backend: mock\nmax_steps: 3\n")
    write(root, ".workflows/review.yaml", "agents: {alice: {ref: alice}}\n")
    repaired = load_project(root, previous=broken)
    assert repaired.problems == ()
    assert repaired.agents["bob"].max_steps == 3


def test_what_was_deleted_is_gone(root: Path) -> None:
    good = load_project(root)
    (root / ".agents/bob.yaml").unlink()
    project = load_project(root, previous=good)
    assert "bob" not in project.agents
    assert project.workflows == {}
    assert "there is no agent bob" in told(project)[0]


def test_M14_two_files_cannot_have_one_name(root: Path) -> None:
    write(root, ".agents/other.yaml", f"{MOCK}name: ALICE\n")
    project = load_project(root)
    assert "ALICE" not in project.agents
    assert told(project) == [".agents/other.yaml:2:7: name: ALICE is taken by .agents/alice.yaml (choose another name)"]


def test_F10_the_folder_of_another_agent_is_refused_to_the_one_who_asks(root: Path) -> None:
    write(root, ".agents/aaa.yaml", f"{MOCK}context: {{dir: .agents/alice/memory}}\n")
    project = load_project(root)
    assert sorted(project.agents) == ["alice", "bob"]
    assert "context.dir: is, or overlaps, the folder of agent alice" in told(project)[0]


def test_a_project_file_says_what_there_is(root: Path) -> None:
    write(root, "bots/zoe.yaml", MOCK)
    write(root, "flows/r.yaml", "agents: {zoe: {ref: zoe}, helper: {ref: helper}}\n")
    write(root, "prompt.md", "You help.")
    write(
        root, "moniro.yaml",
        "name: shop 2\nagents: [bots/zoe.yaml, {name: helper, model: x/y, prompt: {system_file: prompt.md}}]\n"
        "workflows: {ship: flows/r.yaml}\nworkspace: {provider: sqlite, base: .rooms/}\nlimits: {usd_per_day: 20}\n",
    )  # fmt: skip
    project = load_project(root)
    assert project.problems == ()
    assert sorted(project.agents) == ["helper", "zoe"]
    assert project.agents["helper"].system == "You help."
    workspace = project.workflows["ship"].workspace
    assert workspace is not False
    assert workspace.provider == "sqlite"
    assert (project.definition.name, project.definition.limits.usd_per_day) == ("shop 2", 20)


def test_a_broken_project_file_keeps_what_it_said(root: Path) -> None:
    write(root, "moniro.yaml", "agents: [.agents/alice.yaml, {name: helper, backend: mock}]\nworkflows: {}\n")
    good = load_project(root)
    write(root, "moniro.yaml", "agents: [{nam: x}]\n")
    project = load_project(root, previous=good)
    assert sorted(project.agents) == ["alice", "helper"]
    assert any("moniro.yaml:1:11: agents[0].nam: unknown key" in line for line in told(project))
    assert sorted(load_project(root).agents) == ["alice", "bob"]


def test_a_project_file_that_is_gone_takes_its_agents_along(root: Path) -> None:
    write(root, "moniro.yaml", "agents: [{name: helper, backend: mock}]\nworkflows: {}\n")
    good = load_project(root)
    (root / "moniro.yaml").unlink()
    assert sorted(load_project(root, previous=good).agents) == ["alice", "bob"]


def test_a_workflow_keeps_the_name_the_project_gives_it(root: Path) -> None:
    write(root, "moniro.yaml", "workflows: {ship: .workflows/review.yaml}\n")
    write(root, ".workflows/review.yaml", "name: review\nagents: {alice: {ref: alice}}\n")
    assert told(load_project(root)) == [".workflows/review.yaml:1:1: name: is review, but the project calls it ship"]


@pytest.mark.parametrize(
    "text",
    ["agents: [../x.yaml]", "agents: [/etc/x.yaml]", "workflows: {a: ~/x.yaml}", "workspace: {base: ..}",
     "workspace: {base: .git/x}", "agents: [out/x.yaml]", "trust: true", "agents: {}", "agents: [7]"],
)  # fmt: skip
def test_Y20_Y21_a_project_file_cannot_point_outside_or_decide_its_trust(root: Path, text: str) -> None:
    write(root.parent, "x.yaml", MOCK)
    (root / "out").symlink_to(root.parent)
    write(root, "moniro.yaml", text + "\n")
    project = load_project(root)
    assert project.problems
    assert "x" not in project.agents


def test_Y21_a_definition_that_is_a_link_out_of_the_project_is_refused(root: Path) -> None:
    target = write(root.parent, "outside.yaml", MOCK)
    (root / ".agents/mallory.yaml").symlink_to(target)
    project = load_project(root)
    assert told(project) == [".agents/mallory.yaml:1:1: points outside the project"]


def test_two_project_files_are_one_too_many(root: Path) -> None:
    write(root, "moniro.yaml", "name: a\n")
    write(root, ".agents.yaml", "name: b\n")
    project = load_project(root)
    assert project.definition.name == "a"
    assert "there is moniro.yaml too" in told(project)[0]


def test_a_workflow_at_any_path_is_checked_against_the_project(root: Path, tmp_path: Path) -> None:
    project = load_project(root)
    path = write(tmp_path, "elsewhere/w.yaml", "agents: {alice: {ref: alice}}\n")
    assert project.load_workflow(path).name == "w"
    path.write_text("agents: {carol: {ref: carol}}\n")
    with pytest.raises(DefinitionError, match="known agents: alice, bob"):
        project.load_workflow(path)


@pytest.mark.parametrize("kind", ["agent", "workflow", "project"])
def test_a_schema_is_plain_json_that_lets_the_name_out(kind: Kind) -> None:
    schema = json.loads(json.dumps(json_schema(kind)))
    assert schema["additionalProperties"] is False
    assert "name" in schema["properties"]
    assert "name" not in schema.get("required", [])


def test_a_schema_knows_both_spellings() -> None:
    schema = json_schema("workflow")
    assert {"workspace", "context"} <= set(schema["properties"])
    assert {"document_owner", "documentOwner"} <= set(schema["$defs"]["WorkspaceSettings"]["properties"])
    assert json_schema("agent")["properties"]["timeout"]["type"] == "string"


def test_what_agents_are_given_is_secret_but_not_what_workflows_print(tmp_path: Path) -> None:
    (tmp_path / ".agents").mkdir()
    (tmp_path / ".workflows").mkdir()
    (tmp_path / ".agents" / "a.yaml").write_text("backend: mock\nenv: [DEPLOY_PIN, STAGE, HOME]\n")
    (tmp_path / ".workflows" / "w.yaml").write_text(
        "env: [STAGE]\nagents: { b: { backend: mock, prompt: { system: x }, env: [OTHER] } }\n"
    )
    project = load_project(tmp_path)
    assert not project.problems
    assert project.secret_variables == {"DEPLOY_PIN", "OTHER"}


@pytest.mark.parametrize("kind", [AgentDefinition, WorkflowDefinition, WorkspaceSettings, ProjectDefinition])
def test_a_block_that_is_left_out_is_as_one_in_which_nothing_is_written(kind: type[Block]) -> None:
    made = [field.get_default(call_default_factory=True) for field in kind.model_fields.values()]
    left_out = [each for each in made if isinstance(each, Block)]
    assert left_out
    for each in left_out:
        checked = type(each).model_validate({})
        assert each == checked
        assert each.model_dump() == checked.model_dump()
        assert each.model_fields_set == checked.model_fields_set
