"""A6: words from outside are known again by whatever tool they are read, wherever somebody has written them down."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests import stored
from tests.teams import Team, open_team

from agent_worker.backends.mock import calls, says
from agent_worker.core.clock import TestClock
from agent_worker.files.root import Root
from agent_worker.memory import memory
from agent_worker.tools import recall as recall_tools
from agent_worker.tools import soul, toolbox

CLAIM = "Releases go out without any review since the auditors left"
IN_OTHER_WORDS = "Since the auditors left, releases go out without review"
READ = calls("read_file", path="page.md")
KEEP = calls("memory_write", key="releases", value=CLAIM)

#: How alice writes it down for the team, and how bob reads it there.
TEAM_WAYS: dict[str, tuple[Any, tuple[str, dict[str, Any]]]] = {
    "channel_read": (calls("channel_send", text=CLAIM), ("channel_read", {"since": 0})),
    "channel_peek": (calls("channel_send", text=CLAIM), ("channel_peek", {})),
    "history_search": (calls("channel_send", text=CLAIM), ("history_search", {"query": "releases review"})),
    "history_search, a document": (
        calls("team_doc_create", name="news.md", text=f"# News\n\nOther things. {CLAIM}.\n"),
        ("history_search", {"query": "releases review auditors"}),
    ),
    "team_doc_read": (calls("team_doc_create", name="news.md", text=CLAIM), ("team_doc_read", {"name": "news.md"})),
    "team_doc_read, added": (
        calls("team_doc_append", name="ours.md", text=f"So far so good. {CLAIM}.\n"),
        ("team_doc_read", {"name": "ours.md"}),
    ),
    "team_members": (calls("my_status_set", status=CLAIM), ("team_members", {})),
    "team_proposal_status": (
        calls("team_proposal_create", question=f"{CLAIM}. Right?", options=["y", "n"], voters=["user"]),
        ("team_proposal_status", {"proposal": 1}),
    ),
}
#: How alice writes it down for herself, and reads it again.
OWN_WAYS: dict[str, tuple[Any, tuple[str, dict[str, Any]]]] = {
    "note_read": (calls("note_write", title="news", text=CLAIM), ("note_read", {"name": "2026-01-01-news.md"})),
    "todo_list": (calls("todo_add", text=f"act on it: {CLAIM}"), ("todo_list", {})),
    "memory_read": (calls("memory_write", key="news", value=CLAIM), ("memory_read", {"key": "news"})),
    "memory_recall": (calls("note_write", title="news", text=CLAIM), ("memory_recall", {"query": "releases review"})),
    "history_read": (calls("memory_stats"), ("history_read", {"limit": 200})),
}
#: Tools that show an agent nothing but what it or the person has said, and what became of a call.
SHOW_NO_WORDS = {
    *("channel_send", "my_inbox_ack", "my_status_set", "team_doc_list", "team_doc_create", "team_doc_write"),
    *("team_doc_append", "team_doc_suggest", "team_proposal_create", "team_vote", "team_proposal_cancel"),
    *("resource_create", "memory_write", "memory_forget", "memory_stats", "share_with", "note_write", "todo_add"),
    *("todo_done", "soul_reflect", "soul_suggest"),
}


@pytest.fixture
async def team(tmp_path: Path, clock: TestClock) -> AsyncIterator[Team]:
    (tmp_path / "page.md").write_text(f"# News\n\n{CLAIM}.\n")
    reading = dict.fromkeys(("alice", "bob", "carol"), "tools: [read_file]\n")
    async with open_team(tmp_path, *reading, clock=clock, extra=reading) as made:
        yield made


def by(tmp_path: Path, agent: str) -> dict[str, str]:
    return {each.key: each.by for each in memory.load(Root(tmp_path / ".agents" / agent)).entries}


async def told(team: Team, agent: str, text: str, *steps: Any) -> None:
    """Somebody is called on in the channel and does this."""
    team.backends[agent].then(*steps)
    await team.post("user", f"@{agent} {text}")
    await team.idle()


async def asked(team: Team, agent: str, text: str, *steps: Any) -> None:
    team.backends[agent].then(*steps)
    await team.dm(agent, text)
    await team.idle()


def test_every_tool_that_shows_words_is_tried_here() -> None:
    ours = {tool.name for tool in (*toolbox.TEAM, *recall_tools.OWN, *recall_tools.HISTORY, *soul.SOUL)}
    tried = {name for _, (name, _) in (*TEAM_WAYS.values(), *OWN_WAYS.values())}
    by_themselves = {"resource_read", "my_inbox"}
    tells_nothing_from_outside = {"ask_agent"}  # tests/memory/test_sharing.py
    assert ours - SHOW_NO_WORDS == tried | by_themselves | tells_nothing_from_outside


@pytest.mark.parametrize("way", TEAM_WAYS)
async def test_A6_what_a_colleague_has_written_down_is_from_outside(team: Team, tmp_path: Path, way: str) -> None:
    write, (tool, arguments) = TEAM_WAYS[way]
    await told(team, "bob", "good morning", says("morning"))
    await told(team, "alice", "what is new?", READ, write, says(""))
    await told(team, "bob", "are you there?", says("yes, I am"))  # what is new in the channel was shown now
    await told(team, "bob", "what do they say?", calls(tool, **arguments), KEEP, says("noted"))
    shown = (await team.calls(tool=tool))[-1]["result"]
    assert "auditors" in shown, "it was shown"
    assert by(tmp_path, "bob") == {"releases": "outside"}


async def test_A6_a_resource_and_what_is_in_an_inbox(team: Team, tmp_path: Path) -> None:
    await told(team, "alice", "what is new?", READ, calls("resource_create", text=CLAIM), says(""))
    (kept,) = await team.read(stored.resources)
    await told(team, "bob", "read it", calls("resource_read", id=kept["id"]), KEEP, says("noted"))
    team.backends["carol"].then(calls("my_inbox"), KEEP, says("noted"))
    await told(team, "alice", "tell carol", READ, says(f"@carol {CLAIM}"))
    assert by(tmp_path, "bob") == {"releases": "outside"}
    assert by(tmp_path, "carol") == {"releases": "outside"}


@pytest.mark.parametrize("way", OWN_WAYS)
async def test_A6_what_an_agent_has_written_down_for_itself_is_from_outside(
    team: Team, tmp_path: Path, way: str
) -> None:
    write, (tool, arguments) = OWN_WAYS[way]
    await asked(team, "alice", "have a look at the page", READ, write, says(f"It says: {CLAIM}."))
    if tool == "note_read":
        (name,) = [each.name for each in (tmp_path / ".agents/alice/notes").iterdir()]
        arguments = {"name": name}
    for _ in range(15):  # more than a prompt shows
        await asked(team, "alice", "and how is the weather?", says("I cannot see it."))
    again = calls("memory_write", key="how we ship", value=IN_OTHER_WORDS)
    await asked(team, "alice", "what did you read?", calls(tool, **arguments), again, says("noted"))
    assert "auditors" in (await team.calls(tool=tool))[-1]["result"], "it was shown"
    assert by(tmp_path, "alice").get("how we ship", "outside") == "outside"


async def test_A6_through_documents_and_hands_in_other_words(team: Team, tmp_path: Path) -> None:
    """Each of them reads what the one before wrote, says it otherwise, and reads nothing from outside itself."""
    await told(team, "alice", "what is new?", READ, calls("team_doc_create", name="a.md", text=CLAIM), says(""))
    copied = calls("team_doc_create", name="b.md", text=f"A summary for everybody.\n\n{IN_OTHER_WORDS}.")
    await told(team, "bob", "sum it up", calls("team_doc_read", name="a.md"), copied, says("done"))
    await told(team, "carol", "and you?", calls("team_doc_read", name="b.md"), KEEP, says("noted"))
    assert by(tmp_path, "carol") == {"releases": "outside"}


async def test_A6_what_is_done_for_who_read_from_outside_is_from_there(team: Team, tmp_path: Path) -> None:
    """Whatever words the request is in: they need not be those that were read."""
    team.backends["bob"].then(KEEP, says("noted"))
    await told(team, "alice", "what is new?", READ, says("@bob keep it"))
    team.backends["carol"].then(KEEP, says("noted"))
    await told(team, "alice", "and you?", says("@carol keep it"))
    assert by(tmp_path, "bob") == {"releases": "outside"}
    assert by(tmp_path, "carol") == {"releases": "agent:alice"}, "who read nothing this time"


async def test_A6_it_does_not_become_core_memory_by_a_way_round(team: Team, tmp_path: Path) -> None:
    await asked(team, "alice", "have a look at the page", READ, calls("note_write", title="n", text=CLAIM), says("ok"))
    core = calls("memory_write", key="releases", value=CLAIM, tier="core")
    await asked(team, "alice", "what do you know?", calls("memory_recall", query="releases review"), core, says("ok"))
    (made,) = await team.calls(tool="memory_write")
    assert not made["ok"]
    assert "core memory is not written after what was read before" in made["result"]
    assert by(tmp_path, "alice") == {}


async def test_what_a_colleague_wrote_who_read_nothing_is_not(team: Team, tmp_path: Path) -> None:
    await told(team, "alice", "look at the page", READ, calls("team_doc_create", name="a.md", text=CLAIM), says(""))
    await told(team, "carol", "plan", calls("team_doc_create", name="b.md", text="The parser copies lines."), says(""))
    own = calls("memory_write", key="parser", value="The parser is slow: it copies each line twice")
    await told(team, "bob", "read", calls("team_doc_read", name="b.md"), own, says("noted"))
    assert by(tmp_path, "bob") == {"parser": "self"}


async def test_what_was_read_elsewhere_does_not_colour_other_thoughts(team: Team, tmp_path: Path) -> None:
    await told(team, "alice", "look at the page", READ, calls("team_doc_create", name="a.md", text=CLAIM), says(""))
    own = calls("memory_write", key="parser", value="The parser is slow: it copies each line twice")
    await told(team, "bob", "read", calls("team_doc_read", name="a.md"), own, says("noted"))
    assert by(tmp_path, "bob") == {"parser": "self"}
