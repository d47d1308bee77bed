"""Work begins and goes on: the loop takes an instruction, and keeps each step as it is done.

Transactions that tie the queue to the limits, the inbox and the threads, each in one commit. Each first proves the
fence: a loop that is no longer the one changes nothing. How work ends is in run_end.py.
"""

from __future__ import annotations

from collections.abc import Callable

from agent_worker.agents.notices import answer_dm, notice, tell_ended
from agent_worker.agents.retries import LONGEST_WAIT
from agent_worker.backends.backend import PastStep, Reply, Usage
from agent_worker.core.errors import BadInput, Fenced
from agent_worker.core.events import Started, Stepped
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction
from agent_worker.memory import audit
from agent_worker.tools import images
from agent_worker.tools.tool import Result
from agent_worker.work import agent_rows, inbox, limits, open_work, queue, run_rows, steps
from agent_worker.work.agent_rows import Fence
from agent_worker.work.limits import Charge, Charged, Payer, Reached, Spent, WorkLimits
from agent_worker.work.queue import Ageing, Instruction
from agent_worker.workspaces import deliveries, member_rows, workspace_rows, workspace_state

DEATHS = 3  # runs that never came to an end of their own before an instruction is dead


@dataclass(frozen=True, slots=True)
class Terms:
    """What the loop knows about its agent that the database does not."""

    name: str
    backend: str
    model: str
    limits: WorkLimits


TermsOf = Callable[[str | None], Terms]  # by workspace


@dataclass(frozen=True, slots=True)
class Assignment:
    """A run that has begun: what it works on and what earlier runs of the same work left."""

    run: str
    fence: Fence
    name: str
    taken: tuple[Instruction, ...]  #: the first leads; the others are mentions answered with it
    past: tuple[PastStep, ...]
    done_before: int = 0  #: of those steps, how many an earlier instruction did that this one continues
    others_wait: bool = False  #: more work was queued when this was taken; it may be lifted meanwhile
    unreadable: BadInput | None = None  #: why what earlier runs left cannot be gone on with

    @property
    def lead(self) -> Instruction:
        return self.taken[0]

    @property
    def workspace(self) -> str | None:
        return self.lead.workspace

    @property
    def project(self) -> str:
        return self.fence.project

    @property
    def account(self) -> Payer:
        return Payer(self.fence.agent, self.lead.root)


def said_in(job: Assignment) -> tuple[tuple[str, str], ...]:
    """Who asks for this work, and in which words. Only what a person says directly is surely their own: in a channel
    they may quote, and a kickoff stands in a file of the repository.
    """
    return tuple((_speaker(item), item.text) for item in job.taken)


def _speaker(item: Instruction) -> str:
    if item.hop:
        return f"agent:{item.sender}"
    return "user" if item.sender == "user" and item.source == "dm" else ""


@dataclass(frozen=True, slots=True)
class Pending:
    """The piece of work that would be taken next."""

    instruction: str
    workspace: str | None
    since: int | None = None  #: when it began to wait for its model


@dataclass(frozen=True, slots=True)
class NotYet:
    """There is work for the agent, but not before this time (microseconds)."""

    at: int
    wait: int  #: from the moment that was asked about: a clock that is set afterwards changes nothing
    work: Pending


@dataclass(frozen=True, slots=True)
class Suspect:
    """The next piece of work died all but once too often: it is only taken while nothing else runs."""


Taken = Assignment | NotYet | Suspect | None


def look(tx: Transaction, agent: str, *, now: int, longest: float = LONGEST_WAIT) -> Pending | NotYet | None:
    """What `begin` would take, without taking it. For a loop that has to wait, and should not wait for nothing."""
    me = agent_rows.identity(tx, agent)
    first = None if _takes_nothing(me) else tx.one(queue.HEAD, agent=agent)
    return None if first is None else _not_yet(first, now, longest) or _pending(first)


def _takes_nothing(me: Row) -> bool:
    return bool(me["paused"]) or me["state"] in ("stopped", "error")


def _not_yet(first: Row, now: int, longest: float) -> NotYet | None:
    wait = first["not_before"] - now
    # Later than anyone was ever told to wait: somebody has set the clock back.
    return NotYet(first["not_before"], wait, _pending(first)) if 0 < wait <= round(longest * 1e6) else None


def _pending(first: Row) -> Pending:
    return Pending(first["id"], first["workspace"], first["waits_since"])


