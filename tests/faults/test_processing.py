"""Work and its worker's death: what was done is not done again, what kills is put aside, nothing is replayed."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from tests import engine, stored
from tests.faults.driver import Killed, Nursery, Scene, Silent, wait_a_moment
from tests.faults.oracle import check
from tests.faults.report import LONG, SEED, report
from tests.faults.test_failpoints import TALKING

STEPS = 20
BOUNDARIES = range(1, STEPS + 1) if LONG else (1, 2, 7, 13, 19, 20)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def march(scene: Scene, failpoint: str, *, word: str = "") -> None:
    """A tool loop that is killed at this place, and then goes on."""
    (scene.project / ".agents" / "alice.yaml").write_text(f"backend: mock\nmax_steps: {STEPS + 1}\n")
    scene.intend("march", "alice", f"work:march steps:{STEPS} {word}")
    with scene.life(failpoints=failpoint) as life:
        life.until("ready")
        scene.send_again(life)
        with pytest.raises(Killed):
            scene.hear_until(life, lambda said: "quiet" in said)
    scene.settle()
    check(scene)
    assert [row["state"] for row in scene.read(stored.instructions)] == ["done"]
    report.count("Q5 kills at step boundaries")


def calls_shown(scene: Scene) -> dict[int, str]:
    """What the model was told of each call, by step."""
    return {r["step"]: r["result"] for r in scene.read(stored.calls)}


@pytest.mark.parametrize("step", BOUNDARIES)
def test_Q5_after_a_kill_the_work_resumes_at_the_next_step(nursery: Nursery, tmp_path: Path, step: int) -> None:
    scene = Scene(nursery, tmp_path, ("alice",))
    march(scene, f"step.after_persist=kill:{step}")
    assert lines(tmp_path / "asked.log") == [f"march {n}" for n in range(STEPS + 1)]
    # That its call begins may be in the same commit: then nobody knows whether it was made, and it is not made again.
    unknown = {n for n, shown in calls_shown(scene).items() if shown.startswith("The outcome of this call is unknown")}
    assert unknown <= {step - 1}
    assert lines(tmp_path / "outside.log") == [f"march/{n}" for n in range(STEPS) if n not in unknown]


@pytest.mark.parametrize("step", BOUNDARIES)
def test_Q5_an_answer_that_was_not_stored_is_asked_for_again_and_nothing_else(
    nursery: Nursery, tmp_path: Path, step: int
) -> None:
    scene = Scene(nursery, tmp_path, ("alice",))
    march(scene, f"step.after_call=kill:{step}")
    asked = Counter(lines(tmp_path / "asked.log"))
    assert asked.pop(f"march {step - 1}") == 2
    assert set(asked.values()) == {1}
    assert len(asked) == STEPS
    assert lines(tmp_path / "outside.log") == [f"march/{n}" for n in range(STEPS)]


@pytest.mark.parametrize("place", ["call.before", "call.after"])
@pytest.mark.parametrize("step", BOUNDARIES)
def test_Q5_a_call_with_unknown_outcome_is_shown_as_unknown_and_not_made_again(
    nursery: Nursery, tmp_path: Path, step: int, place: str
) -> None:
    scene = Scene(nursery, tmp_path, ("alice",))
    march(scene, f"{place}=kill:{step}")
    shown = calls_shown(scene)
    assert shown.pop(step - 1).startswith("The outcome of this call is unknown")
    assert shown == {n: f"did march/{n}" for n in range(STEPS) if n != step - 1}
    happened = range(STEPS) if place == "call.after" else [n for n in range(STEPS) if n != step - 1]
    assert lines(tmp_path / "outside.log") == [f"march/{n}" for n in happened]


def test_Q5_a_call_that_may_be_repeated_is_made_again(nursery: Nursery, tmp_path: Path) -> None:
    scene = Scene(nursery, tmp_path, ("alice",))
    march(scene, "call.after=kill:3", word="again")
    assert calls_shown(scene) == {n: f"did march/{n}" for n in range(STEPS)}
    assert Counter(lines(tmp_path / "outside.log")) == {f"march/{n}": 2 if n == 2 else 1 for n in range(STEPS)}


def test_Q3_a_message_that_kills_its_worker_is_dead_after_three_deaths_and_stops_nobody(
    nursery: Nursery, tmp_path: Path
) -> None:
    scene = Scene(nursery, tmp_path)
    scene.intend("poison", "@review", "@alice work:poison poison")
    for n in range(10):
        scene.intend(f"dm{n}", "alice", f"work:dm{n}")
        scene.intend(f"said{n}", "@review", f"@{scene.members[n % 3]} work:said{n} hops:1")
    scene.settle()
    check(scene)
    states = {r["text"]: r["state"] for r in scene.read(stored.instructions)}
    assert states.pop("@alice work:poison poison") == "dead"
    assert set(states.values()) == {"done"}
    # Where several hosts share the work, a death counts only against what was alone.
    most = 5 if engine.is_postgresql() else 4
    assert len([line for line in lines(tmp_path / "asked.log") if line == "poison poison"]) <= most
    with scene.life() as life:
        life.until("ready")
        life.ask(inbox=True)
        listed = life.until("inbox")["inbox"]
    assert [kind for kind, _ in listed] == ["dead"]
    assert "work:poison" in listed[0][1]
    assert "was given up" in scene.read(stored.messages, kind="system")[0]["text"]
    report.count("Q3 deaths by poison", scene.deaths)


def test_Q3_only_the_message_that_kills_is_to_blame(nursery: Nursery, tmp_path: Path) -> None:
    """Mentions that wait are taken together; the healthy one that leads must not die of its neighbour."""
    scene = Scene(nursery, tmp_path)
    with scene.life(gate_open=False) as life:
        life.until("ready")
        scene.send(life, "busy", "alice", "work:busy hold")
        scene.hear_until(life, lambda said: said.get("event") == "started")
        for key, text in (("a", "@alice work:a"), ("p", "@alice work:p poison"), ("b", "@alice work:b")):
            scene.send(life, key, "@review", text)
            scene.hear_answers(life)
    scene.settle()
    check(scene)
    states = {r["text"]: r["state"] for r in scene.read(stored.instructions)}
    assert states.pop("@alice work:p poison") == "dead"
    assert set(states.values()) == {"done"}, states


def test_Q3_what_is_dead_can_be_tried_again_by_hand(nursery: Nursery, tmp_path: Path) -> None:
    scene = Scene(nursery, tmp_path)
    scene.intend("p", "alice", "work:p poison")
    scene.settle()
    (tmp_path / "antidote").touch()
    dead = scene.read(stored.instructions, state="dead")[0]["id"]
    with scene.life() as life:
        life.until("ready")
        life.ask(retry=dead)
        life.until("retried")
    scene.settle()
    assert [row["state"] for row in scene.read(stored.instructions)] == ["dead", "done"]
    assert not scene.read(stored.inbox, state="open")


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("trial", range(10 if LONG else 2))
def test_Q6_a_busy_agent_queues_and_answers_in_order(nursery: Nursery, tmp_path: Path, end: str, trial: int) -> None:
    scene = Scene(nursery, tmp_path)
    with scene.life(gate_open=False) as life:
        life.until("ready")
        scene.send(life, "busy", "alice", "work:busy hold")
        scene.hear_until(life, lambda said: said.get("event") == "started")
        for n in range(10):
            scene.send(life, f"f{n}", "alice", f"work:f{n}")
        scene.hear_answers(life)
        if end == "stop":
            life.ask(stop=True)
            scene.hear_until(life, lambda said: "bye" in said)
    scene.settle()
    check(scene)
    told = [r["text"] for r in scene.read(stored.talk, who="user")]
    assert told == ["work:busy hold", *(f"work:f{n}" for n in range(10))]
    report.count("Q6 busy agents stopped or killed")


def test_Q7_restarts_do_not_replay_the_past(nursery: Nursery, tmp_path: Path) -> None:
    restarts, messages = (100, 1000) if LONG else (20, 100)
    scene = Scene(nursery, tmp_path)
    for n in range(messages):
        scene.intend(f"k{n}", f"{scene.members[n % 3]}@review", f"work:k{n}")
    scene.settle()
    before = _past(scene)
    for n in range(restarts):
        with scene.life() as life:
            life.until("ready")
            scene.send_again(life)
            life.ask(quiet=True)
            life.until("quiet")
            if n % 2:
                life.ask(stop=True)
                life.until("bye")
    assert _past(scene) == before
    check(scene)
    report.count("Q7 restarts", restarts)


def _past(scene: Scene) -> list[object]:
    views = (stored.messages, stored.instructions, stored.deliveries, stored.runs, stored.steps, stored.calls)
    return [lines(scene.home / "asked.log"), *map(scene.read, (*views, stored.ledger, stored.talk, stored.inbox))]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("trial", range(60 if LONG else 6))
def test_Q1_every_instruction_comes_to_one_end_whatever_faults_are_mixed(
    nursery: Nursery, tmp_path: Path, trial: int
) -> None:
    """A swarm: each life has its own few faults, at its own moments."""
    with report.seeded("Q1", SEED + trial) as chance:
        scene = Scene(nursery, tmp_path)
        for life_number in range(5):
            faults = chance.sample(TALKING, chance.randint(1, 4))
            actions = ("kill", "eio", "enospc", "raise", "delay")
            armed = ",".join(f"{name}={chance.choice(actions)}:{_when(chance, name)}" for name in faults)
            scene.intend(f"s{life_number}", "@review", f"@all work:s{life_number} hops:1")
            scene.intend(f"d{life_number}", chance.choice(scene.members), f"work:d{life_number}")
            with scene.life(failpoints=armed) as life, suppress(Killed, Silent, Faulted):
                life.patience = 0.5
                _until_ready(life)
                scene.send_again(life)
                scene.hear_lines(life, chance.randint(5, 80))
                wait_a_moment(chance, 0.01)
        scene.settle()
        check(scene)
        report.count("Q1 lives with mixed faults", 5)


class Faulted(Exception):
    """It could not start: the fault was in the way."""


def _until_ready(life: object) -> None:
    try:
        life.until("ready")  # type: ignore[attr-defined]
    except Silent:
        raise
    except AssertionError as crash:
        raise Faulted from crash


def _when(chance: random.Random, name: str) -> int:
    return chance.randint(5, 40) if name.startswith("commit") else chance.randint(1, 6)
