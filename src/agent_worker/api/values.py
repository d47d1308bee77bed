"""Agents and teams as values of a program, and what they become where a file would stand.

They are plain data: making one starts nothing and imports nothing. `Workers` (workers.py) hands them over when they are
first used.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, TypeAlias, overload

from agent_worker.core.errors import BadInput, Refused
from agent_worker.core.later import dataclass

AGENTS, WORKFLOWS = ".agents", ".workflows"


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A Python function together with how it may be called. Made by `tool`; calling it calls the function."""

    function: Callable[..., Any]
    approve: bool = False  #: a person says yes to each call
    repeatable: bool = False  #: may be called again when nobody knows what came of it
    within: float = 120.0  #: seconds that a call may take

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @property
    def name(self) -> str:
        """What a model calls it by."""
        return str(getattr(self.function, "__name__", None) or type(self.function).__name__)


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    *, approve: bool = False, repeatable: bool = False, within: float = 120.0
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    approve: bool = False,
    repeatable: bool = False,
    within: float = 120.0,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Say how a function may be called: `@tool(approve=True)`. A function without it is a tool too."""

    def define(function: Callable[..., Any]) -> FunctionTool:
        return FunctionTool(function, approve, repeatable, within)

    return define(function) if function is not None else define


@dataclass(frozen=True, slots=True)
class McpTools:
    """The tools of an MCP server: a program that is started, or one that is reached over HTTP."""

    name: str
    command: Sequence[str] = ()
    url: str = ""

    def definition(self) -> dict[str, Any]:
        """The tools as they stand in a file."""
        if bool(self.command) == bool(self.url):
            raise BadInput(f"McpTools {self.name} needs exactly one of command, url")
        return {"url": self.url} if self.url else {"command": list(self.command)}


#: What may be in `tools=`: a function, one with terms, a tool of ours by its name, the tools of an MCP server.
ToolLike: TypeAlias = Callable[..., Any] | FunctionTool | McpTools | str


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent as a value. `more` holds any other field of an agent's file (docs/reference/files.md)."""

    name: str
    model: str | None = None  #: provider/model
    system: str | None = None  #: who it is told to be
    soul: Mapping[str, Any] | str | None = None  #: who it always is; a text is its role
    tools: Sequence[ToolLike] = ()
    backend: str | None = None  #: a coding program, or mock; None is the model's API
    script: Sequence[Mapping[str, Any]] | None = None  #: what it plays instead of asking a model, in tests
    more: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_file(cls, path: Path | str) -> Agent:
        """The agent that a file defines, as a value."""
        from agent_worker.definitions.loading import load_agent

        file = Path(path)
        if not file.is_file():
            raise BadInput(f"there is no file {file}", hint="such as .agents/alice.yaml")
        written = load_agent(file.resolve(), root=_project_of(file.resolve())).model_dump(
            mode="json", exclude_unset=True, by_alias=True
        )
        prompt = written.pop("prompt", None) or {}
        known = {key: written.pop(key) for key in ("name", "model", "soul", "backend", "script") if key in written}
        return cls(**known, system=prompt.get("system"), more=written)

    @property
    def functions(self) -> tuple[FunctionTool, ...]:
        """The Python functions among its tools."""
        plain = [each for each in self.tools if not isinstance(each, str | McpTools)]
        return tuple(each if isinstance(each, FunctionTool) else FunctionTool(each) for each in plain)

    def definition(self) -> dict[str, Any]:
        """The agent as its file would say it; its functions by their names."""
        backend = self.backend or ("mock" if self.script is not None else None)
        written: dict[str, Any] = {"name": self.name, "model": self.model, "backend": backend}
        if self.system is not None or (backend != "mock" and "system_prompt" not in self.more):
            written["prompt"] = {"system": self.system or f"You are {self.name}, a helpful colleague."}
        if self.soul is not None:
            written["soul"] = {"role": self.soul} if isinstance(self.soul, str) else dict(self.soul)
        if self.script is not None:
            written["script"] = [dict(each) for each in self.script]
        more = dict(self.more)
        if tools := [*_names(self.name, self.tools), *more.pop("tools", [])]:
            written["tools"] = tools
        servers = {each.name: each.definition() for each in self.tools if isinstance(each, McpTools)}
        if servers | dict(more.get("mcp_servers", {})):
            written["mcp_servers"] = servers | dict(more.pop("mcp_servers", {}))
        return {key: value for key, value in written.items() if value is not None} | more

    def to_file(self, path: Path | str) -> Path:
        """Write it beneath the project at `path`, as `.agents/NAME.yaml`. A file that is there is not overwritten."""
        root, written = Path(path), self.definition()
        references = {each.name: _reference(each, root) for each in self.functions}
        if "tools" in written:
            written["tools"] = [_referred(each, references) for each in written["tools"]]
        return _write_new(root / AGENTS / f"{self.name}.yaml", written)


