"""What `local` opens: a runtime with its service, for one project, and this process as the one that makes calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent_worker.compose import RuntimeSettings, open_runtime
from agent_worker.core.clock import Clock
from agent_worker.definitions.settings import read_settings
from agent_worker.files.root import Root
from agent_worker.service import events, inbox, memory, messages, projects, run, runs, values, workflows
from agent_worker.service.operation import operations_in
from agent_worker.service.service import Service
from agent_worker.tools.program_functions import FunctionSpec
from agent_worker.tools.tool import Result

#: The operations that the verbs use, by name. Of all there are (service/catalogue.py), a program loads these.
OPERATIONS = {
    each.name: each
    for module in (events, inbox, memory, messages, projects, run, runs, values, workflows)
    for each in operations_in(module)
}

MakeCall = Callable[[str, str, dict[str, Any]], Awaitable[tuple[str, bool]]]


class ThisProcess:
    """Makes the calls of the program that we are part of."""

    def __init__(self, make: MakeCall) -> None:
        self._make = make

    async def call(self, agent: str, spec: FunctionSpec, arguments: dict[str, Any]) -> Result:
        text, ok = await self._make(agent, spec.name, arguments)
        return Result(text, ok)


@asynccontextmanager
async def open_service(
    root: Path, home: Path | None, clock: Clock | None, program: str, make: MakeCall
) -> AsyncIterator[Service]:
    """What was running when an earlier process ended goes on: for values, when they are handed over again."""
    settings = RuntimeSettings()
    if home is not None:
        kept = Root.private(home).location("state.db")
        settings = RuntimeSettings(database=kept, chosen=read_settings(home))
    async with open_runtime(settings, clock=clock) as runtime:
        runtime.backends.functions.arrive(program, ThisProcess(make))
        service = Service(runtime)
        try:
            await service.project(str(root))
            await service.open_again()
            yield service
        finally:
            service.closing.set()
            await service.close()
