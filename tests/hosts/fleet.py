"""Several hosts in one process: each a runtime of its own, over one PostgreSQL and one checkout."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from tests import stored
from tests.teams import equipped, kept_prices, write_project

from agent_worker.agents.loader import LoadedProject
from agent_worker.backends.backend import Model, PastStep, Reply, StepSink, Turn
from agent_worker.backends.tool_loop import ToolLoop
from agent_worker.compose import RuntimeSettings, open_runtime
from agent_worker.core.clock import Clock, SystemClock
from agent_worker.database.database import ProjectDatabase
from agent_worker.database.host_rows import Beat
from agent_worker.database.signal_rows import Signals
from agent_worker.definitions.project_files import load_project
from agent_worker.definitions.settings import Settings
from agent_worker.files.root import Root
from agent_worker.service.service import Service
from agent_worker.service.shared_work import SharedWork
from agent_worker.workflows.runtime import Runtime


@dataclass
class TestHost:
    """One of them."""

    __test__ = False

    runtime: Runtime
    service: Service
    loaded: LoadedProject
    _closing: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def id(self) -> str:
        return self.runtime.supervisor.owner

    @property
    def root(self) -> str:
        """Its checkout."""
        return str(self.loaded.project.root)

    @property
    def database(self) -> ProjectDatabase:
        return self.runtime.database.of(self.loaded.id)

    async def stop(self) -> None:
        """As a daemon that is asked to."""
        await self._closing.aclose()

    async def fall_silent(self, *, at_once: bool = True) -> None:
        """No beat comes any more, and its lease is over, or runs out; whatever it does goes on, as in a process that
        was frozen."""
        hosting = self.runtime.supervisor.hosting
        assert hosting is not None
        await hosting._lease.close()
        hosting._lease = Silence()
        if at_once:
            await self.runtime.database.write(stored.change, "host", {"id": self.id}, lease_until=0)

    async def begin_work(self) -> None:
        """Of one that looked on."""
        self.runtime.supervisor._stopping = False
        await self.runtime.supervisor.wake_all()

    def employ(self, agent: str, model: Model) -> None:
        """Give an agent another model, wherever it works on this host."""
        registry = self.runtime.registry
        for place, worker in list(registry._workers[self.loaded.agents[agent]].items()):
            registry.add(equipped(worker, backend=ToolLoop(model)), workspace=place)


class WrongClock(SystemClock):
    """The clock of a machine that nobody has set."""

    def __init__(self, ahead: timedelta) -> None:
        self._ahead = ahead

    def now(self) -> datetime:
        return super().now() + self._ahead


class Silence:
    """A lease that nobody renews."""

    beaten: Callable[[Beat], None]
    signalled: Callable[[Signals], None]
    overheard: Callable[[str], None]

    async def open(self) -> int:
        return 0

    async def close(self) -> None: ...


@dataclass
class Slow:
    """A model that answers when it is let."""

    text: str
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def reply(self, turn: Turn, steps: Sequence[PastStep], sink: StepSink) -> Reply:
        self.begun.set()
        await self.go_on.wait()
        return Reply(text=self.text)


class Fleet:
    def __init__(self, url: str, root: Path) -> None:
        self.url = url
        self.root = root
        self.hosts: list[TestHost] = []

    async def add(
        self,
        *labels: str,
        root: Path | None = None,
        home: Path | None = None,
        clock: Clock | None = None,
        looks_on: bool = False,
    ) -> TestHost:
        """`root`: a checkout of its own. `home`: it comes back as the same host. `looks_on`: it takes no work yet."""
        closing = AsyncExitStack()
        chosen = Settings.model_construct(quiet_moment=0.02)
        settings = RuntimeSettings(
            database=self.url,
            prices=kept_prices(),
            chosen=chosen,
            trust=Root.private(home) if home else None,
            labels=frozenset(labels),
            chance=lambda: 0.0,
        )
        runtime = await closing.enter_async_context(open_runtime(settings, clock=clock))
        runtime.supervisor._stopping = looks_on
        service = Service(runtime)
        SharedWork(service)
        closing.push_async_callback(service.close)
        host = TestHost(runtime, service, await service.project(str(root or self.root)), closing)
        self.hosts.append(host)
        return host


@asynccontextmanager
async def open_fleet(url: str, root: Path, *agents: str, **more: object) -> AsyncIterator[Fleet]:
    write_project(root, agents, **more)  # type: ignore[arg-type]
    assert not load_project(root).problems
    fleet = Fleet(url, root)
    try:
        yield fleet
    finally:
        for host in reversed(fleet.hosts):
            await host.stop()
