"""A workflow's own parameters, given after `--`: typed, with a help of their own."""

from __future__ import annotations

import sys
from typing import Any

import click

from agent_worker.cli.call import call, here, part
from agent_worker.core.address import WorkspaceName, canonical
from agent_worker.core.errors import BadInput

_TYPES: dict[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool}


def read_params(workflow: str, given: list[str], command: str = "run") -> dict[str, str]:
    """Parse the parameters of a workflow, given to `run` or another command, as options of its own."""
    parser = click.Command(workflow, params=[_option(param) for param in _declared(workflow)])
    try:
        with parser.make_context(f"agent-worker {command} {workflow} --", given) as ctx:
            values = ctx.params
    except click.exceptions.Exit as exit:  # --help was shown
        sys.exit(exit.exit_code)
    return {name: _text(value) for name, value in values.items() if value is not None}


def _declared(workflow: str) -> list[dict[str, Any]]:
    is_file = workflow.endswith((".yaml", ".yml"))
    known = call("GET", "/workflows", project=here(), file=workflow if is_file else None)
    name = canonical(WorkspaceName.parse(workflow).workflow, [one["name"] for one in known])
    found = known[-1:] if is_file else [one for one in known if one["name"] == name]
    if not found:
        if any(each["name"] == workflow for each in call("GET", "/agents", project=here())):
            told = f"{workflow} is an agent: it takes a message, not parameters"
            raise BadInput(told, hint=f'agent-worker ask {workflow} "…"')
        call("GET", f"/workflows/{part(workflow.removeprefix('@'))}", project=here())  # says why there is none
        raise BadInput(f"{workflow} is no longer among the workflows here", hint="agent-worker ls")
    params: list[dict[str, Any]] = found[0]["params"]
    return params


def _option(param: dict[str, Any]) -> click.Option:
    names = [f"--{param['name'].replace('_', '-')}", param["name"].replace("-", "_")]
    if param.get("short"):
        names.append(f"-{param['short']}")
    return click.Option(
        names,
        type=_TYPES[param["type"]],
        is_flag=param["type"] == "boolean",
        required=param["required"],
        default=param["default"],
        help=param["description"] or None,
        show_default=param["default"] is not None,
    )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
