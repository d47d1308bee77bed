"""The command line. A command's module is imported when it is used, so that help and simple calls start at once."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

COMMANDS = {  # name → (module, function, what it does)
    "demo": ("agent_worker.cli.demo", "demo", "Watch a team of mock agents review a change: no key, no network."),
    "schema": ("agent_worker.cli.files", "schema", "Print the JSON Schema of a file, for your editor."),
    "validate": ("agent_worker.cli.files", "validate", "Check agent, workflow and project files without running."),
}


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, function, _ = COMMANDS[name]
        command: click.Command = getattr(importlib.import_module(module), function)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, n=1)
            meant = f"Did you mean: agent-worker {near[0]}" if near else "See: agent-worker --help"
            raise click.UsageError(f"there is no command {name!r}. {meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="agent-worker", prog_name="agent-worker")
def cli() -> None:
    """Run AI agents as lasting identities that work together in workspaces."""


def main() -> None:
    from agent_worker.errors import AgentWorkerError

    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except AgentWorkerError as error:
        from agent_worker.cli.output import complain

        complain(error)
        sys.exit(2)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
