"""The process that gets killed: a runtime on a database file, told what to do line by line.

    python -m tests.faults.worker                  one life, orders on stdin, reports on stdout
    python -m tests.faults.worker --nursery FD     forks a new life for each descriptor it is sent

The nursery has imported everything before it forks and opens nothing itself, so a life begins in milliseconds
and is still a process of its own. The first line of a life is its `Order`; what follows is one request per line.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import select
import signal
import socket
import sys
import traceback
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from agent_worker.agents import commands
from agent_worker.backends.tool_loop import ToolLoop
from agent_worker.compose import RuntimeSettings, open_runtime
from agent_worker.core import failpoints
from agent_worker.core.clock import SystemClock
from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.events import Event
from agent_worker.database.database import WholeTransaction
from agent_worker.database.migrations import migrate, versions
from agent_worker.database.sqlite import connect
from agent_worker.definitions.project_files import load_project
from agent_worker.definitions.settings import Settings
from agent_worker.files.root import Root
from agent_worker.service.messages import deliver
from agent_worker.trust.gate import Gate
from agent_worker.work import inbox
from agent_worker.workflows import start as workflows
from agent_worker.workflows.runtime import Runtime
from tests import engine, stored
from tests.faults.puppet import Puppet, outside, outside_again
from tests.teams import equipped

QUICK = Settings.model_validate({"quiet_moment": "10ms"})


@dataclass(frozen=True, slots=True)
class Order:
    """What a life begins with."""

    home: str
    members: tuple[str, ...]
    failpoints: str = ""
    gate_open: bool = True
    kill_at_statement: int = 0  #: not a runtime but a migration, killed when it comes to this statement

    def dump(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


@dataclass
class Life:
    order: Order
    out: int
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    asked: set[asyncio.Task[None]] = field(default_factory=set)

    def report(self, **what: object) -> None:
        line = json.dumps(what).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError):  # nobody listens any more: the end is near
            while line:
                select.select([], [self.out], [])  # the event loop has made the wire one that does not wait
                line = line[os.write(self.out, line) :]

    async def live(self, requests: asyncio.StreamReader) -> None:
        home = Path(self.order.home)
        if self.order.gate_open:
            self.gate.set()
        async with open_runtime(settings_of(home)) as runtime:
            runtime.bus.listen(self._hear)
            loaded = await runtime.loader.load(load_project(home / "project"))
            self._animate(runtime, home)
            await runtime.supervisor.wake_all()
            wanted = workflows.Start(loaded.project.workflows["review"])
            workspace = await workflows.start(runtime, loaded, wanted)
            self.report(ready=workspace.id)
            while line := await requests.readline():
                match json.loads(line):
                    case {"send": {"key": key, "to": to, "text": text}}:
                        self._spawn(self._send(deliver(runtime, loaded, to, text, key=key), key))
                    case {"quiet": _}:
                        self._spawn(self._quiet(runtime))
                    case {"open": _}:
                        self.gate.set()
                    case {"inbox": _}:
                        items = await workspace.database.read(inbox.open_items)
                        self.report(inbox=[[i["kind"], i["text"]] for i in items])
                    case {"keys": _}:
                        known = await runtime.database.read(_keys)
                        self.report(keys=known)
                    case {"backup": path}:
                        self._spawn(self._back_up(runtime, path))
                    case {"retry": id}:
                        now = runtime.clock.micros()
                        self.report(retried=await workspace.database.write(commands.continue_work, id, now=now))
                    case {"end": _}:
                        self.report(summary=(await workspace.stop()).outcome)
                    case {"stop": _}:
                        # Whoever is held comes to the end of its step, as a real model would.
                        asyncio.get_running_loop().call_later(0.05, self.gate.set)
                        break

    def _animate(self, runtime: Runtime, home: Path) -> None:
        registry = runtime.registry
        for worker in registry.workers():
            model = Puppet(worker.name, self.order.members, journal=home / "asked.log", gate=self.gate)
            own = worker.kit.get().tools
            tools = (*own, replace(outside, personal=True), replace(outside_again, personal=True))
            registry.add(replace(equipped(worker, backend=ToolLoop(model), tools=tools), cwd=home))

    def _hear(self, event: Event) -> None:
        self.report(event=event.event)

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.create_task(coroutine)
        self.asked.add(task)
        task.add_done_callback(self.asked.discard)

    async def _send(self, sending: Any, key: str) -> None:
        try:
            receipt = await sending
        except AgentWorkerError as error:
            self.report(refused=key, code=error.code, why=error.message)
        else:
            self.report(accepted=key, id=receipt.id)

    async def _back_up(self, runtime: Runtime, path: str) -> None:
        await runtime.database.back_up(Path(path), {"trust.json": b"{}"})
        self.report(backed_up=path)

    async def _quiet(self, runtime: Runtime) -> None:
        """Nothing left to do, in rooms and in personal conversations."""
        stirred = asyncio.Event()
        unlisten = runtime.bus.listen(lambda _: stirred.set())
        try:
            while True:
                stirred.clear()
                if not await runtime.database.read(_is_open):
                    break
                await stirred.wait()
            await runtime.log_files.flush()
        finally:
            unlisten()
        self.report(quiet=True)


def settings_of(home: Path) -> RuntimeSettings:
    settings = RuntimeSettings(database=engine.state_at(home / "state.db"), chosen=QUICK)
    if not engine.is_postgresql():
        return settings
    # A host is known by its home: whoever begins again there need not wait until the lease of the killed one is over.
    return replace(settings, trust=Root.private(home), gate=Gate(None, SystemClock()))


def _keys(tx: WholeTransaction) -> list[str]:
    return [row["key"] for row in stored.accepted(tx) if not row["key"].startswith("kickoff/")]


def _is_open(tx: WholeTransaction) -> bool:
    paused = [row["id"] for row in stored.workspaces(tx) if row["paused"]]
    open_work = [*stored.unfinished(tx), *stored.instructions(tx, state="waiting")]
    return any(row["workspace"] not in paused for row in open_work)


async def _lead(reader: int, out: int) -> None:
    requests = asyncio.StreamReader(limit=2**20)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(requests), os.fdopen(reader, "rb", buffering=0))
    given = json.loads(await requests.readline())
    order = Order(**{**given, "members": tuple(given["members"])})
    if order.failpoints:
        os.environ[failpoints.VARIABLE] = order.failpoints
        importlib.reload(failpoints)  # it reads the variable when a process starts, and this one was forked
    life = Life(order, out)
    life.report(born=os.getpid())
    try:
        if order.kill_at_statement:
            migrate_until_killed(Path(order.home) / "state.db", order.kill_at_statement)
        else:
            await life.live(requests)
        life.report(bye=True)
    except Exception:
        life.report(crashed=traceback.format_exc())


#: two upgrades that nobody has shipped: a new table filled from an old one, and a column
UPGRADES = (
    """create table shelf (id text primary key, name text not null);
       insert into shelf(id, name) select id, name from project;
       create index shelf_name on shelf(name)""",
    """alter table shelf add column colour text not null default 'red';
       update shelf set colour = 'blue'""",
)


def upgraded() -> list[tuple[int, str]]:
    known = versions()
    return [*known, *((known[-1][0] + n, sql) for n, sql in enumerate(UPGRADES, 1))]


def migrate_until_killed(path: Path, at: int) -> None:
    connection = connect(str(path), write=True)
    count = 0

    def trace(*_: object) -> bool:
        nonlocal count
        count += 1
        if count == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    connection.exec_trace = trace
    migrate(connection, path, upgraded())


def nursery(tool_access: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies; whoever holds the other end sees it close
    while True:
        request, descriptors, _, _ = socket.recv_fds(tool_access, 16, 1)
        if not request:
            return
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            tool_access.close()
            try:
                asyncio.run(_lead(descriptors[0], os.dup(descriptors[0])))
            finally:
                os._exit(0)
        os.close(descriptors[0])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--nursery"]:
        nursery(socket.socket(fileno=int(sys.argv[2])))
    else:
        asyncio.run(_lead(0, 1))
