"""What is broken is told to whoever asked, and to nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_worker.backends.mock import calls, says
from agent_worker.workspaces import resources
from tests.faults.driver import Nursery, Scene
from tests.faults.oracle import check
from tests.teams import Team


@pytest.mark.sqlite("one group is lost there, and the next is written by another session: the door stays open")
def test_D5_an_error_nobody_thought_of_is_answered_and_closes_the_door(nursery: Nursery, tmp_path: Path) -> None:
    scene = Scene(nursery, tmp_path, ("alice",))
    scene.intend("a", "alice", "work:a")
    scene.intend("b", "alice", "work:b")
    with scene.life(failpoints="commit.before=raise:30") as life:
        life.until("ready")
        for n in range(40):
            scene.send(life, f"k{n}", "@review", f"talk {n}")
            said = scene.hear_until(life, lambda said: said.keys() & {"accepted", "refused"})
            if "refused" in said:
                break
        assert said["code"] == "storage_fault"
        scene.send(life, "later", "alice", "work:later")
        assert scene.hear_until(life, lambda said: "refused" in said)["code"] == "storage_fault"
    scene.settle()
    check(scene)


async def test_G7_a_damaged_resource_is_an_error_for_the_one_who_reads_it_and_stops_nobody(team: Team) -> None:
    kept = await team.write(resources.store, team.workspace.id, "the truth")
    await team.change("resource", {"id": kept.id}, text="a lie")
    team.backends["alice"].then(calls("resource_read", id=kept.id), says("it is damaged"))
    await team.post("user", "@alice read it")
    await team.quiet()
    assert (await team.texts())[-1] == "it is damaged"
    result = (await team.calls())[0]
    assert not result["ok"]
    assert "damaged" in result["result"]


async def test_D5_a_listener_that_breaks_keeps_nobody_from_the_answer_of_a_commit(team: Team) -> None:
    unlisten = team.runtime.bus.listen(lambda event: 1 / 0)
    receipts = [await team.post("user", "hello"), await team.post("user", "still there?")]
    unlisten()
    assert [m.id for m in await team.messages()] == [r.id for r in receipts]