@dataclass(frozen=True, slots=True)
class Team:
    """A team as a value: what a workflow's file says. Members are values, or names of agents that the project has.

    `more` holds any other field of a workflow's file (docs/reference/files.md).
    """

    name: str
    agents: Sequence[Agent | str] = ()
    kickoff: str | None = None  #: the first message; the members it mentions begin
    desk: str | None = None  #: who gets what calls on nobody
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def members(self) -> tuple[Agent, ...]:
        """The members of a team that are values."""
        return tuple(each for each in self.agents if isinstance(each, Agent))

    def definition(self) -> dict[str, Any]:
        """The team as its file would say it."""
        names = [each.name if isinstance(each, Agent) else each for each in self.agents]
        if twice := {name for name in names if names.count(name) > 1}:
            raise BadInput(
                f"team {self.name}: {', '.join(sorted(twice))} is in it twice", hint="give each its own name"
            )
        members = {name: {"ref": name} for name in names}
        written = {"name": self.name, "agents": members, "kickoff": self.kickoff, "desk": self.desk}
        return {key: value for key, value in written.items() if value is not None} | dict(self.more)

    def to_files(self, path: Path | str) -> list[Path]:
        """Write the team and its members beneath the project at `path`: from then on they are files like any other."""
        root = Path(path)
        wanted = [root / AGENTS / f"{each.name}.yaml" for each in self.members]
        for file in (*wanted, root / WORKFLOWS / f"{self.name}.yaml"):
            _refuse_present(file)
        for each in self.members:  # before anything is written
            _ = [_reference(one, root) for one in each.functions]
        files = [each.to_file(root) for each in self.members]
        return [*files, _write_new(root / WORKFLOWS / f"{self.name}.yaml", self.definition())]


def with_script(agent: Agent, *script: Mapping[str, Any]) -> Agent:
    """This agent, which plays a script instead of asking its model."""
    return replace(agent, script=tuple(script), backend="mock")


def _names(agent: str, tools: Sequence[ToolLike]) -> list[Any]:
    """Tools by the names that a file would give them."""
    found: list[Any] = []
    for each in tools:
        match each:
            case McpTools():
                continue
            case str():
                found.append(each)
            case FunctionTool():
                found.append({"name": each.name, "approve": True} if each.approve else each.name)
            case _ if callable(each):
                found.append(FunctionTool(each).name)
            case _:
                raise BadInput(f"{agent}: {each!r} is not a tool", hint="a function, a name, or McpTools(…)")
    names = [each if isinstance(each, str) else each["name"] for each in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise BadInput(f"{agent} has two tools called {', '.join(sorted(twice))}", hint="rename one of the functions")
    return found


def _referred(written: Any, references: Mapping[str, str]) -> Any:
    if isinstance(written, str):
        return references.get(written, written)
    return written | {"name": references.get(written["name"], written["name"])}


def _reference(function: FunctionTool, root: Path) -> str:
    """How a file names a function: by the file it is in, which lies in the project."""
    plain = function.function
    is_plain = inspect.isfunction(plain) and plain.__qualname__ == plain.__name__
    source = inspect.getsourcefile(plain) if is_plain else None
    file = Path(source).resolve() if source else None
    if file is None or not file.is_relative_to(root.resolve()):
        raise Refused(
            f"{function.name} cannot be named in a file: it is not a function of a Python file beneath {root}",
            hint="move it to a file in the project, or keep the agent a value",
        )
    return f"./{file.relative_to(root.resolve())}:{plain.__name__}"


def _refuse_present(file: Path) -> None:
    if file.exists():
        raise Refused(f"{file} already exists", hint="remove it first, or choose another name")


def _write_new(file: Path, written: Mapping[str, Any]) -> Path:
    """Write a definition into a new file. Values are written as JSON, which is YAML: quoting needs no thought."""
    _refuse_present(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in written.items()))
    return file


def _project_of(file: Path) -> Path:
    return file.parent.parent if file.parent.name == AGENTS else file.parent
