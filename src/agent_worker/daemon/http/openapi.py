"""The OpenAPI page, made from the same table as the routes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agent_worker.core.later import pattern
from agent_worker.service.operation import Operation

_ARGUMENT = pattern(r"\{(\w+)(?::\w+)?\}")
_REF = "#/components/schemas/{model}"

_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "hint"],
            "properties": {
                **{name: {"type": "string"} for name in ("code", "message", "hint")},
                "slip": {
                    "type": "object",
                    "required": ["typed", "meant"],
                    "properties": {"typed": {"type": "string"}, "meant": {"type": "string"}},
                },
            },
        }
    },
}
_FAILURE = {
    "description": "What is wrong, and what to do about it.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}
_OTHER: dict[str, dict[str, Any]] = {
    "/health": {
        "get": {
            "operationId": "health",
            "summary": "Whether it is alive. Needs no token.",
            "security": [],
            "responses": {
                "200": {"description": "It is.", "content": {"application/json": {"schema": {"type": "object"}}}}
            },
        }
    },
    "/shutdown": {
        "post": {
            "operationId": "shutdown",
            "summary": "End the daemon: steps may finish, unfinished work is kept, nothing is lost.",
            "responses": {"202": {"description": "It is stopping."}, "default": _FAILURE},
        }
    },
}


def describe(operations: Iterable[Operation], *, version: str) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {path: dict(methods) for path, methods in _OTHER.items()}
    schemas: dict[str, Any] = {"Error": _ERROR}
    for operation in operations:
        path = _ARGUMENT.sub(r"{\1}", operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = _operation(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "agent-worker", "version": version},
        "security": [{"token": []}],
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    model = operation.signature.schema(_REF)
    schemas |= model.pop("$defs", {})
    required, fields = set(model.get("required", ())), dict(model.get("properties", {}))
    in_path = _ARGUMENT.findall(operation.path)
    summary, _, rest = operation.description.partition("\n\n")
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": summary,
        "responses": {"200": _answer(operation, schemas), "default": _FAILURE},
    }
    if rest:
        described["description"] = rest
    parameters = [{"name": name, "in": "path", "required": True, "schema": fields.pop(name)} for name in in_path]
    if operation.method in ("GET", "DELETE"):
        parameters += [
            {"name": name, "in": "query", "required": name in required, "schema": schema}
            for name, schema in fields.items()
        ]
    else:
        body = {"type": "object", "properties": fields, "additionalProperties": False}
        body |= {"required": needed} if (needed := sorted(required - set(in_path))) else {}
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    if parameters:
        described["parameters"] = parameters
    return described


def _answer(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    if operation.is_stream:
        return {
            "description": "Events as they happen.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    schema = operation.result.json_schema(ref_template=_REF, mode="serialization")
    schemas |= schema.pop("$defs", {})
    return {"description": "The result.", "content": {"application/json": {"schema": schema}}}
