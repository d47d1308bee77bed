"""Large texts by their hash: stored once, read in parts, and never anything else than their id says."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests import stored
from tests.teams import Team, open_team

from agent_worker.core.clock import TestClock
from agent_worker.core.errors import AgentWorkerError, BadInput, NotFound
from agent_worker.workspaces import resources


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, "alice", clock=TestClock()) as team:
        yield team


async def test_the_same_text_has_the_same_id_and_is_stored_once(team: Team) -> None:
    first = await team.write(resources.store, team.workspace.id, "é text")
    second = await team.write(resources.store, team.workspace.id, "é text")
    assert first.id == second.id == hashlib.sha256("é text".encode()).hexdigest()
    assert first.size == 7
    assert len(await team.read(stored.resources)) == 1
    assert (await team.read(resources.load, team.workspace.id, first.id)).text == "é text"


@pytest.mark.parametrize(
    "id", ["", "../x", "a" * 63, "a" * 65, "A" * 64, "g" * 64, "a" * 63 + "\n", "a" * 64 + "\n", "' or 1=1 --"]
)
async def test_F8_what_is_no_id_is_refused(team: Team, id: str) -> None:
    with pytest.raises(BadInput, match="64 hexadecimal digits"):
        await team.read(resources.load, team.workspace.id, id)


async def test_an_id_of_nothing_is_not_found(team: Team) -> None:
    with pytest.raises(NotFound):
        await team.read(resources.load, team.workspace.id, "a" * 64)


async def test_I1_a_resource_of_another_workspace_is_not_found(team: Team) -> None:
    kept = await team.write(resources.store, "another room", "secret")
    with pytest.raises(NotFound):
        await team.read(resources.load, team.workspace.id, kept.id)


@pytest.mark.parametrize("at", range(0, 1000, 100))
async def test_G7_one_changed_byte_is_an_error_and_not_content(team: Team, at: int) -> None:
    text = "x" * 1000
    kept = await team.write(resources.store, team.workspace.id, text)
    damaged = text[:at] + "y" + text[at + 1 :]
    await team.change("resource", text=damaged)
    with pytest.raises(AgentWorkerError, match="damaged"):
        await team.read(resources.load, team.workspace.id, kept.id)


async def test_a_resource_holds_sixteen_mebibytes_and_no_more(team: Team) -> None:
    await team.write(resources.store, team.workspace.id, "x" * resources.LIMIT)
    with pytest.raises(BadInput, match="at most 16 MiB"):
        await team.write(resources.store, team.workspace.id, "x" * (resources.LIMIT + 1))
