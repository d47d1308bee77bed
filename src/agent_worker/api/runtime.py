"""What `local` opens: a runtime with its service, for one project, and this process as the one that makes calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_worker.client.discovery import home_directory
from agent_worker.compose import RuntimeSettings, open_runtime
from agent_worker.core.clock import Clock, SystemClock
from agent_worker.core.errors import Refused
from agent_worker.core.later import dataclass
from agent_worker.definitions.project_files import load_project
from agent_worker.definitions.settings import read_settings
from agent_worker.files.root import Root
from agent_worker.service import events, inbox, memory, messages, projects, run, runs, values, workflows
from agent_worker.service.operation import operations_in
from agent_worker.service.service import Service
from agent_worker.tools.program_functions import FunctionSpec
from agent_worker.tools.tool import Result
from agent_worker.trust.gate import Gate
from agent_worker.trust.powers import powers_of
from agent_worker.trust.project_keys import keys_in_env_file, power_of_keys

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


@dataclass(frozen=True, slots=True)
class LocalProject:
    """What is opened, and who answers for what its files would do."""

    root: Path
    is_own: bool = False  #: nobody wrote files there for us: there are no approvals to look for
    trust: bool = False  #: the program says yes to all that its files would do now

    def gate(self, clock: Clock) -> Gate:
        """The gate of this project. Blocks."""
        gate = Gate(None if self.is_own else _home_of_person(), clock, is_open=False)
        if self.trust:
            project = load_project(self.root)
            gate.let_pass(self.root, (*powers_of(project), *power_of_keys(project, keys_in_env_file(project))))
        return gate


def _home_of_person() -> Root | None:
    """The home with the person's approvals and keys, wherever a program keeps its state. It is not created only to
    look."""
    with suppress(Refused):  # it is not private, or there is none: nothing is approved
        home = home_directory()
        return Root.private(home) if home.is_dir() else None
    return None


@asynccontextmanager
async def open_service(
    project: LocalProject, home: Path | None, clock: Clock | None, program: str, make: MakeCall
) -> AsyncIterator[Service]:
    """Open a runtime and its service. What was running when an earlier process ended goes on: for values, once they are
    passed in again.
    """
    gate, keys = await asyncio.to_thread(lambda: (project.gate(clock or SystemClock()), _home_of_person()))
    settings = RuntimeSettings(gate=gate, keys=keys)
    if home is not None:
        kept = Root.private(home).location("state.db")
        settings = replace(settings, database=kept, chosen=read_settings(home))
    async with open_runtime(settings, clock=clock) as runtime:
        runtime.backends.functions.arrive(program, ThisProcess(make))
        service = Service(runtime)
        try:
            await service.project(str(project.root))
            await service.open_again()
            yield service
        finally:
            service.closing.set()
            await service.close()
