"""No block of a page is unproved: each is typed, read or run as it stands, or the test that shows it is named here.

The label of a block says what becomes of it: `sh` is typed, `yaml` is read as the file that its first line names,
`python` is run. Whatever else a page shows is `text` (or `json`), and has its line in SHOWN.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.test_links import ROOT
from tests.docs.test_pages import OF_OTHERS, blocks, pages

_FENCE = re.compile(r"^( *)(`{3,}|~{3,})([^\n]*)\n(.*?)^\1\2 *$", re.DOTALL | re.MULTILINE)
_LABELS = {"sh", "yaml", "python", "text", "json"}
_TEST = re.compile(r"(tests/[\w/]+\.py)::(test_\w+)")
DRAWING = "a drawing"

#: page → how a block begins → the test that shows it, or why there can be none.
SHOWN: dict[str, dict[str, str]] = {
    "CONTRIBUTING.md": {"pip install -q uv": "tests/docs/test_shown.py::test_the_tasks_that_pages_name_are_there"},
    "README.md": {
        "you ──►": DRAWING,
        "pip install -q uv && uv run agent-worker demo": (
            "tests/test_install.py::test_the_demo_line_from_a_checkout_installs_no_tools_of_development"
        ),
        "uv tool install .": ("tests/test_install.py::test_after_installing_the_last_lines_of_the_demo_work_as_typed"),
        "pip install -q uv && uv run poe": (
            "tests/docs/test_readme.py::test_the_two_commands_are_the_ones_ci_and_people_use"
        ),
    },
    "docs/architecture.md": {".agents/*.yaml": DRAWING},
    "docs/concepts.md": {"you: send": DRAWING},
    "docs/install.md": {
        "agent-worker stop --all && git pull": "it would change the checkout that is tested",
        "error: another version": (
            "tests/docs/test_pages.py::test_what_an_older_home_is_told_stands_on_the_page_about_installing"
        ),
        "agent-worker stop --all && uv tool uninstall": "it would take away what the machine has installed",
    },
    "docs/proof.md": {"uv run poe faults": "tests/docs/test_shown.py::test_the_tasks_that_pages_name_are_there"},
    "docs/guides/acp.md": {
        '{ "agent_servers"': "tests/docs/test_shown.py::test_what_is_added_by_hand_is_what_connect_writes",
        "acpx --agent": "tests/doors/test_acp_clients.py::test_acpx_asks_an_agent_and_a_team",
    },
    "docs/guides/approval.md": {
        "set-up of build runs: cd": ("tests/docs/test_shown.py::test_the_question_about_a_command_names_its_files"),
        "since you approved it": (
            "tests/docs/test_shown.py::test_the_question_is_asked_again_once_somebody_has_worked_who_may_change_files"
        ),
    },
    "docs/guides/first-team.md": {
        ".agents/alice.yaml": "tests/docs/test_shown.py::test_the_files_of_the_first_team_are_the_ones_that_are_made"
    },
    "docs/guides/hosts.md": {
        "agent-worker cluster demo": (
            "tests/hosts/test_daemons.py::test_the_demo_shows_an_answer_that_survives_the_kill_of_its_host"
        )
    },
    "docs/guides/identity.md": {
        ".agents/carol/": "tests/docs/test_shown.py::test_what_a_folder_shows_is_what_an_agent_gets",
        "The soul of carol": "tests/docs/test_identity_guide.py::test_the_story_happens_as_it_is_told",
        "agent-worker agent soul carol\n": "tests/docs/test_shown.py::test_the_commands_of_the_story_do_what_it_tells",
        "agent-worker agent soul carol drift": (
            "tests/docs/test_shown.py::test_the_commands_of_the_story_do_what_it_tells"
        ),
        "agent-worker agent soul carol rollback": (
            "tests/docs/test_shown.py::test_the_commands_of_the_story_do_what_it_tells"
        ),
    },
    "docs/guides/mcp.md": {
        '{ "mcpServers"': "tests/docs/test_shown.py::test_what_is_added_by_hand_is_what_connect_writes"
    },
    "docs/guides/memory.md": {
        ".agents/carol/": "tests/docs/test_shown.py::test_what_a_folder_shows_is_what_an_agent_gets"
    },
    "docs/guides/observability.md": {
        "uv tool install '.[otel]'": "tests/docs/test_shown.py::test_the_extras_that_pages_install_are_declared"
    },
    "docs/guides/postgresql.md": {
        "uv tool install '.[postgres]'": "tests/docs/test_shown.py::test_the_extras_that_pages_install_are_declared",
        "agent-worker stop --all\nagent-worker db migrate": (
            "tests/shells/test_moving.py::test_everything_goes_to_postgresql_and_back_and_looks_the_same"
        ),
        "pg_dump": "tests/shells/test_postgres.py::test_a_backup_is_made_and_put_back_with_the_commands_that_are_told",
        "agent-worker stop --all\ncreatedb": (
            "tests/shells/test_postgres.py::test_a_backup_is_made_and_put_back_with_the_commands_that_are_told"
        ),
    },
    "docs/guides/service.md": {
        "agent-worker stop --all": "tests/cli/test_service.py::test_it_is_installed_shown_and_removed",
        "docker build": "tests/test_container.py::test_what_it_runs_works_for_an_ordinary_user",
    },
    "docs/guides/talking.md": {
        "gus wants to use bash": "tests/docs/test_shown.py::test_an_approval_is_asked_as_the_guide_shows_it",
        "waiting for you": ("tests/docs/test_shown.py::test_where_nobody_can_answer_the_guide_shows_what_is_printed"),
    },
    "examples/README.md": {
        "cd review": "tests/examples/test_examples.py::test_review__a_reviewer_and_an_author_go_back_and_forth",
        "agent-worker run --model": (
            "tests/examples/test_examples.py::test_review__with_a_model_its_script_is_not_played"
        ),
    },
}
#: Python on pages, with the test that runs it.
RUN = {
    "README.md": "tests/docs/test_readme.py::test_the_python_example_runs",
    "docs/guides/python.md": "tests/docs/test_python_guide.py::test_a_block_runs_as_it_stands",
    "docs/guides/openai.md": "tests/docs/test_shown.py::test_the_program_with_the_library_of_openai_runs",
}
#: Commands that a test of their own types.
TYPED_BY = {
    "docs/guides/git.md": "tests/docs/test_pages.py::test_the_git_commands_of_the_guide_work",
    "docs/guides/workflows.md": "tests/docs/test_workflows_guide.py::test_every_command_of_the_guide_works",
}
READ_BY = {
    "/etc/prometheus/prometheus.yml": "tests/docs/test_shown.py::test_what_prometheus_is_told_opens_the_numbers",
    "extra-openai-models.yaml": "tests/doors/test_llm.py::test_llm_asks_an_agent_and_a_team",
}
GENERATED = ROOT / "docs" / "reference"  # test_reference.py: it is what the code makes


def every_page() -> list[Path]:
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    return sorted(page for page in found if GENERATED not in page.parents)


def unproved(page: str, text: str, shown: dict[str, str]) -> list[str]:
    """What is wrong with the blocks of a page: no label, a text that nothing shows; and what SHOWN has for no block."""
    problems: list[str] = []
    used: set[str] = set()
    for found in _FENCE.finditer(text):
        label, body = found[3].strip(), found[4].lstrip()
        begins = [each for each in shown if body.startswith(each)]
        used |= {max(begins, key=len)} if begins and label in ("text", "json") else set()
        if label not in _LABELS:
            problems.append(f"{page}: {label or 'no label'}: it can be {', '.join(sorted(_LABELS))}: {body[:40]!r}")
        elif label in ("text", "json") and not begins and page != "docs/guides/python.md":
            problems.append(f"{page}: name the test that shows it, in SHOWN: {body[:40]!r}")
        elif label == "python" and page not in RUN:
            problems.append(f"{page}: name the test that runs it, in RUN: {body[:40]!r}")
    return problems + [f"{page}: no such block: {each!r}" for each in shown if each not in used]


def test_every_block_is_typed_read_run_or_shown_by_a_test() -> None:
    found = {str(page.relative_to(ROOT)): page.read_text("utf-8") for page in every_page()}
    assert sum(len(_FENCE.findall(text)) for text in found.values()) > 100
    assert not [problem for page, text in found.items() for problem in unproved(page, text, SHOWN.get(page, {}))]
    assert not set(SHOWN) - set(found)
    assert set(READ_BY) == OF_OTHERS


def test_the_pages_whose_commands_and_files_are_tried_are_all_that_have_some() -> None:
    tried = set(pages())
    left = [page for page in every_page() if page not in tried and blocks(page, "sh", "yaml")]
    assert not left, "tests/docs/test_pages.py does not look at these"


def test_every_test_that_is_named_here_is_there() -> None:
    named = [_TEST.fullmatch(by) for rows in (*SHOWN.values(), RUN, TYPED_BY, READ_BY) for by in rows.values()]
    for found in filter(None, named):
        assert f"def {found[2]}(" in (ROOT / found[1]).read_text("utf-8"), found[0]
    assert sum(1 for found in named if found is None) <= 6, (
        "a reason instead of a test is for what cannot be tried at all"
    )


def test_a_block_without_a_label_or_a_test_is_noticed() -> None:
    text = "```\na\n```\n\n```text\nsee\n```\n\n- in a list:\n  ```text\n  seen too\n  ```\n"
    assert [problem.partition(": ")[2] for problem in unproved("p.md", text, {"seen": DRAWING, "gone": DRAWING})] == [
        "no label: it can be json, python, sh, text, yaml: 'a\\n'",
        "name the test that shows it, in SHOWN: 'see\\n'",
        "no such block: 'gone'",
    ]
    assert unproved("p.md", "```python\n1\n```\n", {}) == ["p.md: name the test that runs it, in RUN: '1\\n'"]
