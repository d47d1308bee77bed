"""Suggestions for documents that one member owns: a person applies or refuses them as the owner would."""

from __future__ import annotations

from typing import Literal

from agent_worker.core.errors import Refused
from agent_worker.core.later import dataclass
from agent_worker.database.database import Transaction
from agent_worker.service.documents import documents_of
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.workspaces import channel, suggestions
from agent_worker.workspaces.document_rows import Author
from agent_worker.workspaces.documents import Documents
from agent_worker.workspaces.suggestions import Suggestion


@dataclass(frozen=True, slots=True)
class SuggestionVerdict:
    seq: int
    told: str  #: in words


@operation("GET", "/suggestions")
async def suggestions_list(
    service: Service, at: str, name: str | None = None, project: str | None = None
) -> list[Suggestion]:
    """What members suggested for the documents of a workspace, or for one of them, and nobody has decided yet."""
    database, workspace, _ = await documents_of(service, at, project)
    return await database.read(suggestions.found, workspace["id"], name)


@operation("POST", "/suggestions/{seq}")
async def suggestion_decide(
    service: Service, at: str, seq: int, verdict: Literal["apply", "refuse"], project: str | None = None
) -> SuggestionVerdict:
    """Apply a suggestion, which adds its text to the end of its document, or refuse it. The channel says which."""
    database, workspace, documents = await documents_of(service, at, project)
    id = workspace["id"]
    found = await database.read(suggestions.get, id, seq)
    if found.state == "open" and verdict == "apply":
        await _apply(documents, found)  # first: after a crash it is applied again, which changes nothing
    if not await database.write(suggestions.decide, id, seq, "applied" if verdict == "apply" else "refused"):
        raise Refused(f"#{seq} was already decided", hint=f"agent-worker doc suggestions {at}")
    done = f"was added to {found.document}" if verdict == "apply" else f"for {found.document} was declined"
    told = f"What {found.sender} suggested in #{seq} {done}."
    await database.write(_tell, id, told, now=service.now())
    return SuggestionVerdict(seq, told)


async def _apply(documents: Documents, found: Suggestion) -> None:
    text = found.text if found.text.endswith("\n") else f"{found.text}\n"
    # The key: decided twice at once, or again after a crash, it is one revision.
    await documents.append(found.document, text, by=Author("user", f"suggestion-{found.seq}"))


def _tell(tx: Transaction, workspace: str, text: str, *, now: int) -> None:
    channel.post(tx, channel.Draft(workspace=workspace, sender="system", text=text, kind="system"), now=now)
