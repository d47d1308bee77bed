"""A daemon that serves nobody, for tests of operations: the runtime on a real database, and the service over it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_worker.backends.mock import MockModel
from agent_worker.compose import RuntimeSettings, open_runtime
from agent_worker.core.redaction import Redactor
from agent_worker.database.database import Row
from agent_worker.definitions.settings import Settings
from agent_worker.service.catalogue import OPERATIONS
from agent_worker.service.service import Service
from agent_worker.workflows.runtime import Runtime
from tests import engine, stored
from tests.teams import Mocks, write_project

QUICK = Settings.model_validate({"quiet_moment": "10ms"})


@dataclass
class House:
    root: Path
    runtime: Runtime
    service: Service

    @property
    def mocks(self) -> Mapping[str, MockModel]:
        return Mocks(self.runtime)

    async def do(self, operation: str, **arguments: Any) -> Any:
        wanted = OPERATIONS[operation]
        here = {"project": str(self.root)} if wanted.signature.takes("project") else {}
        return await wanted.call(self.service, here | arguments)

    async def ask(self, agent: str, message: str) -> str:
        return str((await self.do("serve", agent=agent, message=message))["content"])

    async def read(self, view: stored.View, **wanted: object) -> list[Row]:
        """What is stored, of all projects."""
        return await self.runtime.database.read(view, **wanted)

    async def change(self, table: str, **columns: object) -> None:
        """As `stored.change`."""
        await self.runtime.database.write(stored.change, table, **columns)

    async def flaw(self) -> str:
        """What is wrong with the audit."""
        return str((await self.do("audit_show"))["flaw"])

    async def workspace(self, workflow: str) -> Any:
        """A running one."""
        return await self.service.instance(await self.service.project(str(self.root)), workflow)


@asynccontextmanager
async def house(tmp: Path, *agents: str, redact: Redactor | None = None, **settings: Any) -> AsyncIterator[House]:
    root = tmp / "project"
    if not root.exists():
        write_project(root, agents or ["alice"])
    chosen = RuntimeSettings(
        database=engine.state_at(tmp / "state.db"), programs=tmp / "programs", chosen=QUICK, **settings
    )
    async with open_runtime(chosen, redact=redact) as runtime:
        service = Service(runtime)
        await service.project(str(root))
        await service.open_again()
        yield House(root, runtime, service)
        await service.close()


def bytes_in(tmp: Path) -> bytes:
    """Every byte of the database, its log, and the project; of PostgreSQL every row: its pages are its own affair."""
    rows = bytes_of(tmp / "state.db") if engine.is_postgresql() else b""
    return b"".join([rows, *(path.read_bytes() for path in tmp.rglob("*") if path.is_file())])


def bytes_of(database: Path) -> bytes:
    """The same of the database alone, without its log."""
    if engine.is_postgresql():
        return repr(stored.read(database, stored.everything)).encode()
    return database.read_bytes()