def begin_wait(tx: Transaction, fence: Fence, instruction: str, *, now: int) -> None:
    """Note that work waits for its model; it is not tried before it is let in."""
    agent_rows.hold(tx, fence)
    queue.begin_wait(tx, instruction, now=now)


def begin(
    tx: Transaction,
    fence: Fence,
    terms_of: TermsOf,
    *,
    now: int,
    ageing: Ageing,
    alone: bool = False,
    longest: float = LONGEST_WAIT,
) -> Taken:
    """Take the next piece of work, if there is any and it may be done.

    `alone`: nothing else runs on this host. `longest`: seconds that anyone is told to wait for another try.
    """
    me = agent_rows.hold(tx, fence)
    while not _takes_nothing(me):
        first = queue.head(tx, fence.agent, now=now, ageing=ageing)
        if first is None:
            return None
        if not_yet := _not_yet(first, now, longest):
            return not_yet
        if not alone and first["attempts"] and run_rows.lost_runs(tx, first["id"]) >= DEATHS - 1:
            return Suspect()
        terms = terms_of(first["workspace"])
        stop = _limit(tx, first, terms.limits, now=now)
        if stop is None:
            return _take(tx, fence, me, first, terms, now=now)
        _stop_before(tx, me, first, stop, now=now)
        me = agent_rows.identity(tx, fence.agent)
    return None


def _limit(tx: Transaction, first: Row, allowed: WorkLimits, *, now: int) -> Reached | None:
    fruitless, workspace = 0, first["workspace"]
    if workspace:
        fruitless, granted = member_rows.allowance(tx, workspace, first["agent"])
        allowed = allowed.with_granted(granted) if granted else allowed
    account = Payer(first["agent"], first["root"])
    return limits.reached(allowed, limits.spent(tx, account, hop=first["hop"], fruitless=fruitless, now=now))


def _with_granted(tx: Transaction, workspace: str | None, allowed: WorkLimits) -> WorkLimits:
    """Limits with those that a proposal has set for the instance, which stand above its file."""
    granted = workspace_rows.granted(tx, workspace) if workspace else {}
    return allowed.with_granted(granted) if granted else allowed


def _take(tx: Transaction, fence: Fence, me: Row, first: Row, terms: Terms, *, now: int) -> Assignment:
    rows = [first, *queue.companions(tx, first)]
    run = queue.begin_run(tx, rows, backend=terms.backend, model=terms.model, now=now)
    for root in {row["root"] for row in rows}:
        limits.count_run(tx, root)
    deliveries.give(tx, [row["message"] for row in rows if row["message"]], fence.agent, run)
    agent_rows.set_state(tx, fence.agent, "running", now=now)
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
    is_fresh = first["attempts"] == 0 and first["work"] == first["id"]  # nobody has begun it: it has no steps
    past, unreadable = ((), None) if is_fresh else _past(tx, first["work"])
    return Assignment(
        run=run,
        fence=fence,
        name=terms.name,
        taken=tuple(map(Instruction.of, rows)),
        past=past,
        done_before=0 if is_fresh else _done_before(tx, first),
        others_wait=open_work.any_queued(tx, fence.agent),
        unreadable=unreadable,
    )


def _past(tx: Transaction, work: str) -> tuple[tuple[PastStep, ...], BadInput | None]:
    results: dict[int, dict[str, Result]] = {}
    try:
        for call in steps.calls_of_work(tx, work):
            if call["state"] == "done":
                results.setdefault(call["step"], {})[call["id"]] = stored_result(call)
        return tuple(PastStep(Reply.load(s["reply"]), results.get(s["n"], {})) for s in steps.of_work(tx, work)), None
    except BadInput as error:
        return (), error


def stored_result(call: Row) -> Result:
    return Result(call["result"], bool(call["ok"]), images.load(call["images"]))


def _done_before(tx: Transaction, first: Row) -> int:
    row = tx.one(
        """select count(*) as n from step s join run r on r.project = :project and r.id = s.run
            where s.project = :project and s.work = :work and r.instruction <> :id""",
        work=first["work"],
        id=first["id"],
    )
    return int(row["n"]) if row else 0


def _stop_before(tx: Transaction, me: Row, first: Row, stop: Reached, *, now: int) -> None:
    """A limit was met before the work began: it ends incomplete, its context pauses, the person is told once."""
    work = Instruction.of(first)
    queue.end_one(tx, work.id, "incomplete", reason=stop.reason, now=now)
    pause_at(tx, me, work, stop, now=now)
    tell_ended(tx, work, me["name"], "incomplete", stop.reason)


