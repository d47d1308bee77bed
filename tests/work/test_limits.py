"""What work may cost, and that it is asked before every wake and every step."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests import stored
from tests.teams import Team, open_team

from agent_worker.agents import commands
from agent_worker.agents.prompt import NO_REPLY
from agent_worker.agents.terms import limits_of
from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn, Usage
from agent_worker.core.clock import TestClock, micros
from agent_worker.definitions.project_files import load_project
from agent_worker.service.messages import put_question
from agent_worker.tools.tool import Call
from agent_worker.work.limits import UNKNOWN_PRICE, Spent, WorkLimits, day_of, reached

OFF = WorkLimits(None, None, None, None, None, None)


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, "alice", "bob", clock=TestClock()) as team:
        yield team


# --- the policy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spent", "says", "pauses"),
    [
        (Spent(runs=50), "one request has led to 50 runs", "context"),
        (Spent(hops=24), "24 hops away from the request", "context"),
        (Spent(usd_root=5.0), "one request has cost 5.00 USD", "context"),
        (Spent(fruitless=5), "5 runs in a row produced nothing new", "context"),
        (Spent(usd_agent=20.0), "this agent has spent 20.00 USD today", "agent"),
        (Spent(usd_project=50.0), "this project has spent 50.00 USD today", "agent"),
    ],
)
def test_each_limit_is_met_at_its_default_and_says_so(spent: Spent, says: str, pauses: str) -> None:
    found = reached(WorkLimits(), spent)
    assert found is not None
    assert says in found.reason
    assert found.pauses == pauses
    assert reached(OFF, spent) is None, "off means off"


def test_just_below_every_limit_work_goes_on() -> None:
    assert reached(WorkLimits(), Spent(49, 23, 4.99, 19.99, 49.99, 4)) is None


def test_R8_a_day_of_money_is_the_same_on_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    evening = micros(datetime(2026, 1, 5, 23, 0, tzinfo=UTC))
    try:
        for zone in ("UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            assert day_of(evening) == "2026-01-05"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_three_files_set_their_limits(tmp_path: Path) -> None:
    (tmp_path / ".agents").mkdir()
    (tmp_path / ".workflows").mkdir()
    (tmp_path / "moniro.yaml").write_text("limits: { usd_per_day: 7 }\n")
    (tmp_path / ".agents" / "alice.yaml").write_text("backend: mock\nlimits: { usd_per_day: off }\n")
    (tmp_path / ".workflows" / "w.yaml").write_text(
        "agents: { alice: { ref: alice } }\nlimits: { turns: 9, usd: off }\n"
    )
    project = load_project(tmp_path)
    assert not project.problems
    limits = limits_of(project.agents["alice"], project, project.workflows["w"])
    assert limits == WorkLimits(
        runs_per_root=9, usd_per_root=None, usd_per_agent_day=None, usd_per_project_day=7, fruitless_runs=5
    )


# --- money --------------------------------------------------------------------------------------------


class Spender:
    """So many steps, each with this use, then an answer."""

    def __init__(self, usage: Usage, steps: int = 0) -> None:
        self.usage, self.steps, self.asked = usage, steps, 0

    async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
        self.asked += 1
        if len(steps) < self.steps:
            return Reply(calls=(Call("c", "channel_peek", {}),), usage=self.usage)
        return Reply(f"answer {self.asked}", usage=self.usage)


async def test_L4_money_for_one_request_is_checked_before_every_step(team: Team) -> None:
    model = Spender(Usage(1, 0, 1, usd=2.0), steps=10)
    team.employ("alice", model)
    await team.post("user", "@alice spend")
    await team.still()
    assert model.asked == 3, "5 USD are met by the third step; there is no fourth"
    assert await team.states() == ["incomplete"]
    assert "one request has cost 6.00 USD (limit 5)" in (await team.workspace_row())["paused"]
    assert [kind for kind, _ in await team.inbox()] == ["limit"]
    assert [m.kind for m in await team.messages()] == ["message", "system"]


async def test_L4_a_new_allowance_goes_on_after_the_last_step(team: Team) -> None:
    model = Spender(Usage(1, 0, 1, usd=2.0), steps=4)
    team.employ("alice", model)
    await team.post("user", "@alice spend")
    await team.still()
    await team.write(commands.resume_workspace, team.workspace.id, now=team.now())
    await team.still()
    assert model.asked == 5
    assert (await team.texts())[-1] == "answer 5"
    assert await team.inbox() == []
    assert {row["state"] for row in await team.deliveries()} == {"acked"}


async def test_L4_what_was_taken_together_with_the_work_that_met_the_limit_goes_on_too(team: Team) -> None:
    class Busy(Spender):
        async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
            await team.clock.sleep(5)
            return await super().reply(turn, steps, recorder)

    team.employ("alice", Busy(Usage(1, 0, 1, usd=5.0), steps=1))
    for n in range(3):
        await team.post("user", f"@alice question {n}")
        await team.elapse(1)
    for _ in range(2):  # once for the first, once for the other two
        await team.elapse(30)
        assert "incomplete" in await team.states()
        await team.write(commands.resume_workspace, team.workspace.id, now=team.now())
    await team.elapse(30)
    assert {row["state"] for row in await team.deliveries()} == {"acked"}
    assert await team.inbox() == []


async def test_L4_money_per_agent_and_day_pauses_the_agent_and_midnight_is_a_new_day(team: Team) -> None:
    model = Spender(Usage(1, 0, 1, usd=12.0))
    team.employ("alice", model, limits=WorkLimits(usd_per_root=None))
    for n in range(3):
        await team.dm("alice", f"question {n}")
    await team.still()
    assert model.asked == 2
    assert "this agent has spent 24.00 USD today" in (await team.agent("alice"))["paused"]
    assert [(t.who, t.kind) for t in await team.thread("alice")][-1] == ("system", "failure")
    await team.elapse(24 * 3600)
    await team.write(commands.resume_agent, team.id_of("alice"), now=team.now())
    await team.still()
    assert model.asked == 3


async def test_L4_going_on_after_a_limit_of_the_agent_that_was_met_in_a_workspace(team: Team) -> None:
    model = Spender(Usage(1, 0, 1, usd=12.0))
    team.employ("alice", model, limits=WorkLimits(usd_per_root=None))
    for n in range(3):
        await team.post("user", f"task {n}", to="alice")
    await team.still()
    assert model.asked == 2
    (item,) = await team.asked(kind="limit")
    await team.write(commands.lift_limit, item, now=team.now())
    await team.still()
    assert model.asked == 3
    assert (await team.agent("alice"))["paused"] == ""
    assert await team.inbox() == []


async def test_L4_money_per_project_and_day_stops_the_next_agent_too(team: Team) -> None:
    alice, bob = Spender(Usage(1, 0, 1, usd=60.0)), Spender(Usage(1, 0, 1, usd=60.0))
    for name, model in (("alice", alice), ("bob", bob)):
        team.employ(name, model, limits=WorkLimits(usd_per_root=None, usd_per_agent_day=None))
    await team.dm("alice", "spend")
    await team.still()
    await team.dm("bob", "spend")
    await team.still()
    assert (alice.asked, bob.asked) == (1, 0)
    assert "this project has spent 60.00 USD today" in (await team.agent("bob"))["paused"]


async def test_L4_an_unknown_price_is_estimated_from_the_tokens(team: Team) -> None:
    model = Spender(Usage(input=300_000, output=100_000, usd=None))
    team.employ("alice", model)
    await team.dm("alice", "think")
    await team.still()
    assert await paid(team) == [(round(400_000 * UNKNOWN_PRICE), 1)]


async def test_L4_a_known_price_of_nothing_costs_nothing(team: Team) -> None:
    team.employ("alice", Spender(Usage(input=10**9, output=1, usd=0.0)))
    await team.dm("alice", "think")
    await team.still()
    assert await paid(team) == [(0, 0)]


@pytest.mark.parametrize(
    "usage", [Usage(10**30, 0, 10**30), Usage(1, 0, 1, usd=1e30), Usage(1, 0, 1, usd=float("inf"))]
)
async def test_L4_absurd_numbers_stop_the_work_and_are_not_lost(team: Team, usage: Usage) -> None:
    model = Spender(usage, steps=5)
    team.employ("alice", model)
    await team.post("user", "@alice spend")
    await team.elapse(10)
    assert model.asked == 1
    assert await team.states() == ["incomplete"]
    assert (await team.agent("alice"))["state"] == "idle"


@pytest.mark.parametrize("usd", [-5.0, float("nan")])
async def test_L4_nobody_earns_money_by_a_step(team: Team, usd: float) -> None:
    team.employ("alice", Spender(Usage(1000, 0, 1000, usd=usd)))
    await team.dm("alice", "earn")
    await team.elapse(10)
    assert await team.states() == ["done"]
    assert await paid(team) == [(round(2000 * UNKNOWN_PRICE), 1)]


# --- loops --------------------------------------------------------------------------------------------


class Chatter:
    """Always has something new to say to the same ones."""

    def __init__(self, *others: str) -> None:
        self.others, self.said = others, 0

    async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
        self.said += 1
        return Reply(f"{' '.join(f'@{other}' for other in self.others)} thought number {self.said}")


class Parrot:
    """Says the same thing for ever, or nothing at all."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
        return Reply(self.text)


