"""The Python API as its documentation shows it, and what it does with bad input."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import agent_worker
from agent_worker.core.errors import BadInput, DefinitionError, NotFound, NotRunning, Refused
from agent_worker.core.events import Ended, Event, Posted
from tests.patience import PATIENCE
from tests.teams import write_project

SCRIPT = {"alice": "script: [{ say: the parser is left }, { say: hello to you }]\n"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_project(tmp_path, ["alice", "bob"], extra=SCRIPT)
    return tmp_path


async def test_the_example_of_its_documentation_works(project: Path) -> None:
    async with agent_worker.open_project(project) as opened:
        team = await opened.start("review")
        await team.send("@alice what is left to do?")
        assert await team.quiet() == ""
        answer = await opened.ask("alice", "hello")
        assert (answer.text, answer.state) == ("hello to you", "done")
        assert [m.text for m in await team.messages()] == ["@alice what is left to do?", "the parser is left"]


async def test_a_project_is_found_from_a_folder_inside_it(project: Path) -> None:
    inside = project / "src" / "deep"
    inside.mkdir(parents=True)
    async with agent_worker.open_project(str(inside)) as opened:
        assert opened.root == project


async def test_run_works_until_quiet_and_sums_up(project: Path) -> None:
    async with agent_worker.open_project(project) as opened:
        team = await opened.start("review", message="@alice go")
        summary = await team.run()
        assert (summary.outcome, summary.exit_code, summary.runs) == ("done", 0, {"alice": 1})
        assert [m.text for m in await team.messages()] == ["@alice go", "the parser is left"], "still there to be read"
        with pytest.raises(NotRunning):
            await team.send("too late")


async def test_stop_ends_it_now(project: Path) -> None:
    write_project(project, ["alice"], extra={"alice": "script: [{ say: late, slow: 1h }]\n"})
    async with agent_worker.open_project(project) as opened:
        team = await opened.start("review", message="@alice go")
        assert (await team.stop()).exit_code == 130


async def test_events_tell_what_happens(project: Path) -> None:
    async with agent_worker.open_project(project) as opened:
        team = await opened.start("review")
        heard: list[Event] = []
        with team.events() as events, opened.events() as everything:
            await team.send("@alice go")
            async for event in events:
                heard.append(event)
                if isinstance(event, Ended):
                    break
            assert isinstance(await anext(everything), Event)
        assert [e.text for e in heard if isinstance(e, Posted)] == ["@alice go", "the parser is left"]
        assert all(e.workspace is not None for e in heard)


async def test_with_a_home_the_state_goes_on_where_it_was(project: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    for n, expected in enumerate(["the parser is left", "hello to you"]):
        write_project(project, ["alice"], extra={"alice": f"script: [{{ say: {expected} }}]\n"})
        async with agent_worker.open_project(project, home=home) as opened:
            assert (await opened.ask("alice", f"question {n}")).text == expected
    lines = "".join(p.read_text() for p in (project / ".agents" / "alice" / "conversations").glob("*.jsonl"))
    assert lines.count('"seq"') == 4
    assert (home / "state.db").stat().st_mode & 0o777 == 0o600


async def test_the_three_kinds_of_address(project: Path) -> None:
    write_project(project, ["alice", "bob"])
    async with agent_worker.open_project(project) as opened:
        team = await opened.start("review", tag="pr-1")
        assert team.name == "review:pr-1"
        await opened.send("alice", "a direct message")
        await opened.send("@review:pr-1", "to everybody")
        receipt = await opened.send("bob@review:pr-1", "to bob, in the room")
        assert receipt.woke == ("bob",)
        await team.quiet()
        assert len(await team.messages()) == 3


async def test_sending_with_the_same_key_is_sending_once(project: Path) -> None:
    async with agent_worker.open_project(project) as opened:
        team = await opened.start("review")
        receipts = [await team.send("hello", key="k") for _ in range(3)]
        assert len({r.id for r in receipts}) == 1
        assert len(await team.messages()) == 1


async def test_asking_one_in_a_workspace_is_refused_and_does_not_wait_for_ever(project: Path) -> None:
    async with agent_worker.open_project(project) as opened:
        await opened.start("review")
        for address in ("alice@review", "@review"):
            with pytest.raises(BadInput):
                async with asyncio.timeout(PATIENCE):
                    await opened.ask(address, "hello")


@pytest.mark.parametrize(
    ("do", "error", "sentence"),
    [
        (lambda p: p.ask("dave", "hi"), NotFound, "there is no agent dave"),
        (lambda p: p.send("@review", "hi"), NotRunning, 'workflow "review" is not running'),
        (lambda p: p.send("alice", " "), BadInput, "an empty message was not sent"),
        (lambda p: p.start("nothing"), NotFound, "there is no workflow nothing"),
        (lambda p: p.start("review", params={"x": "1"}), BadInput, "review has no parameter x"),
    ],
)
async def test_bad_input_is_a_sentence(project: Path, do, error: type[Exception], sentence: str) -> None:  # type: ignore[no-untyped-def]
    async with agent_worker.open_project(project) as opened:
        with pytest.raises(error, match=sentence):
            await do(opened)


async def test_starting_twice_is_refused(project: Path) -> None:
    async with agent_worker.open_project(project) as opened:
        await opened.start("review")
        with pytest.raises(Refused, match="already running"):
            await opened.start("review")


async def test_a_broken_file_is_told_with_its_place_and_stops_nobody_else(project: Path) -> None:
    (project / ".agents" / "broken.yaml").write_text("backend: mock\nmodle: x\n")
    async with agent_worker.open_project(project) as opened:
        assert [str(one)[:31] for one in opened.problems] == [".agents/broken.yaml:2:1: modle:"]
        with pytest.raises(DefinitionError, match=r"broken\.yaml:2:1: modle"):
            await opened.ask("broken", "hello")
        assert (await opened.ask("alice", "hello")).state == "done"


async def test_a_paused_team_is_resumed(project: Path) -> None:
    write_project(
        project,
        ["alice", "bob"],
        extra={"alice": "script: [{ say: '@bob your turn' }]\n", "bob": "script: [{ say: done }]\n"},
        workflow="workspace: { provider: memory }\nlimits: { turns: 1 }\n",
    )
    async with agent_worker.open_project(project) as opened:
        team = await opened.start("review")
        await team.send("@alice go")
        assert "one request has led to 1 run " in await team.quiet()
        await team.resume()
        assert await team.quiet() == ""
        assert [m.text for m in await team.messages()][-1] == "done"
