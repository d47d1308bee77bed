"""What a host does for work whose loop is gone: when it begins, when another host died, when a loop ends or crashes.

Nothing is lost here: what a dead loop held goes back to its lane with its completed steps. What a person does with work
is in commands.py.
"""

from __future__ import annotations

from collections import Counter

from agent_worker.agents.notices import tell_sender
from agent_worker.agents.run_begin import DEATHS
from agent_worker.database.database import Row, Transaction, WholeTransaction
from agent_worker.work import agent_rows, inbox, project_rows, queue, run_rows
from agent_worker.work.agent_rows import Fence
from agent_worker.work.queue import Instruction
from agent_worker.workspaces import deliveries, routing, workspace_state


def recover(tx: WholeTransaction, owner: str, *, shared: bool = False, now: int) -> int:
    """What hosts that are gone left running goes back to its lane, or is dead if it killed too many.

    Gone is who has no row in `host`; where only one has the database, everybody but us. Where it is `shared` hosts
    come and go, and the death of one counts only against work that was alone on it.
    """
    projects = [tx.of(project) for project in project_rows.ids(tx)]
    lost = {each.project: _lost(each, owner) for each in projects}
    on_host = Counter(run["owner"] for runs in lost.values() for run in runs)
    for each in projects:
        for run in lost[each.project]:
            if shared and on_host[run["owner"]] > 1:
                run_rows.forgive(each, run["id"])
            _lose(each, run, "the process it ran in died", now=now)
        agent_rows.free_from_others(each, owner)
        workspace_state.leave_all(each, owner)
        routing.forget_keys(each, now=now)
    return on_host.total()


def _lost(tx: Transaction, owner: str) -> list[Row]:
    """What is said to run, though its host is gone."""
    return tx.all(
        """select r.id, r.agent, r.instruction,
                  (select a.owner from agent a where a.project = :project and a.id = r.agent) as owner
             from run r
            where r.project = :project and r.state = 'running' and r.agent in (
                  select id from agent where project = :project and coalesce(owner, '') <> :owner
                      and not exists (select 1 from host h where h.id = agent.owner))""",
        owner=owner,
    )


def _lose(tx: Transaction, run: Row, reason: str, *, now: int) -> None:
    """Close a run that took its worker with it, and put its work back."""
    run_rows.close_run(tx, run["id"], "lost", reason=reason, now=now)
    rows = [Instruction.of(row) for row in queue.running(tx, run["id"])]
    # Only the lead is to blame: its companions were merely in the same run.
    if run_rows.deaths(tx, run["instruction"]) >= DEATHS:
        _bury(tx, run["id"], next(r for r in rows if r.id == run["instruction"]), now=now)
    queue.put_back(tx, run["id"])
    deliveries.take_back(tx, run["id"])


def _bury(tx: Transaction, run: str, work: Instruction, *, now: int) -> None:
    me = agent_rows.identity(tx, work.agent)
    reason = f"the process that worked on it died {DEATHS} times"
    queue.end_one(tx, work.id, "dead", reason=reason, now=now)
    if work.message:
        deliveries.close_one(tx, work.message, work.agent, "dead")
    inbox.ask(
        tx,
        "dead",
        workspace=work.workspace,
        agent=work.agent,
        ref=work.id,
        text=f"{me['name']}: {reason}: {work.text[:200]}",
        now=now,
    )
    tell_sender(tx, work, me["name"], "dead", reason, run=run, now=now)


def claim(tx: Transaction, agent: str, owner: str, *, now: int) -> Fence:
    """Become the one who runs this agent. What an earlier loop could not even put back is put back here."""
    fence = agent_rows.claim(tx, agent, owner)
    _put_back(tx, agent, "idle", "its loop ended while the database was away", now=now)
    return fence


def abandon(tx: Transaction, fence: Fence, *, state: str, reason: str, now: int) -> None:
    """Put back whatever a loop held that is gone now, with its completed steps. That it only waited is no activity."""
    agent_rows.hold(tx, fence)
    held = _put_back(tx, fence.agent, state, reason, now=now)
    if state == "error":
        agent_rows.set_state(tx, fence.agent, state, reason=reason, now=now)
    elif held:
        agent_rows.rest(tx, fence.agent, now=now)


def _put_back(tx: Transaction, agent: str, state: str, reason: str, *, now: int) -> bool:
    """Whether there was anything to be put back."""
    held = tx.all(
        "select id, instruction from run where project = :project and agent = :agent and state = 'running'",
        agent=agent,
    )
    for run in held:
        if state == "error":
            _lose(tx, run, reason, now=now)
            continue
        queue.put_back(tx, run["id"])
        deliveries.take_back(tx, run["id"])
        run_rows.close_run(tx, run["id"], "yielded", reason=reason, now=now)
    return bool(held)


def give_agent_up(tx: Transaction, fence: Fence, reason: str, *, now: int) -> None:
    """Put an agent whose loop crashed too often in error; its work stays queued until a person starts it."""
    me = agent_rows.identity(tx, fence.agent)
    text = f"{me['name']} crashed too often: {reason}"
    inbox.ask(tx, "failure", agent=fence.agent, ref=fence.agent, text=text, now=now)
    agent_rows.set_state(tx, fence.agent, "error", reason=text)
