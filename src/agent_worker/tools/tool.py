"""One definition per tool: a typed function whose docstring is what the model reads.

    @tool
    def channel_send(tx: Transaction, context: ToolContext, text: str) -> str:
        '''Say something to the team. ...'''

A plain `def` is *stored*: it runs inside one transaction together with the record of its result, so its effect
happens once. An `async def` reaches outside the database (files, processes, the network); after a crash it is
made again only if it says `@tool(repeatable=True)`. Calls that a model asks for together are made side by side, but for
tools that say `in_turn=True`. A tool knows its context and nothing of who serves it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any, overload

from agent_worker.core.clock import Clock
from agent_worker.core.later import dataclass
from agent_worker.core.signature import Signature
from agent_worker.database.database import ProjectDatabase
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.layout import OwnPlaces
from agent_worker.files.root import Root
from agent_worker.memory.judging import Judge
from agent_worker.memory.library import Library
from agent_worker.memory.workspace_library import WorkspaceLibraries
from agent_worker.tools.images import Image
from agent_worker.workspaces.documents import LookAtCopies


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call the model asks for. The id is unique within its step."""

    id: str
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a call. The text is written for the model, and says of each image that it is there."""

    text: str
    ok: bool = True
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """What a stored tool returns to have a person asked; their answer becomes its result."""

    text: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it."""

    name: str
    description: str
    written: dict[str, Any] | Callable[[], dict[str, Any]]  #: the schema of its arguments, or what makes it

    @property
    def schema(self) -> dict[str, Any]:
        return self.written if isinstance(self.written, dict) else self.written()


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """Who works, where, and on whose behalf. Set by us, never by an argument of a call."""

    agent: str  #: id
    name: str
    project: str
    run: str
    root: str
    hop: int
    workspace: str | None = None


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may use when it is called."""

    identity: RunIdentity
    database: ProjectDatabase
    clock: Clock
    key: str = ""  #: names this one call among all there ever were; the same when it is made again
    cwd: Path = field(default_factory=Path)  #: where task tools work
    own_copy: bool = False  #: that is a checkout which only this agent has
    places: Callable[[], OwnPlaces] = OwnPlaces  #: what of the project is not for task tools to change; looks at files
    home: Root | None = None  #: the agent's own folder; None when it has no personal files
    library: Library | None = None  #: what it can look up of its own
    libraries: WorkspaceLibraries | None = None  #: and what was said and written in workspaces
    copies: LookAtCopies | None = None  #: of documents, where several hosts share them
    write_talk: Callable[[], Awaitable[None]] | None = None  #: brings what was said to it directly into its files
    env: tuple[str, ...] = ()  #: variables its processes may see beyond the safe base set
    home_of: Callable[[str], Root | None] = lambda agent: None  #: by id: for the Guard, who answers for others
    waits: Callable[[str], str] = lambda agent: ""  #: by id: why an agent that has work waits; '' when it does not
    definition: AgentDefinition | None = None  #: of the agent; its soul is where it began
    said: tuple[tuple[str, str], ...] = ()  #: who said what to it in this run: `user` directly, `agent:<name>`, or ''
    judge: Judge | None = None  #: whom to ask small questions; None: rules decide
    outside: str = ""  #: a tool by which this work has read what others wrote outside our workspaces; '' for none
    beside: bool = False  #: its prompt shows memory that others wrote
    heard: tuple[str, ...] = ()  #: texts in its prompt that earlier work may have from there


#: The arguments of a call → the same, typed, for the function. BadInput is a sentence the model can act on.
Check = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Tool:
    spec: ToolSpec
    function: Callable[..., Any]
    check: Check
    stored: bool  #: runs inside one transaction
    repeatable: bool  #: safe to make again when its outcome is unknown
    personal: bool  #: also there without a workspace
    in_turn: bool = False  #: changes what other tools look at: made in the order asked, not side by side
    approve: bool = False  #: a person must say yes to each call
    foreign: bool = False  #: what it returns was written by others: files, pages, skills, whatever a server says

    @property
    def name(self) -> str:
        return self.spec.name


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *, repeatable: bool = False, personal: bool = False, foreign: bool = False, in_turn: bool = False
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    repeatable: bool = False,
    personal: bool = False,
    foreign: bool = False,
    in_turn: bool = False,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    def define(function: Callable[..., Any]) -> Tool:
        stored = not inspect.iscoroutinefunction(function)
        signature = Signature(function, skip=2 if stored else 1)
        return Tool(
            spec=ToolSpec(signature.name, inspect.getdoc(function) or "", cache(signature.schema)),
            function=function,
            check=signature.check,
            stored=stored,
            repeatable=repeatable or stored,
            personal=personal,
            foreign=foreign,
            in_turn=in_turn,
        )

    return define(function) if function is not None else define