def pause_at(tx: Transaction, me: Row, work: Instruction, stop: Reached, *, now: int) -> None:
    if stop.pauses == "context" and work.workspace:
        fresh = workspace_state.pause(tx, work.workspace, stop.reason)
    else:
        fresh = not me["paused"]
        agent_rows.pause(tx, work.agent, stop.reason)
    inbox.ask(
        tx,
        "limit",
        workspace=work.workspace,
        agent=work.agent,
        ref=work.id,
        text=f"{me['name']}: {stop.reason}",
        details={"limit": stop.which, "number": stop.number} if stop.which else None,
        now=now,
    )
    if not fresh:
        return
    if work.workspace:
        notice(tx, work.workspace, f"Paused: {stop.reason}. Resume to grant a new allowance.", work.root, now=now)
    else:
        answer_dm(tx, work, me["name"], f"Paused: {stop.reason}.", failed=True, run=None, now=now)


def hold_run(tx: Transaction, job: Assignment) -> None:
    """Prove that this loop still holds its agent, and that nobody has ended its run."""
    if not agent_rows.holds(tx, job.fence, run=job.run):
        raise Fenced(f"run {job.run} is over, or its agent is run by another loop now")


def keep_step(
    tx: Transaction, job: Assignment, step: int, reply: Reply, terms: Terms, *, outside: str = "", now: int
) -> Reached | None:
    """Store what the model answered and what it cost; the limit that is met by it, if any."""
    hold_run(tx, job)
    if outside:
        run_rows.note_outside(tx, job.run, outside)
    charged = record_step(tx, job, step, reply, terms.model, now=now)
    return _spent_up(tx, job, terms, charged.spent()) if charged.micros else None


def _spent_up(tx: Transaction, job: Assignment, terms: Terms, spent: Spent) -> Reached | None:
    """The limit that the money of this run has reached, if any. Runs and hops were counted when it began."""
    return limits.reached(_with_granted(tx, job.workspace, terms.limits).money_only, spent)


def has_budget(tx: Transaction, job: Assignment, terms: Terms, *, now: int) -> bool:
    """Whether there is money left, after the run, for what is learned from it."""
    return _spent_up(tx, job, terms, limits.spent(tx, job.account, hop=0, fruitless=0, now=now)) is None


def record_step(tx: Transaction, job: Assignment, step: int, reply: Reply, model: str, *, now: int) -> Charged:
    """Store a step and charge for it."""
    if job.lead.waits_since:
        queue.end_wait(tx, job.run)
    use = reply.usage.plausible
    item = _charge(job, step, model, use)
    charged = limits.charge(tx, job.account, item, now=now)
    steps.keep(
        tx,
        work=job.lead.work,
        step=step,
        run=job.run,
        reply=reply.dump(),
        tokens=use.tokens,
        micros=charged.micros,
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
            usd=charged.micros / 1e6,
            estimated=item.estimated and charged.micros > 0,
        )
    )
    return charged


def _charge(job: Assignment, step: int, model: str, use: Usage) -> Charge:
    return Charge(job.run, step, model, use.input, use.cached, use.output, use.usd, use.guessed)


def charge_lesson(tx: Transaction, job: Assignment, reply: Reply, model: str, *, now: int) -> None:
    """Charge what learning from a run has cost to the request that the run was for."""
    agent_rows.hold(tx, job.fence)
    limits.charge_lesson(tx, job.account, _charge(job, -1, model, reply.usage.plausible), now=now)


def charge_lost(tx: Transaction, job: Assignment, usage: Usage, model: str, *, now: int) -> None:
    """Charge for an answer beside the work, or one that came to nothing. No fence is asked for: the money is gone."""
    limits.charge(tx, job.account, _charge(job, -1, model, usage.plausible), now=now)


def charge_judged(tx: Transaction, job: Assignment, usage: Usage, model: str, *, now: int) -> None:
    """Charge a small question about the work. No fence is asked for: the money is gone."""
    limits.charge_judged(tx, job.account, _charge(job, -1, model, usage.plausible), now=now)


def note_judged(tx: Transaction, job: Assignment, what: str, *, now: int) -> None:
    """Note in the audit what a model was asked about this agent."""
    audit.note(tx, audit.AuditEntry(job.fence.agent, "guard", "judged", what, run=job.run), now=now)


def should_yield(tx: Transaction, job: Assignment, *, now: int, ageing: Ageing) -> bool:
    agent_rows.hold(tx, job.fence)
    return queue.waiting_above(tx, job.fence.agent, job.lead.lane, now=now, ageing=ageing)
