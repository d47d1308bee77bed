"""What a command in the sandbox can see and change. Skipped where bubblewrap does not work; CI installs it."""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_worker.agents.project_identity import checkout_of
from agent_worker.backends.programs.acp import refuse_foreign_settings
from agent_worker.backends.programs.program import Program, ProgramHost
from agent_worker.core.control_files import CONTROL_NAMES, GROUPS, OURS, is_stand_in
from agent_worker.core.errors import Refused
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.layout import OwnPlaces
from agent_worker.definitions.project_files import find_project, load_project
from agent_worker.files.paths import is_control
from agent_worker.files.root import Root
from agent_worker.processes.child import run_command
from agent_worker.processes.environment import safe_environment
from agent_worker.tools import sandbox as module
from agent_worker.tools.sandbox import NoSandbox, Sandbox, find_sandbox, nested_control, secret_places
from agent_worker.trust.powers import SETTINGS, powers_of_agent
from tests.faults.test_full_disk import UNSHARE, can_mount
from tests.needs import needs_sandbox
from tests.patience import PATIENCE, until

FOUND = find_sandbox()
needs_bash = needs_sandbox()
GIT_CONTROL = ("hooks/pre-commit", "config", "config.worktree", "commondir", "modules/x", "worktrees/x")

Run = Callable[..., Awaitable[str]]


def names_in(directory: Path) -> set[str]:
    return set(os.listdir(directory))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def project(home: Path) -> Path:
    project = home / "project"
    project.mkdir()
    return project


@pytest.fixture
def sandbox(home: Path) -> Sandbox:
    assert isinstance(FOUND, Sandbox)
    return Sandbox(FOUND.program, home)


@pytest.fixture
def run(sandbox: Sandbox, project: Path) -> Run:
    async def run(text: str, *, cwd: Path = project, **how: Any) -> str:
        with sandbox.around(["/bin/sh", "-c", text], cwd=cwd, **how) as argv:
            return (await run_command(argv, cwd=cwd, env=safe_environment(), timeout=PATIENCE)).output

    return run


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@needs_bash
async def test_the_working_directory_can_be_written_and_the_system_not(run: Run, project: Path) -> None:
    said = await run("echo kept > file; touch /etc/x /usr/x /x 2>&1; echo private > /tmp/x; cat /tmp/x")
    assert (project / "file").read_text() == "kept\n"
    assert said.count("Read-only file system") == 3
    assert "private" in said
    assert await run("ls /tmp/x 2>/dev/null; echo $TMPDIR") == "/tmp\n"


@needs_bash
@pytest.mark.parametrize("name", [".ssh/id", ".aws/credentials", ".config/gcloud/key", ".netrc", ".agent-worker/db"])
async def test_B11_credentials_are_not_there(run: Run, home: Path, name: str) -> None:
    secret = home / name
    secret.parent.mkdir(parents=True, exist_ok=True)
    secret.write_text("canary")
    assert "canary" not in await run(f"cat {secret}; cat ~/{name}")


@needs_bash
@pytest.mark.parametrize("name", [".ssh/id", ".netrc", ".config/gcloud/key", ".agent-worker/db"])
async def test_B11_credentials_are_hidden_also_when_the_home_directory_is_the_cwd(
    run: Run, home: Path, name: str
) -> None:
    secret = home / name
    secret.parent.mkdir(parents=True, exist_ok=True)
    secret.write_text("canary")
    said = await run(f"cat {name}; mv {Path(name).parts[0]} away; echo changed > {name}; ls", cwd=home)
    assert "canary" not in said
    assert secret.read_text() == "canary"


