"""The one door to stored state: synchronous transaction functions, run elsewhere than the event loop.

A transaction function takes a `Transaction` first and does its work in SQL that SQLite and PostgreSQL both
understand. It may run again after a conflict, so it touches nothing else. What it `tell`s is published after
its commit, even if whoever asked for the write has gone away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from agent_worker.core.events import Event

Row = dict[str, Any]
P = ParamSpec("P")
T = TypeVar("T")
Soon = Callable[[], T]  #: an answer that may still be on its way; who calls it waits for it


class Statements(Protocol):
    """SQL in a transaction. Parameters are named, `:like_this`."""

    def run(self, sql: str, **values: object) -> None:
        """Run a statement before whatever comes next. If it fails, that is raised by then, or by the commit."""
        ...

    def changed(self, sql: str, **values: object) -> int:
        """Run a statement; how many rows it changed. Use `run` where that does not matter: nobody waits for it."""
        ...

    def one(self, sql: str, **values: object) -> Row | None: ...

    def all(self, sql: str, **values: object) -> list[Row]: ...

    def one_soon(self, sql: str, **values: object) -> Soon[Row | None]:
        """Ask without waiting: with PostgreSQL it travels with what is waited for next. Questions that do not depend on
        each other are so asked first and answered afterwards, all of them in one trip."""
        ...

    def all_soon(self, sql: str, **values: object) -> Soon[list[Row]]:
        """As `one_soon`."""
        ...

    def redact(self, text: str) -> str:
        """A text without secrets, as it is stored. Only for texts that are hashed or cut first: all others are redacted
        on the way."""
        ...

    def redact_json(self, text: str) -> str:
        """Take secrets out of JSON, which stays JSON."""
        ...

    def tell(self, event: Event) -> None:
        """Publish this after the commit; forgotten if there is none."""
        ...


class Transaction(Statements, Protocol):
    """A transaction about the rows of one project: what a transaction function sees.

    A statement says `project = :project` of every table it reads or writes. Which one that is, nobody hands in; nor
    which host is `:here`.
    """

    @property
    def project(self) -> str:
        """The id of the project."""
        ...


class WholeTransaction(Statements, Protocol):
    """A transaction about the rows of all projects, for the few who look after all of them."""

    def of(self, project: str) -> Transaction:
        """The same transaction, about the rows of one project."""
        ...


class ProjectDatabase:
    """What the database holds of one project."""

    def __init__(self, database: Database, project: str) -> None:
        self._database = database
        self.project = project  #: its id

    def write(
        self, change: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """Run in a transaction; done once it is on disk. As `Database.write`."""
        return self._database.write(lambda tx: change(tx.of(self.project), *args, **kwargs))

    def write_soon(
        self, change: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """As `Database.write_soon`."""
        return self._database.write_soon(lambda tx: change(tx.of(self.project), *args, **kwargs))

    async def read(self, query: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query on a consistent view that cannot write."""
        return await self._database.read(lambda tx: query(tx.of(self.project), *args, **kwargs))

    def redact(self, text: str) -> str:
        """The text as it may be kept, in the database or in a file: without secrets."""
        return self._database.redact(text)


class Database(Protocol):
    @property
    def place(self) -> str:
        """Where the database is, without user and password, for people."""
        ...

    @property
    def here(self) -> str:
        """This host, as its home knows it; statements know it as `:here`. '' with SQLite."""
        ...

    @property
    def commits(self) -> int:
        """How many commits this process has made; those of other hosts are not known here."""
        ...

    @property
    def trouble(self) -> str:
        """Why nothing can be stored just now, though it may be soon; '' when all is well."""
        ...

    def of(self, project: str) -> ProjectDatabase:
        """What it holds of one project. Nearly everybody works on that."""
        ...

    def write(
        self, change: Callable[Concatenate[WholeTransaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """Run in a transaction; done once it is on disk. Raises StorageFault when the disk says no.

        Writes are made in the order in which they were asked for, awaited or not.
        """
        ...

    def write_soon(
        self, change: Callable[Concatenate[WholeTransaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """Like `write`, but together with whatever is written next, or after a moment if nothing is.

        For what must be stored before all that comes after it, and that nobody waits for yet.
        """
        ...

    async def read(self, query: Callable[Concatenate[WholeTransaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query on a consistent view that cannot write."""
        ...

    async def back_up(self, target: Path, files: Mapping[str, bytes] | None = None) -> None:
        """A copy of everything as of one moment, and of these files of the home. Nobody waits for it."""
        ...

    async def shed(self) -> None:
        """Leave no copy of what was deleted in the files of the database, as far as nobody reads them just now."""
        ...

    def redact(self, text: str) -> str:
        """The text as it may be kept, in the database or in a file: without secrets."""
        ...

    async def check(self) -> None:
        """Look at every page, apart from those who read and write. Raises StorageFault, and from then on so do they."""
        ...

    async def close(self) -> None:
        """Finish what was accepted, then let go of the files."""
        ...
