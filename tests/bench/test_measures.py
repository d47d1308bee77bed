"""What bench/ measures, each once and with tiny sizes: nobody runs it every day, so it would rot unnoticed.

That there are figures is all that is asked; what they say is asked of a quiet machine. Not run here: how soon the page
shows a message (needs a browser), what we add to coding programs (needs those of npm), steps by another library, the
peers (test_peers.py has what of them can be tested), and the soak, of which only the judge is heard.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import growth
import model_step
import recall
import ring
from agent_worker.core.events import Bus
from agent_worker.database.sqlite import SqliteDatabase
from agent_worker.definitions.project_files import load_project
from curves import agents, documents, messages, queue, starts, steps
from curves import recall as finding
from measures import asks, idle, lookups, posts, runs, starting
from measures.figure import table
from soaking.house import House, Wire
from soaking.load import Books, Load
from soaking.teams import write_teams
from soaking.verdict import judge
from soaking.watch import Watch, queued

LONG = "to its first message"  # that of the demo


async def here(module: str, *told: Any) -> dict[str, float]:
    """In this process, for what is measured in one of its own: that would import everything again."""
    works: dict[str, Callable[..., Awaitable[dict[str, float]]]]
    works = {"measures.idle": idle.be_idle, "curves.agents": agents.costs, "curves.starts": starts.costs}
    return await works[module](*told)


#: Of each that measures: how little is enough to see that it works.
TINY: dict[ModuleType, dict[str, object]] = {
    posts: {"WRITERS": 2, "EACH": 2, "ROUNDS": 1},
    lookups: {"SMALL": 30, "LARGE": 60, "AGENTS": 2, "OPEN": 5, "CALLS": 1, "ROUNDS": 1},
    asks: {"AGENTS": 2, "CLIENTS": (1, 2), "EACH_ROUND": 2, "ROUNDS": 1},
    runs: {"MENTIONS": 2, "ROUNDS": 1, "STEPS": 3, "STEP_ROUNDS": 1, "TEAM_ROUNDS": 1},
    idle: {"AGENTS": 2, "SECONDS": 0.1, "child": here},
    starting: {"WARM": 0, "TIMES": 1, "RUNS": {what: run for what, run in starting.RUNS.items() if LONG not in what}},
    starts: {"SIZES": (1, 2), "ROUNDS": 1, "child": here},
    agents: {"SIZES": (1, 2), "ROUNDS": 1, "MENTIONS": 1, "POSTS": 1, "child": here},
    messages: {"SIZES": (500, 1000), "MEMBERS": 5, "ROUNDS": 1, "CALLS": 1, "WARM": 1},
    finding: {"SIZES": (10, 20), "QUERIES": 2},
    steps: {"SIZES": (1, 4), "WINDOW": 2, "STEPS": 4, "MOCK_RUNS": 1, "SDK_RUNS": 1},
    documents: {"SIZES": (1, 3), "ROUNDS": 1, "CALLS": 1},
    queue: {"SIZES": (1, 100), "ROUNDS": 1, "CALLS": 1},
    recall: {"HAYSTACK": 100, "SIZES": (100,), "load_embedding": lambda: None},  # which takes seconds
    model_step: {
        "ARMS": {name: arm for name, arm in model_step.ARMS.items() if name != "theirs"},
        "TURN": replace(model_step.TURN, max_steps=2),
        "STEPS": 2,
        "RUNS": 1,
        "WINDOWS": {"steps 1–2": slice(0, 2)},
    },
}


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, sizes in TINY.items():
        for name, value in sizes.items():
            monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize("topic", ring.TOPICS)
async def test_every_topic_of_the_ring_yields_figures(topic: str) -> None:
    figures = await ring.measure([topic])
    assert table(figures).count("\n") > len(figures) > 0


@pytest.mark.parametrize("topic", growth.TOPICS)
async def test_every_curve_has_a_point_at_each_size(topic: str) -> None:
    (measured,) = await growth.measure([topic])
    for curve in measured.curves:
        assert len(curve.points) == 2, curve.what
    assert measured.table().count("\n") > len(measured.curves) > 0


async def test_a_step_with_a_model_yields_figures() -> None:
    figures = await model_step.measure()
    assert [figure.what for figure in figures] == ["steps 1–2"]


def test_what_is_found_again_yields_figures(capsys: pytest.CaptureFixture[str]) -> None:
    turns, questions = recall.load()
    assert recall.quality(None)["default"] > 0
    recall.speed(turns, questions[:2])
    assert "| 100 | " in capsys.readouterr().out


def test_the_teams_of_the_soak_can_be_started(tmp_path: Path) -> None:
    for room in write_teams(tmp_path, 20):
        project = load_project(room.project)
        assert not project.problems
        assert room.workflow in project.workflows


async def test_whoever_meets_no_daemon_in_the_soak_is_cut_off_and_comes_back(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.up.set()  # it was there a moment ago
    with pytest.raises(ConnectionError):
        await Wire(house).ask("GET", "/health")
    with pytest.raises(ConnectionError):
        await Load(house, [], rate=1, seed=1)._stream("/events")
    assert await Watch(house, 0.0).look(0) is None


async def test_the_judge_of_the_soak_finds_nothing_wrong_where_nothing_was_done(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.home.mkdir()
    await (await SqliteDatabase.open(house.home / "state.db", Bus())).close()
    assert queued(house.home) == 0
    assert judge(house, Books()).clean
