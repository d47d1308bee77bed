"""`init`, `doctor`, `completion`: getting started, and finding out what is wrong."""

from __future__ import annotations

import os
import shutil
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import click

from agent_worker.cli.output import as_json_option, clean, paint, plural, tell_json
from agent_worker.core.errors import AgentWorkerError, Refused

TEMPLATES = ("review", "triage", "research", "debate")
PROGRAMS = ("claude", "codex", "gemini", "opencode")  # in the order of preference
KEYS = {  # in the order of preference: variable → model
    "ANTHROPIC_API_KEY": "anthropic/claude-sonnet-5-5",
    "OPENAI_API_KEY": "openai/gpt-6-sol",
    "OPENROUTER_API_KEY": "openrouter/anthropic/claude-sonnet-5-5",
    "GOOGLE_API_KEY": "google/gemini-3.8-flash",
}


@click.command()
@click.option("--template", type=click.Choice(TEMPLATES), default="review", show_default=True)
@click.option("-m", "--model", help="provider/model for all agents.")
@click.option("-b", "--backend", type=click.Choice(["mock", *PROGRAMS]), help="A coding program you have, or mock.")
@as_json_option
def init(template: str, model: str | None, backend: str | None, as_json: bool) -> None:
    """Set up agents and a workflow in this directory, from a template. Existing files are left as they are.

    Without --model and --backend the agents use the first key that is found in the environment, else the first coding
    program that is installed, else they are mock agents.
    """
    backend, model = _chosen(backend, model)
    written, kept = _write(template, Path.cwd(), _settings(backend, model))
    if not kept:
        _approve(Path.cwd())
    if not written and not as_json:
        raise Refused("everything is there already", hint=f"agent-worker run {template}")
    if as_json:
        return tell_json({"written": written, "kept": kept, "backend": backend, "model": model})
    for name in written:
        click.echo(f"  {paint('+', 'green')} {name}")
    for name in kept:
        click.echo(f"  {paint('=', 'yellow')} {name} (kept as it was)")
    if backend == "mock":
        click.echo("\nThe agents are mock agents: they cost nothing. See how it works:")
        click.echo(f"  agent-worker run {template}")
        click.echo("With a key in the environment (export ANTHROPIC_API_KEY=…) init makes real ones.")
    else:
        how = f"{backend}, which you have installed" if backend in PROGRAMS else model
        click.echo(f"\nThe agents use {how}. Put them to work:\n  agent-worker run {template}")


def _chosen(backend: str | None, model: str | None) -> tuple[str, str | None]:
    if backend or model:
        return backend or "sdk", model
    if key := next((name for name in KEYS if os.environ.get(name)), None):
        return "sdk", KEYS[key]
    return next((name for name in PROGRAMS if shutil.which(name)), "mock"), None


def _settings(backend: str, model: str | None) -> str:
    access = "access: read   # edit lets it change files, full do anything\n" if backend in PROGRAMS else ""
    return f"backend: {backend}\n{access}" + (f"model: {model}\n" if model else "")


def _write(template: str, root: Path, settings: str) -> tuple[list[str], list[str]]:
    from agent_worker.files.root import Root

    written, kept, files = [], [], Root(root)
    with resources.as_file(resources.files("agent_worker.cli") / "templates" / template) as source:
        for file in sorted(p for p in source.rglob("*") if p.is_file()):
            name = str(file.relative_to(source))
            if files.exists(name):
                kept.append(name)
                continue
            files.replace(name, file.read_text("utf-8").replace("backend: mock\n", settings))
            written.append(name)
    return written, kept


def _approve(root: Path) -> None:
    """What we wrote for the user need not be approved by them again."""
    from agent_worker.client.discovery import home_directory, make_home
    from agent_worker.core.clock import SystemClock
    from agent_worker.definitions.project import load_project
    from agent_worker.files.root import Root
    from agent_worker.trust.gate import Gate
    from agent_worker.trust.powers import powers_of

    project = load_project(root)
    gate = Gate(Root.private(make_home(home_directory())), SystemClock())
    for workflow in (None, *project.workflows.values()):
        gate.approve(project.root, powers_of(project, workflow))


