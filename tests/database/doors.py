"""Both engines behind one door, for tests that hold for either."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.postgresql import Cluster

from agent_worker.core.events import Bus
from agent_worker.database.database import Database
from agent_worker.database.postgres import PostgresDatabase
from agent_worker.database.postgres_faults import PATIENCE
from agent_worker.database.sqlite import SqliteDatabase
from agent_worker.work import project_rows
from agent_worker.work.project_rows import Checkout


@dataclass
class Door:
    """A way to one database. With PostgreSQL it may be opened several times at once, as by several hosts."""

    where: Path | str
    opened: list[Database] = field(default_factory=list)

    async def open(
        self, bus: Bus | None = None, redact: Callable[[str], str] = str, *, patience: float = PATIENCE
    ) -> Database:
        """`patience`: how long a server that is away is waited for."""
        bus = bus or Bus()
        if isinstance(self.where, Path):
            database: Database = await SqliteDatabase.open(self.where, bus, redact=redact)
        else:
            database = await PostgresDatabase.open(self.where, bus, redact=redact, patience=patience)
        self.opened.append(database)
        return database

    async def open_rival(self) -> Database:
        """Another host's view of it; SQLite has one host only, whose writers come one after another."""
        return self.opened[0] if isinstance(self.where, Path) else await self.open()

    async def close(self) -> None:
        for database in self.opened:
            await database.close()


def door_to(engine: str, folder: Path, cluster: Callable[[], Cluster]) -> Door:
    return Door(folder / "state.db" if engine == "sqlite" else cluster().new_database())


async def new_project(database: Database, name: str = "one") -> str:
    return await database.write(project_rows.enrol, Checkout(f"/{name}", name))
