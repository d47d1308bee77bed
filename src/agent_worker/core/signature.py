"""The signature of a typed function as data: what checks its arguments, their JSON schema, what is wrong with them.

    async def proposal_create(service: Service, at: str, request: Flat[ProposalRequest]) -> ProposalView: ...

Operations (service/operation.py) and tools (tools/tool.py) are made from it, and through them HTTP, OpenAPI and MCP.
A parameter that is `Flat` is a dataclass whose fields are given side by side with the other arguments: callers see one
flat list, the function gets one value. A model as any other parameter stays an object of its own.

Imports pydantic: nothing that the command line imports may import this.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from types import SimpleNamespace
from typing import Annotated, Any, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model

from agent_worker.core.errors import BadInput
from agent_worker.core.plain_schema import plain_schema, plain_values

T = TypeVar("T")
_FLAT = object()
Flat = Annotated[T, _FLAT]

_LARGEST = 2**63  # what the database takes for a number


class Signature:
    """What a function takes from its caller: all its parameters but the first `skip`.

    Made when it is first asked for: there are some two hundred, and a process needs few of them.
    """

    def __init__(self, function: Callable[..., Any], *, skip: int, name: str = "") -> None:
        self.name = name or function.__name__  #: as its callers know it
        self._function = function
        self._skip = skip

    @cached_property
    def arguments(self) -> type[BaseModel]:
        return create_model(self.name, __config__=ConfigDict(extra="forbid"), **self._fields[0])

    @property
    def requests(self) -> Mapping[str, type]:
        """Parameters whose fields are among the arguments."""
        return self._fields[1]

    @cached_property
    def _fields(self) -> tuple[dict[str, Any], dict[str, type]]:
        """The type and the default of each argument, `...` for none; and what `requests` tells."""
        parameters = list(inspect.signature(self._function).parameters.values())[self._skip :]
        # Only theirs are made out: those of the first ones, and of what is returned, would take most of the time.
        written = SimpleNamespace(__annotations__={each.name: each.annotation for each in parameters})
        hints = get_type_hints(written, inspect.unwrap(self._function).__globals__, include_extras=True)
        fields: dict[str, Any] = {}
        requests: dict[str, type] = {}
        for parameter in parameters:
            if (request := _flat(hints[parameter.name])) is not None:
                requests[parameter.name] = request
                fields |= _fields_of(request)
            else:
                fields[parameter.name] = (hints[parameter.name], _default(parameter.default, inspect.Parameter.empty))
        return fields, requests

    def check(self, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments, typed, by the function's own parameters. Raises BadInput that names each wrong one."""
        values = plain_values(self._fields[0], given)
        if values is None:
            values = self._converted(given)
        if too_large := [name for name, value in values.items() if not _fits(value)]:
            raise BadInput(f"{', '.join(too_large)}: this number is too large")
        for name, request in self.requests.items():
            values[name] = request(**{field.name: values.pop(field.name) for field in dataclasses.fields(request)})
        return values

    def _converted(self, given: dict[str, Any]) -> dict[str, Any]:
        try:
            checked = self.arguments.model_validate(given)
        except ValidationError as error:
            raise BadInput(_sentence(error), hint=f"{self.name} takes: {', '.join(self._described())}") from None
        return {name: getattr(checked, name) for name in self.arguments.model_fields}

    def schema(self, ref_template: str = "#/$defs/{model}") -> dict[str, Any]:
        if plain := plain_schema(self._fields[0]):
            return plain
        schema = self.arguments.model_json_schema(ref_template=ref_template)
        schema.pop("title", None)
        return schema

    def takes(self, argument: str) -> bool:
        return argument in self.arguments.model_fields

    def _described(self) -> list[str]:
        fields = self.arguments.model_fields
        return [name if field.is_required() else f"{name}?" for name, field in fields.items()] or ["nothing"]


def adapter_of(kind: type[T]) -> TypeAdapter[T]:
    """What checks values of this type."""
    return TypeAdapter(kind)


def read_json(adapter: TypeAdapter[Any], text: str) -> tuple[Any, str]:
    """The value in a JSON text, and a sentence about what is wrong with it, if something is."""
    try:
        return adapter.validate_json(text), ""
    except ValidationError as error:
        return None, _sentence(error, of="the answer")


def _flat(hint: Any) -> type | None:
    marked = any(each is _FLAT for each in getattr(hint, "__metadata__", ()))
    return hint.__origin__ if marked else None


def _fields_of(request: type) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(request, include_extras=True)
    for field in dataclasses.fields(request):
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        yield field.name, (hints[field.name], _default(default, dataclasses.MISSING))


def _default(value: Any, none: Any) -> Any:
    return ... if value is none else value


def _fits(value: Any) -> bool:
    """Whether the database can hold the numbers in a value."""
    if isinstance(value, list):
        return all(map(_fits, value))
    return not isinstance(value, int) or -_LARGEST <= value < _LARGEST


def _sentence(error: ValidationError, *, of: str = "the request") -> str:
    """What is wrong, without what was given: that may be a secret."""
    parts = []
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        where = ".".join(map(str, problem["loc"])) or of
        match problem["type"]:
            case "missing":
                parts.append(f"{where} is missing")
            case "extra_forbidden":
                parts.append(f"there is no argument {where}")
            case _:
                parts.append(f"{where}: {problem['msg'][:1].lower()}{problem['msg'][1:]}")
    return "; ".join(parts)
