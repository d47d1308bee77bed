"""The reference page of the Python API: every exported name, from its signature, its docstring and its fields."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any

import agent_worker
from agent_worker import testing
from agent_worker.api.blocking import Blocking

_ABOUT = """\
`from agent_worker import …`. What one does with it, in programs that run: [from Python](../guides/python.md). Each verb
that is marked *twin* has a blocking form with `_sync` behind its name, for scripts and notebooks; it takes the same
arguments.
"""
_FIELD = re.compile(r"^    (\w+): [^\n]*?(?:  #: ([^\n]*))?$", re.M)

WAYS = ("local", "connect", "Workers")
VALUES = ("Agent", "Team", "tool", "FunctionTool", "McpTools", "ToolLike")
RESULTS = ("Answer", "TeamAnswer", "RunningTeam", "InboxItem", "Sending", "ChannelMessage", "MemoryItem", "RunReport")


def python_page() -> str:
    events = [name for name in agent_worker.__all__ if _is_event(name)]
    errors = [name for name in agent_worker.__all__ if _is_error(name)]
    parts = ["# Python\n", "Written by `uv run poe reference` from the code; do not edit.\n", _ABOUT]
    for heading, names in (
        ("Ways in", WAYS),
        ("Values", VALUES),
        ("What comes back", (*RESULTS, "Spending")),
        ("Events", events),
        ("Errors", errors),
    ):
        parts += [f"## {heading}\n", *(text for name in names for text in _entry(agent_worker, name))]
    parts += ["## agent_worker.testing\n", *(text for name in testing.__all__ for text in _entry(testing, name))]
    known = {*WAYS, *VALUES, *RESULTS, "Spending", *events, *errors}
    assert known == set(agent_worker.__all__), known ^ set(agent_worker.__all__)
    return "\n".join(parts)


def _is_error(name: str) -> bool:
    found = getattr(agent_worker, name)
    return isinstance(found, type) and issubclass(found, Exception)


def _is_event(name: str) -> bool:
    known = (*WAYS, *VALUES, *RESULTS, "Spending")
    return name not in known and not _is_error(name)


def _entry(module: Any, name: str) -> Iterator[str]:
    found = getattr(module, name)
    if isinstance(found, type) and issubclass(found, Exception):
        bases = ", ".join(f"`{each.__name__}`" for each in found.__bases__)
        yield f"- **`{name}`** ({bases}): {_sentence(found)}"
        if name == [each for each in module.__all__ if _is_error(each)][-1]:
            yield ""
    elif isinstance(found, type):
        yield f"### {name}\n"
        yield f"{inspect.cleandoc(found.__doc__ or name)}\n"
        yield from _fields(found)
        yield from _verbs(found)
    elif callable(found) and hasattr(found, "__name__"):
        yield f"### {name}\n"
        yield f"```python\n{name}{_signature(found)}\n```\n"
        yield f"{inspect.getdoc(found) or ''}\n"
    else:
        yield f"### {name}\n"
        names = [getattr(each, "__name__", str(each)) for each in getattr(found, "__args__", ())]
        yield f"One of {', '.join(f'`{each}`' for each in names)}.\n"


def _sentence(error: type) -> str:
    """What the tree at the top of the module of errors says of it."""
    module = inspect.getmodule(error)
    found = re.search(rf"[├└]── {error.__name__} +(.*)", (module and module.__doc__) or "")
    return found[1] if found else "the base of all: a sentence, and a `hint`"


def _fields(found: type) -> Iterator[str]:
    if not dataclasses.is_dataclass(found):
        return
    comments = {name: comment or "" for name, comment in _FIELD.findall(inspect.getsource(found))}
    shown = [each for each in dataclasses.fields(found) if each.repr and each.name != "workers"]
    if shown:
        yield "| field | type | |\n|---|---|---|"
        for each in shown:
            kind = str(each.type).replace("|", "\\|")
            yield f"| `{each.name}` | `{kind}` | {comments.get(each.name, '')} |"
        yield ""


def _verbs(found: type) -> Iterator[str]:
    twins = {name.removesuffix("_sync") for name, each in vars(found).items() if name.endswith("_sync")}
    for name, each in vars(found).items():
        if name.startswith("_") or name.endswith("_sync") or isinstance(each, Blocking):
            continue
        plain = each.__func__ if isinstance(each, classmethod) else each
        if inspect.isfunction(plain):
            asks = "async " if inspect.iscoroutinefunction(plain) or inspect.isasyncgenfunction(plain) else ""
            twin = " *twin*" if name in twins else ""
            yield f"`{asks}{name}{_signature(plain)}`{twin}\n\n{inspect.getdoc(plain) or ''}\n"


def _signature(function: Any) -> str:
    signature = inspect.signature(function)
    kept = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(signature.replace(parameters=kept)))
