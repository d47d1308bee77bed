"""What work may cost, what it has cost, and whether it may go on. The one writer of `tally` and `ledger`.

`WorkLimits` has the defaults. `reached` is the whole policy: a pure function from what is allowed and what was spent to
a sentence, or None. It is asked before every wake and every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC
from typing import Literal

from agent_worker.core.clock import from_micros
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Soon, Transaction

#: USD per million tokens when nobody knows the price: high enough not to be cheated by a new model's name
UNKNOWN_PRICE = 15.0


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """How much may be done and spent. None means that a limit is off."""

    runs_per_root: int | None = 50
    hops_per_root: int | None = 24
    usd_per_root: float | None = 5.0
    usd_per_agent_day: float | None = 20.0
    usd_per_project_day: float | None = 50.0
    fruitless_runs: int | None = 5

    @property
    def money_only(self) -> WorkLimits:
        return replace(self, runs_per_root=None, hops_per_root=None, fruitless_runs=None)

    def with_granted(self, granted: Mapping[str, float]) -> WorkLimits:
        """The limits with `turns` and `usd` of one request set anew."""
        runs, usd = granted.get("turns", self.runs_per_root), granted.get("usd", self.usd_per_root)
        return replace(self, runs_per_root=None if runs is None else int(runs), usd_per_root=usd)


@dataclass(frozen=True, slots=True)
class Spent:
    runs: int = 0
    hops: int = 0
    usd_root: float = 0.0
    usd_agent: float = 0.0
    usd_project: float = 0.0
    fruitless: int = 0
    estimated: frozenset[str] = frozenset()  #: which of the sums rest on a guess: root, agent, project


@dataclass(frozen=True, slots=True)
class Reached:
    """A limit that was met, and what pauses because of it."""

    reason: str
    pauses: Literal["context", "agent"]  #: the workspace (in direct messages, the agent), or the agent everywhere
    which: str = ""  #: the key of a file that sets it: turns, usd (of a workflow), usd_per_day (of an agent)
    number: float = 0


def reached(limits: WorkLimits, spent: Spent) -> Reached | None:
    guess = {scope: " (estimated)" if scope in spent.estimated else "" for scope in ("root", "agent", "project")}
    for limit, value, reason, pauses, which in (
        (limits.runs_per_root, spent.runs, "one request has led to {} run{s}", "context", "turns"),
        (limits.hops_per_root, spent.hops, "this is {} hop{s} away from the request that began it", "context", ""),
        (limits.usd_per_root, spent.usd_root, "one request has cost {:.2f} USD" + guess["root"], "context", "usd"),
        (limits.fruitless_runs, spent.fruitless, "{} run{s} in a row produced nothing new", "context", ""),
        (
            limits.usd_per_agent_day,
            spent.usd_agent,
            "this agent has spent {:.2f} USD today" + guess["agent"],
            "agent",
            "usd_per_day",
        ),
        (
            limits.usd_per_project_day,
            spent.usd_project,
            "this project has spent {:.2f} USD today" + guess["project"],
            "agent",
            "",
        ),
    ):
        if limit is not None and value >= limit:
            said = reason.format(value, s="" if value == 1 else "s")
            told = f"limit reached: {said} (limit {limit:g})"
            return Reached(told, pauses, which, limit)  # type: ignore[arg-type]
    return None


@dataclass(frozen=True, slots=True)
class Payer:
    """Who pays for a run."""

    agent: str
    root: str


def day_of(now: int) -> str:
    return from_micros(now).astimezone(UTC).date().isoformat()


def spent(tx: Transaction, account: Payer, *, hop: int, fruitless: int, now: int) -> Spent:
    rows = tx.all(
        """select * from tally
            where project = :project
              and (scope = 'root' and key = :root and day = ''
                   or scope = 'agent' and key = :agent and day = :day
                   or scope = 'project' and key = '' and day = :day)""",
        root=account.root,
        agent=account.agent,
        day=day_of(now),
    )
    return _spent_by(rows, hop=hop, fruitless=fruitless)


def _spent_by(tallies: Iterable[Row], *, hop: int = 0, fruitless: int = 0) -> Spent:
    found = {row["scope"]: row for row in tallies}
    root, agent, project = (found.get(scope, _NOTHING) for scope in ("root", "agent", "project"))
    return Spent(
        runs=root["runs"] - root["forgiven_runs"],
        hops=hop - root["forgiven_hops"],
        usd_root=(root["micros"] - root["forgiven_micros"]) / 1e6,
        usd_agent=(agent["micros"] - agent["forgiven_micros"]) / 1e6,
        usd_project=(project["micros"] - project["forgiven_micros"]) / 1e6,
        fruitless=fruitless,
        estimated=frozenset(
            scope for scope, sums in (("root", root), ("agent", agent), ("project", project)) if sums["estimated"]
        ),
    )


_NOTHING = dict.fromkeys(
    ("runs", "tokens", "micros", "estimated", "forgiven_runs", "forgiven_micros", "forgiven_hops"), 0
)


def count_run(tx: Transaction, root: str) -> None:
    _add(tx, "root", root, "", runs=1)


def uncount_run(tx: Transaction, root: str) -> None:
    """Take back the count of a run that was laid aside: it is counted again when it goes on."""
    _add(tx, "root", root, "", runs=-1)


@dataclass(frozen=True, slots=True)
class Charge:
    """One step's use of a model."""

    run: str
    step: int
    model: str
    input: int
    cached: int
    output: int
    usd: float | None  #: None when nobody told the price
    guessed: bool = False  #: nobody told the tokens: they were counted by the length of texts

    @property
    def tokens(self) -> int:
        return self.input + self.output

    @property
    def estimated(self) -> bool:
        return price_of(self.tokens, self.usd, guessed=self.guessed)[1]


