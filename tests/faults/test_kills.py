"""kill -9 at any moment: nothing accepted is lost, nothing of ours happens twice, everything comes to an end."""

from __future__ import annotations

from pathlib import Path

from tests.faults.driver import Nursery, Scene
from tests.faults.oracle import check


def test_D1_x(nursery: Nursery, tmp_path: Path) -> None:
    scene = Scene(nursery, tmp_path)
    with scene.life() as life:
        life.until("ready")
        scene.send(life, "k1", "@review", "@alice work:k1 hops:3")
        scene.send(life, "k2", "bob", "work:k2")
        scene.hear_answers(life)
        scene.hear_lines(life, 5)
    scene.settle()
    check(scene)
