"""A server that is away for longer than anybody waits: what was under way, and what waits for it, goes on by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from tests import stored
from tests.hosts.fleet import Slow, TestHost, open_fleet
from tests.hosts.test_hosts import eventually, until_done, until_state, workspace
from tests.patience import until
from tests.postgresql import Cluster, open_cluster

from agent_worker.core import failpoints
from agent_worker.core.errors import Unreachable
from agent_worker.core.events import WorkspaceChanged
from agent_worker.database.postgres import PostgresDatabase
from agent_worker.database.postgres_faults import PATIENCE
from agent_worker.schedules.schedule import fire_due
from agent_worker.service.hook_starter import HookStarter
from agent_worker.service.messages import deliver
from agent_worker.service.schedule_starter import ScheduleStarter
from agent_worker.service.workflows import WorkflowRequest, begin
from agent_worker.work import hook_deliveries
from agent_worker.workspaces import workspace_rows


@pytest.fixture
def workflow() -> str:
    return "workspace: { provider: sqlite }\n"


@pytest.fixture
async def away(tmp_path: Path, workflow: str) -> AsyncIterator[tuple[TestHost, Cluster]]:
    """A host whose server can be stopped, and that waits for it for a moment only."""
    with open_cluster() as cluster:
        async with open_fleet(cluster.new_database(), tmp_path, "alice", workflow=workflow) as fleet:
            host = await fleet.add()
            assert isinstance(host.runtime.database, PostgresDatabase)
            host.runtime.database._reach.patience = 0.01
            yield host, cluster
            if not cluster.is_running:
                await asyncio.to_thread(cluster.start)


async def come_back(host: TestHost, cluster: Cluster) -> None:
    await asyncio.to_thread(cluster.start)
    assert isinstance(host.runtime.database, PostgresDatabase)
    host.runtime.database._reach.patience = PATIENCE  # a session that was lost is noticed by whoever asks next


async def until_refused(host: TestHost) -> None:
    """Until somebody who began to ask now was told that the server is away for too long."""
    with pytest.raises(Unreachable):
        await host.database.read(stored.runs)


async def test_H4_a_team_that_ends_while_the_server_is_away_ends_when_it_is_back(
    away: tuple[TestHost, Cluster],
) -> None:
    host, cluster = away
    started = await begin(host.service, WorkflowRequest("review", host.root))
    await asyncio.to_thread(cluster.stop)
    ends = asyncio.ensure_future(host.service.finish(started))
    await until_refused(host)
    assert not ends.done()
    await come_back(host, cluster)
    assert (await ends).outcome == "done"
    assert (await workspace(host, started.id))["state"] == "stopped"


async def test_H4_a_team_that_could_not_be_stopped_is_as_it_was(away: tuple[TestHost, Cluster]) -> None:
    host, cluster = away
    host.employ("alice", slow := Slow("done"))
    started = await begin(host.service, WorkflowRequest("review", host.root))
    asked = await deliver(host.runtime, host.loaded, "alice", "go on")
    await slow.begun.wait()
    await asyncio.to_thread(cluster.stop)
    ends = asyncio.ensure_future(host.service.finish(started))
    with pytest.raises(Unreachable):
        await host.service.stop(started)
    assert host.service.running(started.id) is started
    await come_back(host, cluster)
    slow.go_on.set()
    await until_state(host, asked.id, "done")
    await ends
    assert (await workspace(host, started.id))["state"] == "stopped"


async def test_H4_a_team_that_was_being_started_when_the_server_went_away_can_be_started_when_it_is_back(
    away: tuple[TestHost, Cluster],
) -> None:
    host, cluster = away

    def go_away(_: WorkspaceChanged) -> None:
        if cluster.is_running:
            cluster.stop()

    unlisten = host.runtime.bus.listen(go_away, WorkspaceChanged)
    starts = asyncio.ensure_future(begin(host.service, WorkflowRequest("review", host.root)))
    await until(lambda: not cluster.is_running)
    unlisten()
    with pytest.raises(Unreachable):
        await starts
    assert not cluster.is_running, "whoever asked is not kept waiting"
    with pytest.raises(Unreachable):
        await begin(host.service, WorkflowRequest("review", host.root))
    await come_back(host, cluster)
    started = await begin(host.service, WorkflowRequest("review", host.root))
    assert not host.runtime.undoings._tried
    assert (await workspace(host, started.id))["state"] == "running"


async def test_H4_a_team_that_was_being_started_when_the_server_went_away_is_no_more_when_it_is_back(
    away: tuple[TestHost, Cluster],
) -> None:
    host, cluster = away
    unlisten = host.runtime.bus.listen(lambda _: cluster.stop() if cluster.is_running else None, WorkspaceChanged)
    with pytest.raises(Unreachable):
        await begin(host.service, WorkflowRequest("review", host.root))
    unlisten()
    await come_back(host, cluster)

    async def closed() -> bool:
        return [row["state"] for row in await host.database.read(workspace_rows.of_project)] == ["stopped"]

    await eventually(host, closed)


INLINE = "  helper: { backend: mock, prompt: { system: You help. } }\nworkspace: { provider: sqlite }\n"


@pytest.mark.parametrize("workflow", [INLINE], ids=["with a member of its own"])
async def test_H4_a_host_that_could_not_take_part_in_a_team_does_when_the_server_is_back(
    tmp_path: Path, workflow: str
) -> None:
    with open_cluster() as cluster:
        url = cluster.new_database()
        async with open_fleet(url, tmp_path, "alice", workflow=workflow) as fleet:
            first, host = await fleet.add(), await fleet.add()
            assert isinstance(host.runtime.database, PostgresDatabase)
            with closing(psycopg.connect(url)) as held:

                def hold(event: WorkspaceChanged) -> None:
                    if event.state == "running":  # from now on nothing can be written
                        held.execute("lock table project in exclusive mode")

                first.runtime.bus.listen(hold, WorkspaceChanged)
                starts = asyncio.ensure_future(begin(first.service, WorkflowRequest("review", first.root)))
                writer = host.runtime.database._writer
                assert writer
                waits, pid = "select pg_blocking_pids(%s) <> '{}'", writer.connection.info.backend_pid
                await until(lambda: cluster.run(waits, pid) == [(True,)])
                host.runtime.database._reach.patience = 0.01
                await asyncio.to_thread(cluster.stop)
                await until_refused(host)
                await come_back(host, cluster)
                await starts
                await until(lambda: "helper" in [worker.name for worker in host.runtime.registry.workers()])


async def test_H4_the_files_of_agents_are_brought_though_the_server_was_away_when_a_project_was_opened(
    away: tuple[TestHost, Cluster],
) -> None:
    host, cluster = away
    database = host.runtime.database
    assert isinstance(database, PostgresDatabase)
    assert host.service.opened
    with closing(psycopg.connect(database._url)) as held:
        held.execute("lock table personal_file in access exclusive mode")
        before = set(host.service._tasks)
        waiting = "select 1 from pg_locks where not granted"
        await host.service.opened(host.loaded)
        (bringing,) = host.service._tasks - before
        await until(lambda: bool(cluster.run(waiting)))
        await asyncio.to_thread(cluster.stop)
    await until_refused(host)
    await come_back(host, cluster)
    await bringing


async def test_H4_a_team_that_was_being_taken_up_when_the_server_went_away_goes_on_when_it_is_back(
    tmp_path: Path, workflow: str
) -> None:
    with open_cluster() as cluster:
        async with open_fleet(cluster.new_database(), tmp_path, "alice", workflow=workflow) as fleet:
            first, host = await fleet.add(), await fleet.add()
            slow = Slow("done")
            for each in (first, host):  # whoever is faster has her
                each.employ("alice", slow)
            started = await begin(first.service, WorkflowRequest("review", first.root))
            await deliver(first.runtime, first.loaded, "alice", "go on")
            await slow.begun.wait()

            def go_away(event: WorkspaceChanged) -> None:
                if event.state == "running" and cluster.is_running:
                    cluster.stop()

            unlisten = host.runtime.bus.listen(go_away, WorkspaceChanged)
            assert isinstance(host.runtime.database, PostgresDatabase)
            host.runtime.database._reach.patience = 0.01
            await first.stop()
            await until(lambda: not cluster.is_running)
            unlisten()
            await until_refused(host)
            await come_back(host, cluster)

            await until(lambda: host.service.running(started.id))
            row = await workspace(host, started.id)
            assert (row["state"], row["owner"]) == ("running", host.id)
            slow.go_on.set()


async def test_H4_webhooks_begin_workflows_though_the_server_was_away_when_they_were_looked_for(
    away: tuple[TestHost, Cluster],
) -> None:
    host, cluster = away
    await asyncio.to_thread(cluster.stop)
    HookStarter(host.service)
    await until_refused(host)
    await come_back(host, cluster)
    about = {"project": host.loaded.id, "workflow": "review", "name": "push", "tag": "main", "params": "{}", "at": 1}
    row = about | {"id": "h1", "delivery": "h1", "body": "h1", "state": "failed"}
    await host.runtime.database.write(stored.add, "hook_delivery", **row)
    await host.database.write(hook_deliveries.again, "h1")

    async def started() -> bool:
        return [row["state"] for row in await host.database.read(stored.hook_deliveries)] == ["started"]

    await eventually(host, started)


@pytest.mark.parametrize("workflow", ["schedule: { wakeup: 10m }\nkickoff: '@alice it is time'\n"], ids=["by time"])
async def test_H4_what_is_due_begins_though_the_server_was_away_when_it_was_to_begin(
    away: tuple[TestHost, Cluster],
) -> None:
    host, cluster = away
    await host.database.write(stored.change, "schedule", due_at=1, slot=1)
    await host.runtime.database.write(fire_due, now=host.runtime.clock.now())
    await asyncio.to_thread(cluster.stop)
    ScheduleStarter(host.service).look()
    await until_refused(host)
    await come_back(host, cluster)
    await until_done(host, 1)


@pytest.mark.parametrize("at", ["commit.before=raise", "commit.after=raise"])
async def test_H4_an_agent_goes_on_after_a_commit_that_failed_for_a_reason_nobody_thought_of(
    away: tuple[TestHost, Cluster], at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, _ = away
    host.employ("alice", slow := Slow("done"))
    asked = await deliver(host.runtime, host.loaded, "alice", "go on")
    await slow.begun.wait()
    monkeypatch.setattr(failpoints, "_armed", failpoints._parse(at))
    slow.go_on.set()
    await until_state(host, asked.id, "done")
    assert not await host.database.read(stored.runs, state="running")