@needs_bash
async def test_B11_the_state_directory_is_hidden_wherever_it_is(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = project / "state"
    state.mkdir()
    (state / "daemon.json").write_text("canary")
    monkeypatch.setenv("AGENT_WORKER_HOME", str(state))
    assert "canary" not in await run("cat state/daemon.json")


@needs_bash
async def test_B11_what_is_hidden_is_hidden_also_among_the_system(run: Run) -> None:
    assert await run("ls /etc/ssl") != ""
    assert await run("ls /etc/ssl", hidden=(Path("/etc/ssl"),)) == ""


@needs_bash
async def test_B11_other_projects_and_other_agents_are_not_there(run: Run, home: Path, project: Path) -> None:
    (home / "other").mkdir()
    (home / "other" / "code").write_text("canary")
    bob = project / ".agents" / "bob"
    bob.mkdir(parents=True)
    (bob / "memory").write_text("canary")
    said = await run(f"cat {home}/other/code .agents/bob/memory; ls ..; ls {Path(__file__).parent}", hidden=(bob,))
    assert "canary" not in said
    assert "test_sandbox" not in said


@needs_bash
async def test_B11_neither_the_daemon_nor_the_world_can_be_reached_without_network(run: Run, listening: int) -> None:
    connect = f"bash -c 'echo > /dev/tcp/127.0.0.1/{listening}' && echo reached"
    assert "reached" not in await run(connect)
    assert "reached" in await run(connect, network=True)
    assert (await run("cat /proc/net/dev | grep -v lo:")).count(":") == 0  # no card, so no name server either


@needs_bash
async def test_B11_processes_outside_cannot_be_seen(run: Run) -> None:
    assert os.getpid() not in map(int, (await run("cd /proc; echo [0-9]*")).split())


@needs_bash
async def test_no_capability_is_left_even_to_root(run: Run) -> None:
    said = await run("grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status; cat /etc/shadow")
    assert said.split()[:6] == ["CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1"]
    assert "root:" not in said


@needs_bash
async def test_C14_C15_F12_a_control_file_cannot_be_made(run: Run, project: Path) -> None:
    """Each is tried, in one sandbox, and a plain one: what is there in the end says which could be made."""
    tried = 'chmod 777 "$n"; rm -rf "$n"; mv "$n" "moved $n"; mkdir "$n/x"; echo evil > "$n"; mkdir -p "$n/z"'
    said = await run(f"for n in {shlex.join(CONTROL_NAMES)} plain; do {tried}; done 2>/dev/null; echo tried")
    assert said == "tried\n"
    assert names_in(project) == {"plain"}


@needs_bash
@pytest.mark.parametrize(
    "name",
    [
        *(".mcp.json", ".claude/settings.json", ".envrc", ".idea/workspace.xml", ".git/HEAD", ".git/info/exclude"),
        *("moniro.yaml", ".agents.yaml", ".agents/alice.yaml", ".workflows/w.yaml", ".workspace/w/main/channel.jsonl"),
    ],
)
async def test_C14_C15_F12_a_control_file_cannot_be_changed(run: Run, project: Path, name: str) -> None:
    file = project / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("good")
    top = Path(name).parts[0]
    said = await run(f"echo evil > {name}; rm -rf {top}; mv {top} y; ln {name} z; echo evil > z; cat {name}")
    assert file.read_text() == "good"
    assert said.endswith("good")


@needs_bash
@pytest.mark.parametrize("name", GIT_CONTROL)
async def test_C14_F12_what_makes_git_run_something_cannot_be_made(run: Run, project: Path, name: str) -> None:
    (project / ".git").mkdir()
    evil = f"echo evil > .git/{name}; mkdir -p .git/{name}; mv .git away; mkdir -p .git; echo evil > .git/{name}"
    await run(evil, own_copy=True)
    # git itself would make an empty config; that much may stay, and no more
    assert [p for p in (project / ".git").rglob("*") if p.is_file() and "evil" in p.read_text()] == []
    assert not (project / "away").exists()


@needs_bash
async def test_C14_a_repository_cannot_appear_where_there_is_none(run: Run, project: Path) -> None:
    await run("git init .; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit")
    assert not (project / ".git").exists()


@needs_bash
async def test_C15_git_looks_everywhere_and_commits_only_in_an_agents_own_copy(run: Run, project: Path) -> None:
    await run_command("git init -q .", cwd=project, env=safe_environment(), timeout=PATIENCE)
    identity = "git -c user.name=a -c user.email=a@b"
    commit = f"echo x > a; git add . && {identity} commit -qm first && git status --short && git log --format=%s"
    assert "Read-only file system" in await run(commit)
    assert await run("git status --short") == "?? a\n"
    assert await run(commit, own_copy=True) == "first\n"
    assert names_in(project) == {".git", "a"}


@needs_bash
async def test_C14_shell_profiles_are_protected_where_a_shell_would_read_them(run: Run, home: Path) -> None:
    await run("echo evil > .bashrc; echo evil > .zshenv; rm -rf .bashrc; echo evil > .bashrc", cwd=home)
    assert not (home / ".bashrc").exists()
    assert not (home / ".zshenv").exists()


@needs_bash
async def test_C14_two_commands_at_once_protect_the_same_place(run: Run, project: Path) -> None:
    wait = "until test -e go; do :; done"
    first = asyncio.create_task(run("touch begun; " + wait))
    await until((project / "begun").exists)
    await run("mkdir -p .git/hooks; chmod 755 .git; echo evil > .mcp.json")  # ends first, and tidies nothing away
    assert (project / ".mcp.json").is_dir()
    (project / "go").touch()
    await first
    assert names_in(project) == {"begun", "go"}


@needs_bash
async def test_C14_what_a_crash_left_behind_protects_and_is_tidied_away(run: Run, project: Path) -> None:
    for name in (".mcp.json", ".git"):
        (project / name).mkdir()
        (project / name).chmod(0o555)
    await run("chmod 755 .git; mkdir .git/hooks; echo evil > .mcp.json")
    assert names_in(project) == set()


@needs_bash
async def test_a_users_own_empty_directory_stays(run: Run, project: Path) -> None:
    (project / ".vscode").mkdir()
    await run("true")
    assert (project / ".vscode").is_dir()


@needs_bash
def test_C14_a_control_file_that_is_a_link_cannot_be_protected_so_nothing_runs(sandbox: Sandbox, project: Path) -> None:
    (project / ".claude").symlink_to(project)
    with pytest.raises(Refused, match=r"\.claude is a link"), sandbox.around(["true"], cwd=project):
        pass


@needs_bash
def test_the_whole_disk_is_no_working_directory(sandbox: Sandbox) -> None:
    with pytest.raises(Refused, match="cannot work in /"), sandbox.around(["true"], cwd=Path("/")):
        pass


@needs_bash
async def test_B10_a_process_that_left_session_and_environment_ends_with_the_sandbox(run: Run, project: Path) -> None:
    escape = "(env -i setsid sh -c 'while :; do echo x >> alive; done' >/dev/null 2>&1 &)"
    await run(f"{escape}; until test -s alive; do :; done")
    size = (project / "alive").stat().st_size
    await run("true")
    assert (project / "alive").stat().st_size == size


@needs_bash
async def test_C15_what_the_definitions_name_as_ours_is_read_only_wherever_it_is(run: Run, project: Path) -> None:
    for name in ("defs/alice.yaml", "prompts/deep/alice.md", "room/channel.jsonl"):
        (project / name).parent.mkdir(parents=True)
        (project / name).write_text("good")
    files = (project / "defs/alice.yaml", project / "prompts/deep/alice.md", project / "defs/missing.yaml")
    places = OwnPlaces(folders=(project / "room", project / "later/rooms"), files=files)
    await run(
        "for f in defs/alice.yaml prompts/deep/alice.md room/channel.jsonl; do echo evil > $f; rm -f $f; done;"
        "mv defs x; mv prompts/deep x; mv prompts x; mv room x; mv later x; mkdir -p defs prompts/deep;"
        "echo evil > defs/alice.yaml; echo evil > defs/missing.yaml; echo evil > later/rooms/channel.jsonl;"
        "echo ok > y; grep -rl evil . 2>/dev/null > found",
        places=places,
    )
    for name in ("defs/alice.yaml", "prompts/deep/alice.md", "room/channel.jsonl"):
        assert (project / name).read_text() == "good"  # `mv` may have made a copy elsewhere
    assert (project / "found").read_text() == ""
    assert (project / "y").read_text() == "ok\n"
    assert (project / "later/rooms").stat().st_mode & 0o777 == 0o700


@needs_bash
async def test_C15_a_definition_cannot_appear_where_not_even_its_folder_exists(run: Run, project: Path) -> None:
    (project / "flat").write_text("a file where a folder belongs")
    names = ("team/deep/new.yaml", "team/other.yaml", "flat/new.yaml")
    places = OwnPlaces(files=tuple(project / name for name in names))
    evil = "; ".join(f"rm -f flat; mkdir -p {name.rpartition('/')[0]}; echo evil > {name}" for name in names)
    await asyncio.gather(run(f"{evil}; echo one > one", places=places), run(f"{evil}; echo two > two", places=places))
    assert names_in(project) == {"flat", "one", "two"}
    assert (project / "flat").is_file()


FULL = """
import sys
from pathlib import Path
from agent_worker.core.errors import Refused
from agent_worker.tools.sandbox import Sandbox
project = Path(sys.argv[1], "project")
project.mkdir()
try:
    with Sandbox("bwrap", Path(sys.argv[1])).around(["true"], cwd=project):
        print("runs")
except Refused as error:
    print(error, sorted(path.name for path in project.iterdir()))
"""


@pytest.mark.skipif(not can_mount(), reason="no tmpfs in a user namespace on this machine")
def test_C15_where_there_is_no_room_for_stand_ins_nothing_runs(tmp_path: Path) -> None:
    script = 'mount -t tmpfs -o nr_inodes=30 none "$1" && exec "$2" -c "$3" "$1"'
    argv = [*UNSHARE, "sh", "-c", script, "sh", str(tmp_path), sys.executable, FULL]
    said = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "cannot be protected from an agent's commands: No space left on device" in said.stdout, said
    assert said.stdout.rstrip().endswith("[]")  # and none of them is left


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_C15_where_a_command_could_give_itself_the_right_nothing_runs(sandbox: Sandbox, project: Path) -> None:
    project.chmod(0o555)
    with pytest.raises(Refused, match="cannot be protected"), sandbox.around(["true"], cwd=project):
        pass


@needs_bash
async def test_C15_the_daemon_writes_into_its_folders_while_a_command_runs(run: Run, project: Path) -> None:
    wait = "touch begun; until grep -q said room/w/channel.jsonl; do :; done; echo evil >> room/w/channel.jsonl"
    running = asyncio.create_task(run(f"{wait}; cat room/w/channel.jsonl", places=OwnPlaces((project / "room",))))
    await until((project / "begun").exists)
    Root(project / "room").replace("w/channel.jsonl", "said\n")
    assert (await running).endswith("said\n")
    assert (project / "room/w/channel.jsonl").read_text() == "said\n"


def agent_of(program: str) -> AgentDefinition:
    written = {"name": "bob", "backend": program, "prompt": {"system": "x"}}
    return AgentDefinition.model_validate(written | ({"command": ["it"]} if program == "acp" else {}))


@needs_bash
async def test_C15_stand_ins_are_no_project_and_no_settings(run: Run, project: Path) -> None:
    sub = project / "sub"
    sub.mkdir()
    (project / "moniro.yaml").write_text("name: real\n")
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text('[remote "origin"]\n url = https://git.example/shop.git\n')
    running = asyncio.create_task(run("touch begun; until test -e go; do :; done", cwd=sub))
    await until((sub / "begun").exists)
    seen = [name for name in OURS if is_stand_in(sub / name)]
    found, loaded, nested = find_project(sub), load_project(sub), nested_control(project)
    identity = checkout_of(loaded, shared=True).identity
    powers = [power for name in SETTINGS for power in powers_of_agent(agent_of(name), sub)]
    for name in SETTINGS:
        refuse_foreign_settings(Program(name, "p/bob", sub, sub, ProgramHost()))
    (sub / "go").touch()
    await running
    assert seen == list(OURS)
    assert identity == "git:git.example/shop sub"
    assert {power.kind for power in powers} == {"program"}
    assert (found, loaded.problems, loaded.definition.limits.usd_per_day) == (project, (), None)
    assert nested == {}
    assert names_in(sub) == {"begun", "go"}


@needs_bash
async def test_C15_a_folder_of_ours_that_a_crash_left_as_a_stand_in_is_a_folder_again(run: Run, project: Path) -> None:
    (project / ".workspace").mkdir()
    (project / ".workspace").chmod(0o555)
    await run("true", places=OwnPlaces((project / ".workspace",)))
    assert (project / ".workspace").stat().st_mode & 0o777 == 0o700


@needs_bash
def test_C15_no_command_runs_in_a_folder_of_ours(sandbox: Sandbox, project: Path) -> None:
    places = OwnPlaces((project,))
    with pytest.raises(Refused, match="holds the files"), sandbox.around(["true"], cwd=project, places=places):
        pass


@needs_bash
async def test_C15_control_files_deeper_down_are_read_only_and_new_ones_are_noticed(run: Run, project: Path) -> None:
    for name in ("a/.envrc", "a/b/moniro.yaml", "a/.vscode/tasks.json", "lib/.git/config"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("good")
    before = nested_control(project)
    assert {str(path.relative_to(project)) for path in before} == {
        "a/.envrc",
        "a/b/moniro.yaml",
        "a/.vscode",
        "lib/.git",
    }
    await run(
        "for f in a/.envrc a/b/moniro.yaml a/.vscode/tasks.json lib/.git/config; do echo evil > $f; done", nested=before
    )
    assert nested_control(project) == before
    await run("mv a c; mkdir -p a d/.GIT; echo evil > a/.envrc; echo evil > d/.git; ln -s / d/.idea", nested=before)
    after = nested_control(project)
    new = {str(path.relative_to(project)) for path, sign in after.items() if before.get(path) != sign}
    assert new == {"a/.envrc", "c/.envrc", "c/b/moniro.yaml", "c/.vscode", "d/.GIT", "d/.git", "d/.idea"}


@needs_bash
@pytest.mark.parametrize("place", [".", "sub"])
@pytest.mark.parametrize("kind", ["objects refs", "commondir"])
async def test_C14_a_repository_without_git_folder_is_noticed_and_then_read_only(
    run: Run, project: Path, place: str, kind: str
) -> None:
    """Git takes such a folder for a bare repository: `git status` in it runs what its `config` says."""
    made = (
        "mkdir -p objects refs hooks"
        if kind == "objects refs"
        else "mkdir -p hooks x/refs x/objects; echo x > commondir"
    )
    before = nested_control(project)
    await run(f"mkdir -p {place}; cd {place}; {made}; echo 'ref: refs/heads/main' > HEAD; echo evil > config")
    new = nested_control(project)
    named = {"config", "hooks", *(["commondir"] if kind == "commondir" else [])}
    assert {str(path.relative_to(project / place)) for path in new.keys() - before} == named
    await run(f"cd {place}; echo worse > config; echo worse > hooks/post-checkout; touch HEAD", nested=new)
    assert nested_control(project) == new


@needs_bash
async def test_C15_another_spelling_of_a_control_file_is_noticed(run: Run, project: Path) -> None:
    await run("echo evil > MONIRO.yaml; mkdir .VSCode")
    assert {path.name for path in nested_control(project)} == {"MONIRO.yaml", ".VSCode"}


def test_the_guide_prints_the_list() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "what-agents-may-write.md").read_text()
    for group, names in GROUPS.items():
        assert f"| {group} | {' '.join(f'`{name}`' for name in names)} |" in guide, group


BYPASSES = [
    " ; ".join(["true"] * 51 + ["cat $S"]),
    "echo $(cat $S)",
    "find ~ /etc -path '*secret*' -exec cat {} +",
    "git -c core.pager='cat $S' -c alias.x='!cat $S' x",
    "sed -n '1e cat '$S /etc/passwd",
    "env -S 'cat' $S",
    "printf 'cat %s' $S | sh",
    "true\rcat $S",
    "python3 -c \"print(open('$S').read())\"",
    "“cat” $S; cat ‘$S’ || cat $S",
    "ln -s $S link; cat link",
    "cat /proc/1/root$S /proc/self/root$S",
]


@needs_bash
@pytest.mark.parametrize("bypass", BYPASSES)
async def test_B12_what_fools_a_filter_does_not_fool_the_sandbox(run: Run, home: Path, bypass: str) -> None:
    secret = home / ".ssh" / "secret"
    secret.parent.mkdir()
    secret.write_text("canary")
    assert "canary" not in await run(f"S={secret}; {bypass}")


def test_F12_control_files_are_known_by_any_spelling_at_any_depth() -> None:
    for path in (".git/hooks/x", "sub/.GIT/config", ".Mcp.JSON", "a/.claude", ".bashrc", ".config/fish/config.fish"):
        assert is_control(path.split("/")), path
    for path in (".github/x", "git/hooks", ".gitignore", "mcp.json", "config/fish"):
        assert not is_control(path.split("/")), path


def test_our_own_state_is_a_secret_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_WORKER_HOME", "/srv/state")
    places = secret_places(Path("/home/u"))
    assert {Path("/srv/state"), Path("/home/u/.agent-worker"), Path("/home/u/.ssh")} <= set(places)


def test_B13_a_machine_without_bubblewrap_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WHERE_PROGRAMS_ARE", "/nowhere")
    assert find_sandbox.__wrapped__() == NoSandbox(
        "bubblewrap is not installed (apt install bubblewrap, dnf install bubblewrap)"
    )


def test_B13_a_bubblewrap_that_is_not_allowed_to_work_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(module, "_WHERE_PROGRAMS_ARE", str(tmp_path))
    found = find_sandbox.__wrapped__()
    assert isinstance(found, NoSandbox)
    assert found.reason.endswith("does not work on this machine: bwrap: No permissions to create new namespace")
