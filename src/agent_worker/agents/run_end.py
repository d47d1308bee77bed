"""How a run ends, as the loop sees it: finished, put back, tried later, given up, stopped by a limit.

The answer, what it causes, and the end of the work are one transaction. Each proves the fence first.
"""

from __future__ import annotations

from functools import partial

from agent_worker.agents.notices import answer_dm, ended_words, tell_ended, tell_sender
from agent_worker.agents.prompt import spoken
from agent_worker.agents.run_begin import Assignment, hold_run, pause_at, record_step
from agent_worker.backends.backend import Reply
from agent_worker.core.errors import BackendFailure
from agent_worker.core.events import Ended, Retrying
from agent_worker.core.failpoints import failpoint
from agent_worker.database.database import Transaction
from agent_worker.memory import outside_words
from agent_worker.work import agent_rows, inbox, limits, open_work, queue, run_rows, threads
from agent_worker.work.agent_rows import Fence
from agent_worker.work.limits import Reached
from agent_worker.work.queue import Ageing, End, Instruction
from agent_worker.workspaces import deliveries, member_rows, resources, routing, workspace_rows


def finish(
    tx: Transaction, job: Assignment, step: int, reply: Reply, model: str, *, seen: int, outside: str = "", now: int
) -> bool:
    """Store the answer, what it causes, and the end of the work, in one transaction. Has the agent more to do?"""
    hold_run(tx, job)
    if outside:
        run_rows.note_outside(tx, job.run, outside)
    record_step(tx, job, step, reply, model, now=now)
    text = spoken(reply.text)
    if outside:
        outside_words.mark(tx, job.run, [text])
    if job.workspace:
        _answer_in_workspace(tx, job, text, seen=seen, now=now)
    else:
        answer_dm(tx, job.lead, job.name, text, failed=False, run=job.run, now=now)
    for item in job.taken:
        inbox.settle(tx, item.agent, partial(open_work.is_same_matter, tx, item))
    deliveries.close(tx, job.run, "acked")
    _end(tx, job, "done", text=text, now=now)
    failpoint("finish.before_commit")
    return open_work.any_queued(tx, job.fence.agent)


