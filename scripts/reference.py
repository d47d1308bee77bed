"""Write the reference pages from the code: commands, routes, tools, files. `tests/docs` checks that they are so."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from agent_worker.cli.main import COMMANDS, cli
from agent_worker.definitions.schema import Kind, json_schema
from agent_worker.definitions.settings import VARIABLES, Settings, scope_of, shown
from agent_worker.service.catalogue import OPERATIONS
from agent_worker.tools import toolbox
from agent_worker.tools.person import ask_user
from agent_worker.tools.recall import HISTORY, OWN
from agent_worker.tools.task import bash

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
NOTE = "Written by `uv run poe reference` from the code; do not edit.\n"


_ABOUT_SETTINGS = """\
Yours are in `settings.yaml` in the daemon's home (`~/.agent-worker`, or `AGENT_WORKER_HOME`), for all projects; they
are read when the daemon starts, and a variable of its environment counts more. A project's stand under `settings:` in
its `moniro.yaml`, and hold from the next command on; what a team was started with (`quiet_moment`, `smart_send`)
holds until it is started again. `agent-worker settings` shows the value of each and where it comes from, and `agent-
worker validate` finds what is wrong in both files.

```yaml
# settings.yaml
runs_at_once: 4
longest_wait: 1h
```

```yaml
# moniro.yaml
name: shop
settings:
  smart_send: 8KiB
  tries: 2
```

A project chooses how its own teams work. Where it may only *lower*, the lower of both values holds; the rest is yours
alone. Limits of money and runs are not here but under `limits:` of agents, workflows and the project. Times are written
with a unit (`500ms`, `30s`, `5m`, `2h`, `1d`), and so are sizes (`4KiB`, `500MB`, `1GB`).
"""


def pages() -> dict[str, str]:
    return {
        "commands.md": commands(),
        "routes.md": routes(),
        "tools.md": tools(),
        "files.md": files(),
        "settings.md": settings(),
    }


def commands() -> str:
    parts = ["# Commands\n", NOTE]
    root = click.Context(cli, info_name="agent-worker")
    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None
        parts += _command(command, click.Context(command, parent=root, info_name=name))
    return "\n".join(parts)


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"## `{context.command_path}`\n"
    yield f"{_plain(command.help or '')}\n"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```\n{context.command_path} {usage}\n```\n"
    options = [o for o in command.params if isinstance(o, click.Option) and o.help]
    if options:
        yield "\n".join(f"- `{', '.join(o.opts)}` {o.help}" for o in options) + "\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _command(below, click.Context(below, parent=context, info_name=name))


def routes() -> str:
    lines = [
        "# Routes\n",
        NOTE,
        "Every route needs the daemon's token as a bearer. Arguments go into the path and the query of a `GET` or "
        "`DELETE`, into the path and the JSON body of the others. `/openapi.json` has the types.\n",
        "| route | what | arguments |",
        "|---|---|---|",
    ]
    for each in sorted(OPERATIONS.values(), key=lambda o: (o.path, o.method)):
        fields = each.signature.arguments.model_fields
        takes = ", ".join(f"`{n}`" if f.is_required() else f"`{n}`?" for n, f in fields.items())
        lines.append(f"| `{each.method} {each.path}` | {_first(each.description)} | {takes} |")
    return "\n".join(lines) + "\n"


def settings() -> str:
    lines = ["# Settings\n", NOTE, _ABOUT_SETTINGS]
    lines += ["| setting | default | a project may | variable | what it does |", "|---|---|---|---|---|"]
    may = {"project": "choose", "lower": "lower it", "home": "not"}
    for name, field in Settings.model_fields.items():
        variable = f"`{VARIABLES[name]}`" if name in VARIABLES else ""
        default = shown(name, field.default)
        lines.append(f"| `{name}` | `{default}` | {may[scope_of(name)]} | {variable} | {field.description} |")
    return "\n".join(lines) + "\n"


def tools() -> str:
    lines = ["# Tools of agents\n", NOTE]
    task = (bash, *toolbox.TASK.values())
    groups = {
        "In a workspace": toolbox.TEAM,
        "Of its own": OWN,
        "History": HISTORY,
        "The person": (ask_user,),
        "Task tools, when the definition names them": task,
    }
    for title, members in groups.items():
        lines += [f"## {title}\n", "| tool | what the model is told | arguments |", "|---|---|---|"]
        for tool in members:
            required = tool.spec.schema.get("required", [])
            names = tool.spec.schema.get("properties", {})
            takes = ", ".join(f"`{n}`" if n in required else f"`{n}`?" for n in names)
            lines.append(f"| `{tool.name}` | {_plain(tool.spec.description).replace(chr(10), ' ')} | {takes} |")
        lines.append("")
    named = sorted(each.tool for each in OPERATIONS.values() if each.tool)
    lines += ["## Of the person's own AI, over MCP\n", ", ".join(f"`{name}`" for name in named) + "\n"]
    return "\n".join(lines)


def files() -> str:
    lines = [
        "# Files people write\n",
        NOTE,
        "`agent-worker schema agent|workflow|project` prints the full JSON Schema.\n",
    ]
    places: dict[Kind, str] = {
        "agent": "`.agents/<name>.yaml`",
        "workflow": "`.workflows/<name>.yaml`, or any path",
        "project": "`moniro.yaml` or `.agents.yaml`, optional",
    }
    for kind, where in places.items():
        schema = json_schema(kind)
        lines += [f"## {kind}\n", f"{where}\n", "| key | value | |", "|---|---|---|"]
        for name, value in schema["properties"].items():
            must = "required" if name in schema.get("required", ()) else ""
            about = value.get("description", "")
            lines.append(f"| `{name}` | {_type(value)} | {'. '.join(filter(None, (must, about)))} |")
        lines.append("")
    return "\n".join(lines)


def _type(value: dict[str, Any]) -> str:
    if "enum" in value:
        return ", ".join(f"`{each}`" for each in value["enum"])
    if "const" in value:
        return f"`{value['const']}`"
    if "$ref" in value:
        return str(value["$ref"]).rpartition("/")[2]
    for union in ("anyOf", "oneOf"):
        if union in value:
            kinds = dict.fromkeys(_type(each) for each in value[union] if each.get("type") != "null")
            return " or ".join(kinds)
    if value.get("type") == "array":
        return f"list of {_type(value.get('items', {}))}" if value.get("items") else "list"
    return str(value.get("type", "anything"))


def _first(text: str) -> str:
    return _plain(text).split("\n\n")[0].replace("\n", " ")


def _plain(text: str) -> str:
    return inspect.cleandoc(text.replace("\b", "")).replace("|", "\\|")


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text.rstrip("\n") + "\n", "utf-8")


if __name__ == "__main__":
    main()
