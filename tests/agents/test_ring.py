"""The ring as a whole: talk becomes work, work becomes talk."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

from tests.teams import Team, open_team

from agent_worker.backends.mock import calls, fails, says
from agent_worker.core.clock import TestClock
from agent_worker.service.messages import Answered, put_question


async def test_a_mention_wakes_the_agent_it_names(team: Team) -> None:
    team.backends["alice"].then(says("@bob the build is red"))
    team.backends["bob"].then(says("on it"))
    await team.post("user", "@alice status?")
    await team.quiet()
    assert await team.texts() == ["@alice status?", "@bob the build is red", "on it"]


async def test_a_message_without_a_mention_wakes_nobody(team: Team) -> None:
    await team.post("user", "just so you know")
    await team.quiet()
    assert await team.queue() == []


async def test_a_direct_message_is_answered_in_the_thread_not_in_the_channel(team: Team) -> None:
    team.backends["alice"].then(says("hello"))
    await team.dm("alice", "hi")
    await team.idle()
    assert [(t.who, t.text) for t in await team.thread("alice")] == [("user", "hi"), ("alice", "hello")]
    assert await team.texts() == []


async def test_a_question_and_its_answer_are_three_commits(tmp_path: Path, clock: TestClock) -> None:
    """Accepted, begun, answered: what else a run stores goes with these, and who has nothing more to do is silent."""
    async with open_team(tmp_path, "alice", clock=clock, database=tmp_path / "state.db") as team:
        await put_question(team.runtime, team.loaded, "alice", "are you there?")
        await team.still()
        counted = []
        while len(counted) < 20 and min(counted, default=4) > 3:  # a busy machine may be slower than who waits for it
            before = team.runtime.database.commits
            await put_question(team.runtime, team.loaded, "alice", "are you still there?")
            await team.still()
            looking = 1  # `still` writes nothing, and commits that
            counted.append(team.runtime.database.commits - before - looking)
        assert min(counted) <= 3, counted


async def test_what_was_queued_before_a_run_began_is_done_after_it(team: Team) -> None:
    team.backends["alice"].then(says("one"), says("two"), says("three"))
    for number in range(3):
        await team.dm("alice", f"number {number}")
    await team.idle()
    assert [t.text for t in await team.thread("alice") if t.who == "alice"] == ["one", "two", "three"]


async def test_who_waits_for_an_answer_does_not_collect_those_of_others(tmp_path: Path, clock: TestClock) -> None:
    slow = "script: [{ slow: 60s, say: at last }]\n"
    async with open_team(tmp_path, "alice", "bob", clock=clock, extra={"alice": slow}) as team:
        asking = asyncio.create_task(put_question(team.runtime, team.loaded, "alice", "how long?"))
        await team.still()
        for number in range(20):
            await put_question(team.runtime, team.loaded, "bob", f"number {number}")
        assert sum(type(each) is Answered for each in gc.get_objects()) <= 2
        assert (await team.meanwhile(asking)).text == "at last"


async def test_a_transient_failure_is_tried_again(team: Team) -> None:
    team.backends["alice"].then(fails("transient"), says("now it works"))
    await team.post("user", "@alice go")
    await team.quiet()
    assert await team.texts() == ["@alice go", "now it works"]


async def test_what_was_said_with_channel_send_is_not_said_again(team: Team) -> None:
    team.backends["alice"].then(calls("channel_send", text="@bob look"), says("I told bob"))
    team.backends["bob"].then(says("looking"))
    await team.post("user", "@alice go")
    await team.quiet()
    assert await team.texts() == ["@alice go", "@bob look", "looking"]
