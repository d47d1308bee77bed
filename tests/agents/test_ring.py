"""The ring as a whole: talk becomes work, work becomes talk."""

from __future__ import annotations

from tests.teams import Team

from agent_worker.backends.mock import calls, fails, says


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
