"""The channel: one order for everybody, and talk that becomes work exactly where it says so."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests import stored
from tests.patience import PATIENCE
from tests.teams import Team, open_team

from agent_worker.backends.backend import Reply
from agent_worker.backends.mock import calls, says
from agent_worker.core.clock import SystemClock, TestClock
from agent_worker.core.errors import BadInput, NotFound, NotRunning, Refused
from agent_worker.core.events import Posted
from agent_worker.service.messages import deliver
from agent_worker.work.limits import WorkLimits
from agent_worker.workspaces import channel, routing


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, "alice", "bob", "carol", clock=TestClock()) as team:
        yield team


# --- order ------------------------------------------------------------------------------------------------


async def test_O1_O2_thirty_two_senders_and_every_reader_see_one_order(team: Team) -> None:
    """Each sender's own messages stay in order, no number is missing or doubled, and clocks do not matter."""
    clock, senders, each = team.clock, 32, 20
    assert isinstance(clock, TestClock)
    heard: list[list[Posted]] = [[] for _ in range(5)]
    for listener in heard:
        team.runtime.bus.listen(listener.append, Posted)

    async def send(sender: int) -> list[int]:
        seqs = []
        for n in range(each):
            if sender == 0 and n in (5, 10):
                clock.jump(timedelta(hours=1 if n == 5 else -1))
            receipt = await team.post(f"sender{sender}", f"{sender}/{n}")
            assert receipt.seq is not None
            seqs.append(receipt.seq)
        return seqs

    accepted = await asyncio.gather(*map(send, range(senders)))
    assert all(seqs == sorted(seqs) for seqs in accepted), "a sender's messages keep their order"
    everything = list(range(1, senders * each + 1))
    for listener in heard:
        assert [event.seq for event in listener] == everything
    pages: list[int] = []
    while page := await team.read(channel.read, team.workspace.id, since=pages[-1] if pages else 0, limit=7):
        pages += [message.seq for message in page]
    assert pages == everything
    by_sender: dict[str, list[str]] = defaultdict(list)
    for message in await team.messages():
        by_sender[message.sender].append(message.text.partition("/")[2])
    assert all(texts == [str(n) for n in range(each)] for texts in by_sender.values())


async def test_O2_an_answer_comes_after_its_cause_and_who_is_woken_sees_what_woke_it(tmp_path: Path) -> None:
    blind: list[str] = []

    class Witness:
        async def reply(self, turn, steps, recorder):  # type: ignore[no-untyped-def]
            question = turn.prompt.rpartition("asks you")[2].splitlines()[1]
            if question not in await team.texts():
                blind.append(question)
            return Reply(f"re {question.rpartition(' ')[2]}")

    async with open_team(tmp_path, "alice", clock=SystemClock(), quiet_moment=0.02) as team:
        team.employ("alice", Witness(), limits=WorkLimits(None, None, None, None, None, None))
        await asyncio.gather(*(team.post(f"sender{n}", f"@alice message {n}") for n in range(50)))
        await team.quiet()
        messages = await team.messages()
    assert blind == []
    answers = [m for m in messages if m.sender == "alice"]
    asked = {m.text.rpartition(" ")[2]: m.seq for m in messages if m.sender != "alice"}
    assert answers
    assert all(answer.seq > asked[answer.text.rpartition(" ")[2]] for answer in answers)


async def test_a_listener_that_breaks_hurts_nobody_else(team: Team) -> None:
    def break_down(_: object) -> None:
        raise RuntimeError("a broken listener")

    team.runtime.bus.listen(break_down)
    heard: list[object] = []
    team.runtime.bus.listen(heard.append)
    team.backends["alice"].then(says("still here"))
    async with asyncio.timeout(PATIENCE):
        await team.post("user", "@alice go")
        await team.idle()
    assert (await team.texts())[-1] == "still here"
    assert heard


