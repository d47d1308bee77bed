"""What copies of documents are compared with, and what people write into them, as revisions.

The rows are written by document_rows.py; who compares is document_copies.py.
"""

from __future__ import annotations

from agent_worker.database.database import Row, Transaction
from agent_worker.files.copies import SHORT
from agent_worker.files.swap import content_hash
from agent_worker.work import inbox
from agent_worker.workspaces.document_rows import (
    Author,
    CurrentDocument,
    Document,
    is_public,
    last_revision,
    latest,
    revise,
)

MOST_EARLIER = 65  #: revisions among which a copy that is behind is recognised
_NOTHING = content_hash("")


def hashes(tx: Transaction, workspace: str) -> dict[str, str]:
    """The revision of each document, by name; '' for one that says nothing any more."""
    return {row["name"]: _said(row["revision"]) for row in latest(tx, workspace)}


def earlier(tx: Transaction, workspace: str, name: str) -> list[str]:
    """How its earlier revisions begin, the oldest first, as far as a copy may be behind."""
    rows = tx.all(
        """select revision from document where project = :project and workspace = :workspace and name = :name
            order by n desc limit :most""",
        workspace=workspace,
        name=name,
        most=MOST_EARLIER,
    )
    return [row["revision"][:SHORT] for row in reversed(rows[1:])]


def last_text(tx: Transaction, workspace: str, name: str) -> tuple[str, str]:
    """The text of a document and its hash; '' twice when it says nothing any more."""
    row = last_revision(tx, workspace, name)
    return (row["text"], _said(row["revision"])) if row else ("", "")


def take_edit(tx: Transaction, workspace: Row, name: str, text: str | None, *, seen: str, at: int) -> str | None:
    """Make a revision of what a person wrote into the copy of `seen`; its hash. None: the document is another one by
    now.
    """
    last, text = last_revision(tx, workspace["id"], name), tx.redact(text or "")
    if _said(last["revision"] if last else "") != seen or is_public(name):
        return None
    now = Document(name, last["text"], last["revision"]) if last else None
    new, current = Document(name, text, content_hash(text)), CurrentDocument(name, now, last["n"] if last else 0)
    if now is None or now.revision != new.revision:
        revise(tx, workspace, new, current, Author("user"), at=at)
    return _said(new.revision)


def take_beside(tx: Transaction, workspace: Row, name: str, text: str, *, beside: str, at: int) -> str:
    """Make a document of its own of what a person wrote while `beside` was changed, and tell them."""
    taken = take_edit(tx, workspace, name, text, seen=last_text(tx, workspace["id"], name)[1], at=at)
    told = f"{beside} was edited while somebody else wrote it; what you wrote is {name}"
    inbox.ask(tx, "conflict", workspace=workspace["id"], ref=f"{workspace['id']}/{name}", text=told, now=at)
    return taken or ""


def _said(revision: str) -> str:
    """A revision as copies are compared by it: '' for a document that was emptied or removed."""
    return "" if revision == _NOTHING else revision
