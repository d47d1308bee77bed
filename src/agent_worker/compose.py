"""Settings → a wired engine. The only place that names the concrete classes."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from agent_worker.agents import deletion
from agent_worker.agents.limiter import Limiter
from agent_worker.agents.loader import AgentKit, Held, Loader
from agent_worker.agents.loop import LoopContext, Slots
from agent_worker.agents.recorder import RecorderContext
from agent_worker.agents.registry import MoreTools, Registry
from agent_worker.agents.supervisor import Supervisor
from agent_worker.backends.backend import Backend, Model
from agent_worker.backends.characters import CHARACTERS
from agent_worker.backends.guarded import Guarded
from agent_worker.backends.mock import MockModel
from agent_worker.backends.models.model_api import Catalogue, ModelApi
from agent_worker.backends.models.providers import NOTHING_APPROVED, Approval, Endpoint
from agent_worker.backends.programs.acp import Acp, PlainAcp
from agent_worker.backends.programs.claude import Claude
from agent_worker.backends.programs.codex import Codex
from agent_worker.backends.programs.cursor import Cursor
from agent_worker.backends.programs.gemini import Gemini
from agent_worker.backends.programs.one_shot import OneShot
from agent_worker.backends.programs.opencode import OpenCode
from agent_worker.backends.programs.program import Program, ProgramHost, owner_of
from agent_worker.backends.programs.sessions import forget_sessions
from agent_worker.backends.programs.tool_access import ToolAccess
from agent_worker.backends.tool_loop import ToolLoop
from agent_worker.core.clock import Clock, SystemClock, micros
from agent_worker.core.errors import BadInput, StorageFault
from agent_worker.core.events import Bus
from agent_worker.core.late_imports import soon
from agent_worker.core.outbound import host_of
from agent_worker.core.redaction import Redactor, secrets_in
from agent_worker.database.database import Database
from agent_worker.database.engine_lock import Holder, ProjectLocks, hold_database
from agent_worker.database.sqlite import SqliteDatabase
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.project import ProjectFiles
from agent_worker.definitions.workflow import WorkflowDefinition
from agent_worker.files.root import Root
from agent_worker.files.space import Space
from agent_worker.processes.environment import BASE
from agent_worker.proposals.timer import ProposalTimer
from agent_worker.schedules.schedule import Ticker
from agent_worker.tools.mcp_server import servers_of
from agent_worker.tools.mcp_servers import McpPool
from agent_worker.tools.toolbox import Approved, tools_of
from agent_worker.trust.allowances import allowances_of
from agent_worker.trust.gate import Gate
from agent_worker.trust.powers import powers_of_agent
from agent_worker.workflows.instance import Stage
from agent_worker.workflows.remote import Remotes
from agent_worker.workspaces.log_files import LogFiles


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    database: Path | str = ":memory:"
    runs_at_once: int = 8
    programs_at_once: int = 4
    quiet_moment: float = 0.2  #: seconds
    approval: Approval = NOTHING_APPROVED  #: endpoints the user, not a project, has allowed
    trust: Root | None = None  #: where approvals are kept; None lets everything of a project pass
    programs: Path | None = None  #: where coding programs keep what lasts from run to run
    space: Space = field(default_factory=Space)  #: on the disk; unless somebody looks there is always enough
    reached_by: str = ""  #: the command by which a person reaches this engine; '' when there is none
    chance: Callable[[], float] = random.random  #: from 0 to 1, for what many hosts must not do in the same moment


@dataclass(frozen=True, slots=True)
class Engine:
    """Everything one process needs to run agents."""

    stage: Stage
    backends: BackendFactory


@dataclass(slots=True)
class BackendFactory:
    """Makes backends and tools by definition, and keeps the mock models it made for whoever scripts them."""

    clock: Clock
    catalogue: Catalogue
    servers: McpPool
    gate: Gate
    program_host: ProgramHost
    redact: Redactor = field(default_factory=Redactor)
    mocks: dict[str, MockModel] = field(default_factory=dict)

    def make_kit(
        self,
        definition: AgentDefinition,
        root: Path,
        cwd: Path,
        *,
        has_home: bool,
        who: str = "",
        printed: Collection[str] = (),
    ) -> AgentKit:
        """Blocks: it reads files and imports tools. Raises whatever is wrong with the definition."""
        # What an agent is given by name is a secret, whatever the name. Known before anybody can say it.
        self.redact.register(secrets_in(os.environ, named=set(definition.env) - set(printed) - BASE))
        powers = powers_of_agent(definition, root, who=who)
        self.gate.require(root, powers)
        again = partial(self._require_again, definition, root, who)
        sources = {power.name: power.content for power in powers if power.kind == "python"}
        approved = Approved(sources, partial(again, "skills"))
        tools = tools_of(definition, root, has_home=has_home, approved=approved)
        learner = self._learner(definition) if has_home else None
        backend = self._guarded(definition, root, cwd, who or definition.name, partial(again, "program", "settings"))
        return AgentKit(backend, tools, learner, self._more_tools(definition, root, partial(again, "mcp")))

    def held_back(self, project: ProjectFiles, workflow: WorkflowDefinition | None) -> Held:
        """Limits above their default wait for the user."""
        allowances = tuple(allowances_of(project, workflow))
        self.gate.settle(project.root, allowances)
        return self.gate.held_back(project.root, allowances)

    def _require_again(self, definition: AgentDefinition, root: Path, who: str, *kinds: str) -> None:
        """What was approved may have been changed since, by an agent too."""
        if not self.gate.is_open:
            powers = powers_of_agent(definition, root, who=who)
            self.gate.require(root, [power for power in powers if power.kind in kinds])

    def _guarded(
        self, definition: AgentDefinition, root: Path, cwd: Path, who: str, check: Callable[[], None]
    ) -> Backend:
        """Nothing to guard: who runs no program, and changes no file or only those of a copy of its own."""
        backend = self._backend(definition, root, cwd, who)
        writes = definition.writes and cwd == root / definition.cwd
        if self.gate.is_open or not (writes or definition.is_program):
            return backend
        worked = partial(self.gate.worked, root, who) if writes else lambda: None
        return Guarded(backend, check if definition.is_program else lambda: None, worked)

    def _backend(self, definition: AgentDefinition, root: Path, cwd: Path, who: str) -> Backend:
        match definition.backend:
            case "mock" if definition.character:
                return ToolLoop(CHARACTERS[definition.character]())
            case "mock":
                model = MockModel(self.clock, definition.script)
                self.mocks[definition.name] = model
                return ToolLoop(model)
            case "sdk":
                api = ModelApi(self.catalogue, self._endpoint(definition))
                api.expect(definition.model or "")
                return ToolLoop(api)
            case "claude":
                return OneShot(Claude(), self._program(definition, root, cwd, who))
            case "codex":
                return OneShot(Codex(), self._program(definition, root, cwd, who))
            case "opencode":
                return OneShot(Acp(OpenCode()), self._program(definition, root, cwd, who))
            case "gemini":
                return OneShot(Acp(Gemini()), self._program(definition, root, cwd, who))
            case "acp":
                return OneShot(Acp(PlainAcp()), self._program(definition, root, cwd, who))
            case "cursor":
                return OneShot(Cursor(), self._program(definition, root, cwd, who))
            case other:
                raise BadInput(f"{definition.name}: backend {other} is not built in yet", hint="use sdk or mock")

    def _program(self, definition: AgentDefinition, root: Path, cwd: Path, who: str) -> Program:
        return Program(
            backend=definition.backend,
            owner=owner_of(definition.name, root, who),
            root=root,
            cwd=cwd,
            program_host=self.program_host,
            model=definition.model or "",
            command=definition.command or (),
            access=definition.access,
            silence=definition.timeout,
            # Our default is for models that we drive step by step; programs pace themselves.
            max_turns=definition.max_steps if "max_steps" in definition.model_fields_set else None,
            variables=definition.env,
            endpoint=self._endpoint(definition),
        )

    def testbench(self, backend: str, model: str, place: Path) -> Backend:
        """A backend of nobody's, to be tried out: the person asked for it, so it needs no approval."""
        definition = AgentDefinition.model_validate(
            {"name": "probe", "backend": backend, "model": model or None, "prompt": {"system": "."}, "access": "read"}
        )
        return self._backend(definition, place, place, "probe")

    def _more_tools(self, definition: AgentDefinition, root: Path, check: Callable[[], None]) -> MoreTools | None:
        servers = servers_of(definition, root, check)
        if servers:
            soon("agent_worker.tools.mcp_client")
        return partial(self.servers.tools, servers) if servers else None

    def _learner(self, definition: AgentDefinition) -> Model | None:
        wanted = definition.auto_memory
        return ModelApi(self.catalogue, self._endpoint(definition)) if wanted and wanted.model else None

    def _endpoint(self, definition: AgentDefinition) -> Endpoint:
        provider = definition.provider
        if provider is None:
            return Endpoint()
        url = provider.base_url or ""
        self.redact.register(secrets_in(os.environ, named=[(provider.api_key or "").strip("${}")]))
        # The gate has let it pass, so the user has seen this address, and which key goes there.
        allowed = (
            Approval(local=True, hosts=frozenset({host_of(url)} if url else ())) if not self.gate.is_open else None
        )
        return Endpoint(provider.name, url, provider.api_key or "", allowed)


