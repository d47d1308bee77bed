"""The task tools: files and a shell, inside one directory, with answers a model can act on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from agent_worker.core.clock import TestClock
from agent_worker.core.errors import BadInput, NotFound, Refused, Stale
from agent_worker.database.database import Database
from agent_worker.files.root import Root
from agent_worker.tools import task
from agent_worker.tools.sandbox import NoSandbox, find_sandbox
from agent_worker.tools.task import (
    HITS,
    SHOWN,
    bash,
    bash_tool,
    edit_file,
    list_files,
    read_file,
    search_files,
    why_bash_is_off,
    write_file,
)
from agent_worker.tools.tool import Result, RunIdentity, Tool, ToolContext
from tests.needs import needs_sandbox
from tests.pictures import PNG, PNG_TEXT, png

FOUND = find_sandbox()
needs_bash = needs_sandbox()
CONTROL = [
    *(".git/hooks/pre-commit", ".git/config", ".claude/settings.json", ".mcp.json", ".cursor/mcp.json"),
    *(".codex/config.toml", ".agents/alice.yaml", ".workflows/w.yaml", ".bashrc", "sub/.GIT/config"),
]
SEAT = RunIdentity(agent="a1", name="alice", project="p1", run="r1", root="i1", hop=0)


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    cwd = tmp_path / "project"
    cwd.mkdir()
    return ToolContext(SEAT, cast(Database, None), TestClock(), cwd=cwd, home=Root(cwd).beneath(".agents/alice"))


async def use(tool: Tool, context: ToolContext, **arguments: Any) -> str:
    answer = await tool.function(context, **tool.check(arguments))
    assert isinstance(answer, str)
    return answer


def test_all_work_without_a_workspace_and_only_reading_is_repeatable() -> None:
    tools = (bash, read_file, write_file, edit_file, list_files, search_files)
    assert all(tool.personal and not tool.stored and tool.spec.description for tool in tools)
    assert [tool.name for tool in tools if tool.repeatable] == ["read_file", "list_files", "search_files"]


async def test_a_file_is_written_read_and_edited(context: ToolContext) -> None:
    assert await use(write_file, context, path="src/a.py", text="x = 1\ny = 2\n") == "wrote src/a.py (2 lines)"
    assert await use(edit_file, context, path="src/a.py", old="y = 2", new="y = 3") == "changed src/a.py at line 2"
    assert await use(read_file, context, path="src/a.py") == "x = 1\ny = 3"
    assert await use(read_file, context, path=str(context.cwd / "src" / "a.py")) == "x = 1\ny = 3"
    assert await use(read_file, context, path="./src//a.py") == "x = 1\ny = 3"
    assert await use(write_file, context, path="src/a.py", text="") == "replaced src/a.py (0 lines)"
    assert await use(read_file, context, path="src/a.py") == "(the file is empty)"


async def test_a_script_stays_executable(context: ToolContext) -> None:
    script = context.cwd / "run.sh"
    script.write_text("echo one\n")
    script.chmod(0o755)
    await use(edit_file, context, path="run.sh", old="one", new="two")
    assert script.stat().st_mode & 0o777 == 0o755
    await use(write_file, context, path="run.sh", text="echo three\n")
    assert script.stat().st_mode & 0o777 == 0o755
    await use(write_file, context, path="new", text="x")
    assert (context.cwd / "new").stat().st_mode & 0o777 == 0o644


async def test_lines_are_chosen_and_the_rest_is_announced(context: ToolContext) -> None:
    (context.cwd / "a").write_text("".join(f"{n}\n" for n in range(1, 11)))
    assert await use(read_file, context, path="a", start=3, lines=2) == "3\n4\n[lines 3–4 of 10]"
    assert await use(read_file, context, path="a", start=10) == "10\n[lines 10–10 of 10]"
    with pytest.raises(BadInput, match="only 10 lines"):
        await use(read_file, context, path="a", start=11)


async def test_a_long_file_is_shown_up_to_the_cap(context: ToolContext) -> None:
    (context.cwd / "a").write_text("0123456789\n" * 100_000)
    (context.cwd / "b").write_text("x" * 1_000_000)
    assert len(await use(read_file, context, path="a", lines=100_000)) < SHOWN + 100
    long_line = await use(read_file, context, path="b")
    assert len(long_line) < SHOWN + 100
    assert long_line.endswith("characters left out …]")


async def test_a_picture_is_looked_at_and_one_that_is_too_large_is_refused(context: ToolContext) -> None:
    (context.cwd / "a.txt").write_bytes(PNG)  # whatever it is called
    result = await read_file.function(context, path="a.txt")
    assert isinstance(result, Result)
    assert result.text == f"[image, {len(PNG)} bytes: a.txt]"
    assert [image.base64 for image in result.images] == [PNG_TEXT]
    (context.cwd / "b.png").write_bytes(png(4_000_000))
    with pytest.raises(Refused, match=r"b\.png cannot be shown: image, 4\.0 MB, larger than 3\.9 MB"):
        await use(read_file, context, path="b.png")


@pytest.mark.parametrize("content", [b"\0ELF", b"\xff\xfe\x00", b"text\xff"])
async def test_a_binary_file_is_noticed(context: ToolContext, content: bytes) -> None:
    (context.cwd / "a.bin").write_bytes(content)
    with pytest.raises(Refused, match="not a text file"):
        await use(read_file, context, path="a.bin")
    with pytest.raises(Refused, match="not a text file"):
        await use(edit_file, context, path="a.bin", old="text", new="x")


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a/../../outside", "link", "link/inside", "fifo"])
async def test_nothing_outside_is_opened(context: ToolContext, path: str) -> None:
    (context.cwd.parent / "outside").write_text("canary")
    (context.cwd / "link").symlink_to(context.cwd.parent)
    os.mkfifo(context.cwd / "fifo")
    for tool, more in ((read_file, {}), (write_file, {"text": "x"}), (edit_file, {"old": "c", "new": "x"})):
        with pytest.raises((Refused, BadInput)):
            await use(tool, context, path=path, **more)
    assert (context.cwd.parent / "outside").read_text() == "canary"
    assert "canary" not in await use(search_files, context, text="canary")


@pytest.mark.parametrize("path", CONTROL)
async def test_F12_control_files_are_not_written_also_when_they_do_not_exist_yet(
    context: ToolContext, path: str
) -> None:
    for tool, more in ((write_file, {"text": "x"}), (edit_file, {"old": "a", "new": "b"})):
        with pytest.raises(Refused, match="no agent may change it"):
            await use(tool, context, path=path, **more)
    assert os.listdir(context.cwd) == []


@pytest.mark.parametrize("place", ["", "sub/"])
async def test_F12_no_repository_comes_about_file_by_file(context: ToolContext, place: str) -> None:
    for name in ("HEAD", "config", "objects/x"):
        await use(write_file, context, path=place + name, text="x")
    with pytest.raises(Refused, match="whose settings Git obeys"):
        await use(write_file, context, path=f"{place}refs/x", text="x")
    with pytest.raises(Refused, match="whose settings Git obeys"):
        await use(write_file, context, path=f"{place}commondir", text="x")


async def test_B11_credentials_and_state_cannot_be_read_where_the_cwd_is_the_home_directory(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(context.cwd))
    monkeypatch.setenv("AGENT_WORKER_HOME", str(context.cwd / "state"))
    for name in (".ssh/id", ".aws/credentials", ".config/gcloud/key", ".netrc", "state/daemon.json"):
        (context.cwd / name).parent.mkdir(parents=True, exist_ok=True)
        (context.cwd / name).write_text("canary")
        with pytest.raises(Refused, match="not for you to read"):
            await use(read_file, context, path=name)
    assert await use(search_files, context, text="canary") == "(nothing found)"


async def test_B11_credentials_cannot_be_read_by_the_name_a_link_gives_them(
    context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (context.cwd / "aws").mkdir()
    (context.cwd / "aws" / "credentials").write_text("canary")
    (tmp_path / ".aws").symlink_to(context.cwd / "aws")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(Refused, match="not for you to read"):
        await use(read_file, context, path="aws/credentials")


async def test_B11_what_another_agent_owns_cannot_be_read(context: ToolContext) -> None:
    for name in ("alice", "bob", "skills"):
        (context.cwd / ".agents" / name).mkdir(parents=True)
        (context.cwd / ".agents" / name / "memory.md").write_text("canary")
    with pytest.raises(Refused, match="belongs to another agent"):
        await use(read_file, context, path=".agents/bob/memory.md")
    found = await use(search_files, context, text="canary")
    assert found == ".agents/alice/memory.md:1: canary\n.agents/skills/memory.md:1: canary"


async def test_an_edit_that_is_not_unique_names_the_lines(context: ToolContext) -> None:
    (context.cwd / "a").write_text("x\ny\nx\n")
    with pytest.raises(BadInput, match="2 times, on lines 1, 3"):
        await use(edit_file, context, path="a", old="x", new="z")
    assert (context.cwd / "a").read_text() == "x\ny\nx\n"


async def test_an_edit_that_finds_nothing_says_where_it_nearly_is(context: ToolContext) -> None:
    (context.cwd / "a").write_text("def f():\n\treturn  1\n")
    with pytest.raises(NotFound) as caught:
        await use(edit_file, context, path="a", old="    return 1", new="    return 2")
    assert caught.value.hint.startswith("line 2 is nearly its first line")
    with pytest.raises(NotFound) as caught:
        await use(edit_file, context, path="a", old="nothing like it", new="")
    assert caught.value.hint == "read the file again and copy the text exactly"
    with pytest.raises(BadInput, match="old is empty"):
        await use(edit_file, context, path="a", old="", new="x")


async def test_an_edit_keeps_the_line_ends_of_the_file(context: ToolContext) -> None:
    (context.cwd / "a").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    await use(edit_file, context, path="a", old="one\ntwo", new="1\n2")
    assert (context.cwd / "a").read_bytes() == b"1\r\n2\r\nthree\r\n"


async def test_an_edit_does_not_undo_what_a_person_saved_meanwhile(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = context.cwd / "a"
    file.write_text("old")
    find = task._line_of_only

    def a_person_saves(*arguments: Any) -> int:
        file.write_text("theirs")
        return find(*arguments)

    monkeypatch.setattr(task, "_line_of_only", a_person_saves)
    with pytest.raises(Stale, match="changed by someone else"):
        await use(edit_file, context, path="a", old="old", new="new")
    assert file.read_text() == "theirs"
    assert os.listdir(context.cwd) == ["a"]


async def test_a_write_that_fails_leaves_the_old_file(context: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    (context.cwd / "a").write_text("old")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("agent_worker.files.folder.write_all", full)
    with pytest.raises(OSError, match="No space"):
        await use(write_file, context, path="a", text="new")
    assert (context.cwd / "a").read_text() == "old"
    assert os.listdir(context.cwd) == ["a"]


async def test_files_are_listed_in_one_directory_or_by_name_beneath_it(context: ToolContext) -> None:
    for name in ("a.py", "b.txt", "sub/c.py", "sub/deep/d.py", "node_modules/e.py", ".git/f.py"):
        (context.cwd / name).parent.mkdir(parents=True, exist_ok=True)
        (context.cwd / name).touch()
    assert await use(list_files, context) == ".git/\na.py\nb.txt\nnode_modules/\nsub/"
    assert await use(list_files, context, path="sub") == "c.py\ndeep/"
    assert await use(list_files, context, name="*.py") == "a.py\nsub/c.py\nsub/deep/d.py"
    assert await use(list_files, context, name="*.rs") == "(nothing)"
    with pytest.raises(NotFound):
        await use(list_files, context, path="missing")


async def test_D6p_search_is_literal(context: ToolContext) -> None:
    (context.cwd / "a").write_text("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\n(a+)+$ here\n")
    assert await use(search_files, context, text="(a+)+$") == "a:2: (a+)+$ here"
    assert await use(search_files, context, text="a.*b") == "(nothing found)"
    with pytest.raises(BadInput):
        await use(search_files, context, text="")


async def test_search_shows_a_bounded_number_of_bounded_lines(context: ToolContext) -> None:
    (context.cwd / "many").write_text("needle\n" * 10_000)
    (context.cwd / "wide").write_text("x" * 1_000_000 + "needle" + "y" * 500_000)
    (context.cwd / "binary").write_bytes(b"needle\0")
    many = await use(search_files, context, text="needle", name="many")
    assert many.count("\n") == HITS
    assert "there is more" in many
    wide = await use(search_files, context, text="needle", name="wide")
    assert "needle" in wide
    assert len(wide) < 300
    assert await use(search_files, context, text="needle", name="binary") == "(nothing found)"


async def test_a_search_ends_in_a_directory_without_end(context: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "SEARCHED_FILES", 10)
    for number in range(50):
        (context.cwd / f"{number:02}").write_text("needle")
    assert (await use(search_files, context, text="needle")).count("needle") == 10
    monkeypatch.setattr(task, "SEARCHED_BYTES", 20)
    assert "too much to look through" in await use(search_files, context, text="needle")


@needs_bash
async def test_bash_runs_in_the_working_directory_and_tells_how_it_ended(context: ToolContext) -> None:
    assert await use(bash, context, command="pwd; echo err >&2; exit 3") == f"{context.cwd}\nerr\n[exit code 3]"
    assert await use(bash, context, command="[[ a == a ]]") == "(no output)"
    assert await use(bash, context, command="printf 'a\\0b'") == "a␀b"
    assert (await use(bash, context, command="sleep 100", seconds=1)).startswith("(no output)\n[stopped after 1 s")


@needs_bash
async def test_bash_shows_the_two_ends_of_a_long_output(context: ToolContext) -> None:
    said = await use(bash, context, command="echo first; yes | head -n 1000000; echo last")
    assert len(said) < SHOWN + 100
    assert said.startswith("first\n")
    assert said.endswith("last")
    assert "bytes left out" in said


@needs_bash
async def test_B3_bash_sees_only_declared_variables(context: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary")
    assert "canary" not in await use(bash, context, command="env")


@needs_bash
async def test_B11_bash_cannot_read_what_another_agent_owns(context: ToolContext) -> None:
    (context.cwd / ".agents" / "bob").mkdir(parents=True)
    (context.cwd / ".agents" / "bob" / "memory.md").write_text("canary")
    assert "canary" not in await use(bash, context, command="cat .agents/bob/memory.md; grep -r canary .")


@pytest.fixture
def no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "find_sandbox", lambda: NoSandbox("bubblewrap is not installed"))


@pytest.mark.usefixtures("no_sandbox")
async def test_B11_B13_without_a_sandbox_bash_is_off_and_says_why(context: ToolContext) -> None:
    with pytest.raises(Refused, match="bash is off, because there is no sandbox on this machine: bubblewrap is not"):
        await use(bash, context, command="touch ran")
    assert not (context.cwd / "ran").exists()
    assert "bash is off" in (why_bash_is_off(unsafe=False) or "")


@pytest.mark.usefixtures("no_sandbox")
async def test_B13_bash_runs_without_a_sandbox_only_when_the_definition_says_unsafe_and_the_model_is_told(
    context: ToolContext,
) -> None:
    unsafe = bash_tool(unsafe=True)
    assert why_bash_is_off(unsafe=True) is None
    assert "NO sandbox" in unsafe.spec.description
    assert "NO sandbox" not in bash.spec.description
    assert await use(unsafe, context, command="echo hi") == "hi"


def test_the_description_of_bash_says_what_can_be_reached() -> None:
    assert bash.spec.description.endswith("There is no network.")
    assert bash_tool(network=True).spec.description.endswith("The network can be reached.")


async def test_a_root_that_is_gone_is_a_sentence(context: ToolContext) -> None:
    Root(context.cwd.parent).remove_tree("project")
    with pytest.raises(NotFound):
        await use(read_file, context, path="a")
