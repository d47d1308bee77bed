"""Mock teams on a real file, for the measures that need a running engine, and what is said to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from agent_worker.backends.models.providers import NOTHING_APPROVED, Approval
from agent_worker.compose import RuntimeSettings, open_runtime
from agent_worker.core.events import Ended, Event
from agent_worker.definitions.project_files import load_project
from agent_worker.definitions.script import ScriptEntry
from agent_worker.workflows import start
from agent_worker.workflows.instance import Instance
from agent_worker.workspaces import routing

IN_DATABASE = "workspace: { provider: sqlite }\n"


def write_project(root: Path, agents: dict[str, str], *, workflow: str = IN_DATABASE) -> Path:
    """Name → the rest of its definition. One workflow, `review`, has them all."""
    (root / ".agents").mkdir(parents=True)
    (root / ".workflows").mkdir()
    for name, rest in agents.items():
        backend = "" if rest.startswith("backend:") else "backend: mock\n"
        (root / ".agents" / f"{name}.yaml").write_text(backend + rest)
    members = "".join(f"  {name}: {{ ref: {name} }}\n" for name in agents)
    (root / ".workflows" / "review.yaml").write_text(f"agents:\n{members}{workflow}")
    return root


@asynccontextmanager
async def open_team(
    root: Path, agents: dict[str, str], *, workflow: str = IN_DATABASE, approval: Approval = NOTHING_APPROVED
) -> AsyncIterator[Instance]:
    project = load_project(write_project(root, agents, workflow=workflow))
    assert not project.problems, project.problems
    async with open_runtime(RuntimeSettings(database=root / "state.db", approval=approval)) as runtime:
        loaded = await runtime.loader.load(project)
        yield await start.start(runtime, loaded, start.Start(project.workflows["review"]))


def script(team: Instance, agent: str, *entries: ScriptEntry) -> None:
    """What the model of a mock agent does next. One that has not worked yet gets its model now."""
    team.runtime.registry.worker(team.members[agent], team.id).kit.get()
    team.runtime.backends.mocks[agent].then(*entries)


async def say(team: Instance, text: str) -> None:
    speech = routing.OutgoingMessage(team.id, "user", text)
    await team.database.write(routing.say, speech, now=team.runtime.clock.micros())


async def ask(team: Instance, text: str) -> None:
    """Until the run that it causes has ended."""
    ended = asyncio.Event()
    stop = team.runtime.bus.listen(lambda _: ended.set(), Ended)
    await say(team, text)
    await ended.wait()
    stop()


@contextmanager
def noted(team: Instance, kind: type[Event], clock: Callable[[], float]) -> Iterator[list[float]]:
    """What the clock showed at each event of that kind."""
    times: list[float] = []

    def note(event: Event) -> None:
        if isinstance(event, kind):
            times.append(clock())

    stop = team.runtime.bus.listen(note)
    try:
        yield times
    finally:
        stop()
