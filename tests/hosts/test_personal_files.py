"""What agents keep for themselves, where several hosts share a database: the same on all, each in its folder."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests import stored
from tests.hosts.fleet import Fleet, TestHost, open_fleet
from tests.models import Attentive
from tests.patience import PATIENCE, until
from tests.postgresql import Cluster
from tests.teams import kept_prices, write_project

from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn
from agent_worker.compose import RuntimeSettings, open_runtime
from agent_worker.definitions.project_files import load_project
from agent_worker.memory.own_files import OwnFiles
from agent_worker.service.agent_files import agent_delete
from agent_worker.service.held_files import held_release
from agent_worker.service.hosts import hosts_folders
from agent_worker.service.memory import memory_set, memory_show, note_add
from agent_worker.service.messages import put_question
from agent_worker.service.rounds import NightRounds
from agent_worker.tools.tool import Call

SHOP = "id: shop\n"  # the same project in each checkout
CORE = Path(".agents/alice/memory/core.yaml")


class Learns:
    """A model that remembers a colour, then says so."""

    async def reply(self, turn: Turn, steps: Sequence[PastStep], sink: StepSink) -> Reply:
        if steps:
            return Reply(text=steps[-1].results["1"].text)
        arguments = {"key": "colour", "value": "green as moss", "tier": "core"}
        return Reply(text="", calls=(Call("1", "memory_write", arguments),))


@pytest.fixture
async def fleet(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Fleet]:
    async with open_fleet(cluster.new_database(), tmp_path / "one", "alice", "bob") as fleet:
        (fleet.root / "moniro.yaml").write_text(SHOP)
        yield fleet


async def add_elsewhere(fleet: Fleet, folder: Path) -> TestHost:
    """A host that has a checkout of its own."""
    write_project(folder, ["alice", "bob"])
    (folder / "moniro.yaml").write_text(SHOP)
    return await fleet.add(root=folder)


async def agree(*hosts: TestHost) -> None:
    for host in hosts:
        assert host.runtime.personal
        await host.runtime.personal.agree(host.loaded.agents["alice"])


async def test_what_an_agent_learned_on_a_host_that_died_it_knows_on_the_next(fleet: Fleet, tmp_path: Path) -> None:
    one = await fleet.add()
    one.employ("alice", Learns())
    assert (await put_question(one.runtime, one.loaded, "alice", "my colour is green as moss")).state == "done"
    assert "green as moss" in (fleet.root / CORE).read_text()
    two = await add_elsewhere(fleet, tmp_path / "two")
    listens = Attentive()
    two.employ("alice", listens)
    await one.fall_silent()
    await put_question(two.runtime, two.loaded, "alice", "which colour?")
    assert "green as moss" in listens.turns[0].prompt + listens.turns[0].system
    assert (tmp_path / "two" / CORE).read_text() == (fleet.root / CORE).read_text()


async def test_what_a_tool_wrote_is_kept_for_all_before_its_result_counts(fleet: Fleet) -> None:
    one = await fleet.add()
    one.employ("alice", Learns())
    await put_question(one.runtime, one.loaded, "alice", "my colour is green as moss")
    (kept,) = await one.database.read(stored.personal_files, path="memory/core.yaml")
    assert kept["text"] == (fleet.root / CORE).read_text()


async def test_what_a_person_edits_on_one_host_the_agent_knows_on_another(fleet: Fleet, tmp_path: Path) -> None:
    one, two = await fleet.add(), await add_elsewhere(fleet, tmp_path / "two")
    (fleet.root / CORE).parent.mkdir(parents=True)
    (fleet.root / CORE).write_text("colour: blue as ink # by hand\n")
    await until(lambda: (tmp_path / "two" / CORE).exists())
    assert (tmp_path / "two" / CORE).read_text() == "colour: blue as ink # by hand\n"
    (tmp_path / "two" / CORE).write_text("colour: red as rust\n")
    await until(lambda: (fleet.root / CORE).read_text() == "colour: red as rust\n")
    await memory_set(two.service, "alice", "shape", "round", project=two.root)
    await note_add(two.service, "alice", "A note\n\nwith words", project=two.root)
    await two.service.keep_files()
    shown = await memory_show(one.service, "alice", project=one.root)
    assert {each.key: each.value for each in shown.entries} == {"colour": "red as rust", "shape": "round"}
    assert [each.name for each in (fleet.root / ".agents/alice/notes").iterdir()]


async def test_two_edits_at_once_are_both_kept_on_both_hosts_and_the_person_is_told(
    fleet: Fleet, tmp_path: Path
) -> None:
    one, two = await fleet.add(), await add_elsewhere(fleet, tmp_path / "two")
    await memory_set(one.service, "alice", "colour", "green", project=one.root)
    await agree(one, two)
    places = [fleet.root / CORE, tmp_path / "two" / CORE]
    for place, colour in zip(places, ("blue", "red"), strict=True):
        place.write_text(f"colour: {colour}\n")
    await agree(one, two, one)
    for place in places:
        (beside,) = place.parent.glob("core.yaml.conflict-*")
        assert {place.read_text(), beside.read_text()} == {"colour: blue\n", "colour: red\n"}
    (item,) = await one.database.read(stored.inbox)
    assert item["kind"] == "conflict"
    assert "memory/core.yaml of alice was changed on two hosts at once" in item["text"]


async def test_what_is_removed_on_one_host_goes_on_all_and_a_deleted_agent_leaves_nothing(
    fleet: Fleet, tmp_path: Path
) -> None:
    one, two = await fleet.add(), await add_elsewhere(fleet, tmp_path / "two")
    note = await note_add(one.service, "alice", "A note", project=one.root)
    await memory_set(one.service, "alice", "colour", "green", project=one.root)
    await agree(one, two)
    there = Path(".agents/alice/notes") / note
    (tmp_path / "two" / there).unlink()
    await until(lambda: not (fleet.root / there).exists())
    await agent_delete(one.service, "alice", project=one.root)
    await agree_quietly(two)
    assert not await one.database.read(stored.personal_files)


async def agree_quietly(host: TestHost) -> None:
    """As if it had not heard yet that the agent is gone."""
    assert host.runtime.personal
    for agent in host.loaded.agents.values():
        await host.runtime.personal.agree(agent)


async def test_a_secret_that_a_person_wrote_stays_in_their_file_and_gets_to_no_other_host(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", secret := "correct-horse-battery-staple")
    one, two = await fleet.add(), await add_elsewhere(fleet, tmp_path / "two")
    (fleet.root / CORE).parent.mkdir(parents=True)
    (fleet.root / CORE).write_text(f"door: {secret}\n")
    await agree(one, two)
    assert secret in (fleet.root / CORE).read_text()
    assert secret not in (tmp_path / "two" / CORE).read_text()
    await memory_set(two.service, "alice", "colour", "green", project=two.root)
    await agree(two, one)
    (beside,) = (fleet.root / CORE).parent.glob("core.yaml.conflict-*")
    assert secret in beside.read_text()
    assert "green" in (fleet.root / CORE).read_text()
    assert all(secret not in row["text"] for row in await one.database.read(stored.personal_files))


async def test_of_one_folder_that_two_hosts_see_nothing_is_a_conflict(fleet: Fleet) -> None:
    one, two = await fleet.add(), await fleet.add()
    for n in range(10):
        host = (one, two)[n % 2]
        await memory_set(host.service, "alice", f"key-{n}", f"value {n}", project=host.root)
        await agree(one, two)
    assert not await one.database.read(stored.inbox)
    shown = await memory_show(two.service, "alice", project=two.root)
    assert len(shown.entries) == 10


async def test_an_agent_may_keep_its_folder_in_files_that_all_hosts_see(cluster: Cluster, tmp_path: Path) -> None:
    extra = {"alice": "context: { store: files }\n"}
    async with open_fleet(cluster.new_database(), tmp_path, "alice", extra=extra) as fleet:
        one = await fleet.add()
        await memory_set(one.service, "alice", "colour", "green", project=one.root)
        await agree(one)
        assert not await one.database.read(stored.personal_files)


async def test_a_host_that_does_not_see_the_folder_that_others_see_leaves_the_agent_to_them_and_says_so(
    cluster: Cluster, tmp_path: Path
) -> None:
    extra = {"alice": "context: { store: files }\n"}
    async with open_fleet(cluster.new_database(), tmp_path / "one", "alice", extra=extra) as fleet:
        (fleet.root / "moniro.yaml").write_text(SHOP)
        one = await fleet.add()
        assert (await put_question(one.runtime, one.loaded, "alice", "hello?")).state == "done"
        shutil.copytree(fleet.root, tmp_path / "two")  # as a clone would, with the mark
        two, three = await fleet.add(root=tmp_path / "two"), await fleet.add(looks_on=True)
        await one.stop()
        fleet.hosts.remove(one)
        asked = asyncio.ensure_future(put_question(two.runtime, two.loaded, "alice", "and now?"))
        assert "does not see that folder" in await told_through(two)
        assert len(await two.database.read(stored.runs)) == 1
        (unseen,), (seen,) = [await hosts_folders(each.service, each.root) for each in (two, three)]
        assert unseen.mark != unseen.found
        assert (seen.agent, seen.mark) == ("alice", seen.found)
        await three.begin_work()
        assert (await asked).state == "done"


async def told_through(host: TestHost) -> str:
    async with asyncio.timeout(PATIENCE):
        while not (rows := await host.database.read(stored.inbox)):  # noqa: ASYNC110 — it may be another host's
            await asyncio.sleep(0.02)
    return str(rows[0]["text"])


async def test_what_was_put_back_while_a_program_worked_can_be_taken_over_on_any_host(
    fleet: Fleet, tmp_path: Path
) -> None:
    one, two = await fleet.add(), await add_elsewhere(fleet, tmp_path / "two")
    await memory_set(one.service, "alice", "colour", "green", project=one.root)
    await note_add(one.service, "alice", "A note", project=one.root)
    home = one.runtime.registry.worker(one.loaded.agents["alice"]).home
    assert home is not None
    guard = OwnFiles.begin(home, "r_1")
    (fleet.root / CORE).write_text("colour: red\n")
    (fleet.root / CORE).with_name("working.yaml").write_text("a: b\n")
    assert guard.end() == ["memory/core.yaml", "memory/working.yaml"]
    gone = OwnFiles.begin(home, "r_2")
    (fleet.root / CORE).unlink()
    gone.end()
    await agree(one, two)
    released = await held_release(two.service, "alice", "r_1", project=two.root)
    assert released.files == ["memory/core.yaml", "memory/working.yaml"]
    await agree(two, one)
    assert (fleet.root / CORE).read_text() == "colour: red\n"
    await held_release(two.service, "alice", "r_2", project=two.root)
    await agree(two, one)
    assert not (fleet.root / CORE).exists()


async def test_alone_with_sqlite_the_database_is_no_place_for_a_folder(tmp_path: Path) -> None:
    write_project(tmp_path, ["alice"], extra={"alice": "context: { store: database }\n"})
    async with open_runtime(RuntimeSettings(prices=kept_prices())) as runtime:
        loaded = await runtime.loader.load(load_project(tmp_path))
        (problem,) = loaded.project.unusable
        assert "alice keeps its folder in the database (context.store), which needs PostgreSQL" in problem.message


async def test_in_a_night_one_host_tidies_what_an_agent_remembers(fleet: Fleet) -> None:
    hosts = [await fleet.add(), await fleet.add()]
    ended = "visit: {{ value: to {}, until: 2020-01-01, source: r_1, learned: 2019-01-01 }}\n"
    working = fleet.root / CORE.with_name("working.yaml")
    working.parent.mkdir(parents=True)
    night = datetime(2026, 3, 1, 23, 50, tzinfo=UTC)
    # The second finds the agent at work, and comes again after midnight. Meanwhile somebody has written something else,
    # when both have heard of the first one's round: to a host that has not, it would be an edit of what is gone.
    for host, place in zip(hosts, ("Rome", "Oslo"), strict=True):
        working.write_text(ended.format(place))
        await NightRounds(host.service)._one(host.runtime.registry.worker(host.loaded.agents["alice"]), night)
        await agree(*hosts)
    assert working.read_text() == ended.format("Oslo")
    rounds = await hosts[0].database.read(stored.audit, deed="tidied")
    assert len(rounds) == 1
