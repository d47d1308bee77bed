"""Documents and resources of a workspace, for people."""

from __future__ import annotations

import asyncio

from agent_worker.core.difference import changed_lines
from agent_worker.core.later import dataclass
from agent_worker.database.database import ProjectDatabase, Row, Transaction
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.workspaces import document_rows, resources, workspace_rows
from agent_worker.workspaces.document_rows import Author, Document
from agent_worker.workspaces.documents import Documents

LONGEST_CHANGE = 5000  #: lines


@dataclass(frozen=True, slots=True)
class Revision:
    n: int
    revision: str
    author: str
    at: int


@operation("GET", "/documents", tool="doc_list")
async def doc_list(service: Service, at: str, project: str | None = None) -> list[str]:
    """The names of the documents of a workspace."""
    return sorted(await (await _documents(service, at, project)).names())


@operation("GET", "/documents/{name:path}", tool="doc_read")
async def doc_read(service: Service, at: str, name: str, project: str | None = None) -> Document:
    """A document with its revision."""
    return await (await _documents(service, at, project)).read(name)


@operation("PUT", "/documents/{name:path}")
async def doc_write(
    service: Service, at: str, name: str, text: str, revision: str | None = None, project: str | None = None
) -> Document:
    """Replace the text that had this revision; without one, make a new document."""
    return await (await _documents(service, at, project)).write(name, text, base=revision, by=Author("user"))


@operation("POST", "/documents/{name:path}")
async def doc_append(service: Service, at: str, name: str, text: str, project: str | None = None) -> Document:
    """Add to the end of a document."""
    return await (await _documents(service, at, project)).append(name, text, by=Author("user"))


@operation("GET", "/revisions")
async def doc_newest(service: Service, at: str, project: str | None = None) -> dict[str, Revision]:
    """The newest revision of each document of a workspace: who wrote it, and when."""
    database, workspace = await _workspace(service, at, project)
    rows = await database.read(document_rows.newest, workspace["id"])
    return {row["name"]: Revision(row["n"], row["revision"], row["author"], row["at"]) for row in rows}


@operation("GET", "/revisions/{name:path}")
async def doc_history(service: Service, at: str, name: str, project: str | None = None) -> list[Revision]:
    """The revisions of a document, oldest first."""
    database, workspace = await _workspace(service, at, project)
    rows = await database.read(document_rows.revisions, workspace["id"], name)
    return [Revision(row["n"], row["revision"], row["author"], row["at"]) for row in rows]


@operation("GET", "/changes/{name:path}")
async def doc_change(service: Service, at: str, name: str, n: int, project: str | None = None) -> list[str]:
    """What one revision changed, as the lines of a unified diff."""
    database, workspace = await _workspace(service, at, project)
    before, after = await database.read(document_rows.revised, workspace["id"], name, n)
    return await asyncio.to_thread(changes, before, after)


@dataclass(frozen=True, slots=True)
class ResourceView:
    id: str
    size: int  #: bytes
    head: str  #: its first line


@operation("GET", "/resources")
async def resources_list(service: Service, at: str, project: str | None = None) -> list[ResourceView]:
    """The resources of a workspace, by their ids."""
    database, workspace = await _workspace(service, at, project)
    found = await database.read(resources.listed, workspace["id"])
    return [ResourceView(each.id, each.size, each.head) for each in found]


@operation("GET", "/resources/{id}")
async def resource_get(service: Service, at: str, id: str, project: str | None = None) -> resources.Resource:
    """A resource, whole, by its id or the beginning of it."""
    database, workspace = await _workspace(service, at, project)
    return await database.read(_resource, workspace["id"], id)


def _resource(tx: Transaction, workspace: str, id: str) -> resources.Resource:
    return resources.load(tx, workspace, resources.called(tx, workspace, id))


def changes(before: str, after: str) -> list[str]:
    """The lines of a unified diff of two revisions: of a long one, the first."""
    return changed_lines(before.splitlines(), after.splitlines())[:LONGEST_CHANGE]


async def documents_of(service: Service, at: str, project: str | None) -> tuple[ProjectDatabase, Row, Documents]:
    """What is stored of a workspace, its row, and its documents."""
    database, workspace = await _workspace(service, at, project)
    return database, workspace, Documents(database, service.runtime.clock, workspace, service.runtime.look_at_copies)


async def _documents(service: Service, at: str, project: str | None) -> Documents:
    return (await documents_of(service, at, project))[2]


async def _workspace(service: Service, at: str, project: str | None) -> tuple[ProjectDatabase, Row]:
    loaded = await service.project(project)
    database = service.database(loaded)
    return database, await database.read(workspace_rows.find, await service.workspace_name(loaded, at))
