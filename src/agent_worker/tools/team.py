"""Tools about the team: who is here, and the documents it shares."""

from __future__ import annotations

from agent_worker.core.address import check_no_secret
from agent_worker.core.errors import Refused
from agent_worker.database.database import Row, Transaction
from agent_worker.tools.tool import ToolContext, tool
from agent_worker.work import run_rows
from agent_worker.workspaces import member_rows, routing, suggestions, workspace_rows
from agent_worker.workspaces.document_rows import Author, Document
from agent_worker.workspaces.documents import Documents, checked_name, first_document


@tool
def team_members(tx: Transaction, context: ToolContext) -> str:
    """Who is in this workspace, what each is doing, and what each says about it."""
    assert context.identity.workspace
    workspace = workspace_rows.get(tx, context.identity.workspace)
    return "\n".join(_member(context, workspace, row) for row in member_rows.members(tx, context.identity.workspace))


def _member(context: ToolContext, workspace: Row, row: Row) -> str:
    is_it = {
        "you": row["agent"] == context.identity.agent,
        "coordinator": row["name"] == workspace["coordinator"],
        "owns the documents": row["name"] == workspace["document_owner"],
    }
    known = ", ".join(what for what, holds in is_it.items() if holds)
    waits = context.waits(row["agent"]) if row["state"] == "idle" else ""
    here = f"waiting ({waits})" if waits else row["state"]
    state = "paused" if row["paused"] else row["away"] or here
    status = f": {row['status']}" if row["status"] else ""
    return f"@{row['name']}{f' ({known})' if known else ''} {state}{status}"


@tool(repeatable=True)
async def team_doc_list(context: ToolContext) -> str:
    """The names of the documents of this workspace."""
    return "\n".join(sorted(await (await _documents(context)).names())) or "There is no document yet."


@tool(repeatable=True)
async def team_doc_read(context: ToolContext, name: str = "") -> str:
    """Read a document of the team; without a name, its notes. The first line gives the revision, needed to write it."""
    documents = await _documents(context)
    document = await documents.read(name or documents.first)
    return f"[{document.name}, revision {document.revision[:12]}]\n{document.text}"


@tool(repeatable=True, in_turn=True)
async def team_doc_create(context: ToolContext, name: str, text: str) -> str:
    """Begin a new document. Folders are allowed in its name: `plans/release.md`."""
    documents = await _documents(context)
    return await _written(context, await documents.write(name, text, base=None, by=_author(context)))


@tool(repeatable=True, in_turn=True)
async def team_doc_write(context: ToolContext, text: str, revision: str, name: str = "") -> str:
    """Replace the whole text of a document. `revision` is the one you read; if it has changed since, read again."""
    documents = await _documents(context)
    name = name or documents.first
    return await _written(context, await documents.write(name, text, base=revision, by=_author(context)))


@tool(repeatable=True, in_turn=True)
async def team_doc_append(context: ToolContext, text: str, name: str = "") -> str:
    """Add text to the end of a document; it begins with this text if it does not exist."""
    documents = await _documents(context)
    return await _written(context, await documents.append(name or documents.first, text, by=_author(context)))


@tool
def team_doc_suggest(tx: Transaction, context: ToolContext, suggestion: str, document: str = "") -> str:
    """Tell the owner of the documents what you would write in one of them. The owner is called on and decides."""
    identity, now = context.identity, context.clock.micros()
    assert identity.workspace
    workspace = workspace_rows.get(tx, identity.workspace)
    owner = workspace["document_owner"]
    if owner in ("", identity.name):
        raise Refused(
            "nobody owns the documents here" if not owner else "you own the documents",
            hint="write it yourself: team_doc_append, team_doc_write",
        )
    routing.check_size(suggestion)
    name = checked_name(document or first_document(workspace))
    check_no_secret(name, tx.redact, of="a document")
    speech = routing.OutgoingMessage(
        workspace=identity.workspace,
        sender=identity.name,
        text=suggestions.wording(owner, name, suggestion),
        calls=(owner,),  # whoever the suggestion names
        root=identity.root,
        hop=identity.hop + 1,
        run=identity.run,
    )
    receipt = routing.say(tx, speech, now=now)
    if receipt.seq is not None:
        suggestions.add(tx, identity.workspace, receipt.seq, name)
    run_rows.note_produced(tx, identity.run)
    return f"Suggested to {owner} as #{receipt.seq}."


async def _documents(context: ToolContext) -> Documents:
    assert context.identity.workspace
    workspace = await context.database.read(workspace_rows.get, context.identity.workspace)
    return Documents(context.database, context.clock, workspace, context.copies)


async def _written(context: ToolContext, document: Document) -> str:
    await context.database.write(run_rows.note_produced, context.identity.run)
    return f"{document.name} is at revision {document.revision[:12]} now."


def _author(context: ToolContext) -> Author:
    return Author(context.identity.name, context.key)