# --- who is woken -----------------------------------------------------------------------------------------


async def woken(team: Team) -> set[str]:
    names = {id: name for name, id in team.workspace.members.items()}
    return {names[row["agent"]] for row in await team.queue()}


async def test_a_mention_of_all_wakes_every_member_but_the_sender(team: Team) -> None:
    await team.runtime.supervisor.stop()
    receipt = await team.post("bob", "@all look")
    assert set(receipt.woke) == {"alice", "carol"}
    assert await woken(team) == {"alice", "carol"}


async def test_an_agent_never_wakes_itself(team: Team) -> None:
    await team.runtime.supervisor.stop()
    receipt = await team.post("alice", "@alice and @ALICE said so")
    assert receipt.woke == ()
    assert await woken(team) == set()


async def test_a_mention_of_the_person_waits_for_them(team: Team) -> None:
    team.backends["alice"].then(says("@user may I?"))
    await team.post("user", "@alice go")
    await team.still()
    assert await team.inbox() == [("mention", "alice: @user may I?")]
    await team.post("user", "a note to @user myself")
    assert len(await team.inbox()) == 1


async def test_a_mention_of_nobody_bounces_to_the_sender_and_stays_text(team: Team) -> None:
    receipt = await team.post("user", "@dave and @alice look")
    assert receipt.unknown == ("dave",)
    assert receipt.members == ("alice", "bob", "carol")
    assert (await team.messages())[0].mentions == ("alice",)


async def test_the_sender_of_a_bounce_is_told_by_its_tool(team: Team) -> None:
    team.backends["alice"].then(calls("channel_send", text="@dave look"), says(""))
    await team.post("user", "@alice go")
    await team.still()
    (call,) = await team.calls()
    assert call["result"] == "Sent as #2. Nobody here is called dave; the members are: alice, bob, carol."


@pytest.mark.parametrize(
    "text",
    [
        "`@alice`",
        "```\n@alice\n```",
        "> @alice said it",
        "https://example.org/@alice",
        "mail alice@alice.example",
        "me@alice",
    ],
)
async def test_A10_what_is_not_said_in_ones_own_words_wakes_nobody(team: Team, text: str) -> None:
    await team.runtime.supervisor.stop()
    receipt = await team.post("bob", text)
    assert receipt.woke == ()
    assert await woken(team) == set()


async def test_A10_a_mention_in_a_document_wakes_nobody(team: Team) -> None:
    team.backends["alice"].then(calls("team_doc_append", text="@bob @all do this"), says(""))
    await team.post("user", "@alice go")
    await team.still()
    assert await woken(team) == {"alice"}


async def test_D4p_a_message_wakes_at_most_fifty(tmp_path: Path) -> None:
    async with open_team(tmp_path, *[f"a{n}" for n in range(52)], clock=TestClock()) as team:
        with pytest.raises(BadInput, match="at most 50 members; this one names 52"):
            await team.post("user", "@all go")
        assert await team.texts() == []


# --- what cannot be sent ------------------------------------------------------------------------------------


async def test_sending_to_one_who_takes_no_part_says_what_to_do(team: Team) -> None:
    with pytest.raises(Refused) as refusal:
        await team.post("user", "hello", to="dave")
    assert str(refusal.value) == (
        'dave is not a participant in workflow "review". Add dave to .workflows/review.yaml first.'
    )
    assert await team.texts() == []


async def test_sending_into_a_workspace_that_does_not_run_says_what_to_type(team: Team) -> None:
    with pytest.raises(NotRunning) as refusal:
        await deliver(team.runtime, team.loaded, "alice@review:x", "hello")
    start = "agent-worker start review --tag x"
    assert str(refusal.value) == f'workflow "review:x" is not running. Start it with: {start}'
    assert refusal.value.hint == start


