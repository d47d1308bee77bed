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
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import cache
from types import ModuleType
from typing import Any, Protocol, TypeVar, get_type_hints

from pydantic import TypeAdapter

from agent_worker.core.errors import trouble_of
from agent_worker.core.later import dataclass
from agent_worker.core.signature import Signature


@dataclass(frozen=True, slots=True)
class StreamItem:
    kind: str  #: '' where whoever reads it expects none
    data: str  #: JSON, on one line
    position: str = ""  #: where to go on after it; '' when that cannot be asked for


class FilesKeeper(Protocol):
    """What every operation is called with, as far as this module knows it."""

    async def keep_files(self) -> None: ...


class Stream(Protocol):
    def __aiter__(self) -> AsyncIterator[Sequence[StreamItem]]:
        """Everything since the last look, at once."""
        ...

    async def close(self) -> None:
        """Called when nobody listens any more."""
        ...


F = TypeVar("F", bound=Callable[..., Awaitable[Any]])
_MARK = "operation"


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    method: str
    path: str  #: `{name}` is an argument
    description: str
    signature: Signature
    returns: Any  #: the type of what it returns
    function: Callable[..., Awaitable[Any]]
    tool: str = ""  #: its name as a tool of the person's own AI; '' when it is none

    @property
    def is_stream(self) -> bool:
        return self.returns is Stream

    @property
    def result(self) -> TypeAdapter[Any]:
        """What describes the plain data that it returns. Not of a stream."""
        return _adapter(self.returns)

    async def call(self, service: FilesKeeper, given: dict[str, Any]) -> Any:
        """Plain data, ready for JSON."""
        try:
            value = await self.function(service, **self.signature.check(given))
            await service.keep_files()  # before anybody is told that it is done
        except OSError as error:
            if told := trouble_of(error):
                raise told from error
            raise
        # A serializer made for its type is faster, and takes longer to make than a single value to serialize.
        serializer = self.result if isinstance(value, list) else _adapter(Any)
        return serializer.dump_python(value, mode="json")

    async def stream(self, service: object, given: dict[str, Any]) -> Stream:
        assert self.is_stream
        begun: Stream = await self.function(service, **self.signature.check(given))
        return begun


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Made when it is first asked for, as signatures are."""
    return TypeAdapter(kind)


def operation(method: str, path: str, *, tool: str = "") -> Callable[[F], F]:
    """Make a function an operation. It stays a plain function that Python code can call."""

    def describe(function: F) -> F:
        described = Operation(
            name=function.__name__,
            method=method,
            path=path,
            description=inspect.getdoc(function) or "",
            signature=Signature(function, skip=1, name=tool),
            returns=get_type_hints(function, include_extras=True)["return"],
            function=function,
            tool=tool,
        )
        setattr(function, _MARK, described)
        return function

    return describe


def operations_in(module: ModuleType) -> list[Operation]:
    """The operations that a module defines, in the order of the file."""
    found = [getattr(value, _MARK, None) for value in vars(module).values()]
    return [each for each in found if isinstance(each, Operation) and each.function.__module__ == module.__name__]
