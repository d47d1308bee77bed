"""What hosts that share a database survive: cut wires, a database that dies or is replaced, another version."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests import stored
from tests.faults.report import LONG, report
from tests.hosts.fleet import Slow, open_fleet
from tests.hosts.test_checkouts import cloned
from tests.hosts.test_hosts import until_done
from tests.hosts.wire import open_wire
from tests.models import Attentive
from tests.patience import until
from tests.postgresql import Cluster, open_cluster, open_standby

from agent_worker.core.errors import StorageFault
from agent_worker.database import host_rows
from agent_worker.service.messages import deliver, put_question

RESTARTS = 20 if LONG else 2
CUTS = [(True, True)] + ([(True, False), (False, True)] if LONG else [])


@pytest.mark.parametrize(("there", "back"), CUTS)
async def test_H3_a_host_that_is_cut_off_writes_nothing_and_others_do_its_work_until_it_is_back(
    cluster: Cluster, tmp_path: Path, there: bool, back: bool
) -> None:
    direct, here, theirs = cluster.new_database(), cloned(tmp_path / "one"), cloned(tmp_path / "two")
    async with open_wire(direct) as wire, open_fleet(wire.url, here, "alice", "bob") as fleet:
        cut = await fleet.add()
        late = Slow("too late")
        cut.employ("alice", late)
        asked = await deliver(cut.runtime, cut.loaded, "alice", "are you there?")
        await late.begun.wait()
        fleet.url = direct
        other = await fleet.add(root=theirs)
        other.employ("alice", Attentive(says=lambda _: "in time"))
        wire.cut(there=there, back=back)
        await until_done(other, 1)
        hosting = cut.runtime.supervisor.hosting
        assert hosting
        assert not hosting.holds, "it ended its own work before anybody began it elsewhere"
        late.go_on.set()
        wire.heal()
        await until(lambda: hosting.holds)
        assert len(await other.runtime.database.read(host_rows.listed)) == 2
        said = [entry["text"] for entry in await other.database.read(stored.talk)]
        assert said == ["are you there?", "in time"]
        assert [row["state"] for row in await other.database.read(stored.instructions, id=asked.id)] == ["done"]
        report.count("H3 hosts cut off at work")


async def test_H4_a_database_that_dies_under_load_and_comes_back_loses_and_doubles_nothing(tmp_path: Path) -> None:
    with open_cluster() as cluster:
        async with open_fleet(cluster.new_database(), tmp_path, "alice", "bob") as fleet:
            hosts, asked = [await fleet.add(), await fleet.add()], 0
            for _ in range(RESTARTS):
                questions = [
                    asyncio.ensure_future(put_question(host.runtime, host.loaded, name, f"question {asked + n}"))
                    for n, (host, name) in enumerate([(host, name) for host in hosts for name in ("alice", "bob")])
                ]
                asked += len(questions)
                await asyncio.to_thread(cluster.stop)
                await asyncio.to_thread(cluster.start)
                assert {answer.state for answer in await asyncio.gather(*questions)} == {"done"}
                report.count("H4 restarts under load")
            said = [row["text"] for row in await hosts[0].database.read(stored.talk)]
            kept = sorted(text for text in said if text.startswith("question"))
            assert kept == sorted(f"question {n}" for n in range(asked))
            done = await hosts[0].database.read(stored.runs, state="done")
            assert len(done) == asked


async def test_H6_a_synchronous_replica_takes_over_and_has_everything_that_was_accepted(tmp_path: Path) -> None:
    with open_cluster("wal_level = replica\nmax_wal_senders = 4\nhot_standby = on\n") as first:
        url = first.new_database()
        with open_standby(first) as second:
            both = url.replace(f"127.0.0.1:{first.port}", f"127.0.0.1:{first.port},127.0.0.1:{second.port}")
            async with open_fleet(both, tmp_path, "alice", "bob") as fleet:
                hosts = [await fleet.add(), await fleet.add()]
                for n in range(4):
                    answered = await put_question(hosts[n % 2].runtime, hosts[n % 2].loaded, "alice", f"before {n}")
                    assert answered.state == "done"
                await asyncio.to_thread(first.stop)
                await asyncio.to_thread(second.promote)
                for n in range(4):
                    answered = await put_question(hosts[n % 2].runtime, hosts[n % 2].loaded, "bob", f"after {n}")
                    assert answered.state == "done"
                said = [row["text"] for row in await hosts[0].database.read(stored.talk)]
                wanted = [f"{when} {n}" for when in ("before", "after") for n in range(4)]
                assert [text for text in said if text in wanted] == wanted
                assert len(await hosts[0].database.read(stored.runs, state="done")) == 8
                report.count("H6 promotions")


async def test_H9_a_host_of_another_version_is_refused_and_the_others_go_on(cluster: Cluster, tmp_path: Path) -> None:
    async with open_fleet(cluster.new_database(), tmp_path, "alice") as fleet:
        first = await fleet.add()
        await first.runtime.database.write(stored.add, "migration", version=99, digest="of a version to come")
        with pytest.raises(StorageFault, match="schema version 99"):
            await fleet.add()
        assert (await put_question(first.runtime, first.loaded, "alice", "still there?")).state == "done"
        assert len(await first.runtime.database.read(host_rows.listed)) == 1
