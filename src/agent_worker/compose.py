"""Settings → a wired runtime. The only place that names the concrete classes."""

from __future__ import annotations

import asyncio
import importlib
import os
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

from agent_worker.agents import deletion
from agent_worker.agents.backend_factory import BackendFactory
from agent_worker.agents.host_signals import HostSignals
from agent_worker.agents.hosting import Hosting, lasting_id, this_host
from agent_worker.agents.limiter import Limiter
from agent_worker.agents.loader import Loader
from agent_worker.agents.loop_context import LoopContext
from agent_worker.agents.personal_files import INDEXES, PersonalFiles
from agent_worker.agents.prompt_texts import PromptTexts
from agent_worker.agents.publishing import PublicMemory
from agent_worker.agents.recorder import RecorderContext
from agent_worker.agents.registry import Registry
from agent_worker.agents.slots import Slots
from agent_worker.agents.supervisor import Supervisor
from agent_worker.agents.terms import shared_key
from agent_worker.agents.waiting import WaitingAgent, Waits
from agent_worker.backends.models.keys import KeyRing
from agent_worker.backends.models.model_api import Catalogue
from agent_worker.backends.models.prices import PriceList
from agent_worker.backends.models.providers import NOTHING_APPROVED, Approval
from agent_worker.backends.programs.program import ProgramHost, ToolAccess, owner_of
from agent_worker.backends.programs.sessions import forget_sessions
from agent_worker.core.clock import Clock, SharedClock, SystemClock
from agent_worker.core.disk_space import Space
from agent_worker.core.errors import BadInput, StorageFault
from agent_worker.core.events import Bus, WorkspaceChanged
from agent_worker.core.ids import new_id
from agent_worker.core.late_imports import taking_turns
from agent_worker.core.later import dataclass
from agent_worker.core.redaction import Redactor, secrets_in
from agent_worker.database.database import Database
from agent_worker.database.runtime_lock import ProjectLocks, RuntimeHolder, hold_database
from agent_worker.database.sqlite import SqliteDatabase
from agent_worker.definitions.settings import Settings
from agent_worker.files.root import Root
from agent_worker.memory.own_files import RunJournal
from agent_worker.memory.workspace_library import WorkspaceLibraries
from agent_worker.proposals.timer import ProposalTimer
from agent_worker.schedules.schedule import Ticker
from agent_worker.tools.mcp_pool import McpPool
from agent_worker.tools.program_functions import GONE_FOR, ProgramFunctions
from agent_worker.tools.tool import RunIdentity
from agent_worker.trust.gate import Gate
from agent_worker.trust.shared_approvals import SharedApprovals
from agent_worker.workflows.remote import Remotes
from agent_worker.workflows.runtime import Runtime
from agent_worker.workspaces import workspace_rows
from agent_worker.workspaces.document_copies import DocumentCopies
from agent_worker.workspaces.log_files import LogFiles


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    database: Path | str = ":memory:"  #: a file of SQLite, or the URL of a PostgreSQL
    chosen: Settings = field(default_factory=Settings)  #: by the user
    approval: Approval = NOTHING_APPROVED  #: endpoints the user, not a project, has allowed
    prices: Root | None = None  #: where prices of models are kept; None: beside the approvals, if there are any
    trust: Root | None = None  #: where approvals are kept; None lets everything of a project pass
    gate: Gate | None = None  #: stands there instead of one that goes by `trust`
    keys: Root | None = None  #: where the person's stored keys are; None: beside the approvals, if there are any
    programs: Path | None = None  #: where coding programs keep what lasts from run to run
    space: Space = field(default_factory=Space)  #: on the disk; unless somebody looks there is always enough
    labels: frozenset[str] = frozenset()  #: what this machine has that an agent may require, as the user says
    reached_by: str = ""  #: the command by which a person reaches this runtime; '' when there is none
    chance: Callable[[], float] = random.random  #: from 0 to 1, for what many hosts must not do in the same moment


def _close_libraries(registry: Registry) -> None:
    for library in {id(worker.library): worker.library for worker in registry.workers()}.values():
        library.close()
    registry.libraries.close()


def _drop_index(libraries: WorkspaceLibraries, change: WorkspaceChanged) -> None:
    if change.state == "archived" and change.workspace:
        libraries.drop(change.workspace)


def _is_allowed(gate: Gate, registry: Registry, project: str, digest: str) -> bool:
    """Whether the user allowed just this tool call for good."""
    root = registry.root(project)
    return root is not None and digest in gate.allowed_calls(root)


def _tell_wait(waits: Waits, identity: RunIdentity, reason: str) -> None:
    """Show that a run waits for the program that has its functions, or waits no longer."""
    if reason:
        who = WaitingAgent(identity.project, identity.agent, identity.name, identity.workspace)
        waits.begin(who, "program", reason, seconds=GONE_FOR)
    else:
        waits.end(identity.agent)