def _close_libraries(registry: Registry) -> None:
    for library in {id(worker.library): worker.library for worker in registry.workers()}.values():
        library.close()


async def _end_quick(database: Database, clock: Clock, programs: Path | None) -> None:
    """Agents without a file, and what programs kept for them, end with the process that knew them."""
    with suppress(StorageFault):  # then the next start does it
        gone = await database.write(deletion.erase_quick, now=micros(clock.now()))
        if gone:
            await database.shed()
        for me in gone:
            owner = owner_of(me["name"], Path(me["root"]), me["name"])
            await asyncio.to_thread(forget_sessions, programs, owner)


@asynccontextmanager
async def open_engine(
    settings: RuntimeSettings | None = None,
    *,
    clock: Clock | None = None,
    tool_access: ToolAccess | None = None,
    redact: Redactor | None = None,
) -> AsyncIterator[Engine]:
    """`door` is how coding programs reach our tools: without one there are none. `redact` knows more secrets.

    However it is left, also by a cancellation and by another one while it closes, everything it began is ended first.
    """
    closing = AsyncExitStack()
    try:
        engine = await _wired(
            settings or RuntimeSettings(), clock or SystemClock(), tool_access, redact or Redactor(), closing
        )
        try:
            yield engine
        except BaseException:  # whoever leaves like this does not wait for steps: they are done again later
            engine.stage.supervisor.grace = 0.0
            raise
    finally:
        await _to_the_end(closing.aclose())


