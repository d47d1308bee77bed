"""A daemon without its doors, for tests of operations: the engine on a real database, and the office over it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_worker.backends.mock import MockModel
from agent_worker.compose import Engine, Settings, open_engine
from agent_worker.redaction import Redactor
from agent_worker.service.catalogue import OPERATIONS
from agent_worker.service.office import Office
from agent_worker.storage.database import Row
from tests.teams import write_project


@dataclass
class House:
    root: Path
    engine: Engine
    office: Office

    @property
    def mocks(self) -> dict[str, MockModel]:
        return self.engine.backends.mocks

    async def do(self, operation: str, **arguments: Any) -> Any:
        wanted = OPERATIONS[operation]
        here = {"project": str(self.root)} if "project" in wanted.arguments.model_fields else {}
        return await wanted.call(self.office, here | arguments)

    async def ask(self, agent: str, message: str) -> str:
        return str((await self.do("serve", agent=agent, message=message))["content"])

    async def rows(self, sql: str) -> list[Row]:
        return await self.engine.stage.database.read(lambda tx: tx.all(sql))

    async def room(self, workflow: str) -> Any:
        """A running one."""
        return await self.office.instance(await self.office.project(str(self.root)), workflow)


@asynccontextmanager
async def house(tmp: Path, *agents: str, redact: Redactor | None = None, **settings: Any) -> AsyncIterator[House]:
    root = tmp / "project"
    if not root.exists():
        write_project(root, agents or ["alice"])
    chosen = Settings(database=tmp / "state.db", programs=tmp / "programs", quiet_moment=0.02, **settings)
    async with open_engine(chosen, redact=redact) as engine:
        office = Office(engine.stage)
        await office.project(str(root))
        await office.open_again()
        yield House(root, engine, office)
        await office.close()


def stored(tmp: Path) -> bytes:
    """Every byte of the database, its log, and the project."""
    return b"".join(path.read_bytes() for path in tmp.rglob("*") if path.is_file())