@pytest.mark.parametrize(
    ("name", "hint"), [("other", "agent-worker ls (workflows here: review)"), ("reviw", "did you mean review?")]
)
async def test_nobody_is_told_to_start_what_there_is_not(team: Team, name: str, hint: str) -> None:
    with pytest.raises(NotFound, match=f"there is no workflow {name}") as refusal:
        await deliver(team.runtime, team.loaded, f"@{name}", "hello")
    assert refusal.value.hint == hint


async def test_sending_to_an_unknown_agent_lists_the_known(team: Team) -> None:
    with pytest.raises(NotFound, match="there is no agent dave") as refusal:
        await deliver(team.runtime, team.loaded, "dave", "hello")
    assert refusal.value.hint == "agent-worker agent list (agents here: alice, bob, carol)"


@pytest.mark.parametrize("text", ["", "  \n", "x" * (256 * 1024 + 1), "half a \ud800 character"], ids=range(4))
@pytest.mark.parametrize("to", ["alice", "@review", "alice@review"])
async def test_a_text_that_cannot_be_sent_is_refused_with_a_reason(team: Team, to: str, text: str) -> None:
    with pytest.raises(BadInput):
        await deliver(team.runtime, team.loaded, to, text)
    assert await team.texts() == []
    assert await team.states() == []


@pytest.mark.parametrize("text", ["é😀 \u202e bidi", "\r\n", "'; drop table message; --"])
async def test_D3p_any_other_text_comes_back_as_it_was_sent(team: Team, text: str) -> None:
    await team.post("user", text)
    assert await team.texts() == [text]


async def test_a_nul_is_kept_as_the_sign_for_it_because_no_other_database_holds_one(team: Team) -> None:
    await team.post("user", "nul \x00 inside")
    await team.dm("alice", "\x00")
    assert await team.texts() == ["nul ␀ inside"]
    assert [row["text"] for row in await team.read(stored.instructions)] == ["␀"]


# --- sending twice -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", ["alice", "@review", "alice@review"])
async def test_Q4_the_same_key_is_accepted_once(team: Team, to: str) -> None:
    await team.runtime.supervisor.stop()
    runtime, loaded = team.runtime, team.loaded
    receipts = await asyncio.gather(*(deliver(runtime, loaded, to, "@alice hello", key="k1") for _ in range(20)))
    assert len({receipt.id for receipt in receipts}) == 1
    assert len(await team.states()) == 1
    other = await deliver(runtime, loaded, to, "@alice hello", key="k2")
    assert other.id != receipts[0].id


async def test_Q4_a_send_that_was_refused_does_not_use_up_its_key(team: Team) -> None:
    with pytest.raises(Refused):
        await team.post("user", "hello", to="dave", key="k")
    receipt = await team.post("user", "hello", key="k")
    assert receipt.seq == 1


# --- smart send ----------------------------------------------------------------------------------------------


async def test_a_long_message_becomes_a_resource_and_the_message_carries_its_head(team: Team) -> None:
    text = "first line\n" + "é" * 4096
    receipt = await team.post("user", text)
    assert receipt.resource is not None
    message = (await team.messages())[0]
    assert message.resource == receipt.resource
    assert message.text.startswith("first line")
    assert message.text.endswith(f"[… {len(text.encode()):,} bytes in all: resource_read {receipt.resource}]")
    assert len(message.text) < 1000


async def test_a_message_of_just_four_kibibytes_stays_whole(team: Team) -> None:
    await team.post("user", "x" * 4096)
    assert (await team.messages())[0].resource is None


async def test_a_mention_at_the_end_of_a_long_message_still_wakes(team: Team) -> None:
    receipt = await team.post("user", "x " * 4000 + "@alice")
    assert receipt.woke == ("alice",)


async def test_a_direct_message_that_is_too_long_is_refused(team: Team) -> None:
    with pytest.raises(BadInput, match="at most 256 KiB"):
        await team.write(routing.tell_agent, team.id_of("alice"), "x" * 300_000, now=team.now())
