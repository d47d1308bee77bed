"""The Python API: the same runtime, in your own process, without a daemon.

    async with agent_worker.open_project("path/to/project") as project:
        team = await project.start("review")
        await team.send("@alice what is left to do?")
        print(await team.quiet())
        print(await project.ask("alice", "hello"))

With `home` the state is kept in that directory and goes on where it was; without it, it lives in memory.
A project has one runtime at a time: while the daemon works on it, this raises InUse.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from agent_worker.core.late_imports import for_good

with for_good():
    from agent_worker.agents import commands
    from agent_worker.agents.loader import LoadedProject
    from agent_worker.compose import RuntimeSettings, open_runtime
    from agent_worker.core.address import MAIN
    from agent_worker.core.clock import Clock
    from agent_worker.core.errors import InUse, Problem
    from agent_worker.core.events import Subscription
    from agent_worker.definitions.project import find_project, load_project
    from agent_worker.definitions.settings import read_settings
    from agent_worker.definitions.workflow import WorkflowDefinition
    from agent_worker.files.root import Root
    from agent_worker.service.messages import Answer, deliver, put_question, read_channel
    from agent_worker.workflows import start
    from agent_worker.workflows.instance import Instance
    from agent_worker.workflows.runtime import Runtime
    from agent_worker.workflows.summary import Summary
    from agent_worker.workspaces.channel import Message
    from agent_worker.workspaces.routing import Receipt

__all__ = ["Answer", "InUse", "Message", "Project", "Receipt", "Summary", "Team", "open_project"]


class Team:
    """A running workflow."""

    def __init__(self, running: Instance) -> None:
        self._running = running
        self.name = running.name
        self.directory = running.directory  #: where its files are; None when it has none

    async def send(self, text: str, *, to: str | None = None, key: str | None = None) -> Receipt:
        """Say something in the channel, or to one member."""
        return await deliver(self._running.runtime, self._running.loaded, f"{to or ''}@{self.name}", text, key=key)

    async def messages(self, *, since: int = 0, limit: int = 1000) -> list[Message]:
        running = self._running
        return await read_channel(running.runtime, running.loaded, f"@{self.name}", since=since, limit=limit)

    def events(self) -> Subscription:
        """What happens in this workspace from now on, to be read with `async for`."""
        return self._running.runtime.bus.subscribe(lambda event: event.workspace == self._running.id)

    async def quiet(self) -> str:
        """Wait until nobody has anything to do. Returns '', or why the team is paused."""
        return await self._running.quiet()

    async def resume(self) -> None:
        """Grant a new allowance after a limit was reached."""
        runtime = self._running.runtime
        await self._running.database.write(commands.resume_workspace, self._running.id, now=runtime.clock.micros())

    async def run(self) -> Summary:
        """Work until everybody is quiet, then end the instance."""
        return await self._running.run()

    async def stop(self) -> Summary:
        """End the instance now; what is queued or running is cancelled."""
        return await self._running.stop()


class Project:
    def __init__(self, runtime: Runtime, loaded: LoadedProject) -> None:
        self._runtime = runtime
        self._loaded = loaded
        self._running: list[Instance] = []
        self.root = loaded.project.root
        self.problems: tuple[Problem, ...] = loaded.project.wrong  #: what is wrong in its files, and where

    async def start(
        self,
        workflow: str,
        *,
        tag: str = MAIN,
        params: Mapping[str, str] | None = None,
        message: str | None = None,
    ) -> Team:
        """Start a workflow by its name or by the path of its file."""
        definition = self._workflow(workflow)
        wanted = start.Start(definition, tag=tag, params=params or {}, message=message)
        running = await start.start(self._runtime, self._loaded, wanted)
        self._running.append(running)
        return Team(running)

    async def send(self, to: str, text: str, *, key: str | None = None) -> Receipt:
        """Deliver a message to `alice`, `@review` or `alice@review`."""
        return await deliver(self._runtime, self._loaded, to, text, key=key)

    async def ask(self, agent: str, text: str) -> Answer:
        """Send a direct message and wait for the answer."""
        return await put_question(self._runtime, self._loaded, agent, text)

    def events(self) -> Subscription:
        """Everything that happens from now on, to be read with `async for`."""
        return self._runtime.bus.subscribe()

    def _leave(self) -> None:
        for running in self._running:
            running.leave()

    def _workflow(self, name: str) -> WorkflowDefinition:
        project = self._loaded.project
        if name in project.workflows:
            return project.workflows[name]
        path = Path(name)
        if path.suffix in (".yaml", ".yml"):
            return project.load_workflow(path if path.is_absolute() else Path.cwd() / path)
        raise project.no_workflow(name)


@asynccontextmanager
async def open_project(
    path: Path | str = ".", *, home: Path | str | None = None, clock: Clock | None = None
) -> AsyncIterator[Project]:
    """The project at or above `path`, for nobody else meanwhile.

    A file that is wrong takes down what it defines: see `Project.problems`. Raises InUse when another runtime works on
    the project or the home: the daemon, or another program.
    """
    definitions = load_project(find_project(Path(path)))
    settings = RuntimeSettings()
    if home:
        kept = Root.private(Path(home)).location("state.db")
        settings = RuntimeSettings(database=kept, chosen=read_settings(Path(home)))
    async with open_runtime(settings, clock=clock) as runtime:
        loaded = await runtime.loader.load(definitions)
        await runtime.supervisor.wake_all()
        project = Project(runtime, loaded)
        try:
            yield project
        finally:
            project._leave()
