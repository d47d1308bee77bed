"""An agent that is deleted is gone, and one that was made without a file ends with its daemon: nobody inherits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests import stored
from tests.house import House, bytes_in, house

from agent_worker.backends.mock import calls, says
from agent_worker.backends.programs.program import owner_of
from agent_worker.core.errors import Refused
from agent_worker.files.root import Root

PIN = "my pin is 1234"


async def prompt_of(here: House, agent: str) -> list[str]:
    """The names of what its last run saw."""
    last = (await here.read(stored.runs, name=agent))[-1]
    return [section["name"] for section in json.loads(last["manifest"])]


async def test_I6_after_delete_with_files_nothing_of_it_is_left_on_disk(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await here.do("agent_create", name="m1", backend="mock")
        here.mocks["m1"].then(
            calls("memory_write", key="pin", value=PIN), calls("note_write", title="pin", text=PIN), says(f"ok: {PIN}")
        )
        await here.ask("m1", f"remember: {PIN}")
        await here.do("todo_put", name="m1", text=PIN)
        await here.do("schedule_set", target="m1", wakeup="1h", prompt=PIN)
        session = tmp_path / "programs" / "codex" / owner_of("m1", here.root, "m1") / "sessions"
        session.mkdir(parents=True)
        (session / "one.jsonl").write_text(PIN)
        await here.runtime.log_files.flush()
        assert PIN.encode() in bytes_in(tmp_path)
        said = await here.do("agent_delete", name="m1", files=True)
        assert "with its files" in said
        assert PIN.encode() not in bytes_in(tmp_path)
        assert await here.flaw() == ""
        (run,) = await here.read(stored.runs)
        assert (run["state"], run["text"], run["manifest"]) == ("done", "", ""), "that it ran is counted"
    assert PIN.encode() not in bytes_in(tmp_path)


async def test_I6_the_next_agent_of_a_name_inherits_neither_conversation_nor_state(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await here.do("agent_create", name="m1", backend="mock")
        await here.ask("m1", PIN)
        await here.do("agent_set", name="m1", action="pause")
        await here.do("agent_set", name="m1", action="stop")
        await here.do("agent_delete", name="m1", files=True)
        made = await here.do("agent_create", name="M1", backend="mock")
        assert (made["state"], made["reason"], made["found"]) == ("idle", "", "")
        assert (await here.do("agent_info", name="M1"))["thread"] == []
        await here.ask("M1", "hello")
        assert "thread" not in await prompt_of(here, "M1")


async def test_I6_without_files_the_folder_is_taken_over_and_create_says_so(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await here.do("agent_create", name="m1", backend="mock")
        await here.ask("m1", "we meet on tuesday")
        await here.runtime.log_files.flush()
        await here.do("agent_set", name="m1", action="stop")
        assert ".agents/m1" in await here.do("agent_delete", name="m1")
        assert not await here.read(stored.talk)
        made = await here.do("agent_create", name="m1", backend="mock")
        assert made["found"] == str(here.root / ".agents" / "m1")
        assert made["state"] == "idle"
        # The folder is the truth of its conversations: what is in it is what the new one knows.
        assert (await here.do("agent_info", name="m1"))["thread"][0] == "user: we meet on tuesday"


async def test_I6_create_after_the_file_was_removed_by_hand_is_a_new_agent(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await here.do("agent_create", name="m1", backend="mock")
        await here.ask("m1", PIN)
        await here.do("agent_set", name="m1", action="stop")
        await here.runtime.log_files.flush()
        Root(here.root).remove(".agents/m1.yaml")
        Root(here.root).remove_tree(".agents/m1")
        with pytest.raises(Refused, match="there was a lasting agent m1"):
            await here.do("agent_create", name="m1", backend="mock", lasting=False)
        made = await here.do("agent_create", name="m1", backend="mock")
        assert (made["state"], made["found"]) == ("idle", "")
        assert (await here.do("agent_info", name="m1"))["thread"] == []


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_I6_a_quick_agent_ends_with_its_daemon_and_its_words_with_it(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, how: str
) -> None:
    aside = tmp_path_factory.mktemp("aside") / "then"
    async with house(tmp_path) as here:
        made = await here.do("agent_create", backend="mock", lasting=False)
        assert made["name"] == "agent-1"
        await here.ask("agent-1", PIN)
        await here.do("agent_set", name="agent-1", action="stop")
        if how == "killed":  # nothing that happens at the end has happened
            shutil.copytree(tmp_path, aside, ignore=shutil.ignore_patterns("project"))
    if how == "killed":
        shutil.copytree(aside, tmp_path, dirs_exist_ok=True)
    else:
        assert PIN.encode() not in bytes_in(tmp_path)
    async with house(tmp_path) as here:
        assert PIN.encode() not in bytes_in(tmp_path)
        made = await here.do("agent_create", backend="mock", lasting=False)
        assert (made["name"], made["state"]) == ("agent-1", "idle")
        assert (await here.do("agent_info", name="agent-1"))["thread"] == []
        await here.ask("agent-1", "hello")
        assert "thread" not in await prompt_of(here, "agent-1")


async def test_I6_a_file_that_takes_the_name_of_a_quick_agent_is_somebody_else(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await here.do("agent_create", name="eve", backend="mock", lasting=False)
        await here.ask("eve", PIN)
        (here.root / ".agents" / "eve.yaml").write_text("backend: mock\n")
        found = await here.do("agent_info", name="eve")
        assert (found["agent"]["kind"], found["thread"]) == ("project", [])
    async with house(tmp_path) as here:
        assert (await here.do("agent_info", name="eve"))["agent"]["kind"] == "project"


async def test_I6_an_service_that_a_team_gave_is_not_inherited(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await here.do("agent_create", name="m1", backend="mock")
        bound = "agents: { alice: { ref: alice }, m1: { ref: m1 } }\nworkspace: { bind: ./room }\n"
        (here.root / ".workflows" / "duo.yaml").write_text(bound)
        await here.do("workflow_start", workflow="duo")
        with pytest.raises(Refused, match="m1 takes part in @duo"):
            await here.do("agent_delete", name="m1", files=True)
        await here.do("send", to="@duo", message=f"@m1 {PIN}")
        (workspace,) = await here.read(stored.workspaces)
        await here.service.running(workspace["id"]).quiet()  # type: ignore[union-attr]
        await here.change("workspace", coordinator="m1", document_owner="m1")
        await here.do("workflow_stop", instance="duo")
        assert (here.root / "room" / "history" / "m1.jsonl").exists()
        await here.do("agent_delete", name="m1", files=True)
        assert not (here.root / "room" / "history" / "m1.jsonl").exists()
        (workspace,) = await here.read(stored.workspaces)
        assert (workspace["coordinator"], workspace["document_owner"]) == ("", "")
        assert PIN in (here.root / "room" / "channel.jsonl").read_text(), "what was said in the channel is the team's"


async def test_I6_what_was_approved_for_one_that_is_gone_is_asked_about_again(tmp_path: Path) -> None:
    definition = "backend: mock\nenv: [DEPLOY_KEY]\ntools: [bash]\n"
    async with house(tmp_path, trust=Root(tmp_path / "home")) as here:
        file = here.root / ".agents" / "m1.yaml"
        file.write_text(definition)
        await here.do("trust_give")
        assert not await here.do("trust_list")
        await here.do("agent_delete", name="m1", files=True)
        file.write_text(definition)
        assert await here.do("trust_list")


async def test_the_audit_notices_words_that_were_taken_out_of_it(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        here.mocks["alice"].then(calls("memory_write", key="editor", value="vim"), says("ok"))
        await here.ask("alice", "hello")
        assert await here.flaw() == ""
        await here.change("audit", about="", before="", salt="")
        assert await here.flaw() == "entry 1 of the audit was altered"


async def test_a_workflow_that_keeps_nothing_does_not_look_like_a_lost_log(tmp_path: Path) -> None:
    """What is erased may be the last that was stored; the next start compares how far the database goes."""
    async with house(tmp_path) as here:
        (here.root / ".workflows" / "brief.yaml").write_text(
            "agents: { alice: { ref: alice } }\nworkspace: { provider: memory }\n"
        )
        await here.do("workflow_start", workflow="brief")
        await here.do("workflow_stop", instance="brief")
    async with house(tmp_path) as here:
        assert await here.do("workflows_list")
