"""`init`, `doctor`, `completion`: getting started, and finding out what is wrong."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from agent_worker.cli.approval import are_kept_by_daemon
from agent_worker.cli.choice import chosen
from agent_worker.cli.output import as_json_option, echo, paint, tell_json
from agent_worker.core.errors import AgentWorkerError, Refused
from agent_worker.core.preferred import KEYS, PROGRAMS
from agent_worker.core.text import clean

TEMPLATES = {  # with how each is run
    "review": "agent-worker run review",
    "triage": "agent-worker run triage",
    "research": 'agent-worker run research -- --question "How do others do it?"',
    "debate": 'agent-worker run debate -- --motion "We should rewrite it"',
}


@click.command()
@click.option(
    "--template", type=click.Choice(list(TEMPLATES)), default="review", show_default=True, help="Which team to set up."
)
@click.option("-m", "--model", help="provider/model for all agents.")
@click.option("-b", "--backend", type=click.Choice(["mock", *PROGRAMS]), help="A coding program you have, or mock.")
@as_json_option
def init(template: str, model: str | None, backend: str | None, as_json: bool) -> None:
    """Set up agents and a workflow in this directory, from a template. Files that you wrote or changed are left alone.

    Without --model or --backend, agents use the first provider that you have a key for, otherwise the first coding
    program that is installed; if there is neither, they are mock agents. To make these real, run it again with either
    option.
    """
    from agent_worker.offline.definitions import set_up_team

    backend, model = chosen(backend, model)
    written, kept = set_up_team(template, Path.cwd(), backend, model)
    if not kept:
        _approve_written()
    if not written and not as_json:
        other = f"to give one another model: agent-worker agent edit {Path(kept[0]).stem} model={model}"
        named = click.get_current_context().get_parameter_source("model") is ParameterSource.COMMANDLINE
        raise Refused("everything is already there", hint=other if named and kept else TEMPLATES[template])
    if as_json:
        return tell_json({"written": written, "kept": kept, "backend": backend, "model": model})
    for name in written:
        echo(f"  {paint('+', 'green')} {name}")
    for name in kept:
        echo(f"  {paint('=', 'yellow')} {name} (kept as it was)")
    if backend == "mock":
        echo("\nThe agents are mock agents: they play what their files say, and cost nothing. To see how it works:")
        echo(f"  {TEMPLATES[template]}")
        echo("Then make them real, with a key (agent-worker key set anthropic) or a coding program you have:")
        echo(f"  agent-worker init{_named(template)} --model {next(iter(KEYS.values()))}")
        echo(f"  agent-worker init{_named(template)} --backend {PROGRAMS[0]}")
    else:
        missing = backend in PROGRAMS and not shutil.which(backend)
        how = f"{backend}, which is not installed yet" if missing else model if backend == "sdk" else backend
        echo(f"\nThe agents use {how}. {'Once it is, put' if missing else 'Put'} them to work:")
        echo(f"  {TEMPLATES[template]}")
    if _is_shown_to_git(Path.cwd()):
        echo("\nWhat agents say and remember is kept in .workspace/ and in their folders. To keep it out of Git:")
        echo("  printf '.workspace/\\n.agents/*/\\n' >> .gitignore")


def _is_shown_to_git(here: Path) -> bool:
    """Whether what agents write here would be among the new files of a Git repository."""
    above = [here, *here.parents]
    top = next((n for n, folder in enumerate(above) if (folder / ".git").exists()), None)
    if top is None:
        return False
    return not any(".workspace" in _rules_in(folder) for folder in above[: top + 1])


def _rules_in(folder: Path) -> str:
    """What Git leaves alone in this folder; nothing where that cannot be read."""
    try:
        return (folder / ".gitignore").read_text(errors="replace")
    except OSError:
        return ""


def _approve_written() -> None:
    """The person need not approve what we wrote for them. Where hosts share a database approvals are in it, and only
    the daemon opens that."""
    from agent_worker.cli.call import call, here
    from agent_worker.offline.definitions import approve_written, digests_of

    try:
        if are_kept_by_daemon():
            call("POST", "/trust", project=here(), digests=digests_of(Path.cwd()))
        else:
            approve_written(Path.cwd())
    except AgentWorkerError as error:
        echo(f"the files are written, but not approved yet (agent-worker trust): {clean(error.message)}", err=True)


def _named(template: str) -> str:
    return "" if template == "review" else f" --template {template}"


@click.command()
@click.option("--fix", is_flag=True, help="Repair what can be repaired.")
@as_json_option
def doctor(fix: bool, as_json: bool) -> None:
    """Check everything, and say what would fix it."""
    from agent_worker.offline import checks

    daemon, answers = _daemon(fix)
    done = [
        _home(),
        checks.disk(),
        checks.database(fix=fix),
        daemon,
        checks.project(_found_at_work if answers else _found_by_nobody),
        *checks.other_runtime(_daemon_process()),
        *(_folders() if answers else ()),
        _keys(answers),
        *checks.sandbox(),
        checks.git(),
        *(_programs() if answers else ()),
        *checks.connected_tools(),
    ]
    if as_json:
        tell_json([{"check": name, "ok": ok, "found": found, "fix": cure} for name, ok, found, cure in done])
    else:
        for name, ok, found, cure in done:
            echo(f"{paint('ok', 'green') if ok else paint('!!', 'red')}  {name}: {clean(found)}")
            if cure and not ok:
                echo(f"      fix: {clean(cure)}")
    sys.exit(0 if all(ok for _, ok, _, _ in done) else 1)


Check = tuple[str, bool, str, str]  #: what, whether it is well, what was found, what would mend it


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


def _named_port() -> Check | None:
    """What is wrong with the port that the person named, where the daemon could not listen on it."""
    import socket

    named = os.environ.get("AGENT_WORKER_PORT", "")
    if not named.isdecimal() or not 0 < int(named) < 2**16:
        return None  # its start says what is wrong with that
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", int(named)))
        except OSError as error:
            told = f"it could not start: port {named} of AGENT_WORKER_PORT: {os.strerror(error.errno or 0)}"
            return (
                "daemon",
                False,
                told,
                "stop the program that listens there, or unset AGENT_WORKER_PORT to use a free port",
            )
    return None


_ANSWERS_WITHIN = 5.0  #: seconds; one whose database is away waits for that before it answers


def _daemon(fix: bool) -> tuple[Check, bool]:
    """How the daemon is, and whether it can be asked for more: then whoever looks for a fault is not kept waiting."""
    from agent_worker.client.connection import connect, find
    from agent_worker.client.discovery import DATABASE_VARIABLE

    try:
        client = connect() if fix else find()
    except AgentWorkerError as error:
        return ("daemon", False, error.message, error.hint), False
    if client is None:
        return _named_port() or ("daemon", True, "not running; it starts when needed", ""), False
    where = f"running at {client.found.host}:{client.found.port}"
    try:
        is_shared = bool(client.request("GET", "/hosts", timeout=_ANSWERS_WITHIN)[1])
    except AgentWorkerError as error:
        return ("daemon", False, error.message, error.hint), False
    if not is_shared and os.environ.get(DATABASE_VARIABLE, "").strip():
        told = f"{where}, and keeps its state in its home: it began without {DATABASE_VARIABLE}"
        cure = "agent-worker stop --all; the next command starts it with what is set here"
        return ("daemon", False, told, cure), True
    if is_shared and not os.environ.get(DATABASE_VARIABLE, "").strip():
        where += f"; it keeps its state in PostgreSQL, and {DATABASE_VARIABLE} is not set here"
    return ("daemon", True, where, ""), True


def _folders() -> list[Check]:
    """Whether this host sees the folders that agents keep where all hosts see them."""
    from agent_worker.cli.call import call, here

    try:
        return [_folder(each) for each in call("GET", "/hosts/folders", project=here())]
    except AgentWorkerError as error:
        return [("shared folders", False, error.message, error.hint)]


def _folder(folder: dict[str, str]) -> Check:
    name, path = f"folder of {folder['agent']}", folder["path"]
    if not folder["mark"]:
        return name, True, f"{path}; no host has worked in it yet", ""
    if folder["mark"] == folder["found"]:
        return name, True, f"{path}, which all hosts see", ""
    cure = f"mount it there, or delete `store: files` from the file of {folder['agent']}"
    return name, False, f"{path} is not the folder that other hosts see: {folder['agent']} is left to them", cure


def _found_at_work(root: Path) -> list[str]:
    """What the daemon found when it made the agents ready: some things are not seen in the files."""
    from agent_worker.cli.call import call

    try:
        problems: list[str] = call("GET", "/status", project=str(root))["project"]["problems"]
    except AgentWorkerError as error:
        return [error.message]
    return problems


def _found_by_nobody(_: Path) -> list[str]:
    return []


def _daemon_process() -> str:
    """The process id of the daemon of this home; empty when none runs."""
    from agent_worker.client.connection import find

    client = find()
    return str(client.found.pid) if client else ""


def _keys(answers: bool) -> Check:
    """The keys that agents here can use, as the daemon sees it; where that does not answer, as it would begin now."""
    from agent_worker.cli.call import call, here
    from agent_worker.cli.key import told
    from agent_worker.offline.checks import keys_of_a_start, unread_env_file

    try:
        found = call("GET", "/keys", project=here()) if answers else keys_of_a_start()
        waits = [item for item in call("GET", "/inbox", project=here()) if item["kind"] == "key"] if answers else []
    except AgentWorkerError as error:
        return "keys", False, error.message, error.hint
    there = [told(each) for each in found]
    if waits:
        wanted = [f"agent-worker key set {each['remedy'].removeprefix('key ')}" for each in waits]
        missing = [each["text"].removesuffix(f": {line}") for each, line in zip(waits, wanted, strict=True)]
        return "keys", False, "; ".join([*missing, *there]), wanted[0]
    if unread := unread_env_file():
        cure = "make it a text file of yours; or store each key: agent-worker key set openai"
        return "keys", False, "; ".join([unread, *there]), cure
    none = "none; mock agents need none (agent-worker key set anthropic)"
    return "keys", True, "; ".join(there) or none, ""


def _programs() -> list[Check]:
    """The coding programs that are installed, and what came of their last test. The daemon knows."""
    from agent_worker.cli.call import call

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
@as_json_option
def completion(shell: str, as_json: bool) -> None:
    """Print the completion script for SHELL: eval "$(agent-worker completion bash)"."""
    from click.shell_completion import get_completion_class

    from agent_worker.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None
    script = found(cli, {}, "agent-worker", "_AGENT_WORKER_COMPLETE").source()
    tell_json({"shell": shell, "script": script}) if as_json else click.echo(script)
