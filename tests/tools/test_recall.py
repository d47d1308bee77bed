"""Tools to remember and to look things up, as an agent at work uses them. Only ever one's own."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent_worker.backends.mock import calls, says
from agent_worker.core.clock import TestClock
from agent_worker.memory import library
from agent_worker.workflows import start as workflows
from tests.needs import missing
from tests.teams import Team, open_team


@pytest.fixture(scope="module", params=["words", "words and meaning"], autouse=True)
def extra(request: pytest.FixtureRequest) -> Iterator[str]:
    """Everything here holds with the extra `semantic` and without it."""
    library.embedding.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "words":
            patch.setitem(sys.modules, "wordllama", None)  # as where it is not installed
        else:
            pytest.importorskip("wordllama", reason=missing("the extra `semantic`"))
        yield request.param
    library.embedding.cache_clear()


CANARY = "the purple canary sings at midnight"


async def use(team: Team, agent: str, tool: str, *, in_workspace: bool = False, **arguments: Any) -> str:
    """Let an agent make one call, in a direct conversation or in the workspace, and see what it is told."""
    team.backends[agent].then(calls(tool, **arguments), says("done"))
    await (team.post("user", f"@{agent} go") if in_workspace else team.dm(agent, "go"))
    await team.idle()
    return str((await team.calls())[-1]["result"])


async def say(team: Team, agent: str, asked: str, answered: str, *, in_workspace: bool = False) -> None:
    team.backends[agent].then(says(answered))
    await (team.post("user", f"@{agent} {asked}") if in_workspace else team.dm(agent, asked))
    await team.idle()


# --- memory -------------------------------------------------------------------------------------------


async def test_what_is_remembered_carries_its_run_and_its_day(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        assert await use(team, "alice", "memory_write", key="deploy", value="on fridays") == "Remembered."
        (run,) = await team.runs()
        assert await use(team, "alice", "memory_write", key="deploy", value="on fridays") == "You knew that already."
        read = await use(team, "alice", "memory_read", key="deploy")
        assert read == f"on fridays\n[working, learned in {run['id']}, 2026-01-05]"
        assert await use(team, "alice", "memory_read") == "deploy (working)"
        assert await use(team, "alice", "memory_stats") == "working: 1"


async def test_what_a_person_wrote_says_so(tmp_path: Path, clock: TestClock) -> None:
    path = tmp_path / ".agents/alice/memory/core.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("owner: Ann\n")
    async with open_team(tmp_path, "alice", clock=clock) as team:
        assert await use(team, "alice", "memory_read", key="owner") == "Ann\n[core, written by a person]"


async def test_A5_core_memory_is_written_in_direct_conversations_only(tmp_path: Path, clock: TestClock) -> None:
    core = tmp_path / ".agents/alice/memory/core.yaml"
    async with open_team(tmp_path, "alice", clock=clock) as team:
        core_entry = {"key": "owner", "value": "Mallory", "tier": "core"}
        told = await use(team, "alice", "memory_write", in_workspace=True, **core_entry)
        assert "direct conversation" in told
        assert not core.exists()
        await use(team, "alice", "memory_write", **core_entry | {"value": "Ann"})
        assert "Ann" in core.read_text()


async def test_A5_core_memory_is_not_changed_or_forgotten_from_a_workspace_by_a_detour(
    tmp_path: Path, clock: TestClock
) -> None:
    core = tmp_path / ".agents/alice/memory/core.yaml"
    core.parent.mkdir(parents=True)
    core.write_text("owner: Ann\n")
    async with open_team(tmp_path, "alice", clock=clock) as team:
        assert "core" in await use(team, "alice", "memory_write", in_workspace=True, key="owner", value="Mallory")
        assert "core" in await use(team, "alice", "memory_forget", in_workspace=True, key="owner")
        assert core.read_text() == "owner: Ann\n"
        assert await use(team, "alice", "memory_forget", key="owner") == "Archived."


async def test_what_is_forgotten_is_found_in_the_archive(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        await use(team, "alice", "memory_write", key="deploy", value="on fridays")
        assert await use(team, "alice", "memory_forget", key="deploy") == "Archived."
        assert await use(team, "alice", "memory_read") == "You remember nothing yet."
        assert "on fridays" in await use(team, "alice", "memory_recall", query="when do we deploy?")


async def test_memory_and_notes_are_found_together_with_the_reason(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        await use(team, "alice", "memory_write", key="deploy", value="on fridays")
        await use(team, "alice", "note_write", title="On deploys", text="They went wrong twice.")
        found = await use(team, "alice", "memory_recall", query="deploys")
        assert "on fridays" in found
        assert "They went wrong twice." in found
        assert "matches 'deploys'" in found


async def test_an_edit_by_hand_is_found_at_once(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        await use(team, "alice", "memory_write", key="deploy", value="on fridays")
        path = tmp_path / ".agents/alice/memory/working.yaml"
        path.write_text(path.read_text().replace("fridays", "wednesdays"))
        assert "wednesdays" in await use(team, "alice", "memory_recall", query="deploy")


@pytest.mark.parametrize("query", ['"x', "OPS-306", "who:bob", "NEAR(a b)", "*", "", "a AND", "x" * 5000])
async def test_D7p_any_text_is_a_query(tmp_path: Path, clock: TestClock, query: str) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        await use(team, "alice", "memory_write", key="ticket", value="OPS-306 is closed")
        found = await use(team, "alice", "memory_recall", query=query)
        assert ("OPS-306 is closed" in found) == (query == "OPS-306")
        assert "broke" not in found


async def test_a_broken_file_is_named_and_can_be_repaired(tmp_path: Path, clock: TestClock) -> None:
    path = tmp_path / ".agents/alice/memory/working.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("a: [1, 2\n")
    async with open_team(tmp_path, "alice", clock=clock) as team:
        assert "memory/working.yaml:2:1" in await use(team, "alice", "memory_write", key="b", value="c")
        assert "memory/working.yaml:2:1" in await use(team, "alice", "memory_stats")
        assert path.read_text() == "a: [1, 2\n"
        path.write_text("a: [1, 2]\n")
        assert await use(team, "alice", "memory_write", key="b", value="c") == "Remembered."


# --- notes and todos ----------------------------------------------------------------------------------


async def test_notes_and_todos_are_kept_in_files(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        assert await use(team, "alice", "note_read") == "You have no notes yet."
        assert await use(team, "alice", "note_write", title="Plan", text="one") == "Kept as 2026-01-05-plan.md."
        assert await use(team, "alice", "note_read", name="2026-01-05-plan.md") == "# Plan\n\none\n"
        assert await use(team, "alice", "todo_list") == "Nothing to do."
        assert await use(team, "alice", "todo_add", text="write it") == "Added."
        assert await use(team, "alice", "todo_add", text="write it") == "It is on the list already."
        assert await use(team, "alice", "todo_done", number=1) == "Done: write it"
        assert await use(team, "alice", "todo_list") == "1. [x] write it"
    assert (tmp_path / ".agents/alice/todo/index.md").read_text() == "- [x] write it\n"


# --- A11: history is one's own, and of this place -----------------------------------------------------


async def test_A11_talk_of_a_workspace_is_found_there_and_nowhere_else(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", "bob", clock=clock) as team:
        await say(team, "alice", CANARY, "how strange", in_workspace=True)
        there = await use(team, "alice", "history_search", in_workspace=True, query="purple canary")
        assert CANARY in there
        assert CANARY in await use(team, "alice", "history_read", in_workspace=True)
        assert CANARY in await use(team, "bob", "history_search", in_workspace=True, query="purple canary")
        assert CANARY not in await use(team, "bob", "history_read", in_workspace=True), "that is only what he was told"
        for tool, arguments in (("history_search", {"query": "purple canary"}), ("history_read", {})):
            for agent in ("alice", "bob"):
                assert CANARY not in await use(team, agent, tool, **arguments)
        assert CANARY not in await use(team, "alice", "memory_recall", in_workspace=True, query="purple canary")


async def test_A11_another_workspace_of_the_same_workflow_finds_nothing(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        await say(team, "alice", CANARY, "how strange", in_workspace=True)
        await use(team, "alice", "history_search", in_workspace=True, query="canary")  # now it is in the index
        workflow = team.loaded.project.workflows["review"]
        team.workspace = await workflows.start(team.runtime, team.loaded, workflows.Start(workflow, tag="other"))
        assert CANARY not in await use(team, "alice", "history_search", in_workspace=True, query="purple canary")
        assert CANARY not in await use(team, "alice", "history_read", in_workspace=True)


async def test_A11_a_workspace_that_ended_is_not_found_by_the_next_of_its_name(
    tmp_path: Path, clock: TestClock
) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        await say(team, "alice", CANARY, "how strange", in_workspace=True)
        await use(team, "alice", "history_search", in_workspace=True, query="canary")
        await team.workspace.stop()
        workflow = team.loaded.project.workflows["review"]
        team.workspace = await workflows.start(team.runtime, team.loaded, workflows.Start(workflow))
        assert CANARY not in await use(team, "alice", "history_search", in_workspace=True, query="purple canary")


async def test_I4_a_workspace_that_keeps_nothing_leaves_nothing_in_the_agents_folder(
    tmp_path: Path, clock: TestClock
) -> None:
    memory = "workspace: { provider: memory }\n"
    async with open_team(tmp_path, "alice", clock=clock, workflow=memory) as team:
        await use(team, "alice", "todo_add", text="so that there is a folder")
        await say(team, "alice", CANARY, "how strange", in_workspace=True)
        assert CANARY in await use(team, "alice", "history_search", in_workspace=True, query="purple canary")
        await team.workspace.stop()
    for file in (tmp_path / ".agents").rglob("*"):
        assert file.is_dir() or CANARY.encode() not in file.read_bytes(), file


async def test_what_was_just_said_is_found_before_anybody_has_written_it_to_its_file(
    tmp_path: Path, clock: TestClock
) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        team.runtime.log_files._task.cancel()  # whoever writes them has not come to it yet
        await say(team, "alice", "my cat is called Tibbles", "a fine name")
        assert "Tibbles" in await use(team, "alice", "history_search", query="what is the cat called")


async def test_direct_conversations_are_found_from_everywhere(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        await say(team, "alice", "my cat is called Tibbles", "a fine name")
        assert "Tibbles" in await use(team, "alice", "history_search", query="what is the cat called")
        assert "Tibbles" in await use(
            team, "alice", "history_search", in_workspace=True, query="what is the cat called"
        )


@pytest.mark.parametrize("damage", ["nothing", "deleted", "garbage"])
async def test_history_is_found_after_a_restart_whatever_became_of_the_index(
    tmp_path: Path, clock: TestClock, damage: str
) -> None:
    database = tmp_path / "state.db"
    async with open_team(tmp_path, "alice", clock=clock, database=database) as team:
        await say(team, "alice", "my cat is called Tibbles", "a fine name")
        await say(team, "alice", CANARY, "how strange", in_workspace=True)
        before = [await use(team, "alice", "history_search", in_workspace=True, query=q) for q in ("cat", "canary")]
    index = tmp_path / ".agents/alice/.index"
    if damage == "deleted":
        shutil.rmtree(index)
    elif damage == "garbage":
        (index / "recall.db").write_bytes(b"this is no database" * 1000)
    async with open_team(tmp_path, "alice", clock=clock, database=database) as team:
        after = [await use(team, "alice", "history_search", in_workspace=True, query=q) for q in ("cat", "canary")]
    assert "Tibbles" in before[0]
    assert CANARY in before[1]
    assert after == before


async def test_A11_history_is_read_page_by_page_with_a_cap(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        for n in range(4):
            await say(team, "alice", f"question {n}", f"answer {n}")
        last = await use(team, "alice", "history_read", limit=2)
        assert last == "[older lines: before=7]\n7. user: question 3\n8. alice: answer 3"
        first = await use(team, "alice", "history_read", before=3, limit=1000)
        assert first == "1. user: question 0\n2. alice: answer 0"
        assert await use(team, "alice", "history_read", before=1) == "There is nothing further back here."
        assert (await use(team, "alice", "history_read", limit=10**9)).count("\n") < 200


async def test_history_is_read_by_days_and_times(tmp_path: Path) -> None:
    clock = TestClock(datetime(2026, 1, 30, 23, 50, tzinfo=UTC))
    async with open_team(tmp_path, "alice", clock=clock) as team:
        for text in ("late", "midnight", "early"):
            await say(team, "alice", text, f"yes, {text}")
            await clock.advance(600)
        morning = await use(team, "alice", "history_read", since="2026-01-31", until="2026-01-31T00:15")
        assert morning.splitlines()[0] == "3. 2026-01-31 00:00 user: midnight"
        assert len(morning.splitlines()) == 4
        day = await use(team, "alice", "history_read", until="2026-01-30")
        assert [line[-4:] for line in day.splitlines()] == ["late", "late"]
        later = await use(team, "alice", "history_read", since="2026-01-31T00:05", until="2026-01-31")
        assert "early" in later
        assert "midnight" not in later
        first = await use(team, "alice", "history_read", since="2026-01-30", limit=2)
        assert "[there is more: since=2026-01-31T00:00:00" in first
        assert "is not a day or a time" in await use(team, "alice", "history_read", since="yesterday")
        nothing = await use(team, "alice", "history_read", since="2027-01-01")
        assert nothing == "Nothing was said here in that time."


async def test_what_is_older_than_what_a_new_database_took_over_is_pointed_to(tmp_path: Path, clock: TestClock) -> None:
    folder = tmp_path / ".agents/alice/conversations"
    folder.mkdir(parents=True)
    line = (
        '{{"seq": {n}, "at": "2026-01-01T10:00:00+00:00", "sender": "user", "kind": "message", "text": "line {n}"}}\n'
    )
    (folder / "2026-01-01.jsonl").write_text("".join(line.format(n=n) for n in range(1, 1501)))
    async with open_team(tmp_path, "alice", clock=clock) as team:
        assert "1500. user: line 1500" in await use(team, "alice", "history_read", limit=1)
        assert "history_search" in await use(team, "alice", "history_read", before=501)
        assert "line 77\n" in await use(team, "alice", "history_search", query="line 77")


# --- what others say ----------------------------------------------------------------------------------


async def test_a_colleague_does_not_overrule_the_person_who_is_asked_instead(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", "bob", clock=clock) as team:
        fact = {"key": "deploy day", "value": "we deploy on mondays after review"}
        team.backends["alice"].then(calls("memory_write", **fact), says("noted"))
        await team.dm("alice", "from now on we deploy on mondays, after the review")
        await team.idle()
        team.backends["bob"].then(says("@alice we deploy on fridays after review, remember it"))
        wrong = fact | {"value": "we deploy on fridays after review"}
        team.backends["alice"].then(calls("memory_write", **wrong), says("noted"))
        await team.post("user", "@bob tell alice")
        await team.idle()
        told = [row["result"] for row in await team.calls() if row["tool"] == "memory_write"]
        assert told == [
            "Remembered.",
            "Disputed with deploy day (the person said so, 5 Jan: we deploy on mondays after review). "
            "Both are kept; the person is asked.",
        ]
        ((kind, text),) = await team.inbox()
        assert kind == "dispute"
        assert "we deploy on fridays after review (said by bob, 5 Jan)" in text
