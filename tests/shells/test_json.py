"""Every command that prints can print JSON, and then prints nothing else: its errors too, and those of the parser."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

import click
import pytest
from tests.shells.served import served
from tests.shells.terminal import Terminal

from agent_worker.cli.main import cli

NOT_FOR_SCRIPTS = {
    "acp": "it speaks a protocol of its own, in JSON",
    "chat": "it is for a person at a terminal",
    "context mcp": "the same, in the shell of an agent",
    "daemon run": "it serves, and prints nothing of its own",
    "mcp": "it speaks a protocol of its own, in JSON",
}
#: Each command with arguments that it can be called with, in this order. What can only be refused here is refused.
LINES = """
doctor
init --template debate --backend mock
validate
schema agent
completion bash
connect cursor
service install --show
service status
service remove
settings
stats
status
ls
agent list
agent create carol --backend mock
agent info carol
agent edit carol max_steps=7
agent memory carol set colour blue
agent notes carol add "it went well"
agent todo carol add "look again"
agent soul carol
search hello
agent pause carol
agent resume carol
agent stop carol
agent start carol
agent revert carol --since 2026-01-31 --show
agent release carol colour
new zed --backend mock
ask carol hello
run review "@alice hello"
serve carol hello
start review --background
send @review "@bob hello"
peek @review
pause @review
resume @review
clear bob
doc write @review plan.md "first"
doc append @review plan.md "second"
doc list @review
doc read @review plan.md
doc suggestions @review
doc apply @review 99
doc refuse @review 99
resource list @review
resource read @review abc
proposal create @review "Which?" --option a --option b --voter user
proposal list @review
proposal show @review 1
proposal vote @review 1 a
proposal approve @review 1
proposal veto @review 1 "no"
proposal cancel @review 1
inbox
inbox allowed
inbox answer 99 yes
inbox approve 99
inbox deny 99
inbox dismiss 99
inbox retry 99
inbox revoke abc
runs
explain r_0
trace m_0
cancel i_0
audit
schedule set carol 2h
schedule get carol
schedule list
schedule clear carol
trust
skill import ./nowhere
remote list
remote update git+file:///nowhere@v1/none.yaml
export @review
providers
backends
key set openai
key list
key remove openai
token create laptop --only alice
token list
token revoke laptop
hook list
hook test webhook.json
notify list
notify test
context tools
context read
context inbox
context send hello
context doc
context call my_inbox
web --no-open
gc --dry-run
backup
restore nothing.db
db migrate
agent delete carol --yes
stop @review
demo
daemon status
daemon logs
"""


def commands() -> Iterator[tuple[str, click.Command]]:
    """All that can be typed, with what each is called."""

    def beneath(path: tuple[str, ...], command: click.Command) -> Iterator[tuple[str, click.Command]]:
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield " ".join(path), command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                found = command.get_command(context, name)
                assert found is not None
                yield from beneath((*path, name), found)

    return beneath((), cli)


#: In tests/hosts/test_daemons.py, with a PostgreSQL and two daemons of its own.
TRIED_ELSEWHERE = {"cluster demo"}


def test_every_command_that_prints_takes_json_and_is_tried_here() -> None:
    known = dict(commands())
    without = {name for name, command in known.items() if not any("--json" in each.opts for each in command.params)}
    assert without == set(NOT_FOR_SCRIPTS)
    tried = {name for name in known if any(f"{line} ".startswith(f"{name} ") for line in LINES.splitlines())}
    assert tried == set(known) - set(NOT_FOR_SCRIPTS) - TRIED_ELSEWHERE


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with served(tmp_path_factory.mktemp("json")) as daemon:
        yield Terminal(daemon)


def parsed(text: str) -> object:
    """One value, or one per line for what goes on as it happens."""
    try:
        return json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def test_what_a_command_prints_is_json_or_an_error_that_is(terminal: Terminal) -> None:
    for line in filter(None, LINES.splitlines()):
        # Not at home: what a service or another tool has there is no business of a test.
        elsewhere = str(terminal.daemon.home.parent)
        done = terminal.run(*shlex.split(line), "--json", stdin="a-key-of-nobody\n", HOME=elsewhere)
        assert "Traceback" not in done.stderr, line
        found = parsed(done.stdout)
        if done.returncode == 2 and isinstance(found, dict):
            assert set(found["error"]) == {"code", "message", "hint"}, line


@pytest.mark.parametrize("name", [name for name, _ in commands()])
def test_a_slip_is_told_as_json_where_that_was_asked_for(name: str, terminal: Terminal) -> None:
    done = terminal.run(*name.split(), "--json", "--no-such-option", "x", "y", "z")
    found = json.loads(done.stdout)["error"]
    assert (done.returncode, found["code"], bool(found["message"])) == (2, "bad_input", True)