def price_of(tokens: int, usd: float | None, *, guessed: bool) -> tuple[float, bool]:
    """What tokens cost, and whether that is estimated: nobody told the price, or the tokens are a guess.

    What costs nothing costs nothing however many tokens it were.
    """
    return (tokens * UNKNOWN_PRICE / 1e6, True) if usd is None else (usd, guessed and usd > 0)


@dataclass(frozen=True, slots=True)
class Charged:
    micros: int  #: millionths of a dollar
    spent: Soon[Spent]  #: with it, by its request, its agent today and the project today; runs and hops apart


def charge(tx: Transaction, account: Payer, item: Charge, *, now: int) -> Charged:
    """Write a cost into the ledger and the tallies, estimated when nobody told it."""
    return _enter(tx, account, item, now=now)


#: The scope of tallies of what it cost an agent, each day, to learn from its runs.
LEARNING: Literal["learning"] = "learning"


def charge_lesson(tx: Transaction, account: Payer, item: Charge, *, now: int) -> None:
    """Charge for what an agent learned with, and count it by itself too."""
    _count_small(tx, LEARNING, account, item, charge(tx, account, item, now=now), now=now)


JUDGING: Literal["judging"] = "judging"  #: the same of what it cost to ask a model small questions about it


def charge_judged(tx: Transaction, account: Payer, item: Charge, *, now: int) -> None:
    """Charge for a small question about an agent; in a round it belongs to no request, and `root` is ''."""
    _count_small(tx, JUDGING, account, item, charge(tx, account, item, now=now), now=now)


def _count_small(tx: Transaction, scope: str, account: Payer, item: Charge, charged: Charged, *, now: int) -> None:
    guess = charged.micros if item.estimated else 0
    more = {"runs": 1, "tokens": item.tokens, "micros": charged.micros, "estimated": guess}
    _add(tx, scope, account.agent, day_of(now), **more)


def small_cost(tx: Transaction, agent: str, scope: Literal["learning", "judging"], *, since: int) -> Row:
    """What learning, or judging, has cost an agent since the day of this time: runs, tokens, micros, estimated."""
    row = tx.one(
        """select coalesce(sum(runs), 0) as runs, coalesce(sum(tokens), 0) as tokens,
                  coalesce(sum(micros), 0) as micros, coalesce(sum(estimated), 0) as estimated
             from tally where project = :project and scope = :scope and key = :agent and day >= :day""",
        scope=scope,
        agent=agent,
        day=day_of(since),
    )
    assert row is not None
    return row


