"""What becomes of the final text of a run, and of the deliveries it was given."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.teams import Team, open_team

from agent_worker.backends.backend import Reply
from agent_worker.backends.mock import calls, says
from agent_worker.core.clock import TestClock
from agent_worker.core.events import Ended, Event, Posted
from agent_worker.tools.tool import Call


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, "alice", "bob", clock=TestClock()) as team:
        yield team


async def test_the_final_text_is_posted_as_the_agents_message(team: Team) -> None:
    team.backends["alice"].then(says("it is green"))
    asked = await team.post("user", "@alice is the build green?")
    await team.still()
    message = (await team.messages())[-1]
    assert (message.sender, message.text, message.kind) == ("alice", "it is green", "message")
    assert (message.root, message.hop) == (asked.id, 1)


async def test_a_run_that_posted_keeps_its_final_text_to_itself(team: Team) -> None:
    team.backends["alice"].then(calls("channel_send", text="it is green"), says("I told them"))
    await team.post("user", "@alice is the build green?")
    await team.still()
    assert (await team.texts())[1:] == ["it is green"]
    (run,) = await team.runs()
    assert (run["text"], run["posted"]) == ("I told them", 1)


@pytest.mark.parametrize("text", ["", "  \n "])
async def test_empty_text_posts_nothing_and_still_acknowledges(team: Team, text: str) -> None:
    team.backends["alice"].then(says(text))
    await team.post("user", "@alice for your information")
    await team.still()
    assert await team.texts() == ["@alice for your information"]
    assert [row["state"] for row in await team.deliveries()] == ["acked"]
    assert await team.states() == ["done"]


async def test_an_answer_to_a_direct_send_is_posted_to_the_channel_too(team: Team) -> None:
    team.backends["alice"].then(says("done"))
    await team.post("user", "do it", to="alice")
    await team.still()
    assert await team.texts() == ["do it", "done"]


async def test_a_mention_in_the_final_text_wakes_the_one_it_names(team: Team) -> None:
    team.backends["alice"].then(says("@bob over to you"))
    team.backends["bob"].then(says("thanks"))
    await team.post("user", "@alice go")
    await team.still()
    assert [m.hop for m in await team.messages()] == [0, 1, 2]


async def test_answer_acknowledgement_and_end_are_one_transaction(team: Team) -> None:
    """When the answer can be seen, the delivery is acknowledged and the work is done: there is no moment between."""
    seen: list[list[dict[str, object]]] = []
    asked = "select d.state, i.state as work from delivery d join instruction i on i.message = d.message"

    def hear(event: Event) -> None:
        if isinstance(event, Posted) and event.sender == "alice":
            looks.append(team.rows(asked))

    looks: list = []
    team.runtime.bus.listen(hear)
    team.backends["alice"].then(says("done"))
    await team.post("user", "@alice go")
    await team.still()
    seen = [await look for look in looks]
    assert seen == [[{"state": "acked", "work": "done"}]]


async def test_an_answer_whose_workspace_closed_meanwhile_is_kept_with_the_run_only(team: Team) -> None:
    team.backends["alice"].then(says("too late").model_copy(update={"slow": 10.0}))
    await team.post("user", "@alice go")
    await team.elapse(1)
    await team.workspace.stop()
    await team.elapse(20)
    assert "too late" not in await team.texts()


async def test_a_dm_is_answered_in_the_personal_thread_and_the_end_carries_the_text(team: Team) -> None:
    ends: list[Event] = []
    team.runtime.bus.listen(ends.append)
    team.backends["alice"].then(says("hello"))
    receipt = await team.dm("alice", "hi")
    await team.still()
    (end,) = [e for e in ends if isinstance(e, Ended)]
    assert (end.instruction, end.state, end.text, end.workspace) == (receipt.id, "done", "hello", None)


async def test_half_a_character_in_an_answer_or_a_call_does_not_fail_the_work(team: Team) -> None:
    class Careless:
        async def reply(self, turn, steps, recorder):  # type: ignore[no-untyped-def]
            if not steps:
                return Reply("half \ud83d", calls=(Call("c1", "resource_create", {"text": "cut off \ud83d"}),))
            return Reply("done \ud83d")

    team.employ("alice", Careless())
    await team.post("user", "@alice go")
    await team.still()
    assert (await team.texts())[-1] == "done ?"
    assert [row["ok"] for row in await team.calls()] == [1]


async def test_an_answer_longer_than_a_message_becomes_a_resource(team: Team) -> None:
    team.backends["alice"].then(says("x" * 300_000))
    await team.post("user", "@alice write it all down")
    await team.still()
    message = (await team.messages())[-1]
    assert message.resource is not None
    assert len(message.text) < 1000
