"""Deliveries: given to a run, acknowledged by its good end or by the agent, and by nobody else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from operator import itemgetter
from pathlib import Path

import pytest
from tests.teams import Team, open_team

from agent_worker.backends.backend import Reply
from agent_worker.backends.mock import calls, fails, says
from agent_worker.core.clock import TestClock
from agent_worker.tools.tool import Call
from agent_worker.workspaces import deliveries


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, "alice", "bob", clock=TestClock()) as team:
        yield team


async def states(team: Team) -> list[str]:
    return [row["state"] for row in sorted(await team.deliveries(), key=itemgetter("seq", "agent"))]


async def results(team: Team) -> list[tuple[bool, str]]:
    rows = sorted(await team.calls(), key=itemgetter("work", "step", "id"))
    return [(bool(row["ok"]), row["result"]) for row in rows]


async def test_a_delivery_goes_from_queued_to_given_to_acked(team: Team) -> None:
    team.backends["alice"].then(says("done").model_copy(update={"slow": 5.0}))
    await team.runtime.supervisor.dismiss(team.id_of("alice"))
    receipt = await team.post("user", "@alice go")
    assert await states(team) == ["queued"]
    await team.elapse(1)
    assert await states(team) == ["given"]
    await team.elapse(5)
    assert await states(team) == ["acked"]
    (hop,) = await team.read(deliveries.trace, receipt.id)
    (run,) = await team.runs()
    assert (hop["name"], hop["state"], hop["run"]) == ("alice", "acked", run["id"])


async def test_a_run_that_is_tried_again_gives_its_deliveries_back(team: Team) -> None:
    team.backends["alice"].then(fails("transient"), says("done"))
    await team.post("user", "@alice go")
    await team.still()
    assert await states(team) == ["queued"]
    await team.elapse(2)
    assert await states(team) == ["acked"]


async def test_my_inbox_shows_what_was_given(team: Team) -> None:
    team.backends["alice"].then(calls("my_inbox"), says(""))
    await team.post("user", "@alice one thing")
    await team.still()
    assert await results(team) == [(True, "#1 user: @alice one thing")]


async def test_M11_an_agent_acknowledges_what_its_run_was_given(team: Team) -> None:
    team.backends["alice"].then(calls("my_inbox_ack", messages=[1]), fails("permanent"))
    await team.post("user", "@alice one thing")
    await team.still()
    assert await results(team) == [(True, "Done.")]
    assert await states(team) == ["acked"], "acknowledged by the agent, whatever became of its run"


@pytest.mark.parametrize("seqs", [[2], [3], [99], [-1], [0]])
async def test_M11_what_is_not_in_ones_inbox_cannot_be_acknowledged(team: Team, seqs: list[int]) -> None:
    """Number 2 was sent to bob, 3 to nobody, 99 is yet to come."""
    team.backends["alice"].then(calls("my_inbox_ack", messages=seqs), says(""))
    team.backends["bob"].then(says("NO_REPLY").model_copy(update={"slow": 100.0}))
    await team.runtime.supervisor.dismiss(team.id_of("alice"))
    await team.change("agent", {"name": "alice"}, paused="wait")
    await team.post("user", "@alice one")
    await team.post("user", "@bob two")
    await team.post("user", "three")
    await team.change("agent", paused="")
    team.runtime.supervisor.wake(team.id_of("alice"))
    await team.still()
    ((ok, text),) = await results(team)
    assert not ok
    assert f"not in your inbox: #{seqs[0]}" in text
    assert (await states(team))[1] == "given", "bob's is still bob's"
    await team.elapse(200)


async def test_M11_a_mixed_list_is_refused_as_a_whole(team: Team) -> None:
    team.backends["alice"].then(calls("my_inbox_ack", messages=[1, 7]), fails("permanent"))
    await team.post("user", "@alice one")
    await team.still()
    ((ok, _),) = await results(team)
    assert not ok
    assert await states(team) == ["failed"], "nothing was acknowledged by it"


@pytest.mark.parametrize(
    "extra", ["sender", "from", "agent", "workspace", "priority", "approved", "attempt", "key", "desk", "tx"]
)
async def test_M4_who_and_where_are_not_arguments(team: Team, extra: str) -> None:
    class Forger:
        async def reply(self, turn, steps, recorder):  # type: ignore[no-untyped-def]
            if not steps:
                return Reply(calls=(Call("c1", "channel_send", {"text": "hello", extra: "user"}),))
            return Reply("")

    team.employ("alice", Forger())
    await team.post("user", "@alice go")
    await team.still()
    ((ok, text),) = await results(team)
    assert not ok
    assert f"there is no argument {extra}" in text
    assert await team.texts() == ["@alice go"]