async def _end_quick(database: Database, host: str, clock: Clock, programs: Path | None) -> None:
    """Erase agents without a file, and what programs kept for them: they end with the process that knew them."""
    with suppress(StorageFault):  # then the next start does it
        gone = await database.write(deletion.erase_quick, host, now=clock.micros())
        if gone:
            await database.shed()
        for me in gone:
            owner = owner_of(me["name"], Path(me["root"]), me["name"])
            await asyncio.to_thread(forget_sessions, programs, owner)


@asynccontextmanager
async def open_runtime(
    settings: RuntimeSettings | None = None,
    *,
    clock: Clock | None = None,
    tool_access: ToolAccess | None = None,
    redact: Redactor | None = None,
) -> AsyncIterator[Runtime]:
    """Open a runtime. `tool_access` is how coding programs reach our tools: without one they have none. `redact` knows
    further secrets.

    However it is left, even by a cancellation and by another one while it closes, everything it began is ended first.
    """
    closing = AsyncExitStack()
    try:
        runtime = await _wired(
            settings or RuntimeSettings(), clock or SystemClock(), tool_access, redact or Redactor(), closing
        )
        try:
            yield runtime
        except BaseException:  # whoever leaves like this does not wait for steps: they are done again later
            runtime.supervisor.grace = 0.0
            raise
    finally:
        await _to_the_end(closing.aclose())


async def _wired(
    settings: RuntimeSettings, clock: Clock, tool_access: ToolAccess | None, redact: Redactor, closing: AsyncExitStack
) -> Runtime:
    """Open and connect everything one process needs. What was opened last is closed first."""
    bus = Bus()
    own, clock = clock, SharedClock(clock) if _is_shared(settings) else clock
    redact.register(secrets_in(os.environ))
    database, locks = await _open_database(settings, bus, redact, closing)
    approvals = SharedApprovals(database) if _is_shared(settings) and settings.trust else None
    gate = settings.gate or Gate(settings.trust, clock, shared=approvals)
    factory = _factory(settings, clock, gate, tool_access, redact, closing)
    libraries = WorkspaceLibraries(settings.trust, settings.chosen.semantic.model)
    await asyncio.to_thread(libraries.sweep, await database.read(workspace_rows.kept_ids))
    closing.callback(bus.listen(partial(_drop_index, libraries), WorkspaceChanged))
    registry = Registry(settings.chosen, libraries, _journal(settings), _indexes(settings))
    log_files = LogFiles(database, bus, shared=_is_shared(settings))
    closing.push_async_callback(asyncio.to_thread, _close_libraries, registry)
    closing.push_async_callback(log_files.close)
    kept = timedelta(seconds=settings.chosen.keep_prompts)
    allowed = partial(_is_allowed, factory.gate, registry)
    limiter, waits = Limiter(clock, settings.chance), Waits(bus, clock, redact)
    limiter.key_of = partial(shared_key, environment=factory.keys.of)
    recording = RecorderContext(database, bus, clock, redact, PromptTexts(kept), allowed)
    hosting, signals = _hosting(settings, database, clock, own, limiter, waits, bus)
    personal, documents = None, None
    if hosting and signals:
        closing.push_async_callback(hosting.close)
        closing.push_async_callback(signals.close)
        if approvals:
            approvals.host = hosting.me.id
        documents = DocumentCopies(database, bus, clock, settings.trust)
        personal = PersonalFiles(database, bus, clock, registry, log_files, host=hosting.me.id, home=settings.trust)
        closing.push_async_callback(_close_copies, personal, documents)
        recording = replace(recording, kept=personal.keep, tell_written=signals.tell)
    look = documents.look if documents else None
    public = PublicMemory(database, clock, look)
    shared = LoopContext(recording, registry, limiter, _slots(settings), waits, public, log_files, settings.space)
    supervisor = Supervisor(replace(shared, hosting=hosting, personal=personal, copies=look))
    factory.functions.tell = partial(_tell_wait, supervisor.waits)
    closing.push_async_callback(_end_quick, database, supervisor.owner, clock, settings.programs)
    closing.push_async_callback(supervisor.stop)
    loader = Loader(database, clock, registry, log_files, factory, locks, host=hosting.me.id if hosting else "")
    await supervisor.start()
    await _end_quick(database, supervisor.owner, clock, settings.programs)
    loader.ticker = Ticker(database, clock)  # after the start: until then a host goes by its own clock
    closing.push_async_callback(loader.ticker.close)
    proposal_timer = ProposalTimer(database, clock, bus)
    closing.push_async_callback(proposal_timer.close)
    remotes = Remotes(settings.trust.beneath("remote")) if settings.trust else None
    runtime = Runtime(database, bus, clock, registry, loader, supervisor, log_files, factory.gate, factory, public)
    runtime = replace(runtime, remotes=remotes, programs=settings.programs, personal=personal, documents=documents)
    runtime = replace(runtime, signals=signals, home=settings.trust, space=settings.space, prompts_kept=kept)
    closing.callback(bus.close)
    return runtime


