"""Documents between their commit and their file: a full disk, a person's edit, a second start."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import engine, stored
from tests.faults.driver import Killed, Nursery, Scene
from tests.faults.oracle import check


@pytest.mark.parametrize("fault", ["replace.tmp=enospc", "replace.rename=eio", "document.after_file=enospc"])
def test_D3_a_document_whose_file_could_not_be_written_gets_it_later_without_a_restart(
    nursery: Nursery, tmp_path: Path, fault: str
) -> None:
    scene = Scene(nursery, tmp_path, ("alice",), workflow="workspace: { provider: sqlite, documents: file }\n")
    with scene.life(failpoints=f"{fault}:1") as life:
        life.until("ready")
        for key in ("first", "second"):
            scene.send(life, key, "@review", f"@alice work:{key}")
            scene.hear_answers(life)
            life.ask(quiet=True)
            scene.hear_until(life, lambda said: "quiet" in said)
        life.ask(stop=True)
        scene.hear_until(life, lambda said: "bye" in said)
    assert [call["ok"] for call in scene.read(stored.calls, tool="team_doc_append")] == [1, 1]
    check(scene)


def test_D8_an_edit_made_while_the_process_was_dead_stands_and_does_not_keep_it_from_starting(
    nursery: Nursery, tmp_path: Path
) -> None:
    scene = Scene(nursery, tmp_path, ("alice",))
    document = scene.workspace / "documents" / "notes.md"
    scene.intend("first", "@review", "@alice work:first")
    scene.settle()
    with scene.life(failpoints="document.before_file=kill") as life:
        life.until("ready")
        scene.send(life, "second", "@review", "@alice work:second")
        with pytest.raises(Killed):
            scene.hear_until(life, lambda _: False)
    document.write_text("a person wrote this\n")
    scene.settle()
    texts = [document.read_text(), *(p.read_text() for p in document.parent.glob("notes.md.conflict-*"))]
    if engine.is_postgresql():  # there what was committed stands, and what a person wrote is beside it
        texts.reverse()
    assert texts == ["a person wrote this\n", "<first.alice>\n<second.alice>\n"]
    assert [item["kind"] for item in scene.read(stored.inbox)] == ["conflict"]


def test_D7_a_new_instance_in_an_old_directory_has_its_own_log(nursery: Nursery, tmp_path: Path) -> None:
    scene = Scene(nursery, tmp_path, ("alice",))
    scene.intend("first", "@review", "@alice work:first")
    with scene.life() as life:
        life.until("ready")
        scene.send_again(life)
        scene.hear_answers(life)
        life.ask(quiet=True)
        scene.hear_until(life, lambda said: "quiet" in said)
        life.ask(end=True)
        scene.hear_until(life, lambda said: "summary" in said)
        life.ask(stop=True)
        scene.hear_until(life, lambda said: "bye" in said)
    scene.intend("second", "@review", "@alice work:second")
    scene.settle()
    check(scene)