async def _wired(
    settings: RuntimeSettings, clock: Clock, tool_access: ToolAccess | None, redact: Redactor, closing: AsyncExitStack
) -> Engine:
    """What was opened last is closed first."""
    bus = Bus()
    redact.register(secrets_in(os.environ))
    me = Holder(reach=settings.reached_by, database=f"sqlite:{settings.database}")
    locks = ProjectLocks(me)
    closing.callback(locks.close)
    if settings.database != ":memory:":  # not in a thread: one that is cancelled would keep the lock
        closing.callback(os.close, hold_database(Path(settings.database), me))
    database = await SqliteDatabase.open(settings.database, bus, redact=redact)
    closing.push_async_callback(database.close)
    gate = Gate(settings.trust, clock)
    program_host = ProgramHost(tool_access, settings.programs, os.environ, settings.approval)
    factory = BackendFactory(
        clock, Catalogue(os.environ, approval=settings.approval), McpPool(clock), gate, program_host, redact
    )
    closing.push_async_callback(factory.catalogue.close)
    closing.push_async_callback(factory.servers.close)
    registry, log_files = Registry(), LogFiles(database, bus)
    closing.push_async_callback(asyncio.to_thread, _close_libraries, registry)
    closing.push_async_callback(log_files.close)
    slots = Slots(runs=settings.runs_at_once, programs=settings.programs_at_once)
    recording = RecorderContext(database, bus, clock, redact)
    supervisor = Supervisor(
        LoopContext(recording, registry, Limiter(clock, settings.chance), slots, space=settings.space)
    )
    closing.push_async_callback(_end_quick, database, clock, settings.programs)
    closing.push_async_callback(supervisor.stop)
    loader = Loader(database, clock, registry, log_files, factory, locks)
    loader.ticker = Ticker(database, clock)
    closing.push_async_callback(loader.ticker.close)
    await supervisor.start()
    await _end_quick(database, clock, settings.programs)
    proposal_timer = ProposalTimer(database, clock, bus)
    closing.push_async_callback(proposal_timer.close)
    remotes = Remotes(settings.trust.beneath("remote")) if settings.trust else None
    stage = Stage(database, bus, clock, registry, loader, supervisor, log_files, gate, settings.quiet_moment)
    stage = replace(stage, remotes=remotes, testbench=factory.testbench, programs=settings.programs)
    stage = replace(stage, home=settings.trust, space=settings.space)
    closing.callback(bus.close)
    return Engine(stage, factory)


async def _to_the_end(work: Coroutine[None, None, None]) -> None:
    """However often we are cancelled meanwhile. The cancellation is obeyed afterwards."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None and not task.cancelled():
        raise cancelled
    task.result()
