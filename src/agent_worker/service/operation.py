"""An operation is a typed async function with an address: all doors are made from its signature.

    @operation("POST", "/send")
    async def send(service: Service, to: str, message: str, key: str | None = None) -> Receipt:
        '''Deliver a message and return a receipt.'''

HTTP routes, the OpenAPI page and the AI tools of the person are all made from it (catalogue.py). One that returns a
`Stream` goes on for as long as somebody listens. An operation checks nothing about who is asking: that has been decided
before it is called.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model

from agent_worker.core.errors import BadInput
from agent_worker.files.disk import disk_explained
from agent_worker.service.stream import Stream

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])
_MARK = "operation"
_LARGEST = 2**63  # what the database takes for a number


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    method: str
    path: str  #: `{name}` is an argument
    description: str
    arguments: type[BaseModel]
    result: TypeAdapter[Any] | None  #: None: a stream
    function: Callable[..., Awaitable[Any]]
    tool: str = ""  #: its name as a tool of the person's own AI; '' when it is none

    def check(self, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments, typed. Raises BadInput that names each wrong one."""
        try:
            checked = self.arguments.model_validate(given)
        except ValidationError as error:
            raise BadInput(_sentence(error), hint=f"{self.name} takes: {', '.join(self._takes())}") from None
        values = {name: getattr(checked, name) for name in type(checked).model_fields}
        for name, value in values.items():
            if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
                raise BadInput(f"{name}: this number is too large")
        return values

    async def call(self, service: object, given: dict[str, Any]) -> Any:
        """Plain data, ready for JSON."""
        assert self.result is not None
        with disk_explained():
            value = await self.function(service, **self.check(given))
        return self.result.dump_python(value, mode="json")

    async def stream(self, service: object, given: dict[str, Any]) -> Stream:
        assert self.result is None
        with disk_explained():
            begun: Stream = await self.function(service, **self.check(given))
        return begun

    def _takes(self) -> list[str]:
        fields = self.arguments.model_fields
        return [name if field.is_required() else f"{name}?" for name, field in fields.items()] or ["nothing"]


def operation(method: str, path: str, *, tool: str = "") -> Callable[[F], F]:
    """Make a function an operation. It stays a plain function that Python code can call."""

    def describe(function: F) -> F:
        hints = get_type_hints(function, include_extras=True)
        parameters = list(inspect.signature(function).parameters.values())[1:]
        fields: dict[str, Any] = {
            p.name: (hints[p.name], ... if p.default is inspect.Parameter.empty else p.default) for p in parameters
        }
        described = Operation(
            name=function.__name__,
            method=method,
            path=path,
            description=inspect.getdoc(function) or "",
            arguments=create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields),
            result=None if hints["return"] is Stream else TypeAdapter(hints["return"]),
            function=function,
            tool=tool,
        )
        setattr(function, _MARK, described)
        return function

    return describe


def operations_in(module: ModuleType) -> list[Operation]:
    """Those a module defines, in the order of the file."""
    found = [getattr(value, _MARK, None) for value in vars(module).values()]
    return [each for each in found if isinstance(each, Operation) and each.function.__module__ == module.__name__]


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