async def paid(team: Team) -> list[tuple[int, int]]:
    """For each step, what it cost and whether that is a guess."""
    return [(row["micros"], row["estimated"]) for row in await team.read(stored.ledger)]


async def runs(team: Team) -> int:
    return len(await team.runs())


@pytest.mark.parametrize(("limits", "most"), [(WorkLimits(), 24), (WorkLimits(hops_per_root=None), 50)])
async def test_L1_two_who_answer_each_other_for_ever_are_stopped_with_one_notice(
    team: Team, limits: WorkLimits, most: int
) -> None:
    team.employ("alice", Chatter("bob"), limits=limits)
    team.employ("bob", Chatter("alice"), limits=limits)
    await team.post("user", "@alice talk to bob")
    reason = await team.meanwhile(team.quiet())
    assert await runs(team) == most
    assert "limit reached" in reason
    notices = [m.text for m in await team.messages() if m.kind == "system"]
    assert notices == [f"Paused: {reason}. Resume to grant a new allowance."]
    assert [kind for kind, _ in await team.inbox()] == ["limit"]
    open_work = [state for state in await team.states() if state != "done"]
    assert open_work == ["incomplete"], "what could not be begun is kept, not dropped"


@pytest.mark.parametrize(("limits", "most"), [(WorkLimits(), 24), (WorkLimits(hops_per_root=None), 50)])
async def test_L1_resuming_grants_the_same_again_and_goes_on(team: Team, limits: WorkLimits, most: int) -> None:
    team.employ("alice", Chatter("bob"), limits=limits)
    team.employ("bob", Chatter("alice"), limits=limits)
    await team.post("user", "@alice talk to bob")
    await team.meanwhile(team.quiet())
    said = len(await team.texts())
    await team.write(commands.resume_workspace, team.workspace.id, now=team.now())
    await team.meanwhile(team.quiet())
    assert await runs(team) == 2 * most
    assert len(await team.texts()) == said + most + 1
    numbers = sorted(int(m.text.rpartition(" ")[2]) for m in await team.messages() if m.sender == "bob")
    assert numbers == list(range(1, len(numbers) + 1)), "nothing was said twice, nothing left out"


