"""What a document, a note or a memory may be called: row F14."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_worker.core.control_files import CONTROL_NAMES, OBEYED_TEXTS, SHELL_PROFILES, TEXTS
from agent_worker.core.errors import BadInput
from agent_worker.files.paths import is_control, is_text, text_names

FINE = [
    *("notes.md", "plans/release.md", "PLAN.MD", "data.csv", "a b.txt", "größe.md", "会议.md", "report (2).json"),
    *("v1.2/notes.md", "a/b/c/d.yaml", "plan.md.conflict-0123abcd", "plan.md.conflict-0123abcd-89abcdef", "HEAD/x.md"),
]
#: Each is obeyed, run or built by something, or leads to such a thing on some file system.
OBEYED = [
    *(".git/config", ".GIT/config.md", ".Git/x.md", "sub/.git/x.md", ".g\u200cit/x.md", ".git::$INDEX_ALLOCATION/x.md"),
    *(
        "git~1/config",
        "GIT~1/x.md",
        ".git./x.md",
        ".git /x.md",
        "．git/x.md",
        "%2egit/x.md",
        "%252egit/x.md",
        "․git/x.md",
    ),
    *(".envrc", ".claude/settings.json", ".mcp.json", ".vscode/tasks.json", "sub/.vscode/tasks.json", ".md", "a/.b.md"),
    *("HEAD", "config", "objects/x", "refs/heads/main", "hooks/pre-commit", "commondir", "gitdir", "Makefile"),
    *("GNUmakefile", "Dockerfile", "Justfile", "Rakefile", "Jenkinsfile", "Vagrantfile", "Procfile", "BUILD"),
    *("package.json", "PACKAGE.json", "sub/Package.JSON", "deno.json", "compose.yml", "docker-compose.yaml"),
    *(
        "CMakeLists.txt",
        "requirements.txt",
        "pyproject.toml",
        "setup.py",
        "conftest.py",
        "test_x.py",
        "sitecustomize.py",
    ),
    *("evil.pth", "x.sh", "x.bat", "x.ps1", "x.lnk", "x.desktop", "x.url", "x.code-workspace", "desktop.ini"),
    *("autorun.inf", "Thumbs.db", "CLAUDE.md", "claude.MD", "sub/AGENTS.md", "GEMINI.md", "SKILL.md", "moniro.yaml"),
    *("MONIRO.YAML", "moniro.yaml/x.md", "opencode.json", "lefthook.yml", "lefthook.yml/x.md", "x.md:stream"),
    *(
        "notes.md::$DATA",
        "-rf.md",
        "a/--upload-pack.md",
        "con.md",
        "nul",
        "*.md",
        "x.md.conflict-zz",
        "CLAUDE.md.conflict-0123abcd",
    ),
    *("notes.md/x", "notes.exe", "notes", "notes.md%00.sh", "x.md\u202e", "ＣＬＡＵＤＥ.md"),
]


@pytest.mark.parametrize("name", FINE)
def test_a_text_has_a_name_that_people_give(name: str) -> None:
    assert text_names(name) == tuple(name.split("/"))


@pytest.mark.parametrize("name", OBEYED)
def test_F14_no_text_is_called_what_a_program_obeys(name: str) -> None:
    with pytest.raises(BadInput) as refused:
        text_names(name)
    assert refused.value.hint


@pytest.mark.parametrize("name", [*CONTROL_NAMES, *SHELL_PROFILES, *OBEYED_TEXTS])
def test_F14_the_whole_list_is_refused_at_any_depth_and_in_capitals(name: str) -> None:
    for spelled in (name, name.upper(), f"{name}/x.md" if name not in OBEYED_TEXTS else name, f"a/b/{name}"):
        assert not is_text(spelled), spelled


@given(st.text(max_size=30))
def test_F14_whatever_is_let_through_is_a_text_and_nothing_else(name: str) -> None:
    try:
        names = text_names(name)
    except BadInput:
        return
    assert not is_control(names)
    assert not [part for part in names if part.startswith((".", "-")) or part.endswith((".", " "))]
    assert names[-1].casefold().endswith(TEXTS)


def test_the_guide_says_what_a_text_may_be_called() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "what-agents-may-write.md").read_text()
    for names in (TEXTS, OBEYED_TEXTS):
        assert " ".join(f"`{name}`" for name in names) in guide, json.dumps(names)
