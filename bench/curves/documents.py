"""One to a thousand revisions of one document of 20 KB: writing the next, reading the last, listing them all."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from agent_worker.database.database import Transaction
from agent_worker.files.swap import content_hash
from agent_worker.workflows.instance import Instance
from agent_worker.workspaces import document_rows, workspace_rows
from agent_worker.workspaces.document_rows import Author
from agent_worker.workspaces.documents import Documents
from curves.curve import Rounds, Topic, Work
from measures.teams import open_team

SIZES = (1, 10, 100, 1_000)
ROUNDS, CALLS = 5, 4
KILOBYTES = 20
NAME = "plan.md"
BODY = ("A line of the plan that everybody has agreed on, more or less.\n" * 400)[: KILOBYTES * 1024 - 20]
LINEAR = ("the list of revisions",)
ABOUT = "Every revision is kept whole. `file`: the document is a file beside the database; `sqlite`: a row and no file."


async def measure(folder: Path) -> Topic:
    rounds = Rounds()
    async with AsyncExitStack() as workspaces:
        for store in ("file", "sqlite"):
            shelves = {size: await _shelf(workspaces, folder / f"{store}{size}", store, size) for size in SIZES}
            for what, work in (("writing the next", _write), ("reading the last", _read), ("an append", _append)):
                works: dict[int, Work] = {size: partial(work, shelf) for size, shelf in shelves.items()}
                await rounds.run(f"{what}, {store}", works, rounds=ROUNDS, calls=CALLS)
        listed: dict[int, Work] = {size: partial(_list, shelf) for size, shelf in shelves.items()}
        await rounds.run("the list of revisions", listed, rounds=ROUNDS, calls=CALLS)
    return Topic("Documents", "revisions", ABOUT, rounds.curves(linear=LINEAR))


@dataclass(frozen=True, slots=True)
class Shelf:
    team: Instance
    documents: Documents
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def text(self) -> str:
        return f"{BODY}{next(self.numbers)}\n"


async def _shelf(workspaces: AsyncExitStack, folder: Path, store: str, size: int) -> Shelf:
    settings = f"workspace: {{ provider: sqlite, documents: {store} }}\n"
    team = await workspaces.enter_async_context(open_team(folder, {"alice": ""}, workflow=settings))
    row = await team.database.read(workspace_rows.get, team.id)
    shelf = Shelf(team, Documents(team.database, team.runtime.clock, row))
    await team.database.write(_fill, team.id, size - 1)
    before = await team.database.read(document_rows.last_revision, team.id, NAME)
    base = before["revision"] if before and store == "sqlite" else None  # it has no file yet
    await shelf.documents.write(NAME, shelf.text(), base=base, by=Author("alice"))
    return shelf


def _fill(tx: Transaction, workspace: str, count: int) -> None:
    for number in range(1, count + 1):
        text = f"{BODY}{-number}\n"
        document = document_rows.Document(NAME, text, content_hash(text))
        document_rows._insert(tx, workspace, document, number, "", Author("alice"), number, filed=1)


async def _write(shelf: Shelf) -> None:
    now = await shelf.documents.read(NAME)
    await shelf.documents.write(NAME, shelf.text(), base=now.revision, by=Author("alice"))


async def _read(shelf: Shelf) -> None:
    await shelf.documents.read(NAME)


async def _append(shelf: Shelf) -> None:
    await shelf.documents.append(NAME, "One more.\n", by=Author("alice"))


async def _list(shelf: Shelf) -> None:
    await shelf.team.database.read(document_rows.revisions, shelf.team.id, NAME)
