"""The command line. A command's module is imported when it is used, so that help and simple calls start at once."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

_C = "agent_worker.cli."
COMMANDS = {  # name → (module, function, what it does), in the order of help; GROUPS cuts it
    "demo": (_C + "demo", "demo", "Watch a team of mock agents review a change: no key, no network."),
    "cluster": (_C + "cluster", "cluster", "See several daemons share their work, and one of them die."),
    "init": (_C + "setup", "init", "Set up agents and a workflow in this directory."),
    "doctor": (_C + "setup", "doctor", "Check everything, and say what would fix it."),
    "validate": (_C + "files", "validate", "Check agent, workflow and project files without running."),
    "schema": (_C + "files", "schema", "Print the JSON Schema of a file, for your editor."),
    "run": (_C + "run", "run", "Run a workflow until everybody is done."),
    "start": (_C + "run", "start", "Start a workflow and keep it alive."),
    "serve": (_C + "run", "serve", "Run a workflow or ask an agent, and print the result as JSON."),
    "stop": (_C + "run", "stop", "Stop a workflow, an agent, or everything."),
    "pause": (_C + "run", "pause", "Pause a workflow or an agent."),
    "resume": (_C + "run", "resume", "Resume paused work; what a limit stopped gets a new allowance."),
    "send": (_C + "messages", "send", "Deliver a message and return."),
    "ask": (_C + "conversation", "ask", "Ask an agent and wait for the answer."),
    "chat": (_C + "conversation", "chat", "Talk to an agent or a team."),
    "peek": (_C + "messages", "peek", "Read a channel or a conversation."),
    "search": (_C + "messages", "search", "Search what was said, written, remembered and done."),
    "clear": (_C + "messages", "clear", "Put a conversation aside and begin it afresh."),
    "cancel": (_C + "messages", "cancel", "Cancel work that is queued, waits, or is under way."),
    "inbox": (_C + "inbox", "inbox", "Show what waits for you, and answer it."),
    "ls": (_C + "status", "ls", "List agents and workflows."),
    "status": (_C + "status", "status", "Show everything at a glance."),
    "runs": (_C + "runs", "runs", "List the newest runs."),
    "explain": (_C + "runs", "explain", "Show what a run saw and did."),
    "trace": (_C + "status", "trace", "Show where a message went."),
    "stats": (_C + "status", "stats", "Show what was done and spent."),
    "audit": (_C + "status", "audit", "Show what was done to the memory of agents, and by whom."),
    "agent": (_C + "agent", "agent", "Create, show, edit and delete agents, their memory and todos."),
    "new": (_C + "agent", "new", "Make a quick agent that lives only in the daemon."),
    "doc": (_C + "doc", "doc", "List, read and write the documents of a workspace."),
    "resource": (_C + "doc", "resource", "List and read the large texts of a workspace."),
    "proposal": (_C + "proposal", "proposal", "Put questions to a team's vote, and vote yourself."),
    "schedule": (_C + "schedule", "schedule", "Wake agents, and run workflows, at set times."),
    "hook": (_C + "hook", "hook", "Show which webhooks start workflows here, and what one would do."),
    "settings": (_C + "settings", "settings", "Show every setting: its value, where that comes from, what it does."),
    "trust": (_C + "approval", "trust", "Show what this project wants to do, and approve it."),
    "skill": (_C + "skill", "skill", "Import a skill from a repository, after you have read it."),
    "remote": (_C + "remote", "remote", "List and update workflows that were fetched from elsewhere."),
    "export": (_C + "export", "export", "Print a workspace or a conversation as one text."),
    "backup": (_C + "backup", "backup", "Copy everything the daemon keeps to one file, while it works."),
    "restore": (_C + "backup", "restore", "Put a backup in place of what the daemon keeps."),
    "db": (_C + "db", "db", "Move what the daemon keeps to PostgreSQL, or back."),
    "gc": (_C + "backup", "gc", "Free disk space by removing what nobody needs any more."),
    "key": (_C + "key", "key", "Store the keys of model providers, list and remove them."),
    "token": (_C + "token", "token", "Let other programs talk to your agents: make, list and revoke tokens."),
    "notify": (_C + "notify", "notify", "Get notifications of what waits for you: show where they go, and try it."),
    "providers": (_C + "status", "providers", "Show which model providers can be used, and test their keys."),
    "backends": (_C + "status", "backends", "Show which backends can be used, and test them."),
    "daemon": (_C + "daemon", "daemon", "Run the daemon, or show its status and log."),
    "service": (_C + "service", "service", "Let the system keep the daemon running."),
    "context": (_C + "context", "context", "Use the tools of a run from a program that does not speak MCP."),
    "web": (_C + "web", "web", "Open the web page: everything live, in your browser."),
    "mcp": (_C + "mcp", "mcp", "Serve the daemon to an AI tool over stdio."),
    "connect": (_C + "connect", "connect", "Connect an AI tool or editor to your agents and teams."),
    "acp": (_C + "acp", "acp", "Serve agents and teams to an editor that speaks ACP."),
    "completion": (_C + "setup", "completion", "Print the completion script for your shell."),
}
#: Each group of the help, and the command it begins with.
GROUPS = {
    "demo": "Begin",
    "run": "Work",
    "send": "Talk",
    "inbox": "See what is going on",
    "agent": "Agents and teams",
    "settings": "Settings and trust",
    "export": "Keep and clean up",
    "key": "Keys, models and other programs",
    "daemon": "The daemon, the page and other programs",
}
ALSO = {"list": "ls"}  # other names of commands


@contextmanager
def _until_nobody_reads() -> Iterator[None]:
    """Whoever read our output has seen enough (`| head -1`), which is no failure, as click would have it."""
    try:
        yield
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        raise click.exceptions.Exit(0) from None


class LazyGroup(click.Group):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with _until_nobody_reads():  # it may print the help
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with _until_nobody_reads():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        name = ALSO.get(name, name)
        if name not in COMMANDS:
            return None
        module, function, _ = COMMANDS[name]
        command: click.Command = getattr(importlib.import_module(module), function)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, COMMANDS[name][2]) for name in self.list_commands(ctx)]
        width = max(len(name) for name, _ in rows)
        begins = [n for n, (name, _) in enumerate(rows) if name in GROUPS]
        for n, end in zip(begins, [*begins[1:], len(rows)], strict=True):
            with formatter.section(GROUPS[rows[n][0]]):
                formatter.write_dl([(name.ljust(width), does) for name, does in rows[n:end]])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="agent-worker", prog_name="agent-worker")
def cli() -> None:
    """Run AI agents as lasting identities that work together in workspaces.

    New here? agent-worker demo, then agent-worker init.
    """


def main() -> None:
    from agent_worker.core.errors import AgentWorkerError, BackendFailure, BadInput, trouble_of

    _open_what_is_closed()
    try:
        cli.main(prog_name="agent-worker", standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        sys.exit(130)
    except click.exceptions.Exit as exit:
        sys.exit(exit.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        with suppress(BrokenPipeError):
            error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        from agent_worker.cli.mistakes import explained
        from agent_worker.cli.output import complain

        complain(explained(error, cli))
        sys.exit(error.exit_code)
    except AgentWorkerError as error:
        from agent_worker.cli.mistakes import pointed
        from agent_worker.cli.output import complain

        complain(pointed(error, sys.argv[1:]))
        sys.exit(1 if isinstance(error, BackendFailure) else 2)  # what was asked for is well-formed, and failed
    except OSError as error:
        from agent_worker.cli.output import complain

        told = trouble_of(error)
        if told is None and not _is_somewhere():
            complain(BadInput("the directory you are in is gone", hint="go to another one: cd ~"))
        elif told is None:
            raise
        else:
            complain(told)
        sys.exit(2)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        from agent_worker.cli.mistakes import unforeseen
        from agent_worker.cli.output import complain

        if sys.flags.dev_mode:
            raise
        complain(unforeseen(error))
        sys.exit(2)


def _open_what_is_closed() -> None:
    """Open /dev/null in place of what was closed (`>&-`, `<&-`): whoever closed it wants to see, or say, nothing.

    What a terminal of another encoding than UTF-8 cannot show is shown as a question mark.
    """
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper) and output.errors == "strict":
            output.reconfigure(errors="replace")


def _is_somewhere() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True
