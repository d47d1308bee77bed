"""A project on several hosts, each with a checkout of its own: one project, and never two that became one by chance."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests import stored
from tests.hosts.fleet import Fleet, Slow, TestHost, open_fleet
from tests.patience import PATIENCE, until
from tests.postgresql import Cluster
from tests.teams import write_project

from agent_worker.agents.project_identity import checkout_of, plain_remote
from agent_worker.core.errors import Refused
from agent_worker.definitions.project_files import load_project
from agent_worker.service.hosts import hosts_list
from agent_worker.service.messages import deliver, put_question
from agent_worker.service.tokens import token_create, token_revoke
from agent_worker.service.workflows import WorkflowRequest, begin
from agent_worker.work import project_rows

REMOTE = "https://git.example/acme/shop.git"


@pytest.fixture
async def fleet(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Fleet]:
    async with open_fleet(cluster.new_database(), cloned(tmp_path / "one" / "shop"), "alice") as fleet:
        yield fleet


def cloned(root: Path, remote: str = REMOTE) -> Path:
    """A checkout with an agent, as far as anybody looks at it."""
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "config").write_text(f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {remote}\n')
    write_project(root, ["alice"])
    return root


def identity_of(root: Path) -> str:
    return checkout_of(load_project(root), shared=True).identity


async def done_through(host: TestHost, project: str) -> bool:
    """Wait until the one run of a project is done."""
    database = host.runtime.database.of(project)
    async with asyncio.timeout(PATIENCE):
        while not await database.read(stored.runs, state="done"):  # noqa: ASYNC110 — it is another host's
            await asyncio.sleep(0.05)
    return True


async def roots(host: TestHost) -> list[str]:
    return [row["root"] for row in await host.database.read(project_rows.checkouts)]


async def test_two_checkouts_of_one_repository_on_two_hosts_are_one_project(fleet: Fleet, tmp_path: Path) -> None:
    two_here = cloned(tmp_path / "two" / "copy", "git@git.example:acme/shop")
    one, two = await fleet.add(), await fleet.add(root=two_here)
    assert one.loaded.id == two.loaded.id
    assert one.loaded.agents == two.loaded.agents
    assert sorted(await roots(one)) == sorted([str(fleet.root), str(two_here)])
    answered = await put_question(two.runtime, two.loaded, "alice", "hello?")
    assert answered.state == "done"
    (run,) = await one.database.read(stored.runs)
    assert run["state"] == "done"


async def test_each_host_works_in_its_own_checkout(fleet: Fleet, tmp_path: Path) -> None:
    two_here = cloned(tmp_path / "two" / "copy")
    one, two = await fleet.add(), await fleet.add(root=two_here)
    for host, root in ((one, fleet.root), (two, two_here)):
        assert host.runtime.registry.root(host.loaded.id) == root
        assert await host.database.read(project_rows.root_here) == str(root)


async def test_the_files_of_a_team_are_in_the_checkout_of_the_host_that_has_it_open(
    fleet: Fleet, tmp_path: Path
) -> None:
    theirs = cloned(tmp_path / "two")
    one, two = await fleet.add(), await fleet.add(root=theirs)
    instance = await begin(one.service, WorkflowRequest("review", str(fleet.root)), ends="stop")
    (row,) = await one.database.read(stored.workspaces)
    assert (row["directory"], row["file"]) == (".workspace/review/main", ".workflows/review.yaml")
    assert (fleet.root / row["directory"]).is_dir()
    assert not (theirs / row["directory"]).exists()
    await one.stop()
    fleet.hosts.remove(one)
    await until(lambda: two.service.running(instance.id) is not None)
    assert (theirs / row["directory"]).is_dir()


async def test_a_host_without_a_checkout_leaves_the_work_to_those_who_have_one(fleet: Fleet, tmp_path: Path) -> None:
    other = cloned(tmp_path / "two" / "other", "https://git.example/acme/other.git")
    one, two = await fleet.add(), await fleet.add(root=other)
    assert one.loaded.id != two.loaded.id
    of_one: dict[str, object] = {"project": one.loaded.id}
    await one.runtime.database.write(stored.change, "checkout", of_one, root="/on/another/machine")
    for text in ("hello?", "and now?"):
        assert (await put_question(one.runtime, one.loaded, "alice", text)).state == "done"
    assert two.runtime.registry.root(one.loaded.id) is None
    assert await two.runtime.database.of(one.loaded.id).read(project_rows.root_here) == ""


async def test_work_opens_a_project_that_lies_where_another_host_has_it(fleet: Fleet, tmp_path: Path) -> None:
    other = cloned(tmp_path / "two" / "other", "https://git.example/acme/other.git")
    one, two = await fleet.add(), await fleet.add(root=other)
    await deliver(one.runtime, one.loaded, "alice", "hello?")
    await until(lambda: two.runtime.registry.root(one.loaded.id) == fleet.root)


async def test_a_host_that_begins_later_takes_over_work_of_a_project_that_it_never_had_open(
    fleet: Fleet, tmp_path: Path
) -> None:
    one, slow = await fleet.add(), Slow("never")
    one.employ("alice", slow)
    await deliver(one.runtime, one.loaded, "alice", "hello?")
    await slow.begun.wait()
    elsewhere = cloned(tmp_path / "two" / "other", "https://git.example/acme/other.git")
    two = await fleet.add(root=elsewhere)
    await two.service.open_known()
    assert two.runtime.registry.root(one.loaded.id) == fleet.root
    await one.fall_silent()
    assert await done_through(two, one.loaded.id)


async def test_work_that_nobody_runs_is_done_by_a_host_that_finds_the_project_when_another_one_ends(
    fleet: Fleet, tmp_path: Path
) -> None:
    one, slow = await fleet.add(), Slow("never")
    one.employ("alice", slow)
    two = await fleet.add(root=cloned(tmp_path / "two" / "other", "https://git.example/acme/other.git"))
    await two.service.open_known()  # nothing is to be done there yet
    moved = fleet.root.rename(tmp_path / "away")
    await deliver(one.runtime, one.loaded, "alice", "hello?")  # as if it lay on another machine
    await slow.begun.wait()
    moved.rename(fleet.root)
    await one.fall_silent()
    assert await done_through(two, one.loaded.id)


async def test_two_clones_on_one_host_stay_two_projects(fleet: Fleet, tmp_path: Path) -> None:
    second = cloned(tmp_path / "second")
    host = await fleet.add()
    other = await host.service.project(str(second))
    assert other.id != host.loaded.id
    shutil.rmtree(fleet.root)  # and the second does not become the first when that is gone
    (second / ".agents" / "bob.yaml").write_text("backend: mock\n")
    assert (await host.service.project(str(second))).id == other.id


async def test_two_directories_on_one_host_that_say_the_same_id_are_refused(fleet: Fleet, tmp_path: Path) -> None:
    second = cloned(tmp_path / "second", "https://git.example/acme/fork.git")
    for root in (fleet.root, second):
        (root / "moniro.yaml").write_text("id: shop\n")
    host = await fleet.add()
    with pytest.raises(Refused, match="both say that they are the project shop") as refused:
        await host.service.project(str(second))
    assert refused.value.hint == "give one of them another id, in its moniro.yaml"


async def test_an_id_in_its_file_makes_one_project_of_two_repositories(fleet: Fleet, tmp_path: Path) -> None:
    second = cloned(tmp_path / "two", "https://git.example/acme/fork.git")
    for root in (fleet.root, second):
        (root / "moniro.yaml").write_text("id: shop\n")
    one, two = await fleet.add(), await fleet.add(root=second)
    assert one.loaded.id == two.loaded.id


async def test_a_project_that_was_moved_goes_on_where_it_is_now(fleet: Fleet, tmp_path: Path) -> None:
    host = await fleet.add()
    assert (await put_question(host.runtime, host.loaded, "alice", "hello?")).state == "done"
    moved = fleet.root.rename(tmp_path / "elsewhere")
    loaded = await host.service.project(str(moved))
    assert loaded.id == host.loaded.id
    assert [each.project.root for each in host.service.projects()] == [moved]
    assert (await put_question(host.runtime, loaded, "alice", "still there?")).state == "done"
    assert await roots(host) == [str(moved)]


async def test_a_directory_stays_the_project_it_was_when_it_gets_a_remote(cluster: Cluster, tmp_path: Path) -> None:
    write_project(tmp_path / "plain", ["alice"])
    async with open_fleet(cluster.new_database(), tmp_path / "plain", "alice") as fleet:
        one = await fleet.add()
        shutil.copytree(cloned(tmp_path / "two") / ".git", fleet.root / ".git")
        (fleet.root / ".agents" / "bob.yaml").write_text("backend: mock\n")
        assert (await one.service.project(str(fleet.root))).id == one.loaded.id
        two = await fleet.add(root=tmp_path / "two")  # and whoever clones it joins
        assert two.loaded.id == one.loaded.id


async def test_a_host_that_is_started_again_opens_the_projects_it_had_work_in(fleet: Fleet, tmp_path: Path) -> None:
    one = await fleet.add(home=tmp_path / "home")
    slow = Slow("never")
    one.employ("alice", slow)
    await deliver(one.runtime, one.loaded, "alice", "hello?")
    await slow.begun.wait()
    project = one.loaded.id
    one.runtime.supervisor.grace = 0.0
    await one.stop()
    fleet.hosts.remove(one)
    elsewhere = cloned(tmp_path / "other", "https://git.example/acme/other.git")
    again = await fleet.add(root=elsewhere, home=tmp_path / "home")
    await again.service.open_again()
    assert again.runtime.registry.root(project) == fleet.root


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("https://git.example/acme/shop.git", "git.example/acme/shop"),
        ("https://ana:secret@Git.Example/acme/shop/", "git.example/acme/shop"),
        ("ssh://git@git.example/acme/shop.git", "git.example/acme/shop"),
        ("git@git.example:acme/shop.git", "git.example/acme/shop"),
        ("https://git.example:8443/acme/shop", "git.example:8443/acme/shop"),
        ("/srv/git/shop.git", ""),
        ("../shop", ""),
        ("file:///srv/git/shop.git", ""),
        ("https://[::1", ""),
        ("", ""),
    ],
)
def test_a_remote_is_the_same_however_it_is_reached(url: str, plain: str) -> None:
    assert plain_remote(url) == plain


def test_a_project_is_known_by_where_it_is_in_its_repository(tmp_path: Path) -> None:
    cloned(tmp_path)
    write_project(tmp_path / "apps" / "web", ["alice"])
    assert identity_of(tmp_path) == "git:git.example/acme/shop ."
    assert identity_of(tmp_path / "apps" / "web") == "git:git.example/acme/shop apps/web"


def test_a_linked_worktree_has_the_remote_of_its_repository(tmp_path: Path) -> None:
    git = cloned(tmp_path / "main") / ".git"
    (git / "worktrees" / "tree").mkdir(parents=True)
    (git / "worktrees" / "tree" / "commondir").write_text("../..\n")
    write_project(tmp_path / "tree", ["alice"])
    (tmp_path / "tree" / ".git").write_text(f"gitdir: {git}/worktrees/tree\n")
    assert identity_of(tmp_path / "tree") == "git:git.example/acme/shop ."


def test_without_a_remote_that_others_can_have_a_project_is_its_machine_and_directory(tmp_path: Path) -> None:
    root = cloned(tmp_path, "/srv/git/shop.git")
    assert identity_of(root).startswith("node:")
    assert identity_of(root).endswith(f" {root}")
    assert checkout_of(load_project(root), shared=False).identity == ""


async def test_hosts_are_shown_with_their_checkouts(fleet: Fleet, tmp_path: Path) -> None:
    other = cloned(tmp_path / "other", "https://git.example/acme/other.git")
    copy = cloned(tmp_path / "copy")
    one, _, _ = await fleet.add(), await fleet.add(root=copy), await fleet.add(root=other)
    shown = await hosts_list(one.service, str(fleet.root))
    assert [(each.here, each.checkout) for each in shown] == [(True, str(fleet.root)), (False, str(copy)), (False, "")]


async def test_a_token_holds_on_every_host_at_once_and_on_none_after_it_was_revoked(
    fleet: Fleet, tmp_path: Path
) -> None:
    one, two = await fleet.add(), await fleet.add(root=cloned(tmp_path / "copy"))
    made = await token_create(one.service, "laptop", str(fleet.root))

    def root_on(host: TestHost) -> str | None:
        held = host.service.door_tokens.of(hashlib.sha256(made.token.encode()).digest(), now=host.service.now())
        return held and held.root

    await until(lambda: root_on(two) == str(tmp_path / "copy"))
    assert root_on(one) == str(fleet.root)
    three = await fleet.add(root=cloned(tmp_path / "third"))  # and where it is cloned later
    await until(lambda: root_on(three) == str(tmp_path / "third"))
    await token_revoke(two.service, "laptop", str(tmp_path / "copy"))
    await until(lambda: [root_on(host) for host in (one, two, three)] == [None] * 3)
