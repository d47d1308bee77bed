"""kill -9 at any moment: nothing accepted is lost, nothing of ours happens twice, everything comes to an end."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest

from tests import stored
from tests.faults.driver import Killed, Life, Nursery, Scene, wait_a_moment
from tests.faults.oracle import check
from tests.faults.report import LONG, SEED, report

KILLS = 240 if LONG else 40
KILLS_PER_HOME = 10
MEMBERS = tuple(f"agent{n}" for n in range(20)) if LONG else ("alice", "bob", "carol", "dave")


def talk_a_while(scene: Scene, life: Life, chance: random.Random) -> None:
    """Send this and that, and listen for a random while."""
    for _ in range(chance.randint(1, 4)):
        key = f"k{len(scene.books.sent)}"
        member = chance.choice(scene.members)
        match chance.randrange(4):
            case 0:
                scene.send(life, key, member, f"work:{key}")
            case 1:
                scene.send(life, key, f"{member}@review", f"work:{key} hops:1")
            case 2:
                scene.send(life, key, "@review", f"@all work:{key} hops:0")
            case _:
                scene.send(life, key, "@review", f"@{member} work:{key} hops:{chance.randint(0, 3)}")
    scene.hear_lines(life, chance.randint(0, 40))
    wait_a_moment(chance, 0.01)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("trial", range(KILLS // KILLS_PER_HOME))
def test_D1_accepted_messages_survive_kill_9_at_random_moments(nursery: Nursery, tmp_path: Path, trial: int) -> None:
    with report.seeded("D1", SEED + trial) as chance:
        # Runs that die count too: with limits, so many kills would rightly pause the team.
        scene = Scene(nursery, tmp_path, MEMBERS, workflow="limits: { turns: off, usd: off }\n")
        for _ in range(KILLS_PER_HOME):
            with scene.life() as life, suppress(Killed):
                life.until("born")
                if chance.random() < 0.8:
                    life.until("ready")
                    scene.send_again(life)
                    talk_a_while(scene, life, chance)
                else:
                    wait_a_moment(chance, 0.05)  # while it starts and recovers
        scene.settle()
        check(scene)
        report.count("D1 random kills", KILLS_PER_HOME)
        report.count("D1 accepted messages", len(scene.books.accepted))
        report.count("D1 instructions", len(scene.read(stored.instructions)))
