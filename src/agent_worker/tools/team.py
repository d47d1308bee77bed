"""Tools about the team: who is here, and the documents it shares."""

from __future__ import annotations

from agent_worker import instructions, routing
from agent_worker.clock import micros
from agent_worker.errors import Refused
from agent_worker.storage.database import Row, Transaction
from agent_worker.tools.tool import Desk, tool
from agent_worker.workspaces import workspace
from agent_worker.workspaces.documents import DEFAULT, Author, Document, Documents, checked_name


@tool
def team_members(tx: Transaction, desk: Desk) -> str:
    """Who is in this workspace, what each is doing, and what each says about it."""
    assert desk.seat.workspace
    room = workspace.get(tx, desk.seat.workspace)
    return "\n".join(_member(desk, room, row) for row in workspace.members(tx, desk.seat.workspace))


def _member(desk: Desk, room: Row, row: Row) -> str:
    is_it = {
        "you": row["agent"] == desk.seat.agent,
        "coordinator": row["name"] == room["coordinator"],
        "owns the documents": row["name"] == room["document_owner"],
    }
    known = ", ".join(what for what, holds in is_it.items() if holds)
    state = "paused" if row["paused"] else row["state"]
    status = f": {row['status']}" if row["status"] else ""
    return f"@{row['name']}{f' ({known})' if known else ''} {state}{status}"


@tool(repeatable=True)
async def team_doc_list(desk: Desk) -> str:
    """The names of the documents of this workspace."""
    return "\n".join(sorted(await (await _documents(desk)).names())) or "There is no document yet."


@tool(repeatable=True)
async def team_doc_read(desk: Desk, name: str = DEFAULT) -> str:
    """Read a document of the team. Its first line gives the revision, which you need to write it."""
    document = await (await _documents(desk)).read(name)
    return f"[{document.name}, revision {document.revision[:12]}]\n{document.text}"


@tool(repeatable=True, in_turn=True)
async def team_doc_create(desk: Desk, name: str, text: str) -> str:
    """Begin a new document. Folders are allowed in its name: `plans/release.md`."""
    documents = await _documents(desk)
    return await _written(desk, await documents.write(name, text, base=None, by=_author(desk)))


@tool(repeatable=True, in_turn=True)
async def team_doc_write(desk: Desk, text: str, revision: str, name: str = DEFAULT) -> str:
    """Replace the whole text of a document. `revision` is the one you read; if it has changed since, read again."""
    documents = await _documents(desk)
    return await _written(desk, await documents.write(name, text, base=revision, by=_author(desk)))


@tool(repeatable=True, in_turn=True)
async def team_doc_append(desk: Desk, text: str, name: str = DEFAULT) -> str:
    """Add text to the end of a document; it begins with this text if it does not exist."""
    documents = await _documents(desk)
    return await _written(desk, await documents.append(name, text, by=_author(desk)))


@tool
def team_doc_suggest(tx: Transaction, desk: Desk, suggestion: str, document: str = DEFAULT) -> str:
    """Tell the owner of the documents what you would write in one of them. The owner is called on and decides."""
    seat, now = desk.seat, micros(desk.clock.now())
    assert seat.workspace
    owner = workspace.get(tx, seat.workspace)["document_owner"]
    if owner in ("", seat.name):
        raise Refused(
            "nobody owns the documents here" if not owner else "you own the documents",
            hint="write it yourself: team_doc_append, team_doc_write",
        )
    routing.check_size(suggestion)
    speech = routing.Speech(
        workspace=seat.workspace,
        sender=seat.name,
        text=f"@{owner} I suggest for {checked_name(document)}:\n{suggestion}",
        calls=(owner,),  # whoever the suggestion names
        root=seat.root,
        hop=seat.hop + 1,
        run=seat.run,
    )
    receipt = routing.say(tx, speech, now=now)
    instructions.note_produced(tx, seat.run)
    return f"Suggested to {owner} as #{receipt.seq}."


async def _documents(desk: Desk) -> Documents:
    assert desk.seat.workspace
    room = await desk.database.read(workspace.get, desk.seat.workspace)
    return Documents(desk.database, desk.clock, room)


async def _written(desk: Desk, document: Document) -> str:
    await desk.database.write(instructions.note_produced, desk.seat.run)
    return f"{document.name} is at revision {document.revision[:12]} now."


def _author(desk: Desk) -> Author:
    return Author(desk.seat.name, desk.key)
