"""What a workflow's file may say, and whom it may name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent_worker.core.errors import DefinitionError
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.loading import load_workflow
from agent_worker.definitions.workflow import InlineMember, RefMember, WorkflowDefinition

AGENTS = {
    "alice": AgentDefinition(name="alice", backend="mock"),
    "bob": AgentDefinition(name="bob", model="a/b", system_prompt="You are Bob.", max_steps=7),
}
ONE = "agents: {alice: {ref: alice}}\n"


def load(tmp_path: Path, text: str) -> WorkflowDefinition:
    folder = tmp_path / ".workflows"
    folder.mkdir(exist_ok=True)
    (folder / "review.yaml").write_text(text)
    return load_workflow(folder / "review.yaml", AGENTS, root=tmp_path)


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(DefinitionError) as caught:
        load(tmp_path, text)
    return str(caught.value)


def test_members_are_references_or_inline_agents(tmp_path: Path) -> None:
    workflow = load(
        tmp_path,
        "agents:\n  alice: {ref: alice}\n  bob: {ref: bob, prompt: {append: Be fast.}, max_tokens: 16000}\n"
        "  helper: {model: x/y, prompt: {system: You help.}, soul: {role: helper}}\n",
    )
    alice, bob, helper = workflow.agents.values()
    assert isinstance(alice, RefMember)
    assert isinstance(bob, RefMember)
    assert isinstance(helper, InlineMember)
    here = bob.applied_to(AGENTS["bob"])
    assert (here.max_tokens, here.max_steps, here.system, bob.append) == (16000, 7, "You are Bob.", "Be fast.")
    assert helper.as_agent("helper").name == "helper"
    assert helper.as_agent("helper").soul.role == "helper"
    assert workflow.name == "review"


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ("alice: {ref: alice, soul: {}}", "agents.alice.soul: belongs to the agent's own file"),
        ("alice: {ref: alice, prompt: {system: x}}", "agents.alice.prompt.system: belongs to the agent's own file"),
        ("alice: {ref: alice, prompt: {system_file: x}}", "agents.alice.prompt.system_file: belongs to"),
        ("alice: {ref: alice, tools: [bash]}", "agents.alice.tools: belongs to"),
        ("alice: {ref: alice, modle: x}", 'unknown key (did you mean "model"?)'),
        ("alice: {ref: }", "agents.alice.ref: has no value"),
        ("alice: {ref: alice, backend: sdk}", "backend sdk needs a model"),
        ("helper: {model: x, prompt: {append: x}}", "is only for a member with `ref`"),
        ("helper: {model: x, prompt: {system: a, system_file: b}}", "exactly one of system, system_file"),
        ("helper: {model: x}", "agents.helper.prompt: is required"),
        ("helper: {prompt: {system: x}}", "agents.helper.model: is required"),
        ("helper: {model: x, system_prompt: x, memory: {}}", "an inline agent has no personal files"),
        ("helper: {model: x, system_prompt: x, name: y}", "the key above is the name"),
        ("helper: alice", "agents.helper: must be a mapping"),
        ("helper:", "agents.helper: has no value"),
        ("a/b: {ref: alice}", "agents.a/b: 'a/b' is not a name"),
        ("all: {ref: alice}", "is reserved"),
        ("bob: {model: x, system_prompt: x}", "the project has an agent bob already"),
        ("reviewer: {ref: alice}", "an agent keeps its name: this is alice"),
    ],
)
def test_Y6_what_does_not_belong_to_a_member_is_named(tmp_path: Path, member: str, message: str) -> None:
    assert message in refusal(tmp_path, f"agents:\n  {member}\n")


def test_a_ref_to_nobody_names_the_known_agents(tmp_path: Path) -> None:
    message = refusal(tmp_path, "agents:\n  alicia: {ref: alicia}\nkickof: x\n")
    assert message.splitlines() == [
        '.workflows/review.yaml:2:17: agents.alicia.ref: there is no agent alicia (did you mean "alice"? '
        "known agents: alice, bob)",
        '.workflows/review.yaml:3:1: kickof: unknown key (did you mean "kickoff"?)',
    ]


PROGRAM = "  {name}: {{ backend: {backend}, prompt: {{ system: You code. }}{more} }}\n"


@pytest.mark.parametrize(
    ("ann", "zoe", "refused"),
    [
        ("", "", True),
        (", access: full", ", access: edit", True),
        (", isolate: worktree", "", False),
        (", isolate: none", ", isolate: none", False),
        ("", ", access: read", False),
        ("", ", cwd: other", False),
    ],
)
def test_two_programs_edit_the_same_checkout_only_if_they_shall(
    tmp_path: Path, ann: str, zoe: str, refused: bool
) -> None:
    members = (("ann", "claude", ann), ("zoe", "codex", zoe))
    text = "agents:\n" + "".join(PROGRAM.format(name=n, backend=b, more=m) for n, b, m in members)
    if refused:
        assert "ann and zoe would edit the same checkout" in refusal(tmp_path, text)
    else:
        load(tmp_path, text)


def test_M14_two_members_are_not_told_apart_by_case(tmp_path: Path) -> None:
    assert "agents.ALICE: this name appears twice" in refusal(
        tmp_path, "agents: {alice: {ref: alice}, ALICE: {ref: alice}}"
    )


def test_a_workflow_has_members(tmp_path: Path) -> None:
    assert "agents: is required" in refusal(tmp_path, "name: x\n")
    assert "agents: must not be empty" in refusal(tmp_path, "agents: {}\n")


@pytest.mark.parametrize("key", ["workspace", "context"])
@pytest.mark.parametrize("owner", ["document_owner", "documentOwner"])
def test_a_workspace_has_two_spellings(tmp_path: Path, key: str, owner: str) -> None:
    workflow = load(tmp_path, f"{ONE}{key}: {{provider: sqlite, bind: ./data/, {owner}: alice}}\n")
    assert workflow.workspace is not False
    assert (workflow.workspace.bind, workflow.workspace.document_owner) == ("data", "alice")
    assert workflow.workspace.document_store == "sqlite"
    message = refusal(tmp_path, f"{ONE}{key}: {{{owner}: carol, bind: /x}}\n")
    assert f'{key}.{owner}: "carol" is not a member' in message
    assert f"{key}.bind: must be a path inside the project" in message


def test_two_spellings_at_once_are_refused(tmp_path: Path) -> None:
    assert "under two spellings" in refusal(tmp_path, f"{ONE}workspace: {{}}\ncontext: {{}}\n")


def test_no_workspace_is_for_a_single_agent(tmp_path: Path) -> None:
    assert load(tmp_path, f"{ONE}context: false\n").workspace is False
    text = "agents: {alice: {ref: alice}, bob: {ref: bob}}\ncontext: false\n"
    assert "context: can be false for a single agent only" in refusal(tmp_path, text)


@pytest.mark.parametrize("path", ["..", "~/x", "/tmp/x", ".", ".git", ".agents/bob", ".workflows/x", "out/x"])
def test_F10_a_bound_directory_must_be_its_own_inside_the_project(tmp_path: Path, path: str) -> None:
    (tmp_path / "out").symlink_to("/tmp")
    assert "workspace.bind: " in refusal(tmp_path, f"{ONE}workspace: {{bind: '{path}'}}\n")
    assert "context.dir: " in refusal(tmp_path, f"{ONE}context: {{dir: '{path}'}}\n")


def test_params_are_typed(tmp_path: Path) -> None:
    text = (
        ONE
        + "params:\n- {name: target, type: string, short: t, required: true}\n- {name: n, type: integer, default: 3}\n"
    )
    target, count = load(tmp_path, text).params
    assert (target.required, count.default) == (True, 3)
    for bad in (
        "{name: a, type: strng}",
        "{name: a, default: 1}",
        "{name: a, type: integer, default: true}",
        "{name: a, short: ab}",
        "{name: help}",
        "{name: a, short: h}",
        "{name: a, required: true, default: x}",
        "{name: a}, {name: A}",
        "{name: a-b}, {name: a_b}",
        "{name: a, short: x}, {name: b, short: x}",
    ):
        assert "params[" in refusal(tmp_path, f"{ONE}params: [{bad}]\n")


def test_setup_outputs_have_names_of_their_own(tmp_path: Path) -> None:
    (step,) = load(tmp_path, f"{ONE}setup: [{{shell: git diff, as: changes}}]\n").setup
    assert (step.shell, step.output) == ("git diff", "changes")
    for bad in (
        "{shell: x, as: path}",
        "{shell: x, as: params}",
        "{shell: x, as: env_x}",
        "{shell: x, as: a.b}",
        "{shell: x, as: ld_preload}",
        "{as: x}",
        "{shell: ''}",
        "{shell: x, as: a}, {shell: y, as: A}",
    ):
        assert "setup[" in refusal(tmp_path, f"{ONE}setup: [{bad}]\n")


def test_every_placeholder_is_looked_up(tmp_path: Path) -> None:
    text = (
        "agents:\n  alice: {ref: alice, prompt: {append: 'At ${{ workflow.tag }}'}}\n"
        "  helper: {model: x, system_prompt: 'See ${{ changes }}'}\n"
        "workspace: {bind: 'data/${{ workflow.tag }}'}\nparams: [{name: target}]\nenv: [CI]\n"
        "setup: [{shell: 'git diff ${{ params.target }}', as: changes}]\nkickoff: '${{ changes }} ${{ env.CI }}'\n"
    )
    load(tmp_path, text)
    for right, wrong in (
        ("workflow.tag }}'}}", "workflow.tga }}'}}"),
        ("See ${{ changes", "See ${{ chnges"),
        ("data/${{ workflow.tag", "data/${{ x"),
        ("diff ${{ params.target", "diff ${{ changes"),
        ("env.CI", "env.HOME"),
        ("kickoff: '${{ changes }}", "kickoff: '${{ a[0] }}"),
    ):
        assert right in text
        message = refusal(tmp_path, text.replace(right, wrong))
        assert "to fill in" in message or "names nothing" in message or "after this step" in message


SECRETS = re.findall(
    r"\w+",
    """
    ANTHROPIC_API_KEY OPENAI_API_KEY GITHUB_TOKEN GH_TOKEN AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID AWS_SESSION_TOKEN
    DB_PASSWORD PGPASSWORD MYSQL_PWD DATABASE_URL REDIS_URL SENTRY_DSN STRIPE_SECRET SLACK_WEBHOOK NPM_TOKEN NPM_AUTH
    SSH_PRIVATE_KEY TLS_CERT GOOGLE_APPLICATION_CREDENTIALS AZURE_CLIENT_SECRET JWT SESSION_COOKIE BEARER PAT MY_PASS
    apikey Secret_Thing KEY PASSPHRASE AZURE_CONNECTION_STRING PASSWD
    """,
)


@pytest.mark.parametrize("name", SECRETS)
def test_Y13_a_secret_cannot_be_filled_in(tmp_path: Path, name: str) -> None:
    kickoff = f"kickoff: '${{{{ env.{name} }}}}'\n"
    assert f"there is no env.{name} to fill in" in refusal(tmp_path, ONE + kickoff)
    assert "looks like a secret" in refusal(tmp_path, f"{ONE}env: [{name}]\n{kickoff}")


def test_Y13_a_prompt_file_is_looked_through_as_well(tmp_path: Path) -> None:
    (tmp_path / ".workflows").mkdir()
    (tmp_path / ".workflows" / "p.md").write_text("Use ${{ env.GITHUB_TOKEN }}")
    message = refusal(tmp_path, "agents:\n  helper: {model: x, prompt: {system_file: p.md}}\n")
    assert ":2:44: agents.helper.prompt.system_file: there is no env.GITHUB_TOKEN" in message


def test_limits_can_be_lifted(tmp_path: Path) -> None:
    limits = load(tmp_path, f"{ONE}limits: {{turns: off, usd: 2.5}}\n").limits
    assert (limits.turns, limits.usd, limits.minutes) == ("off", 2.5, None)
    assert "limits.turns: must be a whole number, or off" in refusal(tmp_path, f"{ONE}limits: {{turns: 1.5}}\n")


def test_a_file_outside_of_the_project_has_its_prompts_beside_it(tmp_path: Path) -> None:
    elsewhere, root = tmp_path / "elsewhere", tmp_path / "project"
    elsewhere.mkdir()
    root.mkdir()
    (elsewhere / "p.md").write_text("You help.")
    (tmp_path / "q.md").write_text("secret")
    path = elsewhere / "w.yaml"
    path.write_text("agents:\n  helper: {model: x, system_prompt: p.md}\n")
    helper = load_workflow(path, {}, root=root).agents["helper"]
    assert isinstance(helper, InlineMember)
    assert helper.system == "You help."
    path.write_text("agents:\n  helper: {model: x, system_prompt: ../q.md}\n")
    with pytest.raises(DefinitionError, match="inside the project"):
        load_workflow(path, {}, root=root)
