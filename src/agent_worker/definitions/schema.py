"""JSON Schemas of the three files, for editors."""

from __future__ import annotations

from typing import Any, Literal

from pydantic.json_schema import GenerateJsonSchema, NoDefault

from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.block import Block
from agent_worker.definitions.project import ProjectDefinition
from agent_worker.definitions.workflow import WorkflowDefinition

Kind = Literal["agent", "workflow", "project"]

_MODELS: dict[Kind, type[Block]] = {
    "agent": AgentDefinition,
    "workflow": WorkflowDefinition,
    "project": ProjectDefinition,
}


class _WithMadeDefaults(GenerateJsonSchema):
    """Writes defaults that are made by a function into the schema; that of a whole block is an empty mapping.

    The keys of a block say their defaults themselves, as one would write them: `10m`, where the block holds 600
    seconds.
    """

    def get_default_value(self, schema: Any) -> Any:
        make = schema.get("default_factory")
        made = make() if make else schema.get("default", NoDefault)
        return {} if isinstance(made, Block) else made


def json_schema(kind: Kind) -> dict[str, Any]:
    schema = _MODELS[kind].model_json_schema(schema_generator=_WithMadeDefaults)
    # In a file the name may be left out: it is then the name of the file or of the directory.
    required = [key for key in schema.pop("required", []) if key != "name"]
    if required:
        schema["required"] = required
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": f"agent-worker {kind}"}
