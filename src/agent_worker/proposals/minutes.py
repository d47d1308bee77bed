"""`decisions.md`: what the team decided, in a document that people read. The rows are the record.

Where documents are kept in the database an entry is written with the decision itself; where they are files it is added
after the commit, once, and made good at the next start.
"""

from __future__ import annotations

import logging

from agent_worker.core.clock import Clock, from_micros
from agent_worker.core.errors import BadInput, Refused, Stale
from agent_worker.database.database import ProjectDatabase, Row, Transaction
from agent_worker.proposals import store
from agent_worker.proposals.store import Proposal
from agent_worker.workspaces import document_rows, documents, workspace_rows
from agent_worker.workspaces.document_rows import Author
from agent_worker.workspaces.documents import Documents

log = logging.getLogger(__name__)

DOCUMENT = "decisions.md"


def record(tx: Transaction, workspace: Row, proposal: Proposal, *, now: int) -> None:
    """Write the entry in the transaction that decides, where that can be done."""
    if documents.is_filed(workspace):
        return
    document_rows.append_stored(tx, workspace, DOCUMENT, entry(tx, proposal), _author(proposal), at=now)
    store.mark_recorded(tx, proposal.id)


async def file_pending(database: ProjectDatabase, clock: Clock, workspace: str | None = None) -> None:
    """Add to the files what they lack. A file that cannot be written is tried again with the next decision."""
    for proposal in await database.read(store.unrecorded, workspace):
        place = await database.read(workspace_rows.get, proposal.workspace)
        text = await database.read(entry, proposal)
        try:
            await Documents(database, clock, place).append(DOCUMENT, text, by=_author(proposal))
        except Stale:
            pass  # a person edited it at this very moment: both are kept, and the inbox says so
        except BadInput as error:  # it has grown past what a document holds
            log.warning("%s of %s: %s", DOCUMENT, place["workflow"], error.message)
        except (OSError, Refused):  # the others do not wait for it, nor does whoever stops the team
            log.exception("%s of %s could not be written", DOCUMENT, place["workflow"])
            continue
        await database.write(store.mark_recorded, proposal.id)


def entry(tx: Transaction, proposal: Proposal) -> str:
    cast = ", ".join(f"{vote.voter}: {vote.choice}" for vote in store.votes(tx, proposal.id)) or "none"
    reason = f" ({' '.join(proposal.reason.split())})" if proposal.reason else ""
    ended = from_micros(proposal.ended_at or 0)
    kind = f"{proposal.kind} by {proposal.rules.resolution}{'' if proposal.binding else ', advisory'}"
    return (
        f"\n## {proposal.number}. {' '.join(proposal.question.split())[:200]}\n\n"
        f"- {proposal.state}: {proposal.outcome or 'nothing was decided'}{reason}\n"
        f"- votes: {cast}\n"
        f"- {ended:%Y-%m-%d %H:%M} UTC, {kind}, asked by {proposal.creator}\n"
    )


def _author(proposal: Proposal) -> Author:
    return Author("system", key_of(proposal))


def key_of(proposal: Proposal) -> str:
    """The key by which the entry of a proposal is found again in the history of the document."""
    return f"proposal/{proposal.id}"
