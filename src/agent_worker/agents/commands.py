"""What a person does with work: cancel it, refuse what came of it, answer it, resume it, let it go on.

Nothing is lost here: what a limit or a failure stopped is continued as a new instruction over the same work.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_worker.agents.notices import notice, tell_ended, tell_sender
from agent_worker.core.errors import Refused
from agent_worker.database.database import Row, Transaction
from agent_worker.work import agent_rows, inbox, limits, open_work, queue, run_rows, threads
from agent_worker.work.queue import Instruction
from agent_worker.workspaces import deliveries, workspace_rows, workspace_state


def cancel(tx: Transaction, instruction: str, *, reason: str, now: int) -> str | None:
    """Cancel an instruction: nothing that its run does later counts. Returns the run that is to be stopped, if there is
    one.
    """
    row = tx.one("select * from instruction where project = :project and id = :id", id=instruction)
    if row is None or row["state"] not in ("queued", "running", "waiting"):
        return None
    work = Instruction.of(row)
    name = agent_rows.identity(tx, work.agent)["name"]
    run: str | None = row["run"] if row["state"] == "running" else None
    queue.end_one(tx, work.id, "cancelled", reason=reason, now=now)
    if work.message:
        deliveries.close_one(tx, work.message, work.agent, "failed")
    if run is not None:
        # Only this one: what was merely answered together with it goes back.
        queue.put_back(tx, run)
        deliveries.take_back(tx, run)
        run_rows.close_run(tx, run, "cancelled", reason=reason, now=now)
        agent_rows.rest(tx, work.agent, now=now)
    inbox.drop_work(tx, work.work)
    tell_sender(tx, work, name, "cancelled", reason, run=run, now=now)
    tell_ended(tx, work, name, "cancelled", reason, run=run)
    return run


def refuse_answer(tx: Transaction, run: str, *, reason: str, now: int) -> None:
    """Record that the asker cannot use the answer of a run: its work has failed after all, and the person is told."""
    row = tx.one(
        """select i.* from run r join instruction i on i.project = :project and i.id = r.instruction
            where r.project = :project and r.id = :run and r.state = 'done'""",
        run=run,
    )
    if row is None:
        return  # it was refused before
    if row["workspace"]:
        raise Refused("an answer in a channel belongs to everybody", hint="say there what is wrong with it")
    work = Instruction.of(row)
    name = agent_rows.identity(tx, work.agent)["name"]
    queue.refuse(tx, run, reason=reason)
    threads.say(tx, work.agent, threads.PERSONAL, who="system", text=reason, kind="failure", run=run, now=now)
    inbox.ask(tx, "failure", workspace=None, agent=work.agent, ref=work.id, text=f"{name} failed: {reason}", now=now)
    tell_ended(tx, work, name, "failed", reason, run=run)


def answer(tx: Transaction, item: str, text: str, *, now: int) -> None:
    """Give a person's answer to a question or an approval to the work that waits for it, which goes on."""
    row = inbox.close(tx, item, state="answered", answer=text)
    work = str(row["ref"]).partition("/")[0]
    if not inbox.waits_for(tx, work):
        queue.wake(tx, work)


def continue_work(tx: Transaction, instruction: str, *, now: int) -> str | None:
    """Go on with work that ended incomplete or failed, from its saved steps, and with what ended together with it."""
    row = tx.one("select * from instruction where project = :project and id = :id", id=instruction)
    if row is None or row["state"] not in ("incomplete", "failed", "dead") or open_work.goes_on(tx, row):
        return None
    others = [Instruction.of(other) for other in open_work.ended_with(tx, row)]
    first = _continue(tx, Instruction.of(row), now=now)
    for other in others:
        _continue(tx, other, now=now)
    return first


def _continue(tx: Transaction, work: Instruction, *, now: int) -> str:
    if work.message:
        deliveries.reopen(tx, work.message, work.agent)
    for kind in ("failure", "limit", "dead"):
        inbox.close_about(tx, kind, work.id)
    order = queue.Order(
        agent=work.agent,
        text=work.text,
        source=work.source,
        sender=work.sender,
        lane=work.lane,
        root=work.root,
        workspace=work.workspace,
        message=work.message,
        hop=work.hop,
        continues=work.id,
    )
    return queue.put(tx, order, now=now)


def start_agent(tx: Transaction, agent: str) -> None:
    """Let an agent go on after it was stopped or given up: a person says so."""
    inbox.close_about(tx, "failure", agent)
    if agent_rows.identity(tx, agent)["state"] in ("stopped", "error"):
        agent_rows.set_state(tx, agent, "idle")
    queue.announce(tx, agent)  # its loop may be gone


def pause_workspace(tx: Transaction, workspace: str, reason: str, *, now: int) -> None:
    """Pause a workspace whose time is up: what is queued there waits, and the person is told."""
    row = workspace_rows.get(tx, workspace)
    if row["state"] != "running" or not workspace_state.pause(tx, workspace, reason):
        return
    notice(tx, workspace, f"Paused: {reason}. Resume to continue.", "", now=now)
    inbox.ask(tx, "limit", workspace=workspace, ref=workspace, text=reason, now=now)


def resume_workspace(tx: Transaction, workspace: str, *, forgives: bool = True, now: int) -> Sequence[str]:
    """A new allowance for everything a limit stopped here; it goes on where it was.

    Unless it `forgives`, what was used counts on: the limit itself was raised.
    """
    workspace_state.resume(tx, workspace)
    inbox.close_about(tx, "limit", workspace)
    return _continue_limited(tx, "workspace", workspace, forgives=forgives, now=now)


def resume_agent(tx: Transaction, agent: str, *, forgives: bool = True, now: int) -> Sequence[str]:
    """Let everything go on that a limit stopped of one agent."""
    agent_rows.resume(tx, agent)
    if forgives:
        limits.forgive(tx, "agent", agent, now=now)
        limits.forgive(tx, "project", "", now=now)
    return _continue_limited(tx, "agent", agent, forgives=forgives, now=now)


def lift_limit(tx: Transaction, item: Row, *, now: int) -> None:
    """A person says of one thing that met a limit: go on. Whatever paused because of it does."""
    if item["agent"] and agent_rows.identity(tx, item["agent"])["paused"]:
        resume_agent(tx, item["agent"], now=now)
    if item["workspace"]:
        resume_workspace(tx, item["workspace"], now=now)


def _continue_limited(tx: Transaction, column: str, value: str, *, forgives: bool, now: int) -> list[str]:
    rows = tx.all(
        f"""select ref, i.root, i.hop from inbox_item t join instruction i on i.project = :project and i.id = t.ref
             where t.project = :project and t.state = 'open' and t.kind = 'limit' and t.{column} = :value
             order by t.at, t.n""",
        value=value,
    )
    continued = []
    for row in rows:
        if forgives:
            limits.forgive(tx, "root", row["root"], hops=row["hop"], now=now)
        if id := continue_work(tx, row["ref"], now=now):
            continued.append(id)
    return continued
