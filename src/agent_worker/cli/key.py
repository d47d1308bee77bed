"""`key`: the keys of model providers, stored in the daemon's home. None is ever printed, or taken as an argument."""

from __future__ import annotations

import sys
from typing import Any

import click

from agent_worker.cli.call import call, here, part
from agent_worker.cli.output import as_json_option, echo, paint, tell_json
from agent_worker.core.errors import BadInput
from agent_worker.core.provider_variables import KEY_SOURCES, KEYS, key_variable
from agent_worker.core.text import clean, plural


def providers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in KEYS if name.startswith(incomplete)]


@click.group()
def key() -> None:
    """Store the keys of model providers, list and remove them.

    A stored key takes precedence over one in a project's .env, and that over one in the environment.
    """


@key.command(name="set")
@click.argument("name", shell_complete=providers)
@click.argument("value", required=False)
@as_json_option
def set_key(name: str, value: str | None, as_json: bool) -> None:
    """Store the key of NAME: a provider (openai), or a variable that an agent names (MY_KEY).

    On a terminal you are asked for it; otherwise it is read from standard input: agent-worker key set openai < key.txt
    """
    variable = key_variable(name)
    if value is not None:
        told = "a key does not belong on the command line, where others can see it and the shell keeps it"
        raise BadInput(told, hint=f"agent-worker key set {name}, then type or paste it")
    given = _asked(variable) if sys.stdin.isatty() else sys.stdin.readline()
    if not given.strip():
        raise BadInput("no key was given", hint=f"agent-worker key set {name} asks for it on a terminal")
    stored = call("POST", "/keys", name=name, value=given.strip())
    if as_json:
        return tell_json(stored)
    goes_on = f"; what waited for it continues ({plural(stored['working'], 'agent')})" if stored["working"] else ""
    echo(f"{stored['variable']} is stored{goes_on}")


def _asked(variable: str) -> str:
    try:
        typed: str = click.prompt(f"{variable} (it is not shown)", hide_input=True, err=True)
    except click.Abort:
        echo("\nno key was stored", err=True)
        raise
    return typed


@key.command(name="list")
@as_json_option
def list_keys(as_json: bool) -> None:
    """List the keys that agents here can use, and where each comes from. No key is shown."""
    found = call("GET", "/keys", project=here())
    if as_json:
        return tell_json(found)
    for each in found:
        whose = f" ({each['provider']})" if each["provider"] else ""
        echo(f"{paint(clean(each['variable']), 'cyan')}{whose}: from {KEY_SOURCES[each['source']]}")
    from agent_worker.offline.checks import unread_env_file

    if not found:
        echo("there are no keys yet: agent-worker key set anthropic")
    if unread := unread_env_file():
        echo(f"{paint('remark', 'yellow')}: {clean(unread)}", err=True)


@key.command()
@click.argument("name", shell_complete=providers)
@as_json_option
def remove(name: str, as_json: bool) -> None:
    """Forget the stored key of NAME. One of the same name in the environment applies again."""
    gone = call("DELETE", f"/keys/{part(name)}")
    tell_json(gone) if as_json else echo(f"{gone['variable']} is no longer stored")


def told(found: dict[str, Any]) -> str:
    """A key in a few words."""
    return f"{clean(found['variable'])}, from {KEY_SOURCES[found['source']]}"
