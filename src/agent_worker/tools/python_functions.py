"""A project's own Python function as a tool: `./tools/search.py:find_issue`.

What a function is as a tool: core/python_function.py. It runs in our process with our rights: the user approved the
content of the file before, which is not decided here.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from agent_worker.core.errors import BadInput, Untrusted
from agent_worker.core.python_function import PythonFunction, described
from agent_worker.files.root import Root
from agent_worker.files.swap import content_hash
from agent_worker.tools.tool import Tool, ToolContext, ToolSpec

SOURCE_CAP = 1024 * 1024
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
    return tool_of(PythonFunction(function, reference))


def tool_of(function: PythonFunction) -> Tool:
    """A tool that calls this function."""

    async def call(context: ToolContext, /, **arguments: Any) -> str:
        return await function.call(arguments)

    spec = ToolSpec(function.name, function.description, function.schema)
    return Tool(spec, call, function.signature.check, stored=False, repeatable=False, personal=True, foreign=True)


def _module(relative: str, root: Root, approved: str | None, patience: float) -> ModuleType:
    """The module that the approved text makes. We run the text that was read, not the path: both must be the same."""
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
            raise BadInput(f"{relative} cannot be loaded: {described(error)}") from None
    found = sys.modules[name]
    if not hasattr(found, _LOADED):  # it stays here unfinished, so that it is not begun again and again
        raise BadInput(f"{relative} did not finish loading within {patience:g} s", hint="it may only define things")
    return found


def _load(source: str, shown: str, module: ModuleType) -> None:
    exec(compile(source, shown, "exec"), module.__dict__)
    setattr(module, _LOADED, True)


def _run(work: Callable[[], None], *, name: str, within: float) -> BaseException | None:
    """Run somebody else's code in a thread; what it raised, if it ended in time."""
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
