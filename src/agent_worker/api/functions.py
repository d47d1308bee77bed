"""The Python functions of a program's agents: what is told of them, and their calls, in this process."""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

from agent_worker.api.values import Agent, FunctionTool
from agent_worker.core.errors import AgentWorkerError


class OwnFunctions:
    """The functions of this program, by agent and name. What they raise is an answer for the model."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Any] = {}
        # A hundred agents may have the same function: it is looked at once. As long as one has it, its id is its own.
        self._made: WeakValueDictionary[tuple[int, float], Any] = WeakValueDictionary()

    def take(self, agent: Agent) -> list[dict[str, Any]]:
        """Keep the functions of an agent; what a runtime is told of them. BadInput for one that cannot be a tool."""
        return [self._take(agent.name, each) for each in agent.functions]

    def _take(self, agent: str, tool: FunctionTool) -> dict[str, Any]:
        from agent_worker.core.python_function import PythonFunction  # pydantic: for those who have functions

        made = self._made.get((id(tool.function), tool.within))
        if made is None:
            made = PythonFunction(tool.function, f"{agent}: {tool.name}", limit=tool.within)
            self._made[id(tool.function), tool.within] = made
        self._known[agent, tool.name] = made
        return {
            "name": tool.name,
            "description": made.description,
            "schema": made.schema,
            "repeatable": tool.repeatable,
            "within": tool.within,
        }

    async def call(self, agent: str, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """What came of a call: a text, and whether it went well."""
        function = self._known.get((agent, name))
        if function is None:
            return f"{agent} has no function {name} here any more", False
        try:
            return await function.call(function.signature.check(arguments)), True
        except AgentWorkerError as error:
            return (f"{error.message} ({error.hint})" if error.hint else error.message), False
