"""What an agent makes public stands in a document of its teams, follows its memory, and is written by nobody else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from tests import stored
from tests.house import House, house

from agent_worker.backends.mock import calls, says
from agent_worker.core.errors import AgentWorkerError, NotFound, Refused

DUO = "agents: { alice: { ref: alice }, bob: { ref: bob } }\nworkspace: { provider: PROVIDER }\n"


@pytest.fixture(params=["file", "sqlite"])
async def here(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[House]:
    async with house(tmp_path, "alice", "bob") as made:
        (made.root / ".workflows" / "duo.yaml").write_text(DUO.replace("PROVIDER", request.param))
        await made.do("workflow_start", workflow="duo")
        yield made


async def document(here: House) -> str:
    try:
        return str((await here.do("doc_read", at="@duo", name="memory/alice.md"))["text"])
    except NotFound:
        return ""


async def share(here: House, value: str, visibility: str = "public", key: str = "deploys") -> None:
    await here.do("memory_set", name="alice", key=key, value=value, file="working", visibility=visibility)


async def last_result(here: House, agent: str) -> str:
    return str((await here.read(stored.calls, name=agent))[-1]["result"])


async def test_it_follows_what_the_person_writes_and_withdraws(here: House) -> None:
    await share(here, "on Mondays")
    text = await document(here)
    assert "- deploys: on Mondays" in text
    assert "Generated from the memory of alice" in text
    await share(here, "on Tuesdays")
    assert "Mondays" not in await document(here)
    await share(here, "nothing to see", key="secret plan", visibility="private")
    assert "secret" not in await document(here)
    await share(here, "on Tuesdays", visibility="private")
    assert await document(here) == ""
    names = [each["name"] for each in await here.do("doc_list", at="@duo")]
    assert "memory/alice.md" not in names
    about = [each["about"] for each in (await here.do("audit_show"))["entries"] if each["deed"] == "published"]
    assert about[0] == "memory/alice.md in @duo: deploys"
    assert about[-1] == "memory/alice.md in @duo: nothing"


async def test_an_agent_publishes_with_its_tool_and_the_next_team_gets_it_too(here: House) -> None:
    here.mocks["alice"].then(
        calls("memory_write", key="deploys", value="We deploy on Mondays", visibility="public"), says("done")
    )
    await here.do("send", to="@duo", message="@alice tell everybody")
    await (await here.workspace("duo")).quiet()
    here.mocks["alice"].then(says("hello"))
    await here.ask("alice", "hi")  # it waits until all is done that comes after a run
    assert "We deploy on Mondays" in await document(here)
    await here.do("workflow_start", workflow="duo", tag="second")
    found = await here.do("doc_read", at="@duo:second", name="memory/alice.md")
    assert "We deploy on Mondays" in found["text"]


@pytest.mark.parametrize("name", ["memory/alice.md", "memory/bob.md", "Memory/Alice.md"])
async def test_A4_no_agent_writes_it(here: House, name: str) -> None:
    await share(here, "on Mondays")
    before = await document(here)
    here.mocks["bob"].then(calls("team_doc_append", name=name, text="- bob: is the boss"), says("tried"))
    await here.do("send", to="@duo", message="@bob go")
    await (await here.workspace("duo")).quiet()
    assert "generated from what that agent remembers" in await last_result(here, "bob")
    assert await document(here) == before


async def test_it_is_not_counted_as_work_of_the_team(here: House) -> None:
    await share(here, "on Mondays")
    assert await document(here)
    ended = await here.do("workflow_stop", instance="duo")
    assert "memory/alice.md" not in str(ended)


async def test_a_person_is_told_how_to_change_it(here: House) -> None:
    with pytest.raises(Refused, match="generated") as error:
        await here.do("doc_write", at="@duo", name="memory/alice.md", text="mine")
    assert "agent-worker agent memory" in error.value.hint


async def test_A4_what_gives_away_something_private_or_came_from_outside_is_not_in_it(here: House) -> None:
    await share(here, "the vault opens with XK-4471-QQ", key="vault", visibility="private")
    await share(here, "say XK-4471-QQ at the door", key="door")
    path = here.root / ".agents" / "alice" / "memory" / "patterns.yaml"
    path.write_text(yaml.safe_dump({"page": {"value": "buy gold", "by": "outside", "visibility": "public"}}))
    await share(here, "on Mondays")
    text = await document(here)
    assert "on Mondays" in text
    assert "4471" not in text
    assert "gold" not in text


async def test_A6_what_is_taken_back_is_gone_from_it(here: House) -> None:
    here.mocks["alice"].then(
        calls("memory_write", key="deploys", value="We deploy on Mondays", visibility="public"), says("done")
    )
    await here.do("send", to="@duo", message="@alice tell everybody")
    await (await here.workspace("duo")).quiet()
    here.mocks["alice"].then(says("hello"))
    await here.ask("alice", "hi")
    run = min((each for each in await here.do("runs_list") if each["agent"] == "alice"), key=lambda each: each["id"])
    await here.do("memory_revert", name="alice", source=run["id"])
    assert await document(here) == ""


async def test_a_broken_memory_file_does_not_stop_the_team(here: House) -> None:
    await share(here, "on Mondays")
    (here.root / ".agents" / "alice" / "memory" / "patterns.yaml").write_text("a: [")
    here.mocks["alice"].then(says("still here"))
    await here.do("send", to="@duo", message="@alice hello")
    await (await here.workspace("duo")).quiet()
    assert "on Mondays" in await document(here)
    with pytest.raises(AgentWorkerError):
        await here.do("doc_read", at="@duo", name="memory/bob.md")


async def test_workspaces_that_come_and_go_are_not_remembered_for_ever(
    here: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_worker.agents.publishing.REMEMBERED", 3)
    await share(here, "on Mondays")
    public, alice = here.runtime.public, (await here.read(stored.agents, name="alice"))[0]["id"]
    for number in range(5):
        await public.follow(here.runtime.registry.worker(alice), f"w_{number}")
    assert public.remembered == 3
