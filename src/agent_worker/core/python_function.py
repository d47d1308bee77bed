"""A Python function that a model may call: its types are the arguments, its docstring is what the model reads.

What goes wrong in it is an answer for the model, never a crash of whoever calls it. A function that is not async gets a
thread of its own. Used where a project's files name functions (tools/python_functions.py), and where a program hands
over functions of its own (api/functions.py), which is also why it knows nothing of tools.

Imports pydantic: nothing that the command line imports may import this.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Callable
from typing import Any, get_type_hints

from agent_worker.core.errors import AgentWorkerError, BadInput, Refused
from agent_worker.core.signature import Signature
from agent_worker.core.text import plural

SHOWN = 32 * 1024  #: characters of an answer
LIMIT = 120.0  #: seconds


class PythonFunction:
    """A function, or any other callable. Raises BadInput, by the name `reference`, when it cannot be understood."""

    def __init__(self, function: Callable[..., Any], reference: str, *, limit: float | None = None) -> None:
        called = function if inspect.isroutine(function) else type(function).__call__  # the types of an object's calls
        self.name: str = getattr(function, "__name__", None) or type(function).__name__
        self.description = inspect.getdoc(function) or ""
        self._function = function
        self._limit = limit
        self._is_async = inspect.iscoroutinefunction(called)
        if not self.description:
            raise BadInput(f"{reference} has no docstring", hint="write what the tool does there: the model reads it")
        signature = inspect.signature(function)
        hints = _hints(called, signature, reference)
        parameters = [each.replace(annotation=hints[each.name]) for each in signature.parameters.values()]
        self.signature = Signature(_described_as(self.name, parameters, hints), skip=0)
        try:
            self.schema = self.signature.schema()
        except Exception as error:  # whatever somebody wrote as a type, or a library makes of it
            raise not_understood(reference, error) from None

    async def call(self, arguments: dict[str, Any]) -> str:
        """Call it with arguments that were checked. Raises Refused with what went wrong."""
        within = LIMIT if self._limit is None else self._limit
        limit = asyncio.timeout(within)
        try:
            async with limit:
                return _answer(await self._called(arguments))
        except AgentWorkerError:
            raise
        except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit) as error:  # not our code: anything may come
            if limit.expired():
                raise Refused(f"{self.name} did not finish within {within:g} s") from None
            raise Refused(f"{self.name} failed: {described(error)}") from None

    async def _called(self, arguments: dict[str, Any]) -> Any:
        if self._is_async:
            return await self._function(**arguments)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()

        def settle(result: Any, error: BaseException | None) -> None:
            if not done.done():  # given up meanwhile
                done.set_exception(error) if error else done.set_result(result)

        def run() -> None:
            try:
                result, error = self._function(**arguments), None
            except BaseException as raised:
                result, error = None, _carried(raised)
            try:
                loop.call_soon_threadsafe(settle, result, error)
            except RuntimeError:  # the loop is closed
                return

        # Not the shared pool: a function that hangs would take a place in it for ever and hold up our exit.
        threading.Thread(target=run, name=f"tool-{self.name}", daemon=True).start()
        return await done


def described(error: BaseException) -> str:
    """An error that somebody else's code raised, as a short text."""
    text = f"{type(error).__name__}: {error}"
    return text if len(text) <= 1000 else f"{text[:999]}…"


def not_understood(reference: str, error: Exception) -> BadInput:
    told = described(error).partition("\n")[0]
    return BadInput(f"{reference}: cannot understand its types: {told}", hint="use str, int, lists, models …")


def _described_as(name: str, parameters: list[inspect.Parameter], hints: dict[str, Any]) -> Callable[..., Any]:
    """A stand-in with the parameters of a function, from which `Signature` can be made."""

    def stand_in() -> None: ...

    stand_in.__name__ = name
    stand_in.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    stand_in.__annotations__ = {each.name: hints[each.name] for each in parameters}
    return stand_in


def _hints(called: Callable[..., Any], signature: inspect.Signature, reference: str) -> dict[str, Any]:
    try:
        hints = get_type_hints(called, include_extras=True)
    except Exception as error:  # whatever somebody wrote as a type
        raise not_understood(reference, error) from None
    for parameter in signature.parameters.values():
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY}:
            raise BadInput(f"{reference}: {parameter} cannot be an argument of a tool", hint="name each one")
        if parameter.name not in hints:
            raise BadInput(f"{reference}: {parameter.name} has no type", hint=f"write {parameter.name}: str")
    return hints


def _carried(raised: BaseException) -> Exception:
    """An exception that a future can carry to the loop without stopping the loop."""
    if isinstance(raised, Exception) and not isinstance(raised, StopIteration):
        return raised
    return RuntimeError(described(raised))


def _answer(value: Any) -> str:
    if hasattr(value, "model_dump_json"):  # a model of pydantic's
        value = json.loads(value.model_dump_json())
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
    if len(text) > SHOWN:
        return f"{text[:SHOWN]}\n[… {plural(len(text) - SHOWN, 'character')} left out …]"
    return text
