"""Several hosts over one PostgreSQL: who is there, who runs whom, and what becomes of the work of one that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest
from tests import stored
from tests.hosts.fleet import Fleet, Slow, TestHost, WrongClock, open_fleet
from tests.models import Attentive
from tests.patience import PATIENCE, until
from tests.postgresql import Cluster, open_cluster
from tests.teams import kept_prices, write_project

from agent_worker.compose import RuntimeSettings, open_runtime
from agent_worker.core.errors import Fenced
from agent_worker.core.events import Event
from agent_worker.database import host_rows
from agent_worker.database.database import Row
from agent_worker.definitions.project_files import load_project
from agent_worker.schedules.schedule import fire_due
from agent_worker.service.messages import deliver, put_question
from agent_worker.service.schedule_starter import ScheduleStarter
from agent_worker.service.workflows import WorkflowRequest, begin, workflow_finish, workflow_wait
from agent_worker.work import agent_rows, hook_deliveries
from agent_worker.workspaces import workspace_rows


@pytest.fixture
async def fleet(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Fleet]:
    async with open_fleet(cluster.new_database(), tmp_path, "alice", "bob") as fleet:
        yield fleet


async def test_every_host_is_listed_while_it_lives(fleet: Fleet) -> None:
    one, two = await fleet.add(), await fleet.add()
    listed = await one.runtime.database.read(host_rows.listed)
    assert [row["id"] for row in listed] == [one.id, two.id]
    assert all(0 < row["left_of_lease"] <= host_rows.LEASE * 1e6 for row in listed)
    await two.stop()
    assert [row["id"] for row in await one.runtime.database.read(host_rows.listed)] == [one.id]


async def test_a_question_is_answered_whichever_host_does_it_and_once(fleet: Fleet) -> None:
    hosts = [await fleet.add(), await fleet.add()]
    for n in range(6):
        host = hosts[n % 2]
        answered = await put_question(host.runtime, host.loaded, ["alice", "bob"][n // 2 % 2], f"question {n}")
        assert answered.state == "done"
    runs = await hosts[0].database.read(stored.runs)
    assert [run["state"] for run in runs] == ["done"] * 6


async def test_H1_what_a_host_was_working_on_when_it_died_is_done_by_another_and_its_late_word_counts_for_nothing(
    fleet: Fleet,
) -> None:
    frozen = await fleet.add()
    late = Slow("too late")
    frozen.employ("alice", late)
    asked = asyncio.ensure_future(put_question(frozen.runtime, frozen.loaded, "alice", "are you there?"))
    await late.begun.wait()
    other = await fleet.add()
    other.employ("alice", Attentive(says=lambda _: "in time"))
    await frozen.fall_silent()
    answered = await asked
    assert (answered.state, answered.text) == ("done", "in time")
    late.go_on.set()
    await frozen.stop()
    runs = await other.database.read(stored.runs)
    assert [run["state"] for run in runs] == ["lost", "done"]
    said = [entry["text"] for entry in await other.database.read(stored.talk)]
    assert said == ["are you there?", "in time"]


async def test_a_host_that_was_found_dead_and_does_not_know_it_claims_nobody(fleet: Fleet) -> None:
    dead, other = await fleet.add(), await fleet.add()
    await dead.fall_silent()
    await other.runtime.database.write(host_rows.bury, dead.id)
    hosting = dead.runtime.supervisor.hosting
    assert hosting
    assert hosting.holds, "it does not know it yet"
    alice = dead.loaded.agents["alice"]
    with pytest.raises(Fenced):
        await dead.database.write(agent_rows.claim, alice, dead.id)
    asked = await deliver(dead.runtime, dead.loaded, "alice", "who are you?")
    await until_state(other, asked.id, "done")
    assert (await owners(other))["alice"] == other.id


async def test_a_host_that_was_found_dead_and_lives_begins_anew(fleet: Fleet) -> None:
    one = await fleet.add()
    assert await one.runtime.database.write(stored.change, "host", lease_until=0) is None
    await one.runtime.database.write(host_rows.bury, one.id)
    await until_listed(one, one.id)
    assert (await put_question(one.runtime, one.loaded, "alice", "again?")).state == "done"


async def test_work_that_a_host_leaves_when_it_ends_is_taken_up_at_once(fleet: Fleet) -> None:
    one, two = await fleet.add(), await fleet.add()
    for host in (one, two):
        host.employ("alice", Slow("never"))
    asked = await deliver(one.runtime, one.loaded, "alice", "a long story")
    await until_owned(one)
    owner = (await owners(one))["alice"]
    first, second = (one, two) if owner == one.id else (two, one)
    second.employ("alice", Attentive(says=lambda _: "the end"))
    first.runtime.supervisor.grace = 0.0
    await first.stop()
    await until_state(second, asked.id, "done")
    assert [run["state"] for run in await second.database.read(stored.runs)] == ["yielded", "done"]


async def test_an_agent_is_run_only_where_there_is_what_it_requires(cluster: Cluster, tmp_path: Path) -> None:
    extra = {"alice": "requires: [gpu]\n"}
    async with open_fleet(cluster.new_database(), tmp_path, "alice", "bob", extra=extra) as fleet:
        plain = await fleet.add()
        asked = await deliver(plain.runtime, plain.loaded, "alice", "draw")
        assert (await put_question(plain.runtime, plain.loaded, "bob", "and you?")).state == "done"
        assert (await owners(plain))["alice"] is None
        fitting = await fleet.add("gpu")
        await until_state(fitting, asked.id, "done")
        assert (await owners(fitting))["alice"] == fitting.id


async def test_alone_with_sqlite_an_agent_that_requires_something_is_told_to_be_of_no_use(tmp_path: Path) -> None:
    write_project(tmp_path, ["alice"], extra={"alice": "requires: [gpu]\n"})
    async with open_runtime(RuntimeSettings(prices=kept_prices())) as runtime:
        loaded = await runtime.loader.load(load_project(tmp_path))
        (problem,) = loaded.project.unusable
        assert "alice requires gpu, and here agents work on one machine" in problem.message


async def test_members_of_a_team_work_on_any_host_and_the_team_survives_the_host_that_started_it(fleet: Fleet) -> None:
    one = await fleet.add()
    started = await begin(one.service, WorkflowRequest("review", str(fleet.root)))
    two = await fleet.add()
    for n, host in enumerate((one, two)):
        await deliver(host.runtime, host.loaded, "@review", f"@alice question {n}")
        await until_done(host, n + 1)
    assert (await workspace(two, started.id))["owner"] == one.id
    await one.stop()
    await until_running_at(two, started.id)
    await deliver(two.runtime, two.loaded, "@review", "@bob question 2")
    await until_done(two, 3)
    posted = [row["text"] for row in await two.database.read(stored.messages) if row["sender"] == "user"]
    assert posted == ["@alice question 0", "@alice question 1", "@bob question 2"]


async def test_a_team_is_stopped_from_any_host(fleet: Fleet) -> None:
    one, two = await fleet.add(), await fleet.add()
    started = await begin(one.service, WorkflowRequest("review", str(fleet.root)))
    await two.service.stop_named(two.loaded, "review")
    await until(lambda: one.service.running(started.id) is None)
    assert (await workspace(one, started.id))["state"] == "stopped"
    again = await begin(two.service, WorkflowRequest("review", str(fleet.root)))
    assert (await workspace(one, again.id))["owner"] == two.id


async def test_a_team_is_waited_for_and_finished_from_any_host(fleet: Fleet) -> None:
    one, two = await fleet.add(), await fleet.add()
    started = await begin(one.service, WorkflowRequest("review", str(fleet.root)))
    slow = Slow("done")
    for host in (one, two):
        await until(lambda host=host: host.runtime.registry.works_in(host.loaded.agents["alice"], started.id))  # type: ignore[misc]
        host.employ("alice", slow)
    await deliver(two.runtime, two.loaded, "@review", "@alice begin")
    await slow.begun.wait()
    waits = asyncio.ensure_future(workflow_wait(two.service, "review", str(fleet.root)))
    finishes = asyncio.ensure_future(workflow_finish(two.service, "review", str(fleet.root)))
    await until_ends(one, started.id, "quiet")
    slow.go_on.set()
    assert await waits == ""
    summary = await finishes
    assert (summary.outcome, summary.runs) == ("done", {"alice": 1})
    await until(lambda: one.service.running(started.id) is None)
    assert (await workspace(one, started.id))["state"] == "stopped"


async def test_H10_three_hosts_that_die_do_not_make_work_dead_that_was_not_alone_on_them(fleet: Fleet) -> None:
    witness = await fleet.add(looks_on=True)
    for name in ("alice", "bob"):
        await deliver(witness.runtime, witness.loaded, name, "a long story")
    lost = 0
    for together in (2, 2, 1):  # what saw two hosts die is tried alone
        await one_dies(fleet, witness, together)
        lost += together
        assert len(await witness.database.read(stored.runs, state="lost")) == lost
    assert {row["state"] for row in await witness.database.read(stored.instructions)} == {"queued"}
    assert not await witness.database.read(stored.inbox)


async def test_H10_work_that_was_alone_on_three_hosts_when_they_died_is_dead(fleet: Fleet) -> None:
    witness = await fleet.add(looks_on=True)
    await deliver(witness.runtime, witness.loaded, "alice", "a poisoned story")
    for _ in range(3):
        await one_dies(fleet, witness, 1)
    assert [row["state"] for row in await witness.database.read(stored.instructions)] == ["dead"]
    assert [row["kind"] for row in await witness.database.read(stored.inbox)] == ["dead"]


async def one_dies(fleet: Fleet, witness: TestHost, running: int) -> None:
    """A host that is working on so much dies, and its work is put back."""
    dies = await fleet.add(looks_on=True)  # or it would answer before it is slow
    for name in ("alice", "bob"):
        dies.employ(name, Slow("never"))
    await dies.begin_work()
    await until_running(witness, running)
    await dies.fall_silent()
    hosting = dies.runtime.supervisor.hosting
    assert hosting
    assert hosting._fence
    hosting._fence.cancel()  # else, on a slow machine, it ends its work itself before it is found dead
    await until_running(witness, 0)
    dies.runtime.supervisor.grace = 0.0
    await dies.stop()


async def test_what_happens_on_one_host_is_told_on_all_in_the_order_of_commits(fleet: Fleet) -> None:
    one, two = await fleet.add(), await fleet.add()
    heard: dict[str, list[tuple[int, Event]]] = {one.id: [], two.id: []}
    for host in (one, two):
        told = heard[host.id]
        host.runtime.bus.listen(lambda event, told=told: told.append((event.number, event)) if event.number else None)  # type: ignore[misc]
    for n in range(10):
        host = (one, two)[n % 2]
        await put_question(host.runtime, host.loaded, "alice", f"question {n}")
    last = heard[one.id][-1][0]
    await until(lambda: all(told and told[-1][0] >= last for told in heard.values()))
    numbers = [[number for number, _ in told] for told in heard.values()]
    assert all(each == sorted(set(each)) for each in numbers)
    both = set(numbers[0]) & set(numbers[1])
    assert len(both) >= 40
    same = [{number: event for number, event in told if number in both} for told in heard.values()]
    assert same[0] == same[1]


async def test_what_is_due_is_started_by_one_host_only(cluster: Cluster, tmp_path: Path) -> None:
    workflow = "schedule: { wakeup: 10m }\nkickoff: '@alice it is time'\n"
    async with open_fleet(cluster.new_database(), tmp_path, "alice", workflow=workflow) as fleet:
        hosts = [await fleet.add(), await fleet.add()]
        for host in hosts:
            ScheduleStarter(host.service)
        await hosts[0].database.write(stored.change, "schedule", due_at=1, slot=1)
        for host in hosts:
            assert host.runtime.loader.ticker
            host.runtime.loader.ticker.look_again()
        await until_done(hosts[0], 1)
        said = [row["text"] for row in await hosts[0].database.read(stored.messages)]
        assert said.count("@alice it is time") == 1
        assert not await hosts[0].database.read(stored.inbox)


async def test_a_webhook_that_a_living_host_is_starting_is_left_to_it(fleet: Fleet) -> None:
    one, two = await fleet.add(), await fleet.add()
    about = {"project": one.loaded.id, "workflow": "review", "name": "push", "tag": "main", "params": "{}", "at": 1}
    for id, host in (("h1", one.id), ("h2", "a host that is gone")):
        row = about | {"id": id, "delivery": id, "body": id, "state": "starting", "started_at": 1, "host": host}
        await one.runtime.database.write(stored.add, "hook_delivery", **row)
    await two.runtime.database.write(hook_deliveries.take_up)
    states = {row["id"]: row["state"] for row in await one.database.read(stored.hook_deliveries)}
    assert states == {"h1": "starting", "h2": "queued"}


@pytest.mark.parametrize("hours", [1, -1])
async def test_H7_a_host_whose_clock_is_wrong_goes_by_the_databases(
    cluster: Cluster, tmp_path: Path, hours: int
) -> None:
    workflow = "schedule: { wakeup: 10m }\nkickoff: '@alice it is time'\n"
    async with open_fleet(cluster.new_database(), tmp_path, "alice", workflow=workflow) as fleet:
        right = await fleet.add()
        await right.database.write(stored.change, "schedule", due_at=right.runtime.clock.micros() + 600_000_000)
        wrong = await fleet.add(clock=WrongClock(timedelta(hours=hours)))
        assert abs(wrong.runtime.clock.now() - right.runtime.clock.now()) < timedelta(minutes=5)
        await wrong.runtime.database.write(fire_due, now=wrong.runtime.clock.now())
        (row,) = await right.database.read(stored.schedules)
        assert row["fired_at"] is None  # not before its time
        await right.database.write(stored.change, "schedule", due_at=right.runtime.clock.micros() - 60_000_000)
        await wrong.runtime.database.write(fire_due, now=wrong.runtime.clock.now())
        (row,) = await right.database.read(stored.schedules)
        assert row["fired_at"] is not None
        await put_question(wrong.runtime, wrong.loaded, "alice", "what time is it?")
        begun = [run["started_at"] for run in await right.database.read(stored.runs)]
        assert begun
        assert all(abs(each - right.runtime.clock.micros()) < 300_000_000 for each in begun)


async def test_H8_several_hosts_begin_on_an_empty_database_at_once_and_all_work(fleet: Fleet) -> None:
    hosts = await asyncio.gather(*(fleet.add() for _ in range(3)))
    answers = await asyncio.gather(*(put_question(host.runtime, host.loaded, "bob", "hello") for host in hosts))
    assert [answer.state for answer in answers] == ["done"] * 3
    assert len(await hosts[0].runtime.database.read(host_rows.listed)) == 3


async def test_a_database_that_is_killed_and_started_again_is_waited_for_by_all_hosts(tmp_path: Path) -> None:
    with open_cluster() as cluster:
        async with open_fleet(cluster.new_database(), tmp_path, "alice", "bob") as fleet:
            hosts = [await fleet.add(), await fleet.add()]
            await asyncio.to_thread(cluster.stop)
            questions = [
                asyncio.ensure_future(put_question(host.runtime, host.loaded, name, "still there?"))
                for host, name in zip(hosts, ("alice", "bob"), strict=True)
            ]
            await until(lambda: all(host.runtime.database.trouble for host in hosts))
            await asyncio.to_thread(cluster.start)
            assert [answer.state for answer in await asyncio.gather(*questions)] == ["done"] * 2
            listed = await hosts[0].runtime.database.read(host_rows.listed)
            assert {row["id"] for row in listed} == {host.id for host in hosts}


# --- waiting --------------------------------------------------------------------------------------------


async def owners(host: TestHost) -> dict[str, str | None]:
    return {row["name"]: row["owner"] for row in await host.database.read(stored.agents)}


async def workspace(host: TestHost, id: str) -> Row:
    return await host.database.read(workspace_rows.get, id)


async def eventually(host: TestHost, holds: Callable[[], Awaitable[object]]) -> None:
    """Look again after everything that this host hears."""
    stirred = asyncio.Event()
    unlisten = host.runtime.bus.listen(lambda _: stirred.set())
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                stirred.clear()
                if await holds():
                    return
                await stirred.wait()
    finally:
        unlisten()


async def until_owned(host: TestHost) -> None:
    async def holds() -> bool:
        return bool(await host.database.read(stored.runs, state="running"))

    await eventually(host, holds)


async def until_state(host: TestHost, work: str, state: str) -> None:
    async def holds() -> bool:
        return bool(await host.database.read(stored.instructions, id=work, state=state))

    await eventually(host, holds)


async def until_done(host: TestHost, count: int) -> None:
    async def holds() -> bool:
        runs = await host.database.read(stored.runs, state="done")
        return len(runs) >= count and not await host.database.read(stored.unfinished)

    await eventually(host, holds)


async def until_running(host: TestHost, count: int) -> None:
    async def holds() -> bool:
        return len(await host.database.read(stored.runs, state="running")) == count

    await eventually(host, holds)


async def until_ends(host: TestHost, id: str, ends: str) -> None:
    async def holds() -> bool:
        return bool((await workspace(host, id))["ends"] == ends)

    await eventually(host, holds)


async def until_running_at(host: TestHost, id: str) -> None:
    async def holds() -> bool:
        row = await workspace(host, id)
        return (row["state"], row["owner"]) == ("running", host.id)

    await eventually(host, holds)


async def until_listed(host: TestHost, id: str) -> None:
    async def holds() -> bool:
        return any(row["id"] == id for row in await host.runtime.database.read(host_rows.listed))

    await eventually(host, holds)
