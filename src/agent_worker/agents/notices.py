"""Notices to whoever gave work: what became of it, as a message in the channel or an answer in the conversation."""

from __future__ import annotations

from agent_worker.core.events import Ended
from agent_worker.database.database import Transaction
from agent_worker.work import threads
from agent_worker.work.queue import Instruction
from agent_worker.workspaces import routing, workspace_rows


def tell_sender(
    tx: Transaction, work: Instruction, name: str, state: str, reason: str, *, run: str | None, now: int
) -> None:
    if work.workspace:
        notice(tx, work.workspace, f"{name} {ended_words(state)}: {reason}", work.root, now=now)
    else:
        answer_dm(tx, work, name, f"{ended_words(state)}: {reason}", failed=True, run=run, now=now)


def tell_ended(
    tx: Transaction, work: Instruction, name: str, state: str, reason: str, *, run: str | None = None
) -> None:
    """Tell whoever listens that an instruction is over, though no run of it came to its end."""
    ended = Ended(
        workspace=work.workspace,
        agent=work.agent,
        name=name,
        run=run or "",
        instruction=work.id,
        state=state,
        reason=reason,
    )
    tx.tell(ended)


def notice(tx: Transaction, workspace: str, text: str, root: str, *, now: int) -> None:
    if workspace_rows.get(tx, workspace)["state"] == "running":
        routing.notice(tx, workspace, text, root=root, now=now)


def answer_dm(
    tx: Transaction, work: Instruction, name: str, text: str, *, failed: bool, run: str | None, now: int
) -> None:
    """Put question and answer into the personal thread together."""
    threads.say(tx, work.agent, threads.PERSONAL, who=work.sender, text=work.text, run=run, now=now)
    if text:
        threads.say(
            tx,
            work.agent,
            threads.PERSONAL,
            who="system" if failed else name,
            text=text,
            run=run,
            kind="failure" if failed else "message",
            now=now,
        )


def ended_words(state: str) -> str:
    return {"incomplete": "did not finish", "dead": "was given up", "cancelled": "was cancelled"}.get(state, state)