def charge_project(tx: Transaction, item: Charge, *, now: int) -> None:
    """Charge for what no agent spent, because a person tried something out: it counts in what the project spends."""
    _enter(tx, Payer("", ""), item, now=now)


def _enter(tx: Transaction, account: Payer, item: Charge, *, now: int) -> Charged:
    """Enter a cost into the ledger and all tallies, unless it is nothing.

    Without an agent, or without a request, only the others are added to.
    """
    tokens = item.tokens
    usd, estimated = price_of(tokens, item.usd, guessed=item.guessed)
    micros = round(usd * 1e6)
    if not tokens and not micros:
        return Charged(0, Spent)
    tx.run(
        """insert into ledger(project, id, run, step, agent, root, model, input, cached, output, micros, estimated, at)
           values (:project, :id, :run, :step, :agent, :root, :model, :input, :cached, :output, :micros,
                   :estimated, :at)""",
        id=new_id("l"),
        run=item.run,
        step=item.step,
        agent=account.agent,
        root=account.root,
        model=item.model,
        input=item.input,
        cached=item.cached,
        output=item.output,
        micros=micros,
        estimated=int(estimated),
        at=now,
    )
    cost = {"tokens": tokens, "micros": micros, "estimated": micros if estimated else 0}
    tallies = _add_to_all(tx, account, day_of(now), **cost)
    return Charged(micros, lambda: _spent_by(tallies()))


def forgive(tx: Transaction, scope: Literal["root", "agent", "project"], key: str, *, hops: int = 0, now: int) -> None:
    """Let work go on after a limit, as a person said: what was spent so far no longer counts."""
    day = "" if scope == "root" else day_of(now)
    tx.run(
        """update tally set forgiven_runs = runs, forgiven_micros = micros, forgiven_hops = :hops
            where project = :project and scope = :scope and key = :key and day = :day""",
        scope=scope,
        key=key,
        day=day,
        hops=hops,
    )


def _add_to_all(tx: Transaction, account: Payer, day: str, **cost: int) -> Soon[list[Row]]:
    """Add to the tallies of the request, the agent's day and the project's day, and see what they are now, in one
    statement: every step does it.
    """
    if not account.agent or not account.root:
        for scope, key, when in (("project", "", day), ("agent", account.agent, day), ("root", account.root, "")):
            if key or scope == "project":
                _add(tx, scope, key, when, **cost)
        return list
    return tx.all_soon(
        """insert into tally(project, scope, key, day, runs, tokens, micros, estimated)
           values (:project, 'project', '', :day, 0, :tokens, :micros, :estimated),
                  (:project, 'agent', :agent, :day, 0, :tokens, :micros, :estimated),
                  (:project, 'root', :root, '', 0, :tokens, :micros, :estimated)
           on conflict (project, scope, key, day) do update
              set tokens = tally.tokens + :tokens, micros = tally.micros + :micros,
                  estimated = tally.estimated + :estimated
           returning scope, runs, micros, estimated, forgiven_runs, forgiven_micros, forgiven_hops""",
        agent=account.agent,
        root=account.root,
        day=day,
        **cost,
    )


def _add(tx: Transaction, scope: str, key: str, day: str, **more: int) -> None:
    """Add `runs`, `tokens`, `micros` and, of these, those that are `estimated`."""
    tx.run(
        """insert into tally(project, scope, key, day, runs, tokens, micros, estimated)
           values (:project, :scope, :key, :day, :runs, :tokens, :micros, :estimated)
           on conflict (project, scope, key, day) do update
              set runs = tally.runs + :runs, tokens = tally.tokens + :tokens, micros = tally.micros + :micros,
                  estimated = tally.estimated + :estimated""",
        scope=scope,
        key=key,
        day=day,
        **{"runs": 0, "tokens": 0, "micros": 0, "estimated": 0} | more,
    )