async def test_L1_what_comes_while_the_workspace_is_paused_waits_and_is_not_lost(team: Team) -> None:
    for name, other in (("alice", "bob"), ("bob", "alice")):
        team.employ(name, Chatter(other))
    await team.post("user", "@alice talk to bob")
    await team.meanwhile(team.quiet())
    before = await runs(team)
    for n in range(3):
        await team.post("user", f"@bob question {n}")
    await team.still()
    assert await runs(team) == before
    team.employ("alice", Parrot(NO_REPLY))
    team.employ("bob", Parrot("enough"))
    await team.write(commands.resume_workspace, team.workspace.id, now=team.now())
    await team.meanwhile(team.quiet())
    assert set(await team.states()) <= {"done", "incomplete"}
    assert {row["state"] for row in await team.deliveries()} == {"acked"}


async def test_L3_a_slow_loop_is_stopped_too(team: Team) -> None:
    class Slow(Chatter):
        async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
            await team.clock.sleep(90)
            return await super().reply(turn, steps, recorder)

    team.employ("alice", Slow("bob"))
    team.employ("bob", Slow("alice"))
    await team.post("user", "@alice talk to bob")
    await team.elapse(24 * 3600)
    assert await runs(team) == 24


@pytest.mark.parametrize(
    "text",
    [
        "@bob as I said",
        NO_REPLY,
        "@bob at length: " + "so it is. " * 1000,
        "@bob the key is sk-ant-api03-" + "x7Kd9" * 18,
    ],
    ids=["the same words", "nothing", "a long text", "a secret"],
)
async def test_five_runs_in_a_row_that_produce_nothing_new_pause_the_workspace(team: Team, text: str) -> None:
    team.employ("alice", Parrot(text))
    team.employ("bob", Parrot(NO_REPLY), limits=OFF)
    for _ in range(8):
        await team.post("user", "@alice again")
        await team.still()
    assert "5 runs in a row produced nothing new" in (await team.workspace_row())["paused"]
    fruitless = 5 if text == NO_REPLY else 6  # the first saying was new
    done = await team.runs(agent=team.id_of("alice"))
    assert len(done) == fruitless


async def test_a_run_that_produces_something_begins_the_count_anew(team: Team) -> None:
    team.employ("alice", Parrot(NO_REPLY))
    for _ in range(4):
        await team.post("user", "@alice again")
        await team.still()
    team.employ("alice", Parrot("something new"))
    await team.post("user", "@alice again")
    await team.still()
    team.employ("alice", Parrot(NO_REPLY))
    for _ in range(4):
        await team.post("user", "@alice again")
        await team.still()
    assert (await team.workspace_row())["paused"] == ""


async def test_what_a_person_writes_is_something_new_even_if_the_answers_are_the_same(team: Team) -> None:
    team.employ("alice", Parrot("I see"))
    for n in range(8):
        await team.post("user", f"@alice and what about {n}?")
        await team.still()
    assert (await team.workspace_row())["paused"] == ""
    assert len(await team.runs(agent=team.id_of("alice"))) == 8


async def test_a_dm_over_its_limit_says_so_and_does_not_keep_the_sender_waiting(team: Team) -> None:
    team.employ("alice", Spender(Usage(1, 0, 1, usd=30.0)), limits=WorkLimits(usd_per_root=None))
    runtime = team.runtime
    first = await team.meanwhile(put_question(runtime, team.loaded, "alice", "one"))
    assert first.state == "done"
    second = await team.meanwhile(put_question(runtime, team.loaded, "alice", "two"))
    assert second.state == "incomplete"
    assert "this agent has spent 30.00 USD today" in second.reason
