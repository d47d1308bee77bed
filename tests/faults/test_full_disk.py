"""A real full disk: a small tmpfs in a namespace of its own, filled while a team talks."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import stored
from tests.faults.driver import Life, Nursery, Scene
from tests.faults.oracle import check
from tests.faults.report import LONG, report
from tests.faults.worker import Order
from tests.patience import PATIENCE

TRIALS = 5 if LONG else 1
FILLS = 4 if LONG else 3  # in one trial: a team that talks for long needs a larger disk
SENDS = 60 if LONG else 20
UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run([*UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
    return tried.returncode == 0


class SmallDisk:
    """A life whose home is a tmpfs that only it sees; we look through its window in /proc."""

    def __init__(self, scene: Scene) -> None:
        # Mounted over the scene's own home, so that paths mean the same inside and outside.
        script = """cp -r "$1" "$1.first" && mount -t tmpfs -o size=8m,mode=700 none "$1" && cp -r "$1.first/." "$1" &&
                    exec "$2" -m tests.faults.worker"""
        ours, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [*UNSHARE, "sh", "-c", script, "sh", str(scene.home), sys.executable],
            stdin=theirs,
            stdout=theirs,
        )
        theirs.close()
        self.life = Life(ours, Order(str(scene.home), scene.members))
        self.life.until("ready")
        self.home = Path(f"/proc/{self.life.pid}/root{scene.home}")
        self._filler = self.home / "filler"

    def fill(self, *, leave: int = 0) -> None:
        """Down to the last byte, or almost."""
        with self._filler.open("ab", buffering=0) as file:
            for size in (65536, 4096, 512, 1):
                try:
                    while True:
                        if leave and os.statvfs(self.home).f_bavail * 4096 <= leave:
                            return
                        file.write(b"x" * size)
                except OSError:
                    continue

    def free(self) -> None:
        self._filler.unlink()

    def take_home(self, scene: Scene) -> None:
        """Out of the namespace, while all is quiet, to where the oracle can look at it."""
        for path in self.home.rglob("*"):
            target = scene.home / path.relative_to(self.home)
            if path.is_dir():
                target.mkdir(exist_ok=True)
            else:
                target.write_bytes(path.read_bytes())

    def close(self) -> None:
        self.life.kill()
        self._process.wait()
        self.life.close()


@pytest.fixture
def scene(nursery: Nursery, tmp_path: Path) -> Scene:
    return Scene(nursery, tmp_path / "home")


@contextmanager
def small_disk(scene: Scene) -> Iterator[SmallDisk]:
    disk = SmallDisk(scene)
    try:
        yield disk
    finally:
        disk.close()


@pytest.mark.sqlite("fills the disk that its file is on; there nothing but copies is on the disk of the home")
@pytest.mark.skipif(not can_mount(), reason="no tmpfs in a user namespace on this machine")
@pytest.mark.parametrize("trial", range(TRIALS))
def test_D4_a_full_disk_refuses_cleanly_and_passes_without_a_restart(scene: Scene, trial: int) -> None:
    with small_disk(scene) as disk:
        life = disk.life
        definitions = {p: p.read_bytes() for p in disk.home.joinpath("project").rglob("*.yaml")}
        refusals = 0
        for fill in range(FILLS):
            refused = _talk_while_it_fills(scene, disk, fill)
            refusals += len(refused)
            assert all("disk is full" in said["why"] for said in refused)
            life.ask(keys=True)  # reading works
            known = scene.hear_until(life, lambda said: "keys" in said)["keys"]
            assert set(known) == set(scene.books.accepted)
            disk.free()
            scene.send_again(life)
            scene.hear_answers(life)
            life.ask(quiet=True)
            scene.hear_until(life, lambda said: "quiet" in said)
            report.count("D4 fills")
        assert refusals, "the disk was never full enough"
        report.count("D4 refused sends", refusals)
        assert {p: p.read_bytes() for p in definitions} == definitions
        disk.take_home(scene)
        life.ask(stop=True)
        scene.hear_until(life, lambda said: "bye" in said)
    scene.settle()
    check(scene)
    assert {row["state"] for row in scene.read(stored.instructions)} == {"done"}


def _talk_while_it_fills(scene: Scene, disk: SmallDisk, fill: int) -> list[dict[str, str]]:
    refused: list[dict[str, str]] = []
    for n in range(SENDS):
        key = f"k{fill}.{n}"
        scene.send(disk.life, key, "@review", f"@{scene.members[n % 3]} work:{key} hops:1")
        if n == SENDS // 4:
            disk.fill(leave=16384 if fill % 2 else 0)
        said = scene.hear_until(disk.life, lambda said, key=key: key in (said.get("accepted"), said.get("refused")))
        if "refused" in said:
            refused.append(said)
    return refused


@pytest.mark.skipif(not can_mount(), reason="no tmpfs in a user namespace on this machine")
@pytest.mark.parametrize(("how", "sentence"), [("full", "the disk is full"), ("closed", "Read-only file system")])
def test_D14_a_project_disk_that_takes_nothing_is_a_sentence_everywhere(
    tmp_path: Path, how: str, sentence: str
) -> None:
    script = 'mount -t tmpfs -o size=1m none "$1" && exec "$2" -m tests.faults.full_project "$1" "$3"'
    ran = subprocess.run(
        [*UNSHARE, "sh", "-c", script, "sh", str(tmp_path), sys.executable, how],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout)
    refused = {name for name, each in seen["during"].items() if each["status"] != 200}
    for name in refused:
        said = seen["during"][name]
        assert said["status"] == 507, (name, said)
        assert sentence in said["said"]
        assert said["hint"]
        report.count(f"D14 writes refused on a {how} disk")
    assert {"memory_set", "memory_release", "todo_put", "todo_tick", "soul_edit", "agent_create"} <= refused
    assert not refused & {"send", "ask"}  # these need nothing of that disk
    assert all(sentence in said for said in seen["tools"])  # the model is told too
    assert not seen["changed"], "half-written"
    assert not seen["left"]
    later = {name for name, each in seen["after"].items() if each["status"] != 200}
    assert later <= {"doc_write", "workflow_start"}  # done already, the first time
    assert not any(sentence in said for said in seen["later"])
    assert "Traceback" not in ran.stderr or ran.stderr.count("could not write the log") <= 4
