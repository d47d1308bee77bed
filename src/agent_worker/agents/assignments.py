"""The loop's transactions: begin, keep a step, finish, put back, give up, recover.

Each ties the queue to the channel, the threads, the limits and the person's inbox, in one commit. Each but
`recover` first proves the fence: a loop that is no longer the one changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_worker import attention, identities, instructions, limits, routing, steps, threads
from agent_worker.agents.failure import LONGEST_WAIT
from agent_worker.backends.backend import PastStep, Reply
from agent_worker.errors import BackendFailure, Fenced
from agent_worker.events import Ended, Retrying, Started, Stepped
from agent_worker.failpoints import failpoint
from agent_worker.identities import Fence
from agent_worker.instructions import Ageing, End, Instruction
from agent_worker.limits import Account, Charge, Limits, Reached
from agent_worker.storage.database import Row, Transaction
from agent_worker.tools.tool import Result
from agent_worker.workspaces import channel, inbox, resources, workspace

DEATHS = 3  # runs that never came to an end of their own before an instruction is dead


@dataclass(frozen=True, slots=True)
class Terms:
    """What the loop knows about its agent that the database does not."""

    name: str
    backend: str
    model: str
    limits: Limits


TermsOf = Callable[[str | None], Terms]  # by workspace


@dataclass(frozen=True, slots=True)
class Assignment:
    """A run that has begun: what it works on and what earlier runs of the same work left."""

    run: str
    fence: Fence
    name: str
    project: str
    taken: tuple[Instruction, ...]  #: the first leads; the others are mentions answered with it
    past: tuple[PastStep, ...]
    done_before: int = 0  #: of those steps, how many an earlier instruction did that this one continues
    others_wait: bool = False  #: more work was queued when this was taken; it may be lifted meanwhile

    @property
    def lead(self) -> Instruction:
        return self.taken[0]

    @property
    def workspace(self) -> str | None:
        return self.lead.workspace

    @property
    def account(self) -> Account:
        return Account(self.fence.agent, self.project, self.lead.root)


@dataclass(frozen=True, slots=True)
class NotYet:
    """There is work, but not before this time (microseconds)."""

    at: int


@dataclass(frozen=True, slots=True)
class Suspect:
    """The next piece of work died all but once too often: it is only taken while nothing else runs."""


Taken = Assignment | NotYet | Suspect | None


def begin(tx: Transaction, fence: Fence, terms_of: TermsOf, *, now: int, ageing: Ageing, alone: bool = False) -> Taken:
    """Take the next piece of work, if there is any and it may be done. `alone`: nothing else runs on this host."""
    identities.hold(tx, fence)
    while True:
        me = identities.identity(tx, fence.agent)
        if me["paused"] or me["state"] in ("stopped", "error"):
            return None
        first = instructions.head(tx, fence.agent, now=now, ageing=ageing)
        if first is None:
            return None
        # Later than anyone was ever told to wait: somebody has set the clock back.
        if now < first["not_before"] <= now + round(LONGEST_WAIT * 1e6):
            return NotYet(first["not_before"])
        if not alone and first["attempts"] and instructions.lost_runs(tx, first["id"]) >= DEATHS - 1:
            return Suspect()
        terms = terms_of(first["workspace"])
        stop = _limit(tx, first, me["project"], terms.limits, now=now)
        if stop is None:
            return _take(tx, fence, me, first, terms, now=now)
        _stop_before(tx, me, first, stop, now=now)


def _limit(tx: Transaction, first: Row, project: str, allowed: Limits, *, now: int) -> Reached | None:
    fruitless = 0
    if first["workspace"]:
        row = tx.one(
            "select fruitless from member where workspace = :workspace and agent = :agent",
            workspace=first["workspace"],
            agent=first["agent"],
        )
        fruitless = row["fruitless"] if row else 0
    account = Account(first["agent"], project, first["root"])
    return limits.reached(allowed, limits.spent(tx, account, hop=first["hop"], fruitless=fruitless, now=now))


def _take(tx: Transaction, fence: Fence, me: Row, first: Row, terms: Terms, *, now: int) -> Assignment:
    rows = [first, *instructions.companions(tx, first)]
    run = instructions.begin_run(tx, rows, backend=terms.backend, model=terms.model, now=now)
    for root in {row["root"] for row in rows}:
        limits.count_run(tx, root)
    inbox.give(tx, [row["message"] for row in rows if row["message"]], fence.agent, run)
    identities.set_state(tx, fence.agent, "running", now=now)
    tx.tell(
        Started(
            workspace=first["workspace"],
            agent=fence.agent,
            name=terms.name,
            run=run,
            instruction=first["id"],
            attempt=first["attempts"] + 1,
        )
    )
    return Assignment(
        run=run,
        fence=fence,
        name=terms.name,
        project=me["project"],
        taken=tuple(map(Instruction.of, rows)),
        past=_past(tx, first["work"]),
        done_before=_done_before(tx, first),
        others_wait=instructions.any_queued(tx, fence.agent),
    )


def _past(tx: Transaction, work: str) -> tuple[PastStep, ...]:
    results: dict[int, dict[str, Result]] = {}
    for call in steps.calls_of_work(tx, work):
        if call["state"] == "done":
            results.setdefault(call["step"], {})[call["id"]] = Result(call["result"], bool(call["ok"]))
    return tuple(PastStep(Reply.load(s["reply"]), results.get(s["n"], {})) for s in steps.of_work(tx, work))


def _done_before(tx: Transaction, first: Row) -> int:
    row = tx.one(
        """select count(*) as n from step s join run r on r.id = s.run
            where s.work = :work and r.instruction <> :id""",
        work=first["work"],
        id=first["id"],
    )
    return int(row["n"]) if row else 0


def _stop_before(tx: Transaction, me: Row, first: Row, stop: Reached, *, now: int) -> None:
    """A limit was met before the work began: it ends incomplete, its place pauses, the person is told once."""
    work = Instruction.of(first)
    instructions.end_one(tx, work.id, "incomplete", reason=stop.reason, now=now)
    _pause(tx, me, work, stop, now=now)
    tx.tell(
        Ended(
            workspace=work.workspace,
            agent=work.agent,
            name=me["name"],
            run="",
            instruction=work.id,
            state="incomplete",
            reason=stop.reason,
        )
    )


def _pause(tx: Transaction, me: Row, work: Instruction, stop: Reached, *, now: int) -> None:
    if stop.pauses == "place" and work.workspace:
        fresh = workspace.pause(tx, work.workspace, stop.reason)
    else:
        fresh = not me["paused"]
        identities.pause(tx, work.agent, stop.reason)
    attention.ask(
        tx,
        "limit",
        project=me["project"],
        workspace=work.workspace,
        agent=work.agent,
        ref=work.id,
        text=f"{me['name']}: {stop.reason}",
        now=now,
    )
    if not fresh:
        return
    if work.workspace:
        _notice(tx, work.workspace, f"Paused: {stop.reason}. Resume to grant a new allowance.", work.root, now=now)
    else:
        _answer_dm(tx, work, me["name"], f"Paused: {stop.reason}.", failed=True, run=None, now=now)


# --- while it runs ------------------------------------------------------------------------------------


def hold_run(tx: Transaction, job: Assignment) -> None:
    identities.hold(tx, job.fence)
    if not tx.one("select 1 as open from run where id = :run and state = 'running'", run=job.run):
        raise Fenced(f"run {job.run} is over")


def keep_step(tx: Transaction, job: Assignment, step: int, reply: Reply, terms: Terms, *, now: int) -> Reached | None:
    """Store what the model answered and what it cost; the limit that is met by it, if any."""
    hold_run(tx, job)
    _record(tx, job, step, reply, terms.model, now=now)
    # Runs and hops were counted when this one began; only its money can have grown since.
    spent = limits.spent(tx, job.account, hop=0, fruitless=0, now=now)
    return limits.reached(terms.limits.money_only, spent)


def _record(tx: Transaction, job: Assignment, step: int, reply: Reply, model: str, *, now: int) -> None:
    use = reply.usage.plausible
    item = Charge(job.run, step, model, use.input, use.cached, use.output, use.usd)
    micros = limits.charge(tx, job.account, item, now=now)
    steps.keep(
        tx,
        work=job.lead.work,
        step=step,
        run=job.run,
        reply=reply.dump(),
        tokens=use.tokens,
        micros=micros,
        now=now,
    )
    tx.tell(
        Stepped(
            workspace=job.workspace,
            agent=job.fence.agent,
            name=job.name,
            run=job.run,
            step=step,
            tokens=use.tokens,
            usd=micros / 1e6,
        )
    )


def charge_lesson(tx: Transaction, job: Assignment, reply: Reply, model: str, *, now: int) -> None:
    """What learning from a run has cost is paid by the same request."""
    identities.hold(tx, job.fence)
    use = reply.usage.plausible
    limits.charge(tx, job.account, Charge(job.run, -1, model, use.input, use.cached, use.output, use.usd), now=now)


def should_yield(tx: Transaction, job: Assignment, *, now: int, ageing: Ageing) -> bool:
    identities.hold(tx, job.fence)
    return instructions.waiting_above(tx, job.fence.agent, job.lead.lane, now=now, ageing=ageing)


# --- how it ends --------------------------------------------------------------------------------------


def finish(tx: Transaction, job: Assignment, step: int, reply: Reply, model: str, *, seen: int, now: int) -> None:
    """The answer, what it causes, and the end of the work: one transaction."""
    hold_run(tx, job)
    _record(tx, job, step, reply, model, now=now)
    text = reply.text.strip()
    if job.workspace:
        _answer_in_room(tx, job, text, seen=seen, now=now)
    else:
        _answer_dm(tx, job.lead, job.name, text, failed=False, run=job.run, now=now)
    inbox.close(tx, job.run, "acked")
    _end(tx, job, "done", text=text, now=now)
    failpoint("finish.before_commit")


def _answer_in_room(tx: Transaction, job: Assignment, text: str, *, seen: int, now: int) -> None:
    assert job.workspace
    run = instructions.produced_by(tx, job.lead.id)
    room = workspace.get(tx, job.workspace)
    fresh = bool(run["produced"])
    _keep_thread(tx, job, text, now=now)
    if text and room["state"] == "running" and not run["posted"]:
        fresh = fresh or not channel.said_before(tx, job.workspace, job.name, text)
        speech = routing.Speech(
            workspace=job.workspace,
            sender=job.name,
            text=text[: resources.LIMIT // 4],
            root=job.lead.root,
            hop=max(i.hop for i in job.taken) + 1,
            run=job.run,
        )
        routing.say(tx, speech, now=now)
    workspace.mark_seen(tx, job.workspace, job.fence.agent, seen)
    workspace.count_fruitless(tx, job.workspace, job.fence.agent, fruitful=fresh)


def _keep_thread(tx: Transaction, job: Assignment, text: str, *, now: int) -> None:
    context = job.workspace or threads.PERSONAL
    routing.hear(tx, job.run, now=now)
    if text:
        threads.say(tx, job.fence.agent, context, who=job.name, text=text, run=job.run, now=now)


def _answer_dm(
    tx: Transaction, work: Instruction, name: str, text: str, *, failed: bool, run: str | None, now: int
) -> None:
    """Question and answer go into the personal thread together."""
    threads.say(tx, work.agent, threads.PERSONAL, who=work.sender, text=work.text, run=run, now=now)
    if text:
        sort = "failure" if failed else "message"
        threads.say(
            tx,
            work.agent,
            threads.PERSONAL,
            who="system" if failed else name,
            text=text,
            run=run,
            sort=sort,  # type: ignore[arg-type]
            now=now,
        )


def put_back(
    tx: Transaction,
    job: Assignment,
    *,
    why: str,
    preempted: bool = False,
    now: int,
    ageing: Ageing,
) -> None:
    """Back to its lane with its completed steps: something more urgent came, or we are stopping."""
    hold_run(tx, job)
    instructions.put_back(tx, job.run, preempted=preempted, ageing=ageing)
    _leave(tx, job, "yielded", why, now=now)


def retry_later(
    tx: Transaction, job: Assignment, failure: BackendFailure, *, wait: float, counts: bool, now: int
) -> None:
    hold_run(tx, job)
    instructions.put_back(tx, job.run, failed=counts, not_before=now + round(wait * 1e6))
    if not counts:
        _uncount(tx, job)
    _close(tx, job, "failed", failure.message, now=now)
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
    if attention.waits_for(tx, job.lead.work):
        instructions.set_waiting(tx, job.run)
    else:  # the answer was faster than we
        instructions.put_back(tx, job.run)
    _leave(tx, job, "yielded", "waits for a person", now=now)


def _leave(tx: Transaction, job: Assignment, state: str, why: str, *, now: int) -> None:
    _uncount(tx, job)
    _close(tx, job, state, why, now=now)
    _tell_end(tx, job, state, why)


def _uncount(tx: Transaction, job: Assignment) -> None:
    for root in {item.root for item in job.taken}:
        limits.uncount_run(tx, root)


def _close(tx: Transaction, job: Assignment, state: str, why: str, *, now: int) -> None:
    """The run is over, its work is not."""
    inbox.take_back(tx, job.run)
    instructions.close_run(tx, job.run, state, reason=why, now=now)
    identities.rest(tx, job.fence.agent, now=now)


def give_up(tx: Transaction, job: Assignment, failure: BackendFailure, state: End, *, now: int) -> None:
    """No more tries. The sender is told where it looks, the agent sees it next time, the person may retry."""
    hold_run(tx, job)
    reason = f"{failure.message} ({failure.hint})" if failure.hint else failure.message
    _tell_sender(tx, job.lead, job.name, state, reason, run=job.run, now=now)
    if job.workspace:
        routing.hear(tx, job.run, now=now)
        threads.say(tx, job.fence.agent, job.workspace, who="system", text=reason, sort="failure", run=job.run, now=now)
        workspace.count_fruitless(tx, job.workspace, job.fence.agent, fruitful=False)
    inbox.close(tx, job.run, "failed")
    attention.ask(
        tx,
        "failure",
        project=job.project,
        workspace=job.workspace,
        agent=job.fence.agent,
        ref=job.lead.id,
        text=f"{job.name} {_ended(state)}: {reason}",
        now=now,
    )
    _end(tx, job, state, reason=reason, now=now)


def stop_at_limit(tx: Transaction, job: Assignment, stop: Reached, *, now: int) -> None:
    """A limit was met between two steps: incomplete, with all that was done kept."""
    hold_run(tx, job)
    inbox.take_back(tx, job.run)
    _end(tx, job, "incomplete", reason=stop.reason, now=now)
    _pause(tx, identities.identity(tx, job.fence.agent), job.lead, stop, now=now)


def _end(tx: Transaction, job: Assignment, state: End, *, reason: str = "", text: str = "", now: int) -> None:
    instructions.end(tx, job.run, state, reason=reason, now=now)
    instructions.close_run(tx, job.run, state, reason=reason, text=text, now=now)
    identities.rest(tx, job.fence.agent, now=now)
    _tell_end(tx, job, state, reason, text)


def _tell_end(tx: Transaction, job: Assignment, state: str, reason: str, text: str = "") -> None:
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


def _tell_sender(
    tx: Transaction, work: Instruction, name: str, state: str, reason: str, *, run: str | None, now: int
) -> None:
    if work.workspace:
        _notice(tx, work.workspace, f"{name} {_ended(state)}: {reason}", work.root, now=now)
    else:
        _answer_dm(tx, work, name, f"{_ended(state)}: {reason}", failed=True, run=run, now=now)


def _notice(tx: Transaction, room: str, text: str, root: str, *, now: int) -> None:
    if workspace.get(tx, room)["state"] == "running":
        routing.notice(tx, room, text, root=root, now=now)


def _ended(state: str) -> str:
    return {"incomplete": "did not finish", "dead": "was given up", "cancelled": "was cancelled"}.get(state, state)


# --- from outside the loop ----------------------------------------------------------------------------


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
    _tell_sender(tx, work, me["name"], "dead", reason, run=run, now=now)


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
    _tell_sender(tx, work, name, "cancelled", reason, run=run, now=now)
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


def resume_room(tx: Transaction, room: str, *, now: int) -> Sequence[str]:
    """A new allowance for everything a limit stopped here; it goes on where it was."""
    workspace.resume(tx, room)
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
