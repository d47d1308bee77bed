"""Work as others move it than its loop: a host that starts, a person who cancels, answers, resumes or retries.

Nothing is lost here: what a dead loop held goes back to its lane with its completed steps, and what a limit stopped is
continued as a new instruction over the same work.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_worker import attention, identities, instructions, limits, routing
from agent_worker.agents.assignments import DEATHS
from agent_worker.agents.telling import notice, tell_sender
from agent_worker.events import Ended
from agent_worker.identities import Fence
from agent_worker.instructions import Instruction
from agent_worker.storage.database import Row, Transaction
from agent_worker.workspaces import inbox, workspace


def recover(tx: Transaction, owner: str, *, now: int) -> int:
    """A host begins: what others left running goes back to its lane, or is dead if it killed too many."""
    lost = tx.all(
        """select r.id, r.agent, r.instruction from run r join agent a on a.id = r.agent
            where r.state = 'running' and coalesce(a.owner, '') <> :owner""",
        owner=owner,
    )
    for run in lost:
        _lose(tx, run, "its host died", now=now)
    tx.run(
        """update agent set owner = null, state = case when state in ('running', 'error') then 'idle' else state end
            where coalesce(owner, '') <> :owner""",
        owner=owner,
    )
    workspace.leave_all(tx)
    routing.forget_keys(tx, now=now)
    return len(lost)


def _lose(tx: Transaction, run: Row, reason: str, *, now: int) -> None:
    """The run took its worker with it."""
    instructions.close_run(tx, run["id"], "lost", reason=reason, now=now)
    rows = [Instruction.of(row) for row in instructions.running(tx, run["id"])]
    # Only the lead is to blame: its companions were merely in the same run.
    if instructions.lost_runs(tx, run["instruction"]) >= DEATHS:
        _bury(tx, run["id"], next(r for r in rows if r.id == run["instruction"]), now=now)
    instructions.put_back(tx, run["id"])
    inbox.take_back(tx, run["id"])


def _bury(tx: Transaction, run: str, work: Instruction, *, now: int) -> None:
    me = identities.identity(tx, work.agent)
    reason = f"its worker died {DEATHS} times while working on it"
    tx.run(
        "update instruction set state = 'dead', reason = :reason, ended_at = :now where id = :id",
        id=work.id,
        reason=reason,
        now=now,
    )
    if work.message:
        inbox.close_one(tx, work.message, work.agent, "dead")
    attention.ask(
        tx,
        "dead",
        project=me["project"],
        workspace=work.workspace,
        agent=work.agent,
        ref=work.id,
        text=f"{me['name']}: {reason}: {work.text[:200]}",
        now=now,
    )
    tell_sender(tx, work, me["name"], "dead", reason, run=run, now=now)


def abandon(tx: Transaction, fence: Fence, *, state: str, reason: str, now: int) -> None:
    """The loop is gone; whatever it held goes back, with its completed steps."""
    identities.hold(tx, fence)
    for run in tx.all("select id, instruction from run where agent = :agent and state = 'running'", agent=fence.agent):
        if state == "error":
            _lose(tx, run, reason, now=now)
            continue
        instructions.put_back(tx, run["id"])
        inbox.take_back(tx, run["id"])
        instructions.close_run(tx, run["id"], "yielded", reason=reason, now=now)
    if state == "error":
        identities.set_state(tx, fence.agent, state, reason=reason, now=now)
    else:
        identities.rest(tx, fence.agent, now=now)


def cancel(tx: Transaction, instruction: str, *, reason: str, now: int) -> str | None:
    """End it now; nothing it does later counts. The run to be stopped, if one was at it."""
    row = tx.one("select * from instruction where id = :id", id=instruction)
    if row is None or row["state"] not in ("queued", "running", "waiting"):
        return None
    work = Instruction.of(row)
    name = identities.identity(tx, work.agent)["name"]
    run: str | None = row["run"] if row["state"] == "running" else None
    instructions.end_one(tx, work.id, "cancelled", reason=reason, now=now)
    if work.message:
        inbox.close_one(tx, work.message, work.agent, "failed")
    if run is not None:
        # Only this one: what was merely answered together with it goes back.
        instructions.put_back(tx, run)
        inbox.take_back(tx, run)
        instructions.close_run(tx, run, "cancelled", reason=reason, now=now)
        identities.rest(tx, work.agent, now=now)
    attention.drop_work(tx, work.work)
    tell_sender(tx, work, name, "cancelled", reason, run=run, now=now)
    tx.tell(
        Ended(
            workspace=work.workspace,
            agent=work.agent,
            name=name,
            run=run or "",
            instruction=work.id,
            state="cancelled",
            reason=reason,
        )
    )
    return run


def answer(tx: Transaction, item: str, text: str, *, now: int) -> None:
    """A person answered a question or an approval: whatever waited for it goes on."""
    row = attention.close(tx, item, state="answered", answer=text)
    work = str(row["ref"]).partition("/")[0]
    if not attention.waits_for(tx, work):
        instructions.wake(tx, work)


def continue_work(tx: Transaction, instruction: str, *, now: int) -> str | None:
    """Go on with work that ended incomplete or failed, from its saved steps, and with what ended together with it."""
    row = tx.one("select * from instruction where id = :id", id=instruction)
    if row is None or row["state"] not in ("incomplete", "failed", "dead") or instructions.goes_on(tx, row):
        return None
    others = [Instruction.of(other) for other in instructions.ended_with(tx, row)]
    first = _continue(tx, Instruction.of(row), now=now)
    for other in others:
        _continue(tx, other, now=now)
    return first


def _continue(tx: Transaction, work: Instruction, *, now: int) -> str:
    if work.message:
        inbox.reopen(tx, work.message, work.agent)
    for sort in ("failure", "limit", "dead"):
        attention.close_about(tx, sort, work.id)
    order = instructions.Order(
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
    return instructions.put(tx, order, now=now)


def give_agent_up(tx: Transaction, fence: Fence, reason: str, *, now: int) -> None:
    """Its loop crashed too often. It stays in error, and its work queued, until a person starts it."""
    me = identities.identity(tx, fence.agent)
    text = f"{me['name']} crashed too often: {reason}"
    attention.ask(tx, "failure", project=me["project"], agent=fence.agent, ref=fence.agent, text=text, now=now)
    identities.set_state(tx, fence.agent, "error", reason=text)


def start_agent(tx: Transaction, agent: str) -> None:
    """A person says: go on, after it was stopped or given up."""
    attention.close_about(tx, "failure", agent)
    identities.set_state(tx, agent, "idle")
    instructions.announce(tx, agent)  # its loop may be gone


def pause_room(tx: Transaction, room: str, reason: str, *, now: int) -> None:
    """Its time is up: what is queued there waits, and the person is told."""
    row = workspace.get(tx, room)
    if row["state"] != "running" or not workspace.pause(tx, room, reason):
        return
    notice(tx, room, f"Paused: {reason}. Resume to go on.", "", now=now)
    attention.ask(tx, "limit", project=row["project"], workspace=room, ref=room, text=reason, now=now)


def resume_room(tx: Transaction, room: str, *, now: int) -> Sequence[str]:
    """A new allowance for everything a limit stopped here; it goes on where it was."""
    workspace.resume(tx, room)
    attention.close_about(tx, "limit", room)
    return _continue_limited(tx, "workspace", room, now=now)


def resume_agent(tx: Transaction, agent: str, *, now: int) -> Sequence[str]:
    me = identities.identity(tx, agent)
    identities.resume(tx, agent)
    limits.forgive(tx, "agent", agent, now=now)
    limits.forgive(tx, "project", me["project"], now=now)
    return _continue_limited(tx, "agent", agent, now=now)


def lift_limit(tx: Transaction, item: Row, *, now: int) -> None:
    """A person says of one thing that met a limit: go on. Whatever paused because of it does."""
    if item["agent"] and identities.identity(tx, item["agent"])["paused"]:
        resume_agent(tx, item["agent"], now=now)
    if item["workspace"]:
        resume_room(tx, item["workspace"], now=now)


def _continue_limited(tx: Transaction, column: str, value: str, *, now: int) -> list[str]:
    rows = tx.all(
        f"""select ref, i.root, i.hop from attention t join instruction i on i.id = t.ref
             where t.state = 'open' and t.sort = 'limit' and t.{column} = :value order by t.at""",
        value=value,
    )
    continued = []
    for row in rows:
        limits.forgive(tx, "root", row["root"], hops=row["hop"], now=now)
        if id := continue_work(tx, row["ref"], now=now):
            continued.append(id)
    return continued