def _indexes(settings: RuntimeSettings) -> Root | None:
    """The folder for agents' indexes where several hosts may see the agents' folders; None: the index is in those."""
    return settings.trust.beneath(INDEXES) if settings.trust and _is_shared(settings) else None


async def _close_copies(personal: PersonalFiles, documents: DocumentCopies) -> None:
    await personal.close()
    await documents.close()


def _journal(settings: RuntimeSettings) -> RunJournal:
    """The journal of runs that change agents' files: in the daemon's home, or beside the database, where programs do
    not write.
    """
    where = str(settings.database)
    beside = None if "://" in where or where == ":memory:" else Root(Path(where).parent)
    home = settings.trust or beside
    return RunJournal(home.beneath("programs-at-work") if home else None)


def _factory(
    settings: RuntimeSettings,
    clock: Clock,
    gate: Gate,
    tool_access: ToolAccess | None,
    redact: Redactor,
    closing: AsyncExitStack,
) -> BackendFactory:
    """What makes backends and tools, and what all of them share: keys, prices, connections."""
    factory = BackendFactory(
        clock,
        Catalogue(os.environ, approval=settings.approval, prices=PriceList(settings.prices or settings.trust)),
        McpPool(clock),
        gate,
        ProgramHost(tool_access, settings.programs, os.environ, settings.approval),
        KeyRing(os.environ, redact, settings.trust or settings.keys, gate, attended=settings.trust is not None),
        ProgramFunctions(clock),
        redact,
    )
    closing.push_async_callback(factory.catalogue.close)
    closing.push_async_callback(factory.servers.close)
    return factory


def _slots(settings: RuntimeSettings) -> Slots:
    return Slots(runs=settings.chosen.runs_at_once, programs=settings.chosen.programs_at_once)


def _is_shared(settings: RuntimeSettings) -> bool:
    """Whether other hosts may have the same database, and so the same projects: not with SQLite."""
    return "://" in str(settings.database)


def _hosting(
    settings: RuntimeSettings,
    database: Database,
    clock: Clock,
    own: Clock,
    limiter: Limiter,
    waits: Waits,
    bus: Bus,
) -> tuple[Hosting, HostSignals] | tuple[None, None]:
    """Our place among the hosts that share a PostgreSQL; None with SQLite, which nobody shares."""
    if not isinstance(clock, SharedClock):
        return None, None
    postgres = importlib.import_module("agent_worker.database.postgres")  # opened already
    from agent_worker.database.postgres_lease import HostLease
    from agent_worker.database.postgres_signals import PostgresSignals

    assert isinstance(database, postgres.PostgresDatabase)
    url, now = str(settings.database), own if isinstance(own, SystemClock) else SystemClock()
    me = this_host(settings.trust.location() if settings.trust else None, settings.labels)
    lease = HostLease(url, me.id, hint=database.hint, now=now.micros)
    signals = HostSignals(me.id, PostgresSignals(url, database.redact), bus, limiter, waits)
    lease.signalled, lease.overheard = signals.hear, signals.overhear
    return Hosting(me, database, lease, clock), signals


async def _open_database(
    settings: RuntimeSettings, bus: Bus, redact: Redactor, closing: AsyncExitStack
) -> tuple[Database, ProjectLocks]:
    where = str(settings.database)
    if _is_shared(settings):
        here = await asyncio.to_thread(lasting_id, settings.trust) or new_id("n")
        database: Database = await _open_postgres(where, bus, redact, here)
        me = RuntimeHolder(reach=settings.reached_by, database=database.place, shares=True)
    else:
        me = RuntimeHolder(reach=settings.reached_by, database=f"sqlite:{where}")
        if where != ":memory:":  # not in a thread: one that is cancelled would keep the lock
            closing.callback(os.close, hold_database(Path(where), me))
        database = await SqliteDatabase.open(settings.database, bus, redact=redact)
    closing.push_async_callback(database.close)
    locks = ProjectLocks(me)
    closing.callback(locks.close)
    return database, locks


async def _open_postgres(url: str, bus: Bus, redact: Redactor, here: str) -> Database:
    await asyncio.to_thread(_load_postgres)
    from agent_worker.database.postgres import PostgresDatabase
    from agent_worker.database.postgres_session import password_in

    redact.register([password_in(url)])
    return await PostgresDatabase.open(url, bus, redact=redact, here=here)


def _load_postgres() -> None:
    """Import the PostgreSQL part, whose library is an extra and is not loaded where no URL names a server."""
    try:
        with taking_turns:
            importlib.import_module("agent_worker.database.postgres")
    except ImportError:
        told = "PostgreSQL needs a library that is not installed here"
        raise BadInput(told, hint="uv tool install '.[postgres]', or pip install '.[postgres]'") from None


async def _to_the_end(work: Coroutine[None, None, None]) -> None:
    """Await this to its end, however often we are cancelled meanwhile. The cancellation is obeyed afterwards."""
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
