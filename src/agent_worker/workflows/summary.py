"""What came of an instance, read from what it left in the database."""

from __future__ import annotations

from collections.abc import Mapping

from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction
from agent_worker.proposals import store
from agent_worker.proposals.wording import ending
from agent_worker.work import inbox
from agent_worker.workflows.quiet import held_up
from agent_worker.workspaces import document_rows, workspace_rows


@dataclass(frozen=True, slots=True)
class Summary:
    """What came of an instance."""

    outcome: str  #: done | failed | limit | stopped
    reason: str
    runs: Mapping[str, int]  #: by agent, how many ended well
    messages: int
    documents: tuple[str, ...]
    failures: tuple[str, ...]
    tokens: int
    usd: float
    decisions: tuple[str, ...] = ()
    input: int = 0  #: of the tokens, those that its models read
    output: int = 0
    estimated: bool = False  #: the money rests on a guess: of a price, or of how many tokens it were
    resume: str = ""  #: the command that lets it go on, where it waits at a limit

    @property
    def exit_code(self) -> int:
        return {"done": 0, "failed": 1, "limit": 3, "stopped": 130}[self.outcome]


def summarise(tx: Transaction, workspace: str, since: int, reason: str) -> Summary:
    row = workspace_rows.get(tx, workspace)
    ended = tx.all(
        """select i.state, i.reason, a.name from instruction i join agent a on a.project = :project and a.id = i.agent
            where i.project = :project and i.workspace = :workspace and i.ended_at >= :since""",
        workspace=workspace,
        since=since,
    )
    bad = [f"{r['name']}: {r['reason']}" for r in ended if r["state"] in ("failed", "dead")]
    incomplete = [r["reason"] for r in ended if r["state"] == "incomplete"]
    done = tx.all(
        """select a.name, count(*) as n from run r join agent a on a.project = :project and a.id = r.agent
            where r.project = :project and r.workspace = :workspace and r.state = 'done' and r.started_at >= :since
            group by a.name order by a.name""",
        workspace=workspace,
        since=since,
    )
    spent = _spent(tx, workspace, since)
    limit, held_by = inbox.about(tx, "limit", workspace, since=since), held_up(tx, workspace)
    return Summary(
        outcome=_outcome(reason, limit or row["paused"], held_by, [*bad, *incomplete]),
        reason=reason or held_by or limit,
        runs={r["name"]: r["n"] for r in done},
        messages=row["seq"],
        documents=tuple(document_rows.changed_since(tx, workspace, since)),
        failures=tuple(bad),
        tokens=spent["input"] + spent["output"],
        usd=spent["micros"] / 1e6,
        decisions=tuple(f"{p.question} {ending(p)}" for p in store.ended_since(tx, workspace, since)),
        input=spent["input"],
        output=spent["output"],
        estimated=bool(spent["estimated"]),
    )


def _outcome(stopped: str, limit: str, held_by: str, bad: list[str]) -> str:
    if stopped:
        return "stopped"
    if limit:
        return "limit"
    return "failed" if bad or held_by else "done"


def _spent(tx: Transaction, workspace: str, since: int) -> Row:
    row = tx.one(
        """select coalesce(sum(l.input), 0) as input, coalesce(sum(l.output), 0) as output,
                  coalesce(sum(l.micros), 0) as micros, coalesce(max(l.estimated), 0) as estimated
             from ledger l where l.project = :project and l.run in (
               select r.id from run r
                where r.project = :project and r.workspace = :workspace and r.started_at >= :since)""",
        workspace=workspace,
        since=since,
    )
    assert row is not None
    return row
