"""Documents of a team whose members work on several hosts: one history, and copies in files that people edit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests import stored
from tests.hosts.fleet import Fleet, TestHost, open_fleet
from tests.hosts.test_hosts import until_running_at
from tests.patience import until
from tests.postgresql import Cluster
from tests.teams import write_project

from agent_worker.core.errors import NotFound, Stale
from agent_worker.service.documents import doc_append, doc_list, doc_read, doc_write, resource_get
from agent_worker.service.messages import deliver, put_question
from agent_worker.service.workflows import WorkflowRequest, begin
from agent_worker.workspaces import workspace_rows
from agent_worker.workspaces.document_rows import Author
from agent_worker.workspaces.documents import Documents

SHOP = "id: shop\n"  # the same project in each checkout
FILES = "workspace: { provider: file }\n"
PLAN = Path(".workspace/review/main/documents/plan.md")


@pytest.fixture
async def fleet(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Fleet]:
    async with open_fleet(cluster.new_database(), tmp_path / "one", "alice", "bob", workflow=FILES) as fleet:
        (fleet.root / "moniro.yaml").write_text(SHOP)
        yield fleet


async def started(fleet: Fleet) -> tuple[TestHost, str]:
    one = await fleet.add()
    running = await begin(one.service, WorkflowRequest("review", str(fleet.root)))
    return one, running.id


async def add_elsewhere(fleet: Fleet, folder: Path) -> TestHost:
    """A host that has a checkout of its own."""
    write_project(folder, ["alice", "bob"], workflow=FILES)
    (folder / "moniro.yaml").write_text(SHOP)
    return await fleet.add(root=folder)


async def test_a_document_is_read_and_written_on_any_host_and_a_stale_write_is_refused(
    fleet: Fleet, tmp_path: Path
) -> None:
    one, _ = await started(fleet)
    two = await add_elsewhere(fleet, tmp_path / "two")
    first = await doc_write(one.service, at="review", name="plan.md", text="first\n", project=one.root)
    assert (await doc_read(two.service, at="review", name="plan.md", project=two.root)) == first
    second = await doc_write(
        two.service, at="review", name="plan.md", text="second\n", revision=first.revision, project=two.root
    )
    with pytest.raises(Stale, match=f"plan.md has changed since you read it; it is at revision {second.revision[:12]}"):
        await doc_write(
            one.service, at="review", name="plan.md", text="also second\n", revision=first.revision, project=one.root
        )
    await doc_append(one.service, at="review", name="plan.md", text="third\n", project=one.root)
    assert (await doc_read(two.service, at="review", name="plan.md", project=two.root)).text == "second\nthird\n"
    for folder in ("one", "two"):
        await until(lambda folder=folder: (tmp_path / folder / PLAN).read_text() == "second\nthird\n")
    assert [row["author"] for row in await one.database.read(stored.documents)] == ["user"] * 3


async def test_what_an_agent_says_on_one_host_is_in_the_logs_of_all(fleet: Fleet, tmp_path: Path) -> None:
    one, _ = await started(fleet)
    two = await add_elsewhere(fleet, tmp_path / "two")
    assert (await put_question(two.runtime, two.loaded, "alice", "what is it?")).state == "done"
    await deliver(one.runtime, one.loaded, "@review", "@alice who is it?")

    def said(folder: str, log: str) -> int:
        return sum(len(file.read_text().splitlines()) for file in (tmp_path / folder).glob(log))

    for folder in ("one", "two"):
        for log in (".agents/alice/conversations/*.jsonl", ".workspace/review/main/history/alice.jsonl"):
            await until(lambda folder=folder, log=log: said(folder, log) == 2)


async def test_what_was_said_last_in_a_team_is_in_the_logs_of_all(fleet: Fleet, tmp_path: Path) -> None:
    one, id = await started(fleet)
    two = await add_elsewhere(fleet, tmp_path / "two")
    log = tmp_path / "two/.workspace/review/main/channel.jsonl"
    await deliver(one.runtime, one.loaded, "@review", "first")
    await until(log.exists)
    for n in range(9):
        await deliver(one.runtime, one.loaded, "@review", f"message {n}")
    await one.service.stop_named(one.loaded, "review")
    members = two.runtime.registry
    await until(lambda: not members.works_in(two.loaded.agents["alice"], id))
    await until(lambda: len(log.read_text().splitlines()) == 10)


async def test_what_two_hosts_add_for_the_same_reason_at_once_is_there_once(fleet: Fleet) -> None:
    one, id = await started(fleet)
    two = await fleet.add()
    for n in range(10):  # as both bring a decision to its document
        by, text = Author("system", f"proposal/{n}"), f"decision {n}\n"
        made = [
            Documents(host.database, host.runtime.clock, await host.database.read(workspace_rows.get, id))
            for host in (one, two)
        ]
        await asyncio.gather(*(each.append("decisions.md", text, by=by) for each in made))
    read = await doc_read(two.service, at="review", name="decisions.md", project=two.root)
    assert read.text == "".join(f"decision {n}\n" for n in range(10))


async def test_what_a_person_writes_into_a_file_on_any_host_is_a_revision_that_all_see(
    fleet: Fleet, tmp_path: Path
) -> None:
    one, _ = await started(fleet)
    two = await add_elsewhere(fleet, tmp_path / "two")
    await doc_write(one.service, at="review", name="plan.md", text="first\n", project=one.root)
    await until(lambda: (tmp_path / "two" / PLAN).exists())
    (tmp_path / "two" / PLAN).write_text("by hand\n")
    assert (await doc_read(two.service, at="review", name="plan.md", project=two.root)).text == "by hand\n"
    await until(lambda: (fleet.root / PLAN).read_text() == "by hand\n")
    (fleet.root / PLAN.with_name("new.md")).write_text("by hand as well\n")
    await until(lambda: (tmp_path / "two" / PLAN.with_name("new.md")).exists())
    assert await doc_list(two.service, at="review", project=two.root) == ["new.md", "plan.md"]
    (fleet.root / PLAN).unlink()
    await until(lambda: not (tmp_path / "two" / PLAN).exists())
    with pytest.raises(NotFound):
        await doc_read(two.service, at="review", name="plan.md", project=two.root)


async def test_what_a_person_and_a_colleague_write_at_once_is_both_kept_on_both_hosts(
    fleet: Fleet, tmp_path: Path
) -> None:
    one, id = await started(fleet)
    two = await add_elsewhere(fleet, tmp_path / "two")
    await doc_write(one.service, at="review", name="plan.md", text="first\n", project=one.root)
    await two.runtime.documents.look(await two.database.read(workspace_rows.get, id))  # type: ignore[union-attr]
    (tmp_path / "two" / PLAN).write_text("by hand\n")
    await doc_append(one.service, at="review", name="plan.md", text="second\n", project=one.root)
    for folder in ("one", "two"):
        place = tmp_path / folder / PLAN
        await until(lambda place=place: list(place.parent.glob("plan.md.conflict-*")))
        await until(lambda place=place: place.read_text() == "first\nsecond\n")
        (beside,) = place.parent.glob("plan.md.conflict-*")
        assert beside.read_text() == "by hand\n"
    (item,) = await one.database.read(stored.inbox)
    assert "plan.md was edited while somebody else wrote it; what you wrote is plan.md.conflict-" in item["text"]


async def test_when_its_host_ends_a_team_goes_on_elsewhere_with_its_documents_resources_and_logs(
    fleet: Fleet, tmp_path: Path
) -> None:
    one, id = await started(fleet)
    await doc_write(one.service, at="review", name="plan.md", text="first\n", project=one.root)
    await deliver(one.runtime, one.loaded, "@review", "word " * 2000)
    two = await add_elsewhere(fleet, tmp_path / "two")
    await one.stop()
    await until_running_at(two, id)
    assert (await doc_read(two.service, at="review", name="plan.md", project=two.root)).text == "first\n"
    (kept,) = await two.database.read(stored.resources)
    assert (await resource_get(two.service, at="review", id=kept["id"], project=two.root)).text == "word " * 2000
    log = tmp_path / "two/.workspace/review/main/channel.jsonl"
    said = [row["seq"] for row in await two.database.read(stored.messages)]
    await until(lambda: [json.loads(line)["seq"] for line in log.read_text().splitlines()] == said)


async def test_what_is_left_of_an_earlier_team_in_the_folder_of_a_host_is_set_aside(fleet: Fleet) -> None:
    one, id = await started(fleet)
    folder = fleet.root / ".workspace/review/main"
    await one.service.stop(await one.service.instance(one.loaded, "review"))
    await one.stop()
    (folder / "channel.jsonl").write_text('{"seq":7,"id":"m_of_another","text":"an earlier team"}\n')
    (folder / "documents").mkdir(exist_ok=True)
    (folder / "documents/plan.md").write_text("of an earlier team\n")
    two = await fleet.add()
    row = await two.database.read(workspace_rows.get, id)
    await two.runtime.documents.look(row)  # type: ignore[union-attr]
    assert not await two.database.read(stored.documents)
    await begin(two.service, WorkflowRequest("review", str(fleet.root)))
    assert await doc_list(two.service, "review", project=str(fleet.root)) == []
    assert list((folder.parent / ".archive").glob("*/documents/plan.md"))