@click.command()
@click.option("--fix", is_flag=True, help="Repair what can be repaired.")
@as_json_option
def doctor(fix: bool, as_json: bool) -> None:
    """Check everything, and say what would fix it."""
    checks = [
        _home(),
        _disk(),
        _database(fix),
        _daemon(fix),
        _project(),
        *_runtime(),
        _keys(),
        *_sandbox(),
        _git(),
        *_programs(),
    ]
    if as_json:
        tell_json([{"check": name, "ok": ok, "found": found, "fix": cure} for name, ok, found, cure in checks])
    else:
        for name, ok, found, cure in checks:
            click.echo(f"{paint('ok', 'green') if ok else paint('!!', 'red')}  {name}: {clean(found)}")
            if cure and not ok:
                click.echo(f"      fix: {clean(cure)}")
    sys.exit(0 if all(ok for _, ok, _, _ in checks) else 1)


Check = tuple[str, bool, str, str]
SAFE_GIT = (2, 43, 7)


def _home() -> Check:
    from agent_worker.client.discovery import check_home, home_directory

    home = home_directory()
    if not home.exists():
        return "home", True, f"{home} will be made when it is needed", ""
    try:
        check_home(home)
    except AgentWorkerError as error:
        return "home", False, error.message, error.hint
    return "home", True, str(home), ""


def _disk() -> Check:
    from agent_worker.client.discovery import home_directory
    from agent_worker.files.space import Space, amount

    home = home_directory()
    try:
        space = Space.of(next(each for each in (home, *home.parents) if each.exists()), os.environ).look()
    except AgentWorkerError as error:
        return "disk", False, error.message, error.hint
    if told := space.told():
        return "disk", False, told, "agent-worker gc"
    return (
        "disk",
        True,
        "the free space is not known" if space.free is None else f"{amount(space.free)} free",
        "",
    )


def _database(fix: bool) -> Check:
    """Every page of it; and with `fix`, what can be read of a damaged one is put in its place."""
    from agent_worker.client.discovery import DATABASE, home_directory
    from agent_worker.database.recovery import look_at
    from agent_worker.files.space import amount

    path = home_directory() / DATABASE
    if not (wrong := look_at(path)):
        if not path.exists():
            return "database", True, "there is none yet", ""
        return "database", True, f"whole, {amount(path.stat().st_size)}", ""
    if not fix:
        cure = "agent-worker stop --all, then agent-worker doctor --fix, or agent-worker restore FILE"
        return "database", False, f"damaged: {wrong}", cure
    from agent_worker.cli.backup import recovered

    try:
        complete, told = recovered()
    except AgentWorkerError as error:
        return "database", False, error.message, error.hint
    cure = "look through it, or agent-worker restore FILE; the database is whole now, and the daemon starts again"
    return "database", complete, f"was damaged; {told}", cure


def _daemon(fix: bool) -> Check:
    from agent_worker.client.connection import connect, find

    try:
        client = connect() if fix else find()
    except AgentWorkerError as error:
        return "daemon", False, error.message, error.hint
    if client is None:
        return "daemon", True, "not running; it starts when it is needed", ""
    return "daemon", True, f"running at {client.found.host}:{client.found.port}", ""


def _project() -> Check:
    from agent_worker.definitions.project import find_project, load_project

    project = load_project(find_project(Path.cwd()))
    if project.problems:
        return "files", False, _first_of([str(one) for one in project.problems]), "agent-worker validate"
    if problems := _found_at_work(project.root):
        return "files", False, _first_of(problems), "agent-worker status"
    if not project.agents and not project.workflows:
        return "files", False, f"no agents in {project.root}", "agent-worker init"
    counted = f"{plural(len(project.agents), 'agent')}, {plural(len(project.workflows), 'workflow')}"
    return "files", True, f"{counted} in {project.root}", ""


