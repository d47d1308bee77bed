"""What stands for `${{ name }}` in a workflow: its params as they were given, and where and what it is."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from agent_worker.core.address import WorkspaceName
from agent_worker.core.errors import BadInput
from agent_worker.core.text import one
from agent_worker.definitions.workflow import Param, WorkflowDefinition
from agent_worker.definitions.workspace import WorkspaceSettings
from agent_worker.workspaces import documents

PARAMS = "params."  #: before the name of each param among the values of an instance
MODEL = "workflow.model"  #: among the values of an instance: the model its members were given
CAUSE = "workflow.cause"  #: the same: the request of an agent that its start goes on from, as CarriedRoot is kept


def values_of(
    workflow: WorkflowDefinition, tag: str, given: Mapping[str, str], *, source: Path, model: str = ""
) -> dict[str, str]:
    """The values of a workflow's placeholders, by name. `source` is where its files are."""
    given = _params(workflow, given)
    values = {f"{PARAMS}{name}": value for name, value in given.items()}
    values |= {f"env.{name}": os.environ.get(name, "") for name in workflow.env}
    values |= {
        "workflow.name": workflow.name,
        "workflow.tag": tag,
        "workflow.instance": tag,
        "instance": tag,
        "source.dir": str(source),
        MODEL: model,
        "context.channel": f"@{WorkspaceName(workflow.name, tag)}",
        documents.DOCUMENT: (workflow.workspace or WorkspaceSettings()).document.file or documents.DEFAULT,
    }
    return values


def _params(workflow: WorkflowDefinition, given: Mapping[str, str]) -> dict[str, str]:
    known = {param.name for param in workflow.params}
    if unknown := [name for name in given if name not in known]:
        raise BadInput(
            f"{workflow.name} has no parameter {', '.join(unknown)}",
            hint=f"it takes: {', '.join(known) or 'none'}",
        )
    missing = [p.name for p in workflow.params if p.required and p.name not in given]
    if missing:
        raise BadInput(
            f"{workflow.name} needs the parameter {', '.join(missing)}",
            hint=run_line(workflow, given),
        )
    return {param.name: _param_text(param, given.get(param.name)) for param in workflow.params}


def run_line(workflow: WorkflowDefinition, given: Mapping[str, str] | None = None) -> str:
    """The command that runs a workflow as it stands here: what it needs and was not given, in the words of its file."""
    values = {param.name: _example(param) for param in workflow.params if param.required} | dict(given or {})
    flags = {param.name for param in workflow.params if param.type == "boolean"}
    words = [word for name, value in values.items() for word in (f"--{name}", *([] if name in flags else [value]))]
    return shlex.join(["agent-worker", "run", workflow.name, *(["--", *words] if words else [])])


def _example(param: Param) -> str:
    return "1" if param.type in ("integer", "number") else param.description or "…"


def _param_text(param: Param, given: str | None) -> str:
    if given is None:
        unset: object = False if param.type == "boolean" else ""
        value = unset if param.default is None else param.default
        return str(value).lower() if isinstance(value, bool) else str(value)
    try:
        match param.type:
            case "integer":
                int(given)
            case "number":
                float(given)
            case "boolean" if given not in ("true", "false"):
                raise ValueError
    except ValueError:
        raise BadInput(f"the parameter {param.name} must be {one(param.type)}, and is {given[:80]!r}") from None
    return given
