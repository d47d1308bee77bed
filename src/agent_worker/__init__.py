"""Run AI agents as lasting identities that work together in workspaces.

    from agent_worker import Agent, local

    with local() as workers:
        print(workers.ask_sync(Agent("alice", model="anthropic/claude-sonnet-5-5"), "hello").text)

The names below are the Python API (docs/guides/python.md); each is imported when it is first used, so that
`import agent_worker` is cheap.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it for true; `typing` is slow to import, and every command would wait for it
if TYPE_CHECKING:
    from typing import Any

    from agent_worker.api.connected import connect
    from agent_worker.api.local import local
    from agent_worker.api.results import (
        Answer,
        Asked,
        ChannelMessage,
        HappeningEvent,
        InboxItem,
        MemoryItem,
        NewMessage,
        NowWaiting,
        OtherEvent,
        RunEnded,
        RunReport,
        RunStarted,
        Sending,
        Spending,
        StepUsage,
        StreamEvent,
        TeamAnswer,
        TextChunk,
        ToolFinished,
        ToolStarted,
    )
    from agent_worker.api.teams import RunningTeam
    from agent_worker.api.values import Agent, FunctionTool, McpTools, Team, ToolLike, tool
    from agent_worker.api.workers import Workers
    from agent_worker.core.errors import (
        AgentWorkerError,
        BackendFailure,
        BadInput,
        DefinitionError,
        InUse,
        NotFound,
        NotRunning,
        Refused,
        Untrusted,
        WrongOutput,
    )

_RESULTS = (
    "Answer",
    "Asked",
    "ChannelMessage",
    "HappeningEvent",
    "InboxItem",
    "MemoryItem",
    "NewMessage",
    "NowWaiting",
    "OtherEvent",
    "RunEnded",
    "RunReport",
    "RunStarted",
    "Sending",
    "Spending",
    "StepUsage",
    "StreamEvent",
    "TeamAnswer",
    "TextChunk",
    "ToolFinished",
    "ToolStarted",
)
_ERRORS = (
    "AgentWorkerError",
    "BackendFailure",
    "BadInput",
    "DefinitionError",
    "InUse",
    "NotFound",
    "NotRunning",
    "Refused",
    "Untrusted",
    "WrongOutput",
)
#: Where each name is.
_WHERE = {
    "connect": "api.connected",
    "local": "api.local",
    "RunningTeam": "api.teams",
    "Workers": "api.workers",
    **dict.fromkeys(("Agent", "FunctionTool", "McpTools", "Team", "ToolLike", "tool"), "api.values"),
    **dict.fromkeys(_RESULTS, "api.results"),
    **dict.fromkeys(_ERRORS, "core.errors"),
}

__all__ = [
    "Agent",
    "AgentWorkerError",
    "Answer",
    "Asked",
    "BackendFailure",
    "BadInput",
    "ChannelMessage",
    "DefinitionError",
    "FunctionTool",
    "HappeningEvent",
    "InUse",
    "InboxItem",
    "McpTools",
    "MemoryItem",
    "NewMessage",
    "NotFound",
    "NotRunning",
    "NowWaiting",
    "OtherEvent",
    "Refused",
    "RunEnded",
    "RunReport",
    "RunStarted",
    "RunningTeam",
    "Sending",
    "Spending",
    "StepUsage",
    "StreamEvent",
    "Team",
    "TeamAnswer",
    "TextChunk",
    "ToolFinished",
    "ToolLike",
    "ToolStarted",
    "Untrusted",
    "Workers",
    "WrongOutput",
    "connect",
    "local",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
