"""An operation is a typed async function with an address: all doors are made from its signature.

    @operation("POST", "/send")
    async def send(office: Office, to: str, message: str, key: str | None = None) -> Receipt:
        '''Deliver a message and return a receipt.'''

HTTP routes, the OpenAPI page and the AI tools of the person all read the same table. An operation checks nothing
about who is asking: that has been decided before it is called.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model

from agent_worker.errors import BadInput

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])
OPERATIONS: dict[str, Operation] = {}


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    method: str
    path: str  #: `{name}` is an argument
    description: str
    arguments: type[BaseModel]
    result: TypeAdapter[Any]
    function: Callable[..., Awaitable[Any]]
    tool: bool  #: also a tool of the person's own AI

    def check(self, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments, typed. Raises BadInput that names each wrong one."""
        try:
            checked = self.arguments.model_validate(given)
        except ValidationError as error:
            raise BadInput(_sentence(error), hint=f"{self.name} takes: {', '.join(self._takes())}") from None
        return {name: getattr(checked, name) for name in type(checked).model_fields}

    async def call(self, office: object, given: dict[str, Any]) -> Any:
        """Plain data, ready for JSON."""
        value = await self.function(office, **self.check(given))
        return self.result.dump_python(value, mode="json")

    def _takes(self) -> list[str]:
        fields = self.arguments.model_fields
        return [name if field.is_required() else f"{name}?" for name, field in fields.items()] or ["nothing"]


def operation(method: str, path: str, *, tool: bool = False) -> Callable[[F], F]:
    """Put a function into the table. It stays a plain function that Python code can call."""

    def enter(function: F) -> F:
        hints = get_type_hints(function, include_extras=True)
        parameters = list(inspect.signature(function).parameters.values())[1:]
        fields: dict[str, Any] = {
            p.name: (hints[p.name], ... if p.default is inspect.Parameter.empty else p.default) for p in parameters
        }
        OPERATIONS[function.__name__] = Operation(
            name=function.__name__,
            method=method,
            path=path,
            description=inspect.getdoc(function) or "",
            arguments=create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields),
            result=TypeAdapter(hints["return"]),
            function=function,
            tool=tool,
        )
        return function

    return enter


def _sentence(error: ValidationError) -> str:
    parts = []
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        where = ".".join(map(str, problem["loc"])) or "the request"
        match problem["type"]:
            case "missing":
                parts.append(f"{where} is missing")
            case "extra_forbidden":
                parts.append(f"there is no argument {where}")
            case _:
                parts.append(f"{where}: {problem['msg'].lower()}")
    return "; ".join(parts)