def _first_of(problems: list[str]) -> str:
    return problems[0] + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else "")


def _found_at_work(root: Path) -> list[str]:
    """What the daemon found when it made the agents ready: some things are not seen in the files. It is not started."""
    from agent_worker.cli.call import call
    from agent_worker.client.connection import find

    if find() is None:
        return []
    try:
        problems: list[str] = call("GET", "/status", project=str(root))["project"]["problems"]
    except AgentWorkerError as error:
        return [error.message]
    return problems


def _runtime() -> list[Check]:
    """Who works on this project, when that is not the daemon of this home."""
    from agent_worker.client.connection import find
    from agent_worker.database.engine_lock import holder_of, refusal
    from agent_worker.definitions.project import find_project

    root = find_project(Path.cwd())
    holder, client = holder_of(root), find()
    if holder is None or (client is not None and holder.pid == str(client.found.pid)):
        return []
    error = refusal(f"the project {root}", holder)
    return [("project", False, f"{error.message}; the daemon of this home cannot use it meanwhile", error.hint)]


def _keys() -> Check:
    found = [key for key in KEYS if os.environ.get(key)]
    if found:
        return "keys", True, ", ".join(found), ""
    return "keys", True, "none; mock agents need none", ""


def _sandbox() -> list[Check]:
    """Whether there is one, and which limits it can hold on this machine."""
    if sys.platform == "linux" and shutil.which("bwrap") is None:
        return [("sandbox", False, "bubblewrap is missing: the bash tool is off", "apt-get install bubblewrap")]
    from agent_worker.tools.sandbox import NoSandbox, find_sandbox, limits_that_hold

    match find_sandbox():
        case NoSandbox(reason):
            cure = "allow user namespaces, or mark bash as unsafe: true"
            return [("sandbox", False, f"bash is off: {reason}", cure)]
        case sandbox:
            cure = "run agent-worker as a user who is not root"
            limits = [(f"sandbox, {each.name}", each.held, each.told, cure) for each in limits_that_hold(sandbox)]
            return [("sandbox", True, "bash runs sandboxed", ""), *limits]


def _git() -> Check:
    """To fetch workflows and skills, and for working copies. Older ones have holes in what we do not use."""
    from agent_worker.processes.git import version as version_of_git

    words = version_of_git().split()
    if not words:
        return (
            "git",
            True,
            "not installed: no workflow or skill can be fetched, no agent gets a working copy",
            "",
        )
    version = tuple(int(part) for part in words[2].split(".")[:3] if part.isdigit()) if len(words) > 2 else ()
    old = f", older than {'.'.join(map(str, SAFE_GIT))}: update it" if version < SAFE_GIT else ""
    return "git", True, f"{'.'.join(map(str, version))}{old}", ""


def _programs() -> list[Check]:
    """The coding programs that are installed, and what came of their last test. The daemon knows; it is not started."""
    from agent_worker.cli.call import call
    from agent_worker.client.connection import find

    if find() is None:
        return []
    found = [each for each in call("GET", "/backends") if each["where"] not in ("", "built in")]
    return [_program(each) for each in found]


def _program(backend: dict[str, Any]) -> Check:
    name, tested = backend["name"], backend["tested"]
    test = f"agent-worker backends {name} --test"
    if tested is None:
        return name, True, f"{backend['version']}, not tested yet: {test}", ""
    if not tested["seen"]["works"]:
        return name, False, f"{tested['version']} did not work: {tested['seen']['reason']}", test
    return name, True, f"{backend['version']}, tested {tested['at']} with {tested['version']}", ""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for SHELL: eval "$(agent-worker completion bash)"."""
    from click.shell_completion import get_completion_class

    from agent_worker.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "agent-worker", "_AGENT_WORKER_COMPLETE").source())
