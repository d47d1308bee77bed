"""Why a run happened, and what came of it: the chain of messages, the runs they woke, the vote they told of."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests import stored
from tests.house import House, house

from agent_worker.backends.mock import calls, says
from agent_worker.files.root import Root

DUO = "agents: { alice: { ref: alice }, bob: { ref: bob } }\nworkspace: { provider: sqlite }\n"


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[House]:
    (tmp_path / "home").mkdir()
    async with house(tmp_path, "alice", "bob", trust=Root.private(tmp_path / "home")) as made:
        (made.root / ".workflows" / "duo.yaml").write_text(DUO)
        await made.do("workflow_start", workflow="duo")
        yield made


async def explained(here: House, agent: str) -> dict[str, Any]:
    """The first run of an agent."""
    run = (await here.read(stored.runs, name=agent))[0]["id"]
    found: dict[str, Any] = await here.do("explain", run=run)
    return found


async def test_a_run_knows_the_messages_that_led_to_it_and_the_runs_it_woke(here: House) -> None:
    here.mocks["alice"].then(says("@bob please check"))
    here.mocks["bob"].then(says("checked"))
    await here.do("send", to="@duo", message="@alice begin")
    await (await here.workspace("duo")).quiet()
    first, second = await explained(here, "alice"), await explained(here, "bob")
    assert [(each["seq"], each["sender"], each["run"]) for each in first["causes"]["chain"]] == [(1, "user", None)]
    assert [(each["agent"], each["id"], each["seq"]) for each in first["causes"]["woke"]] == [
        ("bob", second["run"]["id"], 2)
    ]
    chain = second["causes"]["chain"]
    assert [(each["sender"], each["text"]) for each in chain] == [
        ("user", "@alice begin"),
        ("alice", "@bob please check"),
    ]
    assert chain[-1]["run"] == first["run"]["id"]
    assert second["causes"]["woke"] == []


async def test_a_run_that_was_called_to_vote_names_the_vote(here: House) -> None:
    here.mocks["bob"].then(calls("team_vote", proposal=1, choice="tea"), says("voted"))
    await here.do("proposal_create", at="@duo", question="Tea?", options=["tea", "coffee"], voters=["bob"])
    await (await here.workspace("duo")).quiet()
    assert [each["proposal"] for each in (await explained(here, "bob"))["causes"]["chain"]] == [1]


async def test_a_direct_message_has_no_chain(here: House) -> None:
    here.mocks["alice"].then(says("hello"))
    await here.do("ask", agent="alice", message="hi")
    found = await explained(here, "alice")
    assert found["causes"] == {"chain": [], "beside": [], "woke": [], "copy": None}


async def test_of_a_long_result_the_beginning_is_told_unless_all_is_asked_for(here: House) -> None:
    await here.do("doc_write", at="@duo", name="long.md", text="line\n" * 1500)
    here.mocks["alice"].then(calls("team_doc_read", name="long.md"), says("read"))
    await here.do("send", to="@duo", message="@alice read it")
    await (await here.workspace("duo")).quiet()
    found = await explained(here, "alice")
    (call,) = found["steps"][0]["calls"]
    assert len(call["result"]) == 2000 < call["size"]
    whole = await here.do("explain", run=found["run"]["id"], full=True)
    assert len(whole["steps"][0]["calls"][0]["result"]) == call["size"]
