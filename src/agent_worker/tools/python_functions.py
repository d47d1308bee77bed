"""A project's own Python function as a tool: `./tools/search.py:find_issue`.

Its types are the arguments, its docstring is what the model reads, and what goes wrong in it is an answer for the
model, never our crash. It runs in our process with our rights: the user approved the content of the file before,
which is not decided here. A function that is not async gets a thread of its own.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import threading
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from agent_worker.core.errors import AgentWorkerError, BadInput, Refused, Untrusted
from agent_worker.core.text import plural
from agent_worker.files.root import Root
from agent_worker.files.swap import content_hash
from agent_worker.tools.tool import Tool, ToolContext, tool

SOURCE_CAP = 1024 * 1024
SHOWN = 32 * 1024  #: characters of an answer
LIMIT = 120.0  #: seconds
LOAD_LIMIT = 10.0  #: seconds
_LOADED = "__loaded_by_agent_worker__"


def python_tool(reference: str, *, root: Path, approved: str | None = None, patience: float = LOAD_LIMIT) -> Tool:
    """The tool a definition names. Raises BadInput with what is wrong in the reference, the file or the signature.

    `approved` is the text that its file must hold.
    """
    path, separator, name = reference.rpartition(":")
    if not separator or not path.endswith(".py") or not name.isidentifier():
        raise BadInput(f"{reference} is not a Python tool", hint="write ./path/in/project.py:function")
    relative = path.removeprefix("./")
    function = getattr(_module(relative, Root(root.resolve()), approved, patience), name, None)
    if not inspect.isfunction(function):
        raise BadInput(f"there is no function {name} in {relative}")
    if not inspect.getdoc(function):
        raise BadInput(f"{reference} has no docstring", hint="write in it what the tool does: the model reads it")
    served = _served(function, reference)
    try:
        made = tool(personal=True, foreign=True)(served)
        _ = made.spec.schema  # now: a type that nobody understands is told with its file
        return made
    except Exception as error:  # whatever the project wrote as a type, or a library makes of it
        raise _not_understood(reference, error) from None


def _module(relative: str, root: Root, approved: str | None, patience: float) -> ModuleType:
    """Run the text we read, not the path: what was approved and what is run must be the same file."""
    source = root.read_text(relative, limit=SOURCE_CAP)
    if "\0" in source:  # no text, so nothing that could be shown and approved
        raise BadInput(f"{relative} cannot be loaded: it holds a NUL byte")
    if approved is not None and source != approved:
        raise Untrusted(f"{relative} is no longer what you approved", hint="agent-worker trust")
    shown = str(root.location(relative))
    name = f"project_tool_{content_hash(f'{shown}:{source}')[:16]}"
    if name not in sys.modules:
        module = ModuleType(name)
        module.__file__ = shown
        sys.modules[name] = module  # its dataclasses look themselves up there
        if error := _run(partial(_load, source, shown, module), name=relative, within=patience):
            del sys.modules[name]
            raise BadInput(f"{relative} cannot be loaded: {_described(error)}") from None
    found = sys.modules[name]
    if not hasattr(found, _LOADED):  # it stays here unfinished, so that it is not begun again and again
        raise BadInput(f"{relative} did not finish loading within {patience:g} s", hint="it may only define things")
    return found


def _load(source: str, shown: str, module: ModuleType) -> None:
    exec(compile(source, shown, "exec"), module.__dict__)
    setattr(module, _LOADED, True)


def _run(work: Callable[[], None], *, name: str, within: float) -> BaseException | None:
    """What it raised, if it ended in time. Not our code: anything may come out of it, or nothing ever."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name=f"loading {name}", daemon=True)
    thread.start()
    thread.join(within)
    return raised[0] if raised else None


def _served(function: Callable[..., Any], reference: str) -> Callable[..., Any]:
    """An async function of a context and arguments, as every tool is."""
    hints = _hints(function, reference)

    @wraps(function)
    async def call(context: ToolContext, /, **arguments: Any) -> str:
        limit = asyncio.timeout(LIMIT)
        try:
            async with limit:
                return _answer(await _called(function, arguments))
        except AgentWorkerError:
            raise
        except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit) as error:  # not our code: anything may come
            if limit.expired():
                raise Refused(f"{function.__name__} did not finish within {LIMIT:.0f} s") from None
            raise Refused(f"{function.__name__} failed: {_described(error)}") from None

    context = inspect.Parameter("tool_context", inspect.Parameter.POSITIONAL_ONLY, annotation=ToolContext)
    own = inspect.signature(function).parameters.values()
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[p.name]) for p in own]
    call.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]
    call.__annotations__ = {"tool_context": ToolContext, **hints, "return": str}
    return call


def _hints(function: Callable[..., Any], reference: str) -> dict[str, Any]:
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception as error:  # whatever the project wrote as a type
        raise _not_understood(reference, error) from None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY}:
            raise BadInput(f"{reference}: {parameter} cannot be an argument of a tool", hint="name each one")
        if parameter.name not in hints:
            raise BadInput(f"{reference}: {parameter.name} has no type", hint=f"write {parameter.name}: str")
        if parameter.name == "tool_context":
            raise BadInput(f"{reference}: tool_context is a name of ours", hint="call it something else")
    return hints


def _not_understood(reference: str, error: Exception) -> BadInput:
    described = _described(error).partition("\n")[0]
    return BadInput(f"{reference}: its types cannot be understood: {described}", hint="use str, int, lists, models …")


async def _called(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(**arguments)
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if not done.done():  # given up meanwhile
            done.set_exception(error) if error else done.set_result(result)

    def run() -> None:
        try:
            result, error = function(**arguments), None
        except BaseException as raised:
            result, error = None, _carried(raised)
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:  # the loop is closed
            return

    # Not the shared pool: a function that hangs would take a place in it for ever and hold up our exit.
    threading.Thread(target=run, name=f"tool-{function.__name__}", daemon=True).start()
    return await done


def _carried(raised: BaseException) -> Exception:
    """What a future can carry to the loop without stopping it."""
    if isinstance(raised, Exception) and not isinstance(raised, StopIteration):
        return raised
    return RuntimeError(_described(raised))


def _answer(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
    if len(text) > SHOWN:
        return f"{text[:SHOWN]}\n[… {plural(len(text) - SHOWN, 'character')} left out …]"
    return text


def _described(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}"
    return text if len(text) <= 1000 else f"{text[:999]}…"
