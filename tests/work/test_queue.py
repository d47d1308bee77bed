"""The queue against a reference model: the same order whatever happens, and nothing waits for ever."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests import stored
from tests.faults.report import few

from agent_worker.agents import run_begin, run_end
from agent_worker.agents.run_begin import Assignment, NotYet, Terms
from agent_worker.backends.backend import Reply
from agent_worker.core.errors import Transient
from agent_worker.database.migrations import migrate
from agent_worker.database.sqlite import connect
from agent_worker.database.transaction import SqliteTransaction
from agent_worker.work import agent_rows, project_rows, queue
from agent_worker.work.limits import WorkLimits
from agent_worker.work.project_rows import Checkout
from agent_worker.work.queue import Ageing, Lane, Order
from agent_worker.workspaces import workspace_state
from agent_worker.workspaces.workspace_state import NewWorkspace

SECOND = 1_000_000
MINUTE = 60 * SECOND
AGEING = Ageing()
UNLIMITED = Terms("alice", "mock", "mock", WorkLimits(None, None, None, None, None, None))
LANES = {"dm": Lane.IMMEDIATE, "channel": Lane.IMMEDIATE, "workspace": Lane.NORMAL, "schedule": Lane.BACKGROUND}


class Queue:
    """The real thing, without an event loop: one agent, two rooms, time handed in."""

    def __init__(self) -> None:
        connection = connect(":memory:", write=True)
        migrate(connection, None)
        whole = SqliteTransaction(connection)
        self.tx = tx = whole.of(project_rows.enrol(whole, Checkout("/p", "p")))
        self.now = 1_000_000 * SECOND
        self.agent = agent_rows.enrol(tx, name="alice")
        workspaces = [NewWorkspace(name, provider="sqlite", documents="sqlite") for name in ("one", "two")]
        self.workspaces = [workspace_state.open_workspace(tx, workspace, now=self.now) for workspace in workspaces]
        for workspace in self.workspaces:
            workspace_state.let_in(tx, workspace)
        for workspace in self.workspaces:
            workspace_state.add_members(tx, workspace, {"alice": self.agent})
        self.fence = agent_rows.claim(tx, self.agent, "me")

    def put(self, source: str, workspace: int | None) -> str:
        order = Order(
            agent=self.agent,
            text="work",
            source=source,  # type: ignore[arg-type]
            sender="user",
            lane=LANES[source],
            root="r",
            workspace=None if workspace is None else self.workspaces[workspace],
        )
        return queue.put(self.tx, order, now=self.now)

    def take(self) -> Assignment | NotYet | None:
        return run_begin.begin(self.tx, self.fence, lambda _: UNLIMITED, now=self.now, ageing=AGEING)

    def step_is_over(self, job: Assignment) -> bool:
        """True when the job yielded."""
        if not run_begin.should_yield(self.tx, job, now=self.now, ageing=AGEING):
            return False
        run_end.put_back(self.tx, job, why="preempted", preempted=True, now=self.now, ageing=AGEING)
        return True

    def finish(self, job: Assignment) -> None:
        run_end.finish(self.tx, job, 0, Reply(), "mock", seen=0, now=self.now)

    def pause(self, workspace: int, *, on: bool) -> None:
        if on:
            workspace_state.pause(self.tx, self.workspaces[workspace], "for a reason")
        else:
            workspace_state.resume(self.tx, self.workspaces[workspace])


# --- the model ----------------------------------------------------------------------------------------


@dataclass
class Item:
    id: str
    source: str
    lane: int
    workspace: int | None
    queued_at: int
    not_before: int = 0
    preempted: int = 0


@dataclass
class Model:
    """What SPEC §7 says, in as few words as possible."""

    queued: list[Item] = field(default_factory=list)  # in the order they were first put
    running: list[Item] = field(default_factory=list)
    paused: set[int] = field(default_factory=set)
    order: dict[str, int] = field(default_factory=dict)

    def put(self, item: Item) -> None:
        self.order[item.id] = len(self.order)
        self.queued.append(item)

    def head(self, now: int) -> Item | None:
        for item in self.queued:
            if now - item.queued_at >= 5 * MINUTE:
                item.lane = 0
        open_items = [item for item in self.queued if item.workspace not in self.paused]
        return min(open_items, key=lambda item: (item.lane, self.order[item.id]), default=None)

    def take(self, now: int) -> list[str] | int | None:
        """Ids in order; or the time of the head that may not be begun yet; or None."""
        head = self.head(now)
        if head is None:
            return None
        if head.not_before > now:
            return head.not_before
        others = [i for i in self.queued if i.source == "channel" == head.source and i.workspace == head.workspace]
        others = [i for i in sorted(others, key=lambda i: self.order[i.id]) if i is not head]
        self.running = [head, *others]
        self.queued = [i for i in self.queued if i not in self.running]
        return [i.id for i in self.running]

    def yields(self, now: int) -> bool:
        lane = self.running[0].lane
        head = self.head(now) if lane else None
        return head is not None and head.lane < lane and head.not_before <= now

    def put_back(self, *, preempted: bool = False, not_before: int = 0) -> None:
        for item in self.running:
            item.not_before = not_before
            item.preempted += preempted
            if item.preempted >= 3:
                item.lane, item.preempted = max(item.lane - 1, 0), 0
        self.queued += self.running
        self.running = []


class Lanes(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.real, self.model = Queue(), Model()
        self.job: Assignment | None = None

    @rule(source=st.sampled_from(["dm", "channel", "channel", "workspace", "schedule"]), workspace=st.integers(0, 1))
    def put(self, source: str, workspace: int) -> None:
        place = None if source == "dm" else workspace
        id = self.real.put(source, place)
        self.model.put(Item(id, source, int(LANES[source]), place, self.real.now))  # type: ignore[index]

    @precondition(lambda self: self.job is None)
    @rule()
    def take(self) -> None:
        expected = self.model.take(self.real.now)
        match taken := self.real.take():
            case Assignment():
                assert [item.id for item in taken.taken] == expected
                self.job = taken
            case NotYet(at):
                assert at == expected
            case None:
                assert expected is None

    @precondition(lambda self: self.job is not None)
    @rule()
    def end_a_step(self) -> None:
        yields = self.model.yields(self.real.now)
        assert self.real.step_is_over(self.job) == yields  # type: ignore[arg-type]
        if yields:
            self.model.put_back(preempted=True)
            self.job = None

    @precondition(lambda self: self.job is not None)
    @rule()
    def finish(self) -> None:
        self.real.finish(self.job)  # type: ignore[arg-type]
        self.model.running, self.job = [], None

    @precondition(lambda self: self.job is not None)
    @rule(wait=st.sampled_from([1, 2, 4, 60]))
    def fail_for_now(self, wait: int) -> None:
        run_end.retry_later(
            self.real.tx,
            self.job,  # type: ignore[arg-type]
            Transient("later"),
            wait=wait,
            counts=True,
            now=self.real.now,
        )
        self.model.put_back(not_before=self.real.now + wait * SECOND)
        self.job = None

    @rule(seconds=st.sampled_from([1, 3, 30, 100, 200, 301]))
    def let_time_pass(self, seconds: int) -> None:
        self.real.now += seconds * SECOND

    @rule(workspace=st.integers(0, 1), on=st.booleans())
    def pause_or_resume(self, workspace: int, on: bool) -> None:
        self.real.pause(workspace, on=on)
        self.model.paused = self.model.paused | {workspace} if on else self.model.paused - {workspace}

    @invariant()
    def nothing_is_lost(self) -> None:
        if hasattr(self, "real"):
            rows = stored.unfinished(self.real.tx)
            known = {i.id: "queued" for i in self.model.queued} | {i.id: "running" for i in self.model.running}
            assert {row["id"]: row["state"] for row in rows} == known


Lanes.TestCase.settings = settings(
    max_examples=few(100), stateful_step_count=40, suppress_health_check=list(HealthCheck)
)


class TestO3TheOrderIsThatOfTheModel(Lanes.TestCase):  # type: ignore[misc,name-defined]
    pass


@pytest.mark.parametrize("seed", range(6))
def test_O4_background_work_is_begun_in_time_under_a_storm_of_mentions(seed: int) -> None:
    """Two hours at 90 % load of immediate work that never yields."""
    chance, line = random.Random(seed), Queue()
    end, longest = line.now + 120 * MINUTE, 30
    arrivals: list[tuple[int, str]] = []
    at = float(line.now)
    while at < end:
        at += chance.expovariate(0.9 / (longest / 2)) * SECOND
        arrivals.append((int(at), "dm"))
    arrivals += [(line.now + chance.randrange(120) * MINUTE, "schedule") for _ in range(10)]
    arrivals.sort()
    put_at: dict[str, int] = {}
    ahead: dict[str, int] = {}
    waits: dict[str, int] = {}
    while arrivals or len(waits) < 10:
        while arrivals and arrivals[0][0] <= line.now:
            id = line.put(arrivals[0][1], None)
            if arrivals.pop(0)[1] == "schedule":
                put_at[id] = line.now
                ahead[id] = len(stored.instructions(line.tx, state="queued"))
        job = line.take()
        if not isinstance(job, Assignment):
            line.now = max(line.now + SECOND, arrivals[0][0] if arrivals else 0)
            continue
        if job.lead.id in put_at:
            waits[job.lead.id] = (line.now - put_at[job.lead.id]) // SECOND
        line.now += chance.randint(1, longest) * SECOND
        line.finish(job)
    for id, wait in waits.items():
        assert wait <= 300 + longest + ahead[id] * longest, f"waited {wait} s, with {ahead[id]} before it"


def test_putting_the_same_id_twice_queues_it_once() -> None:
    line = Queue()
    order = Order(line.agent, "once", "schedule", "schedule", Lane.BACKGROUND, "r")
    assert [queue.put(line.tx, order, now=line.now, id="slot") for _ in range(2)] == ["slot", "slot"]
    assert len(stored.instructions(line.tx)) == 1