def _answer_in_workspace(tx: Transaction, job: Assignment, text: str, *, seen: int, now: int) -> None:
    assert job.workspace
    run = run_rows.produced_by(tx, job.lead.id)
    workspace = workspace_rows.get(tx, job.workspace)
    fresh = bool(run["produced"])
    _keep_thread(tx, job, text, now=now)
    if text and workspace["state"] == "running" and not run["posted"]:
        speech = routing.OutgoingMessage(
            workspace=job.workspace,
            sender=job.name,
            text=text[: resources.LIMIT // 4],
            root=job.lead.root,
            hop=max(i.hop for i in job.taken) + 1,
            run=job.run,
        )
        fresh = fresh or routing.is_new(tx, speech)
        routing.say(tx, speech, now=now)
    member_rows.end_run(tx, job.workspace, job.fence.agent, seen=seen, fruitful=fresh)


def _keep_thread(tx: Transaction, job: Assignment, text: str, *, now: int) -> None:
    context = job.workspace or threads.PERSONAL
    routing.hear(tx, job.run, now=now)
    if text:
        threads.say(tx, job.fence.agent, context, who=job.name, text=text, run=job.run, now=now)


def put_back(
    tx: Transaction,
    job: Assignment,
    *,
    why: str,
    preempted: bool = False,
    now: int,
    ageing: Ageing,
) -> None:
    """Put a run's work back into its lane with its completed steps: something more urgent came, or we are stopping."""
    hold_run(tx, job)
    queue.put_back(tx, job.run, preempted=preempted, ageing=ageing)
    _leave(tx, job, "yielded", why, now=now)


def retry_later(
    tx: Transaction, job: Assignment, failure: BackendFailure, *, wait: float, counts: bool, now: int
) -> None:
    """Try it again after a wait. A try that does not count has only waited for its model: its run goes on then."""
    hold_run(tx, job)
    not_before = now + round(wait * 1e6)
    queue.put_back(tx, job.run, failed=counts, not_before=not_before, waits_since=None if counts else now)
    if not counts:
        _uncount(tx, job)
        run_rows.rest_run(tx, job.run, reason=failure.message)
    run_rows.close_run(  # unless it rests
        tx, job.run, "failed", reason=failure.message, remedy=failure.remedy, now=now
    )
    _let_go(tx, job, now=now)
    tx.tell(
        Retrying(
            workspace=job.workspace,
            agent=job.fence.agent,
            name=job.name,
            run=job.run,
            reason=failure.message,
            wait=wait,
        )
    )


def suspend(tx: Transaction, job: Assignment, *, now: int) -> None:
    """A person was asked. The work waits without holding its agent, until the answer queues it again."""
    hold_run(tx, job)
    if inbox.waits_for(tx, job.lead.work):
        queue.set_waiting(tx, job.run)
    else:  # the answer was faster than we
        queue.put_back(tx, job.run)
    _leave(tx, job, "yielded", "a person was asked", now=now)


def _leave(tx: Transaction, job: Assignment, state: str, why: str, *, now: int) -> None:
    _uncount(tx, job)
    _close(tx, job, state, why, now=now)
    tell_end(tx, job, state, why)


def _uncount(tx: Transaction, job: Assignment) -> None:
    for root in {item.root for item in job.taken}:
        limits.uncount_run(tx, root)


def _close(tx: Transaction, job: Assignment, state: str, why: str, *, now: int) -> None:
    """Close a run whose work is not over."""
    run_rows.close_run(tx, job.run, state, reason=why, now=now)
    _let_go(tx, job, now=now)


def _let_go(tx: Transaction, job: Assignment, *, now: int) -> None:
    """Free the agent of a run that is over: what the run was given can be given again."""
    deliveries.take_back(tx, job.run)
    agent_rows.rest(tx, job.fence.agent, now=now)


def give_up(tx: Transaction, job: Assignment, failure: BackendFailure, state: End, *, now: int) -> None:
    """End work for good that failed. The sender is told where it looks, the agent sees it next time, the person may
    retry."""
    hold_run(tx, job)
    reason = f"{failure.message} ({failure.hint})" if failure.hint else failure.message
    tell_sender(tx, job.lead, job.name, state, reason, run=job.run, now=now)
    if job.workspace:
        routing.hear(tx, job.run, now=now)
        threads.say(tx, job.fence.agent, job.workspace, who="system", text=reason, kind="failure", run=job.run, now=now)
        member_rows.count_fruitless(tx, job.workspace, job.fence.agent, fruitful=False)
    deliveries.close(tx, job.run, "failed")
    inbox.ask(
        tx,
        "failure",
        workspace=job.workspace,
        agent=job.fence.agent,
        ref=job.lead.id,
        text=f"{job.name} {ended_words(state)}: {reason}",
        details={"remedy": failure.remedy} if failure.remedy else None,
        now=now,
    )
    _end(tx, job, state, reason=reason, remedy=failure.remedy, now=now)


def give_up_waiting(tx: Transaction, fence: Fence, instruction: str, reason: str, *, now: int) -> None:
    """Queued work has waited too long for its model: it has failed without another run, and this is told."""
    agent_rows.hold(tx, fence)
    row = tx.one("select * from instruction where project = :project and id = :id and state = 'queued'", id=instruction)
    if row is None:
        return
    work, me = Instruction.of(row), agent_rows.identity(tx, fence.agent)
    queue.end_one(tx, work.id, "failed", reason=reason, now=now)
    if work.message:
        deliveries.close_one(tx, work.message, work.agent, "failed")
    tell_sender(tx, work, me["name"], "failed", reason, run=None, now=now)
    if work.workspace:
        threads.say(tx, work.agent, work.workspace, who="system", text=reason, kind="failure", run=None, now=now)
    inbox.ask(
        tx,
        "failure",
        workspace=work.workspace,
        agent=work.agent,
        ref=work.id,
        text=f"{me['name']} {ended_words('failed')}: {reason}",
        now=now,
    )
    tell_ended(tx, work, me["name"], "failed", reason)


def ask_for_key(tx: Transaction, fence: Fence, workspace: str | None, subject: str, reason: str, *, now: int) -> None:
    """Work waits for a key. Whoever else waits for the same one is not told of again."""
    agent_rows.hold(tx, fence)
    name = agent_rows.identity(tx, fence.agent)["name"]
    text = f"{name} waits for a key: {reason}"
    inbox.ask(tx, "key", workspace=workspace, agent=fence.agent, ref=subject, text=text, now=now)


def stop_at_limit(tx: Transaction, job: Assignment, stop: Reached, *, now: int) -> None:
    """A limit was met between two steps: incomplete, with all that was done kept."""
    hold_run(tx, job)
    deliveries.take_back(tx, job.run)
    _end(tx, job, "incomplete", reason=stop.reason, now=now)
    pause_at(tx, agent_rows.identity(tx, job.fence.agent), job.lead, stop, now=now)


def _end(
    tx: Transaction, job: Assignment, state: End, *, reason: str = "", remedy: str = "", text: str = "", now: int
) -> None:
    queue.end(tx, job.run, state, reason=reason, now=now)
    run_rows.close_run(tx, job.run, state, reason=reason, remedy=remedy, text=text, now=now)
    agent_rows.rest(tx, job.fence.agent, now=now)
    tell_end(tx, job, state, reason, text)


def tell_end(tx: Transaction, job: Assignment, state: str, reason: str, text: str = "") -> None:
    tx.tell(
        Ended(
            workspace=job.workspace,
            agent=job.fence.agent,
            name=job.name,
            run=job.run,
            instruction=job.lead.id,
            state=state,
            reason=reason,
            text=text,
        )
    )
