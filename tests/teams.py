"""A team for tests: a runtime in memory, mock agents scripted by hand, time handed in."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from agent_worker.agents.loader import LoadedProject
from agent_worker.agents.registry import AgentRuntime, LazyKit
from agent_worker.backends.backend import Model
from agent_worker.backends.mock import MockModel
from agent_worker.backends.programs.known import KNOWN
from agent_worker.backends.tool_loop import ToolLoop
from agent_worker.compose import RuntimeSettings, open_runtime
from agent_worker.core.clock import Clock, TestClock
from agent_worker.database.database import ProjectDatabase, Row, Transaction
from agent_worker.definitions.project_files import load_project
from agent_worker.definitions.settings import Settings
from agent_worker.files import copy_watch
from agent_worker.files.root import Root
from agent_worker.work.threads import PERSONAL, ThreadEntry, recent
from agent_worker.workflows import start as workflows
from agent_worker.workflows.instance import Instance
from agent_worker.workflows.runtime import Runtime
from agent_worker.workspaces import channel, routing, workspace_rows
from tests import engine, stored

T = TypeVar("T")

LONG = 3 * 3600.0  # seconds, of a clock that is handed in


def equipped(worker: AgentRuntime, **changes: Any) -> AgentRuntime:
    """The same agent with another backend, or other tools."""
    kit = replace(worker.kit.get(), **changes)
    return replace(worker, kit=LazyKit(lambda: kit))


class Mocks(Mapping[str, MockModel]):
    """The models of mock agents, by name, to be scripted: an agent that has not worked yet gets its own now."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def __getitem__(self, name: str) -> MockModel:
        for worker in self._runtime.registry.workers():
            if worker.name == name and worker.is_fit:
                worker.kit.get()
        return self._runtime.backends.mocks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(worker.name for worker in self._runtime.registry.workers()))

    def __len__(self) -> int:
        return len(list(iter(self)))


