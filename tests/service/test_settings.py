"""Settings do what they say, in the project that says so."""

from __future__ import annotations

from pathlib import Path

from tests.teams import open_team, write_project

from agent_worker.backends.mock import fails, says
from agent_worker.core.clock import TestClock
from agent_worker.definitions.project_files import load_project
from agent_worker.service.service import Service
from agent_worker.service.settings import settings_list


def project(root: Path, settings: str) -> Path:
    write_project(root, ("alice", "bob"))
    (root / "moniro.yaml").write_text(f"name: p\nsettings: {{ {settings} }}\n")
    assert not load_project(root).problems
    return root


async def test_what_holds_is_told_with_where_it_comes_from(tmp_path: Path) -> None:
    root = project(tmp_path / "p", "quiet_moment: 1s, longest_wait: 2h")
    async with open_team(root, "alice", "bob", clock=TestClock(), runs_at_once=3) as team:
        service = Service(team.runtime)
        found = {each.name: each for each in await settings_list(service, str(root))}
    assert (found["quiet_moment"].value, found["quiet_moment"].source) == ("1s", "project")
    assert (found["longest_wait"].value, found["longest_wait"].refused) == ("15m", "2h")
    assert (found["runs_at_once"].value, found["runs_at_once"].source) == ("3", "home")
    assert (found["ageing"].value, found["ageing"].source, found["ageing"].default) == ("5m", "default", "5m")


async def test_a_project_says_when_a_message_becomes_a_resource(tmp_path: Path) -> None:
    root = project(tmp_path / "p", "smart_send: 8KiB")
    async with open_team(root, "alice", "bob", clock=TestClock()) as team:
        first = await team.post("user", "x" * 8192)
        second = await team.post("user", "x" * 8193)
    assert (first.resource is None, second.resource is None) == (True, False)


async def test_a_project_says_how_often_a_model_is_asked(tmp_path: Path) -> None:
    root = project(tmp_path / "p", "tries: 2")
    async with open_team(root, "alice", "bob", clock=TestClock()) as team:
        team.backends["alice"].then(fails("transient"), fails("transient"), says("too late"))
        await team.dm("alice", "hi")
        await team.elapse(600)
        assert await team.states() == ["failed"]


async def test_the_user_says_how_often_a_model_is_asked(tmp_path: Path) -> None:
    async with open_team(tmp_path / "p", "alice", clock=TestClock(), tries=5) as team:
        team.backends["alice"].then(*[fails("transient")] * 4, says("at last"))
        await team.dm("alice", "hi")
        await team.elapse(600)
        assert await team.states() == ["done"]
