"""Deliveries: one message for one recipient, with what became of it. The one writer of table `delivery`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Literal

from agent_worker.database.database import Row, Soon, Transaction
from agent_worker.workspaces.channel import Message


def deliver(tx: Transaction, message: Message, agent: str) -> None:
    tx.run(
        """insert into delivery(project, message, agent, workspace, seq, state) values (:project, :id, :agent,
           :workspace, :seq, 'queued')
           on conflict (project, message, agent) do nothing""",
        id=message.id,
        agent=agent,
        workspace=message.workspace,
        seq=message.seq,
    )


def called_on_first(tx: Transaction, workspace: str, *, since: int) -> list[str]:
    """The members whom an instance that began then called on with its first words, before anybody answered."""
    first = tx.all(
        """select id, sender from message
            where project = :project and workspace = :workspace and at >= :since and sender <> 'system'
            order by seq limit 20""",
        workspace=workspace,
        since=since,
    )
    words = takewhile(lambda row: row["sender"] == "user", first)
    return list(dict.fromkeys(name for row in words for name in _recipients(tx, row["id"])))


def _recipients(tx: Transaction, message: str) -> list[str]:
    rows = tx.all(
        """select b.name from delivery d
             join member b on b.project = :project and b.workspace = d.workspace and b.agent = d.agent
            where d.project = :project and d.message = :message order by b.name""",
        message=message,
    )
    return [row["name"] for row in rows]


def open_for(tx: Transaction, agent: str, workspace: str, *, limit: int = 50) -> list[Row]:
    """The inbox: open deliveries with their messages, oldest first."""
    return tx.all(
        """select m.seq, m.sender, m.text from delivery d
             join message m on m.project = :project and m.workspace = d.workspace and m.seq = d.seq
            where d.project = :project and d.agent = :agent and d.workspace = :workspace
              and d.state in ('queued', 'given')
              and m.held = 0 order by d.seq limit :limit""",
        agent=agent,
        workspace=workspace,
        limit=limit,
    )


def given_to_soon(tx: Transaction, run: str) -> Soon[list[Row]]:
    """The messages that a run works on, oldest first, and of each whether the run that posted it read from outside."""
    return tx.all_soon(
        """select m.id, m.seq, m.sender, m.text, m.kind, m.proposal, m.run,
                  (select r.outside from run r where r.project = :project and r.id = m.run) as outside
             from delivery d
             join message m on m.project = :project and m.workspace = d.workspace and m.seq = d.seq
            where d.project = :project and d.run = :run and d.state = 'given' and m.held = 0 order by d.seq""",
        run=run,
    )


def seqs_open_for_soon(tx: Transaction, agent: str, workspace: str) -> Soon[set[int]]:
    """Which messages are open for an agent: the newest 100, more than are ever shown as new."""
    rows = tx.all_soon(
        """select seq from delivery
            where project = :project and agent = :agent and workspace = :workspace and state in ('queued', 'given')
            order by seq desc limit 100""",
        agent=agent,
        workspace=workspace,
    )
    return lambda: {row["seq"] for row in rows()}


def give(tx: Transaction, messages: Sequence[str], agent: str, run: str) -> None:
    """Note that a run works on these messages now."""
    for message in messages:
        tx.run(
            """update delivery set state = 'given', run = :run
                where project = :project and message = :message and agent = :agent and state in ('queued', 'given')""",
            message=message,
            agent=agent,
            run=run,
        )


def take_back(tx: Transaction, run: str) -> None:
    tx.run(
        "update delivery set state = 'queued', run = null where project = :project and run = :run and state = 'given'",
        run=run,
    )


def close(tx: Transaction, run: str, state: Literal["acked", "failed", "dead"]) -> None:
    tx.run(
        "update delivery set state = :state where project = :project and run = :run and state = 'given'",
        run=run,
        state=state,
    )


def close_one(tx: Transaction, message: str, agent: str, state: Literal["acked", "failed", "dead"]) -> None:
    tx.run(
        """update delivery set state = :state
            where project = :project and message = :message and agent = :agent and state in ('queued', 'given')""",
        message=message,
        agent=agent,
        state=state,
    )


def reopen(tx: Transaction, message: str, agent: str) -> None:
    """Open a delivery again that failed."""
    tx.run(
        """update delivery set state = 'queued', run = null
            where project = :project and message = :message and agent = :agent and state in ('failed', 'dead')""",
        message=message,
        agent=agent,
    )


def acknowledge(tx: Transaction, agent: str, run: str, seqs: Sequence[int]) -> list[int]:
    """Note that the agent has dealt with these messages; returns the seqs of those that its run was given."""
    acked = []
    for seq in seqs:
        if tx.changed(
            """update delivery set state = 'acked'
                where project = :project and agent = :agent and run = :run and seq = :seq and state = 'given'""",
            agent=agent,
            run=run,
            seq=seq,
        ):
            acked.append(seq)
    return acked


def trace(tx: Transaction, message: str) -> list[Row]:
    """Where a message went: recipient, state (while somebody has it, that of the work), and the run it was given to."""
    return tx.all(
        """select a.name, d.run, coalesce((
                    select i.state from instruction i
                     where i.project = :project and i.workspace = d.workspace and i.message = d.message
                       and i.agent = d.agent and i.state in ('queued', 'running', 'waiting')
                     limit 1), d.state) as state
             from delivery d join agent a on a.project = :project and a.id = d.agent
            where d.project = :project and d.message = :message order by a.name""",
        message=message,
    )


def forget(tx: Transaction, agent: str) -> None:
    """Forget the deliveries to an agent that is gone; the messages are its team's."""
    tx.run("delete from delivery where project = :project and agent = :agent", agent=agent)


def unanswered(tx: Transaction, workspace: str) -> list[Row]:
    """Which members wait for an answer from which, and with how many messages."""
    return tx.all(
        """select m.sender as who, a.name as whom, count(*) as n from delivery d
             join message m on m.project = :project and m.workspace = d.workspace and m.seq = d.seq
             join agent a on a.project = :project and a.id = d.agent
            where d.project = :project and d.workspace = :workspace and d.state in ('queued', 'given') and m.held = 0
            group by m.sender, a.name order by m.sender, a.name""",
        workspace=workspace,
    )


def forget_workspace(tx: Transaction, workspace: str) -> None:
    """Forget to whom messages went. The messages must still be there."""
    tx.run(
        """delete from delivery where project = :project and message in (
             select id from message where project = :project and workspace = :workspace)""",
        workspace=workspace,
    )
