"""`validate` finds whatever can be known before anything runs, with its line and what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_worker.offline.definitions import checked

SDK = "backend: sdk\nprompt: { system: x }\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".agents").mkdir()
    (tmp_path / ".workflows").mkdir()
    return tmp_path


def write(root: Path, path: str, text: str) -> Path:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)
    return root / path


def told(path: Path) -> list[str]:
    return [str(one) for one in checked(path).problems]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (SDK + "model: antropic/claude", "3:8: model: there is no provider 'antropic' (did you mean anthropic?)"),
        (SDK + "model: gpt-4o", "3:8: model: model 'gpt-4o' does not name its provider (write provider/model)"),
        (
            SDK + "model: openai/x\nauto_memory: { model: opnai/y }",
            "there is no provider 'opnai' (did you mean openai?)",
        ),
        ("backend: mock\ntools: [read_fil]", '2:9: tools[0]: there is no tool read_fil (did you mean "read_file"?)'),
        ("backend: mock\ntools: [zzz]", "tools: bash, read_file"),
        ("backend: mock\ntools: ['./tols.py:f']", 'there is no file tols.py in the project (did you mean "tools.py"?)'),
        (
            "backend: mock\ntools: ['./tools.py:fetsh']",
            'no function fetsh in tools.py (did you mean "fetch"?)',
        ),
        ("backend: mock\ntools: ['./tools.py:bare']", "bare has no docstring"),
        (
            "backend: mock\nskills: [skils]",
            'no such folder in the project (did you mean "skills"?)',
        ),
        ("backend: mock\nskills: [docs]", "there is no skill in this folder"),
        ("backend: mock\ncwd: nowhere", "2:6: cwd: there is no such folder in the project"),
        ("backend: mock\nscript: []", "2:9: script: has nothing to play"),
        ("backend: mock\nscript: [{ again: true }]", "has nothing to play"),
        (
            "backend: mock\nscript: [{ call: { tool: channel_sed } }]",
            'no tool channel_sed (did you mean "channel_send"?)',
        ),
        ("backend: mock\nscript: [{ call: { tool: bash } }]", "the agent has no tool bash"),
    ],
)
def test_what_an_agent_cannot_work_with_is_found(root: Path, written: str, expected: str) -> None:
    write(root, "tools.py", "def fetch():\n    'Fetch it.'\n\ndef bare():\n    pass\n")
    write(root, "skills/tidy/SKILL.md", "---\nname: tidy\ndescription: x\n---\n")
    write(root, "docs/a.txt", "")
    file = write(root, ".agents/alice.yaml", written)
    (problem,) = told(root)
    assert problem.startswith(".agents/alice.yaml:")
    assert expected in problem
    assert told(file) == [problem], "the same when only this file is asked about"
    inline = "".join(f"    {line}\n" for line in written.splitlines())
    if "auto_memory" not in written:
        flow = write(root, ".workflows/review.yaml", f"agents:\n  bob:\n{inline}kickoff: '@bob hi'\n")
        assert any(expected.rpartition(": ")[2] in each for each in told(flow)), "the same of an inline member"


@pytest.mark.parametrize(
    "written",
    [
        SDK + "model: mine/x\nprovider: { name: mine, base_url: 'https://x.example' }",
        SDK + "model: claude\nprovider: anthropic",
        "backend: mock\ntools: ['./tools.py:fetch', bash]\nskills: [skills]\nscript:\n"
        "  - call: [{ tool: fetch }, { tool: bash }, { tool: skill_read }, { tool: memory_write }]\n  - say: x",
        "backend: mock\nmcp_servers: { x: { command: [x] } }\nscript: [{ call: { tool: whatever } }]",
        "backend: mock\nscript: [{ steps: 6, slow: 1s }, { say: x }]",
    ],
)
def test_what_can_work_is_not_complained_about(root: Path, written: str) -> None:
    write(root, "tools.py", "def fetch():\n    'Fetch it.'\n")
    write(root, "skills/tidy/SKILL.md", "---\nname: tidy\ndescription: x\n---\n")
    write(root, ".agents/alice.yaml", written)
    assert told(root) == []


@pytest.mark.parametrize(
    ("kickoff", "expected"),
    [
        ("@alicia please review", '2:10: kickoff: nobody here is called alicia (did you mean "alice"?)'),
        (
            "please review",
            "2:10: kickoff: calls on nobody, so nobody would start working (name a member in it: @alice; or say",
        ),
        ("`@alice` is code, @user is you", "calls on nobody"),
        ("@alice and @zoe", "nobody here is called zoe (members: alice, bob; in `back-ticks` it calls on nobody)"),
    ],
)
def test_a_kickoff_for_nobody_is_found(root: Path, kickoff: str, expected: str) -> None:
    (problem,) = told(review(root, f"kickoff: {kickoff!r}\n"))
    assert expected in problem


def test_a_kickoff_for_nobody_is_for_the_desk(root: Path) -> None:
    assert told(review(root, "kickoff: please review\ndesk: bob\n")) == []


def review(root: Path, more: str) -> Path:
    """A workflow of two."""
    for name in ("alice", "bob"):
        write(root, f".agents/{name}.yaml", "backend: mock\n")
    return write(root, ".workflows/review.yaml", f"agents: {{ alice: {{ ref: alice }}, bob: {{ ref: bob }} }}\n{more}")


def test_whom_a_parameter_calls_on_is_not_known_before_it_is_filled_in(root: Path) -> None:
    write(root, ".agents/alice.yaml", "backend: mock\n")
    flow = "agents: { alice: { ref: alice } }\nparams: [{ name: who }]\nkickoff: '@${{ params.who }} go'\n"
    assert told(write(root, ".workflows/review.yaml", flow)) == []


def test_each_kind_of_file_is_known_wherever_it_is(root: Path) -> None:
    alice = write(root, ".agents/alice.yaml", "backend: mock\n")
    bob = write(root, "elsewhere/bob.yaml", "backend: mock\nsoul: { role: x }\n")
    flow = write(root, "elsewhere/flow.yaml", "agents: { alice: { ref: alice } }\nkickoff: '@alice go'\n")
    project = write(root, "moniro.yaml", "name: mine\n")
    assert [checked(each).what for each in (alice, bob, flow, project)] == [
        "agent alice in .agents/alice.yaml",
        "agent bob in elsewhere/bob.yaml",
        "workflow flow with 1 agent in elsewhere/flow.yaml",
        "project mine in moniro.yaml",
    ]
    write(root, "moniro.yaml", "nam: mine\n")
    assert "did you mean" in str(told(project))
    write(root, ".agents/alice.yaml", "backend: moc\n")
    assert told(alice)
    assert told(bob) == [], "a mistake in another file is told with that file"


def test_an_empty_directory_has_nothing_to_check(tmp_path: Path) -> None:
    found = checked(tmp_path)
    assert (found.problems, found.what) == ([], "")


@pytest.mark.parametrize(
    ("guard", "expected"),
    [
        ("{ model: opnai/x }", "guard.model: "),
        ("{ llm_curation: true }", "guard.llm_curation: needs a model"),
        ("{ modle: openai/x }", "unknown key"),
    ],
)
def test_a_guard_that_could_not_work_is_found(root: Path, guard: str, expected: str) -> None:
    (problem,) = told(review(root, f"kickoff: '@alice hi'\nguard: {guard}\n"))
    assert expected in problem
