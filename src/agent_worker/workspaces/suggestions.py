"""What members suggested to the owner of the documents, and what became of it. The one writer of table `suggestion`.

The words are those of the message that told it: who takes that back takes the suggestion back.
"""

from __future__ import annotations

from typing import Literal

from agent_worker.core.errors import NotFound
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction
from agent_worker.workspaces import resources, workspace_rows

Verdict = Literal["applied", "refused"]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A suggestion, known by the number of its message."""

    seq: int
    document: str
    sender: str
    text: str
    at: int
    state: str  #: open | applied | refused


def wording(owner: str, document: str, text: str) -> str:
    """The message that tells a suggestion."""
    return f"@{owner} I suggest for {document}:\n{text}"


def add(tx: Transaction, workspace: str, seq: int, document: str) -> None:
    tx.run(
        """insert into suggestion(project, workspace, seq, document, state)
           values (:project, :workspace, :seq, :document, 'open')""",
        workspace=workspace,
        seq=seq,
        document=document,
    )


def found(tx: Transaction, workspace: str, document: str | None = None) -> list[Suggestion]:
    """The suggestions that nobody has decided on, oldest first; of one document, or of all."""
    rows = tx.all(
        f"{_SUGGESTION} and s.state = 'open' and (cast(:document as text) is null or s.document = :document)"
        " order by s.seq",
        workspace=workspace,
        document=document,
    )
    return [_suggestion(tx, row) for row in rows]


def get(tx: Transaction, workspace: str, seq: int) -> Suggestion:
    row = tx.one(f"{_SUGGESTION} and s.seq = :seq", workspace=workspace, seq=seq)
    if row is None:
        at = workspace_rows.name_of(workspace_rows.get(tx, workspace))
        raise NotFound(f"#{seq} is no suggestion for a document", hint=f"agent-worker doc suggestions @{at}")
    return _suggestion(tx, row)


def decide(tx: Transaction, workspace: str, seq: int, verdict: Verdict) -> bool:
    """Settle a suggestion; whether it was still open."""
    return bool(
        tx.changed(
            """update suggestion set state = :verdict
                where project = :project and workspace = :workspace and seq = :seq and state = 'open'""",
            workspace=workspace,
            seq=seq,
            verdict=verdict,
        )
    )


def forget_workspace(tx: Transaction, workspace: str) -> None:
    tx.run("delete from suggestion where project = :project and workspace = :workspace", workspace=workspace)


_SUGGESTION = """
select s.seq, s.document, s.state, m.workspace, m.sender, m.text, m.resource, m.at
  from suggestion s join message m on m.project = :project and m.workspace = s.workspace and m.seq = s.seq
 where s.project = :project and s.workspace = :workspace and m.held = 0"""


def _suggestion(tx: Transaction, row: Row) -> Suggestion:
    whole = resources.load(tx, row["workspace"], row["resource"]).text if row["resource"] else row["text"]
    return Suggestion(row["seq"], row["document"], row["sender"], whole.partition("\n")[2], row["at"], row["state"])