@dataclass
class Team:
    runtime: Runtime
    loaded: LoadedProject
    workspace: Instance
    clock: Clock
    stirrings: Stirrings

    @property
    def backends(self) -> Mapping[str, MockModel]:
        return Mocks(self.runtime)

    @property
    def database(self) -> ProjectDatabase:
        """What is stored of the team's project."""
        return self.workspace.database

    def now(self) -> int:
        return self.clock.micros()

    async def post(self, sender: str, text: str, *, to: str | None = None, key: str | None = None) -> routing.Receipt:
        speech = routing.OutgoingMessage(workspace=self.workspace.id, sender=sender, text=text, to=to)
        return await self.write(routing.say, speech, now=self.now(), key=key)

    async def dm(self, agent: str, text: str) -> routing.Receipt:
        return await self.write(routing.tell_agent, self.loaded.agents[agent], text, now=self.now())

    async def quiet(self) -> str:
        return await self.workspace.quiet()

    async def idle(self) -> None:
        """Nothing is queued or running anywhere, DMs included."""
        await self.until(lambda rows: not rows, stored.unfinished)

    async def until(self, holds: Callable[[list[Row]], Any], view: stored.View, **wanted: object) -> list[Row]:
        """Look again after everything that happens, until it holds."""
        stirred = asyncio.Event()
        unlisten = self.runtime.bus.listen(lambda _: stirred.set())
        try:
            while True:
                stirred.clear()
                rows = await self.read(view, **wanted)
                if holds(rows):
                    return rows
                await stirred.wait()
        finally:
            unlisten()

    def employ(self, agent: str, model: Model | None = None, **changes: Any) -> None:
        """Give an agent another model, backend or tools, or change something else about it, everywhere it works."""
        if model is not None:
            changes["backend"] = ToolLoop(model)
        kit = {what: changes.pop(what) for what in ("backend", "tools") if what in changes}
        registry = self.runtime.registry
        for place, worker in list(registry._workers[self.id_of(agent)].items()):
            registry.add(replace(equipped(worker, **kit) if kit else worker, **changes), workspace=place)

    def id_of(self, agent: str) -> str:
        return self.workspace.members.get(agent) or self.loaded.agents[agent]

    # --- when time is handed in -----------------------------------------------------------------------

    async def still(self) -> None:
        """Everything that can happen without time passing has happened."""
        while True:
            await self.stirrings.end()
            before = self.stirrings.waits
            await self.write(lambda tx: None)  # behind everything that is still to be written
            await self.stirrings.end()
            if self.stirrings.waits == before + 1:  # this write alone was waited for
                return

    async def elapse(self, seconds: float) -> None:
        """Let time pass, with everything that comes of it."""
        with looking_seldom(seconds):
            await self._elapse(seconds)

    async def _elapse(self, seconds: float) -> None:
        assert isinstance(self.clock, TestClock)
        until = self.clock.monotonic() + seconds
        while True:
            await self.still()
            due = self.clock.next_wake()
            if due is None or self.clock.monotonic() + due > until:
                break
            await self.clock.advance(max(due, 0.0))
        await self.clock.advance(until - self.clock.monotonic())
        await self.still()

    async def meanwhile(self, awaited: Awaitable[T], *, at_most: float = 86400) -> T:
        """Let time pass until this is done; complain when it never will be."""
        assert isinstance(self.clock, TestClock)
        task, began = asyncio.ensure_future(awaited), self.clock.monotonic()
        try:
            while True:
                await self.still()
                if task.done():
                    return await task
                due = self.clock.next_wake()
                assert due is not None, "nothing will ever happen"
                assert self.clock.monotonic() + due - began <= at_most, "it takes too long"
                await self.clock.advance(max(due, 0.0))
        finally:
            task.cancel()

    async def halt(self) -> None:
        """End all work at once: a step that waits for time to be handed in would use up all the grace there is."""
        await self.runtime.supervisor.stop(grace=0)

    # --- looking --------------------------------------------------------------------------------------

    async def texts(self) -> list[str]:
        return [m.text for m in await self.messages()]

    async def messages(self) -> list[channel.Message]:
        return await self.read(channel.read, self.workspace.id, limit=10_000)

    async def thread(self, agent: str, context: str = PERSONAL) -> list[ThreadEntry]:
        return await self.read(recent, self.id_of(agent), context, 1000)

    async def agent(self, name: str) -> Row:
        (row,) = await self.read(stored.agents, id=self.id_of(name))
        return row

    async def workspace_row(self) -> Row:
        """The workspace, as it is stored."""
        return await self.read(workspace_rows.get, self.workspace.id)

    async def inbox(self) -> list[tuple[str, str]]:
        return [(row["kind"], row["text"]) for row in await self.asked(state="open")]

    async def states(self) -> list[str]:
        return [row["state"] for row in await self.queue()]

    async def queue(self, **wanted: object) -> list[Row]:
        """The instructions, oldest first; `queue(state="done")` are those in that state."""
        return await self.read(stored.instructions, **wanted)

    async def runs(self, **wanted: object) -> list[Row]:
        return await self.read(stored.runs, **wanted)

    async def calls(self, **wanted: object) -> list[Row]:
        """The calls of tools."""
        return await self.read(stored.calls, **wanted)

    async def program_calls(self) -> list[Row]:
        """What programs did with tools of their own."""
        return await self.read(stored.program_calls)

    async def sent_texts(self) -> list[str]:
        """What is kept of what models were sent."""
        return [row["text"] for row in await self.read(stored.sent_texts)]

    async def deliveries(self, **wanted: object) -> list[Row]:
        """What was brought to whom."""
        return await self.read(stored.deliveries, **wanted)

    async def asked(self, **wanted: object) -> list[Row]:
        """What the person was asked or told: everything that ever was in the inbox."""
        return await self.read(stored.inbox, **wanted)

    async def change(self, table: str, of: dict[str, object] | None = None, **columns: object) -> None:
        """As `stored.change`."""
        await self.write(stored.change, table, of, **columns)

    async def read(self, query: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        return await self.database.read(query, *args, **kwargs)

    async def write(self, change: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        return await self.database.write(change, *args, **kwargs)


class Stirrings:
    """What goes on in a loop and in the threads it waits for, so that the end of it can be awaited."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.waits = 0  #: how many times anybody began to wait for something
        self._threads: set[asyncio.Future[Any]] = set()
        self._ready = loop._ready  # type: ignore[attr-defined]  # no door leads there
        self._create_future, self._run_in_executor = loop.create_future, loop.run_in_executor
        loop.create_future = self._wait  # type: ignore[method-assign]
        loop.run_in_executor = self._work  # type: ignore[method-assign, assignment]

    async def end(self) -> None:
        """No task can go on, and no thread works for one. (What the writer of the database has is not seen.)"""
        while self._ready or self._threads:
            if self._threads:
                await asyncio.wait(self._threads)
            await asyncio.sleep(0)

    def _wait(self) -> asyncio.Future[Any]:
        self.waits += 1
        return self._create_future()

    def _work(self, *args: Any) -> asyncio.Future[Any]:
        working = self._run_in_executor(*args)
        self._threads.add(working)
        working.add_done_callback(self._threads.discard)
        return working


def write_project(
    root: Path, agents: Iterable[str], *, workflow: str = "", extra: dict[str, str] | None = None
) -> None:
    (root / ".agents").mkdir(parents=True, exist_ok=True)
    (root / ".workflows").mkdir(exist_ok=True)
    names = list(agents)
    for name in names:
        more = (extra or {}).get(name, "")
        backend = "" if more.startswith("backend:") else "backend: mock\n"
        (root / ".agents" / f"{name}.yaml").write_text(f"{backend}{more}")
    members = "".join(f"  {name}: {{ ref: {name} }}\n" for name in names)
    (root / ".workflows" / "review.yaml").write_text(f"agents:\n{members}{workflow}")


def kept_prices() -> Root:
    """Prices are looked up once for all tests: it takes a second of CPU each."""
    return Root.private(Path(tempfile.gettempdir()) / f"agent-worker-tests-{os.getuid()}")


def files_are_the_truth() -> None:
    """For tests of documents in files that are no copies."""
    if engine.is_postgresql():
        pytest.skip("with PostgreSQL the files of documents are copies: tests/hosts/test_documents.py")


#: Every coding program is here, as far as hosts that share their work are concerned: tests bring their own.
PROGRAMS = frozenset(f"program:{name}" for name in KNOWN)


@contextmanager
def looking_seldom(seconds: float) -> Iterator[None]:
    """Hosts that share their work look at their files every two seconds: a day of that would take minutes."""
    often = copy_watch.LOOK
    if seconds > LONG:
        copy_watch.LOOK = 1e9
    try:
        yield
    finally:
        copy_watch.LOOK = often


@asynccontextmanager
async def open_team(
    root: Path,
    *agents: str,
    clock: Clock,
    workflow: str = "workspace: { provider: sqlite }\n",
    extra: dict[str, str] | None = None,
    database: Path | None = None,
    tag: str = "main",
    **settings: Any,
) -> AsyncIterator[Team]:
    stirrings = Stirrings(asyncio.get_running_loop())
    write_project(root, agents, workflow=workflow, extra=extra)
    # Not checked: a test may choose what nobody could write, such as a moment of 0 seconds.
    wanted = {name: settings.pop(name) for name in [*settings] if name in Settings.model_fields}
    chosen = Settings.model_construct(**wanted)
    more: dict[str, Any] = {"prices": kept_prices(), "labels": PROGRAMS} | settings
    where = engine.state_at(database) if database else engine.new_database(root)
    exactly = RuntimeSettings(database=where, chance=lambda: 0.0, chosen=chosen, **more)
    async with open_runtime(exactly, clock=clock) as runtime:
        project = load_project(root)
        assert not project.problems, project.problems
        loaded = await runtime.loader.load(project)
        workspace = await workflows.start(runtime, loaded, workflows.Start(project.workflows["review"], tag=tag))
        yield Team(runtime, loaded, workspace, clock, stirrings)


__all__ = ["Team", "Transaction", "open_team", "write_project"]
