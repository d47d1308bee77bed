"""Takes back what runs were told, said and wrote: from now on no tool, prompt, search or digest returns it.

Rows are only marked: a person still sees them, struck out. Work that is open and would go on from these runs, or begin
with their words, is cancelled. Files follow in service/memory.py; what an agent learned is in memory/revert.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import field

from agent_worker.agents import commands
from agent_worker.core.later import dataclass, pattern
from agent_worker.database.database import Row, Transaction
from agent_worker.memory.containment import Descent
from agent_worker.proposals import lifecycle, minutes, store
from agent_worker.proposals.request import Voter
from agent_worker.work import open_work, queue, threads
from agent_worker.workspaces import channel, member_rows, resources

REASON = "a person took back what it came from"
_KEPT = pattern(r"Kept as resource ([0-9a-f]{64})")

Place = tuple[str, str]  #: agent, context


@dataclass(slots=True)
class Held:
    """What was marked as taken back, so that files can follow."""

    lines: dict[Place, set[int]] = field(default_factory=dict)
    messages: dict[str, set[int]] = field(default_factory=dict)  #: by workspace
    resources: set[tuple[str, str]] = field(default_factory=set)  #: workspace, id
    keys: dict[str, set[str]] = field(default_factory=dict)  #: by workspace: of tool calls, which documents know
    decided: list[str] = field(default_factory=list)  #: questions that were decided before they were taken back

    def note(self, agent: str, lines: Iterable[Row]) -> None:
        for row in lines:
            self.lines.setdefault((agent, row["context"]), set()).add(row["seq"])


def take_back(tx: Transaction, runs: Iterable[Descent], *, agent: str, at: int | None, now: int) -> Held:
    """Everything of these runs; with `at`, whatever else was said to the agent from then on."""
    held = Held()
    for run in runs:
        _take_back(tx, run, held, now=now)
    if at is not None:
        held.note(agent, threads.hold_back(tx, agent, at=at))
    return held


def _take_back(tx: Transaction, run: Descent, held: Held, *, now: int) -> None:
    for id in queue.hold_back(tx, run.run):
        commands.cancel(tx, id, reason=REASON, now=now)
    held.note(run.agent, threads.hold_back(tx, run.agent, run=run.run))
    if run.workspace is None:
        return
    _silence(tx, run, held, now=now)
    for id in _resources(tx, run):
        if resources.hold_back(tx, run.workspace, id):
            held.resources.add((run.workspace, id))
    held.keys.setdefault(run.workspace, set()).update(_keys(tx, run))


def _silence(tx: Transaction, run: Descent, held: Held, *, now: int) -> None:
    """Take back what a run said in its workspace: messages, proposals, reasons of votes, its status."""
    assert run.workspace
    posted = channel.hold_back(tx, run.workspace, run.run)
    for message in posted:
        for id in open_work.called_by(tx, message["id"], run.workspace):
            commands.cancel(tx, id, reason=REASON, now=now)
    for message in [message for message in posted if message["kind"] == "proposal"]:
        posted += _withdraw(tx, run.workspace, message["id"], held, now=now)
    for number in _cancelled(tx, run):
        store.hold_back_reason(tx, run.workspace, number)
        posted += channel.hold_back_outcome(tx, run.workspace, number)
    held.messages.setdefault(run.workspace, set()).update(message["seq"] for message in posted)
    store.hold_back_reasons(tx, run.workspace, run.agent, since=run.started_at)
    member_rows.set_status(tx, run.workspace, run.agent, "")


def _withdraw(tx: Transaction, workspace: str, message: str, held: Held, *, now: int) -> list[Row]:
    """Take back a proposal: an open one is cancelled; what was decided is for people to judge."""
    proposal = store.announced_by(tx, workspace, message)
    if proposal is None:
        return []
    if proposal.state == "open":
        by = Voter(proposal.creator)
        lifecycle.end(tx, proposal, "cancelled", "", REASON, by=by, closing=True, now=now)
    else:
        held.decided.append(f"proposal {proposal.number} was {proposal.state}: {proposal.outcome or 'no outcome'}")
        held.keys.setdefault(workspace, set()).add(minutes.key_of(proposal))
    store.hold_back(tx, proposal.id)
    return channel.hold_back_proposal(tx, workspace, proposal.number)


def _cancelled(tx: Transaction, run: Descent) -> list[int]:
    """The numbers of the proposals that the run itself cancelled: everybody was told its reason."""
    rows = tx.all(
        """select arguments from call
            where project = :project and work = :work and run = :run and tool = 'team_proposal_cancel' and ok = 1""",
        work=run.work,
        run=run.run,
    )
    return [int(json.loads(row["arguments"])["proposal"]) for row in rows]


def _resources(tx: Transaction, run: Descent) -> Iterator[str]:
    """The ids of texts that a run kept: those of its long messages, and those it made by tool."""
    for row in tx.all(
        """select resource from message
            where project = :project and workspace = :workspace and run = :run and resource is not null""",
        workspace=run.workspace,
        run=run.run,
    ):
        yield row["resource"]
    for row in tx.all(
        "select result from call where project = :project and work = :work and run = :run", work=run.work, run=run.run
    ):
        if made := _KEPT.match(row["result"]):
            yield made[1]


def _keys(tx: Transaction, run: Descent) -> set[str]:
    rows = tx.all(
        "select step, id from call where project = :project and work = :work and run = :run", work=run.work, run=run.run
    )
    return {f"{run.work}/{row['step']}/{row['id']}" for row in rows}
