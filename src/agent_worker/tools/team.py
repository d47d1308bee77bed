"""Tools about the team: who is here, and the documents it shares."""

from __future__ import annotations

from agent_worker import instructions
from agent_worker.storage.database import Transaction
from agent_worker.tools.tool import Desk, tool
from agent_worker.workspaces import workspace
from agent_worker.workspaces.documents import DEFAULT, Author, Document, Documents


@tool
def team_members(tx: Transaction, desk: Desk) -> str:
    """Who is in this workspace, what each is doing, and what each says about it."""
    assert desk.seat.workspace
    lines = []
    for row in workspace.members(tx, desk.seat.workspace):
        state = "paused" if row["paused"] else row["state"]
        status = f": {row['status']}" if row["status"] else ""
        lines.append(f"@{row['name']}{' (you)' if row['agent'] == desk.seat.agent else ''} {state}{status}")
    return "\n".join(lines)


@tool(repeatable=True)
async def team_doc_list(desk: Desk) -> str:
    """The names of the documents of this workspace."""
    return "\n".join(sorted(await (await _documents(desk)).names())) or "There is no document yet."


@tool(repeatable=True)
async def team_doc_read(desk: Desk, name: str = DEFAULT) -> str:
    """Read a document of the team. Its first line gives the revision, which you need to write it."""
    document = await (await _documents(desk)).read(name)
    return f"[{document.name}, revision {document.revision[:12]}]\n{document.text}"


@tool(repeatable=True)
async def team_doc_create(desk: Desk, name: str, text: str) -> str:
    """Begin a new document. Folders are allowed in its name: `plans/release.md`."""
    documents = await _documents(desk)
    return await _written(desk, await documents.write(name, text, base=None, by=_author(desk)))


@tool(repeatable=True)
async def team_doc_write(desk: Desk, text: str, revision: str, name: str = DEFAULT) -> str:
    """Replace the whole text of a document. `revision` is the one you read; if it has changed since, read again."""
    documents = await _documents(desk)
    now = await documents.read(name)
    base = now.revision if len(revision) >= 6 and now.revision.startswith(revision) else revision
    return await _written(desk, await documents.write(name, text, base=base, by=_author(desk)))


@tool(repeatable=True)
async def team_doc_append(desk: Desk, text: str, name: str = DEFAULT) -> str:
    """Add text to the end of a document; it begins with this text if it does not exist."""
    documents = await _documents(desk)
    return await _written(desk, await documents.append(name, text, by=_author(desk)))


async def _documents(desk: Desk) -> Documents:
    assert desk.seat.workspace
    room = await desk.database.read(workspace.get, desk.seat.workspace)
    return Documents(desk.database, desk.clock, room)


async def _written(desk: Desk, document: Document) -> str:
    await desk.database.write(instructions.note_produced, desk.seat.run)
    return f"{document.name} is at revision {document.revision[:12]} now."


def _author(desk: Desk) -> Author:
    return Author(desk.seat.name, desk.key)
