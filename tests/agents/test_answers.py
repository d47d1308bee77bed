"""What becomes of the final text of a run, and of the deliveries it was given."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from tests import stored
from tests.models import Attentive
from tests.teams import Team, open_team

from agent_worker.agents.prompt import NO_REPLY
from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn, Usage
from agent_worker.backends.mock import calls, fails, says
from agent_worker.core.clock import TestClock
from agent_worker.core.events import Ended, Event, Posted
from agent_worker.tools.tool import Call
from agent_worker.work import limits
from agent_worker.work.limits import Payer


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


@pytest.mark.parametrize("last", [NO_REPLY, f" {NO_REPLY}\n"])
async def test_an_agent_with_nothing_to_say_says_so_and_nothing_is_posted(team: Team, last: str) -> None:
    team.backends["alice"].then(says(last))
    await team.post("user", "@alice for your information")
    await team.still()
    assert await team.texts() == ["@alice for your information"]
    assert [row["state"] for row in await team.deliveries()] == ["acked"]
    assert await team.states() == ["done"]


async def test_Q8_an_empty_answer_is_tried_once_more_with_a_note(team: Team) -> None:
    prompts: list[str] = []

    def answer(turn: Turn) -> str:
        prompts.append(turn.prompt)
        return "" if len(prompts) == 1 else "it is green"

    team.employ("alice", Attentive(says=answer))
    await team.post("user", "@alice is the build green?")
    await team.elapse(5)
    assert (await team.texts())[1:] == ["it is green"]
    assert "Your last answer to this was empty" not in prompts[0]
    assert "Your last answer to this was empty" in prompts[1]
    assert NO_REPLY in prompts[1]


@pytest.mark.parametrize("text", ["", "  \n "])
async def test_Q8_a_second_empty_answer_is_a_failure_that_is_told_in_the_channel(team: Team, text: str) -> None:
    team.backends["alice"].then(says(text), says(text))
    await team.post("user", "@alice is the build green?")
    await team.elapse(60)
    assert await team.states() == ["failed"]
    (notice,) = [m.text for m in await team.messages() if m.kind == "system"]
    assert notice.startswith("alice failed: its answer was empty")
    assert [row["state"] for row in await team.deliveries()] == ["failed"]
    assert [kind for kind, _ in await team.inbox()] == ["failure"]


async def test_Q8_a_second_empty_answer_to_a_direct_message_is_a_failure_and_its_reply(team: Team) -> None:
    team.backends["alice"].then(says(""), says(""))
    await team.dm("alice", "is the build green?")
    await team.elapse(60)
    assert await team.states() == ["failed"]
    assert "its answer was empty" in (await team.thread("alice"))[-1].text


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "my_status_set", "arguments": {"status": "busy"}}',
        '```json\n{{"name": "my_status_set", "arguments": {"status": "busy"}}}}\n```',
        '<tool_call>\n{"name": "my_status_set", "arguments": {}}\n</tool_call>',
    ],
)
async def test_Q8_a_call_that_a_model_writes_as_text_is_no_answer(team: Team, text: str) -> None:
    """As small models and simple servers do that cannot call tools."""
    team.backends["alice"].then(says(text), says("it is green"))
    await team.post("user", "@alice is the build green?")
    await team.elapse(5)
    assert (await team.texts())[1:] == ["it is green"]
    team.backends["alice"].then(says(text), says(text))
    await team.post("user", "@alice and now?")
    await team.elapse(60)
    (notice,) = [m.text for m in await team.messages() if m.kind == "system"]
    assert notice.startswith("alice failed: it wrote a call of my_status_set as text")


async def test_Q8_a_call_that_says_it_is_one_is_no_answer_though_there_is_no_such_tool(team: Team) -> None:
    team.backends["alice"].then(
        says('<tool_call>{"name": "weather", "arguments": {}}</tool_call>'), says("it is green")
    )
    await team.post("user", "@alice is the build green?")
    await team.elapse(5)
    assert (await team.texts())[1:] == ["it is green"]


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "alice", "arguments": {}}',
        'A call looks like this: {"name": "my_status_set", "arguments": {}}',
    ],
)
async def test_an_answer_that_speaks_of_a_call_is_an_answer(team: Team, text: str) -> None:
    team.backends["alice"].then(says(text))
    await team.post("user", "@alice what does a call look like?")
    await team.still()
    assert (await team.texts())[1:] == [text]


async def test_an_empty_answer_after_tool_calls_ends_the_work_quietly(team: Team) -> None:
    team.backends["alice"].then(calls("my_status_set", status="noted"), says(""))
    await team.post("user", "@alice for your information")
    await team.elapse(60)
    assert await team.states() == ["done"]
    assert await team.texts() == ["@alice for your information"]


async def test_an_empty_answer_after_calls_of_an_earlier_run_ends_the_work_quietly(team: Team) -> None:
    team.backends["alice"].then(calls("my_status_set", status="noted"), fails("transient"), says(""))
    await team.post("user", "@alice for your information")
    await team.elapse(60)
    assert await team.states() == ["done"]


async def test_L4_what_an_empty_answer_has_cost_is_counted(team: Team) -> None:
    class Dear:
        async def reply(self, turn: Turn, steps: Sequence[PastStep], sink: StepSink) -> Reply:
            return Reply(usage=Usage(input=100, output=1, usd=0.5))

    team.employ("alice", Dear())
    await team.post("user", "@alice go")
    await team.elapse(60)
    assert await team.states() == ["failed"]
    spent = await team.read(limits.spent, Payer(team.id_of("alice"), ""), hop=0, fruitless=0, now=team.now())
    assert spent.usd_agent == 1.0


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

    def hear(event: Event) -> None:
        if isinstance(event, Posted) and event.sender == "alice":
            looks.append(team.read(lambda tx: [r["state"] for r in (*stored.deliveries(tx), *stored.instructions(tx))]))

    looks: list = []
    team.runtime.bus.listen(hear)
    team.backends["alice"].then(says("done"))
    await team.post("user", "@alice go")
    await team.still()
    seen = [await look for look in looks]
    assert seen == [["acked", "done"]]


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
