"""Write the reference pages from the code: commands, routes, tools, files … `tests/docs` checks that they are so."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import yaml

from agent_worker.backends.models.providers import PROVIDERS
from agent_worker.cli.main import COMMANDS, cli
from agent_worker.core.provider_variables import ADDRESSES, HEADERS, KEYS
from agent_worker.definitions.schema import Kind, json_schema
from agent_worker.definitions.settings import VARIABLES, Settings, scope_of, shown
from agent_worker.service.catalogue import OPERATIONS
from agent_worker.tools import toolbox
from agent_worker.tools.person import ask_user
from agent_worker.tools.recall import HISTORY, OWN
from agent_worker.tools.soul import SOUL
from agent_worker.tools.task import bash

sys.path.insert(0, str(Path(__file__).parent))

from links import slug
from python_reference import python_page

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
NOTE = "Written by `uv run poe reference` from the code; do not edit.\n"


_ABOUT_FILES = """\
Every key, with what may stand there, what holds when it does not, and an example. All keys may be left out unless they
are *required*. `agent-worker schema agent` (or `workflow`, `project`) prints the same as JSON Schema, for editors;
`agent-worker validate` finds every mistake, with its line. How a team is written, with examples that run:
[workflows](../guides/workflows.md).
"""
_ABOUT_INLINE = """\
As in an [agent's file](#agent), without `name` (the key above is the name), `context`, `memory` and `auto_memory`:
such an agent lives with the instance, and has no files of its own.
"""

_ABOUT_PROVIDERS = """\
Write `model: provider/model` in an agent's file. How keys are given, which one counts, models on your own machine and
endpoints that are not in this list: [providers and keys](../guides/keys.md). `agent-worker providers` shows which of
them you can use now; with `--test` it asks each.
"""
_ABOUT_ENVIRONMENT = """\
Those under *Ours*, `GITHUB_TOKEN` and the proxies are read by the daemon when it starts, from the environment of the
command that started it; `AGENT_WORKER_HOME` and `NO_COLOR` also by every command. Which key of a provider counts is
told in [providers and keys](../guides/keys.md).
"""
OURS = {
    "AGENT_WORKER_HOME": "the home of the daemon, one for each: `~/.agent-worker` unless it is set, to a full path",
    "AGENT_WORKER_DATABASE_URL": "a [PostgreSQL](../guides/postgresql.md) that keeps the state instead of the home",
    "AGENT_WORKER_LABELS": "what this machine has that agents may require, of [several](../guides/hosts.md): `gpu,x86`",
    "AGENT_WORKER_PORT": "the [port](../guides/keeping-it-safe.md#the-port) the daemon listens on, and no other",
}
OTHERS = {
    "NO_COLOR": "set to anything: no colours in the terminal",
    "GITHUB_TOKEN": "for [workflows](../guides/workflows.md#workflows-from-elsewhere) of private repositories",
    "HTTPS_PROXY": "the proxy for model providers and MCP servers; also `HTTP_PROXY`, and in small letters",
    "ALL_PROXY": "the same, for both",
    "NO_PROXY": "hosts that are reached without a proxy",
    "SSL_CERT_FILE": "certificates; handed on to what we start, as are `PATH`, `HOME`, `LANG`, `TERM` and the like",
    "SSL_CERT_DIR": "the same, as a folder",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "where [traces](../guides/observability.md) are sent; these also as "
    "`OTEL_EXPORTER_OTLP_TRACES_…`",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "how: `http/protobuf` and nothing else",
    "OTEL_EXPORTER_OTLP_HEADERS": "what goes with them: `name=value,…`",
    "OTEL_EXPORTER_OTLP_TIMEOUT": "milliseconds for each sending",
    "OTEL_EXPORTER_OTLP_COMPRESSION": "`gzip`, or none",
    "OTEL_EXPORTER_OTLP_CERTIFICATE": "a file of certificates that the collector's is checked by",
    "OTEL_SERVICE_NAME": "who we are there; `agent-worker` unless it is set",
    "OTEL_RESOURCE_ATTRIBUTES": "more about us: `name=value,…`",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "`true`: what models and tools said goes along",
    "OTEL_SDK_DISABLED": "`true`: no traces",
    "OTEL_TRACES_EXPORTER": "`none`: the same",
    "DISPLAY": "whether there is a screen on which `agent-worker web` can open a browser; or `WAYLAND_DISPLAY`",
    "WAYLAND_DISPLAY": "the same",
    "DBUS_SESSION_BUS_ADDRESS": "handed to the command of a [notification](../guides/notifications.md)",
    "XDG_RUNTIME_DIR": "the same",
    "CLAUDE_CONFIG_DIR": "where Claude Code has your login, if not where it usually is",
    "CLAUDE_CODE_OAUTH_TOKEN": "your login of Claude Code; used for it where it has no key",
    "CODEX_HOME": "where Codex has your login, if not where it usually is",
    "HERMES_HOME": "which home of Hermes Agent its members use, if not the usual one",
    "CODEX_API_KEY": "a key for Codex, as `OPENAI_API_KEY`",
    "XDG_DATA_HOME": "where OpenCode has your login, if not where it usually is",
}
SET_BY_US = {
    "AGENT_WORKER_RUN_URL": "in a coding program: where `agent-worker context` finds the tools of its run",
    "AGENT_WORKER_RUN": "in what an agent starts: its run; what it asks by a command counts for the request of that",
    "AGENT_WORKER_RUN_TOKEN": "in a coding program: what it may use them and its model with, in this run only",
    "AGENT_WORKER_CHILD": "in everything we start, where nothing better tells it apart: what ends with its run",
    "AGENT_WORKER_READY_FD": "between a command and the daemon that it starts",
    "AGENT_WORKER_FAILPOINTS": "in tests of ours: where to break",
}

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
        "providers.md": providers(),
        "environment.md": environment(),
        "python.md": python_page(),
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
    yield f"```text\n{context.command_path} {usage}\n```\n"
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
        "In answers, events and what commands print with `--json`, a time is a whole number: microseconds since 1970, "
        "UTC. Files for people (`channel.jsonl`, `conversations/`, the log) have it as `2026-01-31T09:00:00+00:00`. "
        "Who said something is its `sender`. A `tool_call` and its `tool_result` have the same `call`; `arguments` is "
        "an object, without secrets, and long texts in it are cut.\n",
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
    lines += [
        "| setting | default | for example | a project may | variable | what it does |",
        "|---|---|---|---|---|---|",
    ]
    may = {"project": "choose", "lower": "lower it", "home": "not"}
    for name, field in Settings.model_fields.items():
        variable = f"`{VARIABLES[name]}`" if name in VARIABLES else ""
        default = shown(name, field.default)
        example = f"`{name}: {_as_yaml((field.examples or [''])[0])}`"
        may_it = may[scope_of(name)]
        lines.append(f"| `{name}` | `{default}` | {example} | {may_it} | {variable} | {field.description} |")
    return "\n".join(lines) + "\n"


def _as_yaml(value: Any) -> str:
    return (
        f"{{ {', '.join(f'{key}: {each}' for key, each in value.items())} }}" if isinstance(value, dict) else str(value)
    )


def providers() -> str:
    lines = ["# Providers of models\n", NOTE, _ABOUT_PROVIDERS]
    lines += ["| `model:` begins with | key | address | may be moved with |", "|---|---|---|---|"]
    for name, each in PROVIDERS.items():
        key = " or ".join(f"`{variable}`" for variable in each.variables) + (
            " (only if it wants one)" if each.keyless else ""
        )
        moved = f"`{each.base_variable}`" if each.base_variable else ""
        lines.append(f"| `{name}/` | {key} | `{each.base_url}` | {moved} |")
    return "\n".join(lines) + "\n"


def environment() -> str:
    lines = ["# Environment variables\n", NOTE, _ABOUT_ENVIRONMENT]
    kept = {variable: Settings.model_fields[name].description for name, variable in VARIABLES.items()}
    tables = {
        "Ours": OURS | {name: f"{about} ([setting](settings.md))" for name, about in kept.items()},
        "Of model providers": _of_providers(),
        "Of others": OTHERS,
        "Set by us": SET_BY_US,
    }
    for title, rows in tables.items():
        lines += [f"## {title}\n", "| variable | what it does |", "|---|---|"]
        lines += [f"| `{name}` | {about} |" for name, about in rows.items()]
        lines.append("")
    return "\n".join(lines)


def _of_providers() -> dict[str, str]:
    rows: dict[str, str] = {}
    for provider, names in KEYS.items():
        rows |= dict.fromkeys(names, f"a key of {provider}")
        if provider in ADDRESSES:
            rows[ADDRESSES[provider]] = f"where {provider} is, if not where [it usually is](providers.md)"
        rows |= dict.fromkeys(HEADERS.get(provider, ()), f"added to what is sent to {provider}")
    return rows


def tools() -> str:
    lines = ["# Tools of agents\n", NOTE]
    task = (bash, *toolbox.TASK.values())
    groups = {
        "In a workspace": toolbox.TEAM,
        "Of its own": OWN,
        "History": HISTORY,
        "Who it is": SOUL,
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
    lines = ["# Files people write\n", NOTE, _ABOUT_FILES]
    places: dict[Kind, str] = {
        "agent": "`.agents/<name>.yaml`, one file per agent.",
        "workflow": "`.workflows/<name>.yaml`, or any path.",
        "project": "`moniro.yaml` or `.agents.yaml` in the project's directory. A project needs none.",
    }
    shown = {"ProjectSettings": "settings.md", "AgentDefinition": "#agent"}  # blocks that have their table, and where
    for kind, where in places.items():
        schema = json_schema(kind)
        lines += [f"## {kind}\n", f"{where}\n"]
        lines += _block(kind, "", schema, schema.get("$defs", {}), shown)
    return "\n".join(lines)


def _block(kind: str, path: str, block: dict[str, Any], blocks: dict[str, Any], shown: dict[str, str]) -> list[str]:
    """The table of one mapping, then those of the mappings in it, unless they were there already."""
    below: list[tuple[str, str]] = []
    for key, value in block["properties"].items():
        for name in _refs(value):
            if "properties" in blocks[name] and name not in shown:
                inner = f"{path}.{key}" if path else key
                shown[name] = f"#{slug(_heading(kind, inner, blocks[name]))}"
                below.append((inner, name))
    lines = ["| key | value | default | for example | |", "|---|---|---|---|---|"]
    lines += [_row(key, value, block, shown) for key, value in block["properties"].items()]
    lines.append("")
    for inner, name in below:
        lines.append(f"### {_heading(kind, inner, blocks[name])}\n")
        if name == "InlineMember":
            lines.append(_ABOUT_INLINE)
        else:
            lines += _block(kind, inner, blocks[name], blocks, shown)
    return lines


def _heading(kind: str, path: str, block: dict[str, Any]) -> str:
    by_ref = " with `ref`" if "ref" in block["properties"] else " without `ref`" if path == "agents" else ""
    return f"{kind}: `{path}`{by_ref}"


def _row(key: str, value: dict[str, Any], block: dict[str, Any], shown: dict[str, str]) -> str:
    default = "required" if key in block.get("required", ()) else _default(value.get("default"))
    default = value.get("x-default", default)  # one that is no value, but told in words
    example = f"`{key}: {_yaml(value['examples'][0])}`"
    return f"| `{key}` | {_type(value, shown)} | {default} | {example} | {value['description']} |".replace("\n", " ")


def _default(value: Any) -> str:
    if isinstance(value, str) and value:
        return f"`{value}`"
    return "–" if value in (None, [], {}, "") or isinstance(value, dict) else f"`{_yaml(value)}`"


def _yaml(value: Any) -> str:
    """The value as one would write it on one line."""
    if isinstance(value, list):
        return f"[{', '.join(map(_yaml, value))}]"
    if isinstance(value, dict):
        pairs = sorted(value.items(), key=lambda pair: pair[0] not in ("name", "tool", "shell", "wakeup"))
        return "{ " + ", ".join(f"{key}: {_yaml(each)}" for key, each in pairs) + " }"
    text = yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False, allow_unicode=True)
    return text.removesuffix("...\n").strip().replace("|", "\\|")


def _refs(value: Any) -> Iterator[str]:
    """The blocks that a value may consist of."""
    if isinstance(value, dict) and value:
        if "$ref" in value:
            yield str(value["$ref"]).rpartition("/")[2]
        for below in (*(value.get(name) for name in ("anyOf", "oneOf", "items")), _by_name(value)):
            yield from _refs(below)
    elif isinstance(value, list):
        for each in value:
            yield from _refs(each)


def _by_name(value: dict[str, Any]) -> dict[str, Any]:
    """What stands behind the names of a mapping whose names are free."""
    behind = [*value.get("patternProperties", {}).values(), value.get("additionalProperties")]
    return next((each for each in behind if isinstance(each, dict)), {})


def _type(value: dict[str, Any], shown: dict[str, str]) -> str:
    if "enum" in value:
        return ", ".join(f"`{each}`" for each in value["enum"])
    if "const" in value:
        return f"`{value['const'] if isinstance(value['const'], str) else _yaml(value['const'])}`"
    if "$ref" in value:
        name = str(value["$ref"]).rpartition("/")[2]
        return f"[mapping]({shown[name]})" if name in shown else "anything"
    for union in ("anyOf", "oneOf"):
        if union in value:
            kinds = dict.fromkeys(_type(each, shown) for each in value[union] if each.get("type") != "null")
            return " or ".join(kinds)
    if value.get("type") == "array":
        return f"list of {_type(value['items'], shown)}" if value.get("items") else "list"
    if value.get("type") == "object":
        return f"name → {_type(_by_name(value), shown)}"
    return {"string": "text", "integer": "whole number", "boolean": "true, false"}.get(
        value.get("type", ""), str(value.get("type", "anything"))
    )


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
