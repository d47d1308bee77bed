"""What was said and written in workspaces is indexed once, and found by their members and by people alike."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests import stored
from tests.house import House, house

from agent_worker.backends.mock import calls, says
from agent_worker.core.errors import AgentWorkerError
from agent_worker.files.root import Root

DUO = "agents: { alice: { ref: alice }, bob: { ref: bob } }\nworkspace: { provider: file }\n"


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[House]:
    (tmp_path / "home").mkdir()
    async with house(tmp_path, "alice", "bob", trust=Root.private(tmp_path / "home")) as made:
        (made.root / ".workflows" / "duo.yaml").write_text(DUO)
        await made.do("workflow_start", workflow="duo")
        yield made


async def found(here: House, query: str, at: str | None = None) -> list[str]:
    return [each["text"] for each in await here.do("search", query=query, at=at)]


async def searched_by(here: House, agent: str, query: str) -> str:
    here.mocks[agent].then(calls("history_search", query=query), says("looked"))
    await here.do("send", to="@duo", message=f"@{agent} look")
    await (await here.workspace("duo")).quiet()
    return str((await here.read(stored.calls, name=agent))[-1]["result"])


def indexes(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "home" / "indexes").glob("*/recall.db"))


async def test_members_and_people_search_the_same_index(here: House, tmp_path: Path) -> None:
    await here.do("send", to="@duo", message="the purple canary sings at midnight")
    await here.do("doc_write", at="@duo", name="birds.md", text="A canary eats seeds.\n")
    (said, written) = sorted(await here.do("search", query="canary"), key=lambda each: each["document"])
    assert (said["at"], said["sender"], said["seq"]) == ("@duo", "user", 1)
    assert (written["document"], written["text"]) == ("birds.md", "A canary eats seeds.")
    assert "matches 'canary'" in said["why"]
    for agent in ("alice", "bob"):
        told = await searched_by(here, agent, "canary")
        assert "purple canary" in told
        assert "birds.md: A canary eats seeds." in told
    assert len(indexes(tmp_path)) == 1


async def test_one_workspace_can_be_named(here: House) -> None:
    (here.root / ".workflows" / "trio.yaml").write_text(DUO)
    await here.do("workflow_start", workflow="trio")
    for place in ("duo", "trio"):
        await here.do("send", to=f"@{place}", message=f"the canary of {place}")
    assert set(await found(here, "canary")) == {"the canary of duo", "the canary of trio"}
    assert await found(here, "canary", "@trio") == ["the canary of trio"]
    with pytest.raises(AgentWorkerError, match="nowhere"):
        await found(here, "canary", "@nowhere")


async def test_what_a_person_does_to_a_document_by_hand_is_found(here: House) -> None:
    await here.do("doc_write", at="@duo", name="birds.md", text="A canary eats seeds.\n")
    assert await found(here, "canary")
    (file,) = here.root.rglob("birds.md")
    file.write_text("A sparrow eats anything at all.\n")
    assert await found(here, "canary") == []
    assert await found(here, "sparrow") == ["A sparrow eats anything at all."]
    file.unlink()
    assert await found(here, "sparrow") == []


async def test_the_index_can_be_deleted(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    for _ in range(2):
        async with house(tmp_path, "alice", "bob", trust=Root.private(tmp_path / "home")) as here:
            if not (here.root / ".workflows" / "duo.yaml").exists():
                (here.root / ".workflows" / "duo.yaml").write_text(DUO)
                await here.do("workflow_start", workflow="duo")
                await here.do("send", to="@duo", message="the purple canary")
            assert await found(here, "canary") == ["the purple canary"]
        shutil.rmtree(tmp_path / "home" / "indexes")


async def test_a_workspace_that_was_replaced_loses_its_index(here: House, tmp_path: Path) -> None:
    await here.do("send", to="@duo", message="the purple canary")
    assert await found(here, "canary")
    (before,) = indexes(tmp_path)
    await here.do("workflow_stop", instance="duo")
    assert await found(here, "canary", "@duo"), "it can be searched for as long as it can be read"
    await here.do("workflow_start", workflow="duo")
    assert await found(here, "canary") == []
    assert before not in indexes(tmp_path)


async def test_A14_after_a_revert_no_byte_of_it_is_in_the_index(here: House, tmp_path: Path) -> None:
    await here.do("doc_write", at="@duo", name="plan.md", text="we ship on friday\n")
    here.mocks["alice"].then(
        calls("team_doc_append", name="plan.md", text="obey the CANARY"), says("all of us obey the CANARY")
    )
    await here.do("send", to="@duo", message="@alice read the page")
    await (await here.workspace("duo")).quiet()
    assert sum("CANARY" in text for text in await found(here, "obey the canary")) == 3
    run = (await here.read(stored.runs, name="alice"))[-1]["id"]
    await here.do("memory_revert", name="alice", source=run)
    kept = [path for path in (tmp_path / "home").rglob("*") if path.is_file() and b"CANARY" in path.read_bytes()]
    assert kept == []
    assert not any("CANARY" in text for text in await found(here, "obey the canary"))
    assert await found(here, "ship") == ["we ship on friday"]


async def test_a_person_finds_what_agents_keep_and_did_too_and_no_agent_does(here: House) -> None:
    await here.do("memory_set", name="alice", key="bird", value="a canary, never a parrot")
    await here.do("note_add", name="bob", text="The canary was loud today.")
    here.mocks["alice"].then(says("I know the canary"))
    await here.do("ask", agent="alice", message="what do you know of the canary?")
    results = await here.do("search", query="canary")
    kinds = {(each["kind"], each["at"]) for each in results}
    assert {("memory", "alice"), ("note", "bob"), ("conversation", "alice"), ("run", "alice")} <= kinds
    assert await here.do("search", query="canary", at="@duo") == []
    assert "parrot" not in await searched_by(here, "bob", "canary parrot")
