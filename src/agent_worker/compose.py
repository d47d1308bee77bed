"""Settings → a wired engine. The only place that names the concrete classes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from agent_worker.agents.hands import Pen
from agent_worker.agents.limiter import Limiter
from agent_worker.agents.loop import Floor, Slots
from agent_worker.agents.registry import MoreTools, Registry
from agent_worker.agents.roster import Equipment, Roster
from agent_worker.agents.schedule import Ticker
from agent_worker.agents.supervisor import Supervisor
from agent_worker.backends.backend import Backend, Model
from agent_worker.backends.mock import MockModel
from agent_worker.backends.model_api import Catalogue, ModelApi
from agent_worker.backends.providers import NOTHING_APPROVED, Approval, Endpoint
from agent_worker.backends.tool_loop import ToolLoop
from agent_worker.backends.unfit import Unfit
from agent_worker.clock import Clock, SystemClock
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.errors import AgentWorkerError, BadInput
from agent_worker.events import Bus
from agent_worker.mirror import Mirror
from agent_worker.outbound import host_of
from agent_worker.redaction import Redactor, secrets_in
from agent_worker.storage.files import Root
from agent_worker.storage.sqlite import SqliteDatabase
from agent_worker.tools.mcp_server import servers_of
from agent_worker.tools.mcp_servers import McpPool
from agent_worker.tools.toolbox import tools_of
from agent_worker.trust.gate import Gate
from agent_worker.trust.powers import powers_of_agent
from agent_worker.workflows.instance import Stage


@dataclass(frozen=True, slots=True)
class Settings:
    database: Path | str = ":memory:"
    runs_at_once: int = 8
    programs_at_once: int = 4
    quiet_moment: float = 0.2  #: seconds
    approval: Approval = NOTHING_APPROVED  #: endpoints the user, not a project, has allowed
    trust: Root | None = None  #: where approvals are kept; None lets everything of a project pass


@dataclass(frozen=True, slots=True)
class Engine:
    """Everything one process needs to run agents."""

    stage: Stage
    backends: Workshop


@dataclass(slots=True)
class Workshop:
    """Makes backends and tools by definition, and keeps the mock models it made for whoever scripts them."""

    clock: Clock
    catalogue: Catalogue
    servers: McpPool
    gate: Gate
    mocks: dict[str, MockModel] = field(default_factory=dict)

    def equip(self, definition: AgentDefinition, root: Path, *, has_home: bool, who: str = "") -> Equipment:
        """Blocks: it reads files and imports tools."""
        try:
            self.gate.require(root, powers_of_agent(definition, root, who=who))
            tools = tools_of(definition, root, has_home=has_home)
            learner = self._learner(definition) if has_home else None
            return Equipment(self._backend(definition), tools, learner, self._more_tools(definition, root))
        except AgentWorkerError as error:
            return Equipment(Unfit(error))  # the others work; who writes to this one is told

    def _backend(self, definition: AgentDefinition) -> Backend:
        match definition.backend:
            case "mock":
                model = MockModel(self.clock, definition.script)
                self.mocks[definition.name] = model
                return ToolLoop(model)
            case "sdk":
                return ToolLoop(ModelApi(self.catalogue, self._endpoint(definition)))
            case other:
                raise BadInput(f"{definition.name}: backend {other} is not built in yet", hint="use sdk or mock")

    def _more_tools(self, definition: AgentDefinition, root: Path) -> MoreTools | None:
        servers = servers_of(definition, root)
        return partial(self.servers.tools, servers) if servers else None

    def _learner(self, definition: AgentDefinition) -> Model | None:
        wanted = definition.auto_memory
        return ModelApi(self.catalogue, self._endpoint(definition)) if wanted and wanted.model else None

    def _endpoint(self, definition: AgentDefinition) -> Endpoint:
        provider = definition.provider
        if provider is None:
            return Endpoint()
        url = provider.base_url or ""
        # The gate has let it pass, so the user has seen this address, and which key goes there.
        allowed = (
            Approval(local=True, hosts=frozenset({host_of(url)} if url else ())) if not self.gate.is_open else None
        )
        return Endpoint(provider.name, url, provider.api_key or "", allowed)


def _close_libraries(registry: Registry) -> None:
    for library in {id(worker.library): worker.library for worker in registry.workers()}.values():
        library.close()


@asynccontextmanager
async def open_engine(settings: Settings | None = None, *, clock: Clock | None = None) -> AsyncIterator[Engine]:
    settings, clock, bus = settings or Settings(), clock or SystemClock(), Bus()
    redact = Redactor(secrets_in(os.environ))
    database = await SqliteDatabase.open(settings.database, bus, redact=redact)
    gate = Gate(settings.trust, clock)
    workshop = Workshop(clock, Catalogue(os.environ, approval=settings.approval), McpPool(clock), gate)
    registry, mirror = Registry(), Mirror(database, bus)
    slots = Slots(runs=settings.runs_at_once, programs=settings.programs_at_once)
    supervisor = Supervisor(Floor(Pen(database, bus, clock, redact), registry, Limiter(clock), slots))
    roster = Roster(database, clock, registry, mirror, workshop.equip)
    roster.ticker = Ticker(database, clock)
    await supervisor.start()
    stage = Stage(database, bus, clock, registry, roster, supervisor, mirror, gate, settings.quiet_moment)
    try:
        yield Engine(stage, workshop)
    finally:
        await roster.ticker.close()
        await supervisor.stop()
        await mirror.close()
        await asyncio.to_thread(_close_libraries, registry)
        await workshop.servers.close()
        await workshop.catalogue.close()
        await database.close()
