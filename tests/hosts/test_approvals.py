"""What a person approved on one host holds on all of them: that content, in that project, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests import stored
from tests.hosts.fleet import Fleet, TestHost, open_fleet
from tests.hosts.test_checkouts import cloned
from tests.patience import until
from tests.postgresql import Cluster

from agent_worker.core.errors import Untrusted
from agent_worker.service.audit import audit_show
from agent_worker.service.trust import trust_give, trust_list, trust_revoke
from agent_worker.service.workflows import WorkflowRequest, begin

SETUP = "agents: { alice: { ref: alice } }\nsetup: [{ shell: echo ready, as: state }]\n"
ANYTHING = "agents: { alice: { ref: alice } }\nsetup: [{ shell: make, as: state }]\n"


def prepared(root: Path, workflow: str = SETUP, remote: str = "https://git.example/acme/shop.git") -> Path:
    (cloned(root, remote) / ".workflows" / "review.yaml").write_text(workflow)
    (root / "Makefile").write_text("all:\n\t@echo ready\n")
    return root


@pytest.fixture
async def fleet(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Fleet]:
    async with open_fleet(cluster.new_database(), cloned(tmp_path / "first" / "shop"), "alice") as fleet:
        yield fleet


async def host_at(fleet: Fleet, root: Path) -> TestHost:
    """With a home of its own: only then is anything asked about."""
    return await fleet.add(root=root, home=root.parent / f"home of {root.name}")


async def waiting(host: TestHost) -> list[str]:
    return [one.kind for one in await trust_list(host.service, str(host.loaded.project.root))]


async def until_waiting(host: TestHost, kinds: list[str]) -> None:
    shared = host.runtime.gate.shared
    assert shared is not None
    seen: list[list[str]] = []
    for _ in range(1000):
        seen.append(await waiting(host))
        if seen[-1] == kinds:
            return
        version = shared.stamp()
        await until(lambda: shared.stamp() != version)  # noqa: B023 — awaited here
    raise AssertionError(seen)


async def test_what_was_approved_on_one_host_holds_on_the_others_and_so_does_taking_it_back(
    fleet: Fleet, tmp_path: Path
) -> None:
    one = await host_at(fleet, prepared(tmp_path / "one"))
    two = await host_at(fleet, prepared(tmp_path / "two"))
    assert await waiting(one) == await waiting(two) == ["setup"]
    assert await trust_give(one.service, str(tmp_path / "one")) == 1
    await until_waiting(two, [])
    started = await begin(two.service, WorkflowRequest("review", str(tmp_path / "two")), ends="stop")
    assert started.loaded.id == one.loaded.id
    await two.service.stop(started)
    assert await trust_revoke(two.service, str(tmp_path / "two")) == 1
    await until_waiting(one, ["setup"])
    with pytest.raises(Untrusted, match="set-up of review runs: echo ready"):
        await begin(one.service, WorkflowRequest("review", str(tmp_path / "one")), ends="stop")
    assert not (tmp_path / "home of one" / "trust.json").exists()


async def test_another_content_on_another_host_is_asked_about_there(fleet: Fleet, tmp_path: Path) -> None:
    one = await host_at(fleet, prepared(tmp_path / "one"))
    two = await host_at(fleet, prepared(tmp_path / "two", SETUP.replace("echo ready", "echo stolen")))
    await trust_give(one.service, str(tmp_path / "one"))
    await until_waiting(one, [])
    assert await waiting(two) == ["setup"]


async def test_an_approval_counts_for_its_own_project_only(fleet: Fleet, tmp_path: Path) -> None:
    one = await host_at(fleet, prepared(tmp_path / "one"))
    other = await host_at(fleet, prepared(tmp_path / "two", remote="https://git.example/acme/other.git"))
    assert one.loaded.id != other.loaded.id
    await trust_give(one.service, str(tmp_path / "one"))
    assert await waiting(other) == ["setup"]
    assert await waiting(one) == []


async def test_what_can_run_any_file_is_approved_for_the_checkout_where_it_was(fleet: Fleet, tmp_path: Path) -> None:
    one = await host_at(fleet, prepared(tmp_path / "one", ANYTHING))
    two = await host_at(fleet, prepared(tmp_path / "two", ANYTHING))
    await trust_give(one.service, str(tmp_path / "one"))
    assert await waiting(one) == []
    assert await waiting(two) == ["setup"]
    await trust_give(two.service, str(tmp_path / "two"))
    assert await waiting(two) == []
    one.runtime.gate.worked(tmp_path / "one", "alice")  # in the event loop, as at the end of a run
    assert await waiting(one) == ["setup"]
    assert await waiting(two) == []


async def test_what_an_agent_has_done_is_not_forgotten_for_an_older_look_at_the_database(
    fleet: Fleet, tmp_path: Path
) -> None:
    one = await host_at(fleet, prepared(tmp_path / "one", ANYTHING))
    await trust_give(one.service, str(tmp_path / "one"))
    shared = one.runtime.gate.shared
    assert shared is not None
    older = asyncio.create_task(shared.look_again(one.loaded.id))
    await asyncio.sleep(0)  # it asks
    one.runtime.gate.worked(tmp_path / "one", "alice")
    await older
    assert await waiting(one) == ["setup"]
    await shared.look_again(one.loaded.id)
    assert await waiting(one) == ["setup"]


async def test_approvals_are_there_after_a_restart_and_in_the_audit(fleet: Fleet, tmp_path: Path) -> None:
    root = prepared(tmp_path / "one")
    first = await host_at(fleet, root)
    await trust_give(first.service, str(root))
    await first.stop()
    fleet.hosts.remove(first)
    again = await host_at(fleet, root)
    assert await waiting(again) == []
    record = await audit_show(again.service, project=str(root))
    assert [(each.who, each.deed, each.about) for each in record.entries] == [
        ("user", "approved", "set-up of review runs: echo ready")
    ]
    assert record.flaw == ""
    assert await again.database.read(stored.audit)
