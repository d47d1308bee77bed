"""Compare-and-swap: row D8. Nobody's version is lost, whoever saves when."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.patience import PATIENCE, tries

from agent_worker.core.errors import Refused
from agent_worker.files import folder as folder_module
from agent_worker.files import swap as swap_module
from agent_worker.files.folder import exchange, rename_if_free
from agent_worker.files.makers import maker
from agent_worker.files.root import Root
from agent_worker.files.swap import Conflict, content_hash

DEAD = maker().rpartition(".")[0] + ".1"  # had our number at another time


def unsupported(*_: object) -> None:
    raise NotImplementedError


@pytest.fixture(params=["exchange", "no exchange"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Root:
    """On a disk that can exchange two files, and on one that cannot."""
    if request.param == "no exchange":
        monkeypatch.setattr(swap_module, "exchange", unsupported)
        monkeypatch.setattr(folder_module, "rename_if_free", unsupported)
    return Root(tmp_path / "documents")


def save(root: Root, name: str, text: str) -> None:
    """As most editors do: a new file, renamed over the old one."""
    path = root.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "editor").write_text(text)
    os.rename(path.parent / "editor", path)


def contents(root: Root) -> dict[str, str]:
    return {path.name: path.read_text() for path in root.path.rglob("*") if path.is_file()}


def kept(text: str, name: str = "notes.md") -> str:
    return f"{name}.conflict-{content_hash(text)[:8]}"


def test_a_new_file_is_created_only_where_none_is(root: Root) -> None:
    assert root.swap("notes.md", "ours", expected=None) == content_hash("ours")
    outcome = root.swap("notes.md", "second", expected=None)
    assert outcome == Conflict(kept("second"), content_hash("second"), content_hash("ours"))
    assert contents(root) == {"notes.md": "ours", kept("second"): "second"}


def test_what_was_read_is_replaced(root: Root) -> None:
    before = root.replace("a/notes.md", "old")
    assert root.swap("a/notes.md", "new", expected=before) == content_hash("new")
    assert contents(root) == {"notes.md": "new"}


def test_d8_an_edit_is_not_overwritten_and_both_versions_are_kept(root: Root) -> None:
    before = root.replace("a/notes.md", "old")
    save(root, "a/notes.md", "edited")
    outcome = root.swap("a/notes.md", "ours", expected=before)
    assert outcome == Conflict("a/" + kept("ours"), content_hash("ours"), content_hash("edited"))
    assert contents(root) == {"notes.md": "edited", kept("ours"): "ours"}
    assert root.read_text("a/" + kept("ours")) == "ours"


def test_d8_a_deletion_is_an_edit_too(root: Root) -> None:
    before = root.replace("notes.md", "old")
    root.remove("notes.md")
    assert root.swap("notes.md", "ours", expected=before) == Conflict(kept("ours"), content_hash("ours"), None)
    assert contents(root) == {kept("ours"): "ours"}


def test_equal_versions_are_no_conflict(root: Root) -> None:
    before = root.replace("notes.md", "old")
    save(root, "notes.md", "same")
    assert root.swap("notes.md", "same", expected=before) == content_hash("same")
    assert contents(root) == {"notes.md": "same"}


def test_the_same_conflict_twice_is_kept_once_and_an_edited_one_is_not_overwritten(root: Root) -> None:
    root.replace("notes.md", "theirs")
    root.swap("notes.md", "ours", expected=None)
    root.swap("notes.md", "ours", expected=None)
    assert contents(root) == {"notes.md": "theirs", kept("ours"): "ours"}
    save(root, kept("ours"), "merged by hand")
    outcome = root.swap("notes.md", "ours", expected=None)
    assert isinstance(outcome, Conflict)
    assert contents(root) == {"notes.md": "theirs", kept("ours"): "merged by hand", outcome.kept: "ours"}


def test_f7_another_spelling_is_compared_with_the_same_document(root: Root) -> None:
    before = root.replace("notes.md", "old")
    assert isinstance(root.swap("Notes.md", "ours", expected=None), Conflict)
    assert root.swap("Notes.md", "new", expected=before) == content_hash("new")
    assert root.read_text("notes.md") == "new"


def test_a_very_long_name_still_gets_its_conflict(root: Root) -> None:
    name = "é" * 127
    root.replace(name, "theirs")
    outcome = root.swap(name, "ours", expected=None)
    assert isinstance(outcome, Conflict)
    assert root.read_text(outcome.kept) == "ours"
    assert root.swap(name, "new", expected=content_hash("theirs")) == content_hash("new")


# From here on: what happens between our look and our rename. This needs a disk that can exchange.


@pytest.fixture
def exchanging(tmp_path: Path) -> Root:
    return Root(tmp_path / "documents")


def at_the_last_moment(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    def passing(name: str) -> None:
        if name == "replace.rename":
            act()

    monkeypatch.setattr(swap_module, "failpoint", passing)


def test_d8_an_edit_after_our_look_is_put_back(exchanging: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    before = exchanging.replace("notes.md", "old")
    at_the_last_moment(monkeypatch, lambda: save(exchanging, "notes.md", "edited"))
    outcome = exchanging.swap("notes.md", "ours", expected=before)
    assert outcome == Conflict(kept("ours"), content_hash("ours"), content_hash("edited"))
    assert contents(exchanging) == {"notes.md": "edited", kept("ours"): "ours"}


def test_d8_a_file_created_after_our_look_stays(exchanging: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    at_the_last_moment(monkeypatch, lambda: save(exchanging, "notes.md", "edited"))
    assert isinstance(exchanging.swap("notes.md", "ours", expected=None), Conflict)
    assert contents(exchanging) == {"notes.md": "edited", kept("ours"): "ours"}


def test_d8_a_deletion_after_our_look_stays(exchanging: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    before = exchanging.replace("notes.md", "old")
    at_the_last_moment(monkeypatch, lambda: os.unlink(exchanging.path / "notes.md"))
    outcome = exchanging.swap("notes.md", "ours", expected=before)
    assert outcome == Conflict(kept("ours"), content_hash("ours"), None)
    assert contents(exchanging) == {kept("ours"): "ours"}


def test_f4_a_link_put_there_after_our_look_is_put_back(
    exchanging: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("old")
    before = exchanging.replace("notes.md", "old")

    def plant() -> None:
        os.symlink(tmp_path / "secret", exchanging.path / "link")
        os.rename(exchanging.path / "link", exchanging.path / "notes.md")

    at_the_last_moment(monkeypatch, plant)
    with pytest.raises(Refused, match="is a link"):
        exchanging.swap("notes.md", "ours", expected=before)
    assert (exchanging.path / "notes.md").is_symlink()
    assert (tmp_path / "secret").read_text() == "old"


@pytest.mark.parametrize("second", ["saves", "deletes"])
def test_d8_an_editor_that_acts_twice_in_our_window_loses_nothing(
    exchanging: Root, monkeypatch: pytest.MonkeyPatch, second: str
) -> None:
    before = exchanging.replace("notes.md", "old")
    at_the_last_moment(monkeypatch, lambda: save(exchanging, "notes.md", "first"))
    calls = []

    def exchange_then_act(directory: int, one: str, other: str) -> None:
        exchange(directory, one, other)
        calls.append(one)
        if len(calls) == 1 and second == "saves":
            save(exchanging, "notes.md", "second")
        elif len(calls) == 1:
            os.unlink(exchanging.path / "notes.md")

    monkeypatch.setattr(swap_module, "exchange", exchange_then_act)
    outcome = exchanging.swap("notes.md", "ours", expected=before)
    assert isinstance(outcome, Conflict)
    assert outcome.kept == kept("ours")
    expected = {"first", "second", "ours"} if second == "saves" else {"first", "ours"}
    assert set(contents(exchanging).values()) == expected


def test_d8_in_200_interleavings_every_version_is_accounted_for(exchanging: Root) -> None:
    exchanging.replace("notes.md", "start")
    displaced: set[str] = set()  # by the editor itself, knowingly
    saved: list[str] = []

    def edit() -> None:
        here = os.open(exchanging.path, os.O_RDONLY)
        chance = random.Random(8)
        for number in tries(200, enough=lambda: conflicts):
            text = f"edit {number}"
            (exchanging.path / ".editor").write_text(text)
            exchange(here, ".editor", "notes.md")
            saved.append(text)
            displaced.add((exchanging.path / ".editor").read_text())
            threading.Event().wait(chance.random() / 500)
        os.unlink(exchanging.path / ".editor")
        os.close(here)

    number = conflicts = 0
    editor = threading.Thread(target=edit)
    editor.start()
    replaced: set[str] = set()  # by us, having read it
    while editor.is_alive():
        read = exchanging.read_text("notes.md")
        text = f"ours {(number := number + 1)}"
        outcome = exchanging.swap("notes.md", text, expected=content_hash(read))
        if isinstance(outcome, Conflict):
            conflicts += 1
            assert exchanging.read_text(outcome.kept) == text
        else:
            replaced.add(read)
            saved.append(text)
    editor.join()
    on_disk = set(contents(exchanging).values())
    assert set(saved) <= on_disk | displaced | replaced
    assert not [name for name in contents(exchanging) if name.startswith((".tmp-", ".swap-"))]


def test_of_many_writers_who_read_the_same_exactly_one_wins(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    at_the_last_moment(monkeypatch, lambda: threading.Event().wait(0.005))  # a wide window for the others
    before = root.replace("notes.md", "old")
    outcomes: list[str | Conflict] = []
    threads = [
        threading.Thread(target=lambda n=n: outcomes.append(root.swap("notes.md", f"{n}", expected=before)))
        for n in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert content_hash(root.read_text("notes.md")) == winner
    assert set(contents(root).values()) == {str(n) for n in range(16)}


def test_after_a_crash_in_the_middle_a_held_version_comes_to_light(exchanging: Root) -> None:
    exchanging.replace("a/notes.md", "ours")
    old = content_hash("old")[:16]
    (exchanging.path / f"a/.swap-{DEAD}-{old}-1234-notes.md").write_text("old")
    (exchanging.path / f"a/.swap-{DEAD}-{old}-5678-my-notes.md").write_text("edited")
    (exchanging.path / "a/.swap-x").write_text("not ours")
    assert [entry.name for entry in exchanging.list("a")] == ["notes.md"]
    conflict = kept("edited", "my-notes.md")
    assert exchanging.sweep() == (f"a/{conflict}",)
    assert contents(exchanging) == {"notes.md": "ours", conflict: "edited", ".swap-x": "not ours"}


def test_D10_sweeping_takes_nothing_from_those_who_are_at_work(root: Root) -> None:
    """Writers, and one who tidies up all the time: nobody is told that a file is not there, nothing comes to light."""
    root.replace("a/gone/x", "")
    done, swept = threading.Event(), list[str]()

    def tidy() -> None:
        while not done.is_set():
            swept.extend(root.sweep())

    def write(name: str) -> None:
        before = root.replace(f"a/{name}", "0")
        for n in range(1, 60):
            after = root.swap(f"a/{name}", f"{n}", expected=before)
            assert isinstance(after, str)
            before = after
            root.replace(f"a/{name}.other", f"{n}")
            root.replace(f"a/{name}.tree/deep/x", f"{n}")
            root.remove_tree(f"a/{name}.tree")

    with ThreadPoolExecutor() as pool:
        tidying = pool.submit(tidy)
        writing = [pool.submit(write, f"{n}.md") for n in range(3)]
        try:
            for each in writing:
                each.result()
        finally:
            done.set()
        tidying.result()
    assert swept == []
    assert {f"{n}.md": "59" for n in range(3)}.items() <= contents(root).items()


def test_D10_what_a_living_process_is_writing_is_left_to_it_and_swept_once_it_is_dead(exchanging: Root) -> None:
    exchanging.replace("a/notes.md", "old")
    command = [sys.executable, "-c", HOLD, str(exchanging.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        assert writer.stdout.readline() == "holding\n"
        before = contents(exchanging)
        assert len(before) == 3
        assert exchanging.sweep() == ()
        assert contents(exchanging) == before
        writer.kill()
        os.waitid(os.P_PID, writer.pid, os.WEXITED | os.WNOWAIT)  # still a zombie: it writes nothing any more
        (conflict,) = exchanging.sweep()
        assert contents(exchanging) == {"notes.md": "old", conflict.removeprefix("a/"): "new"}


HOLD = """
import os, sys
from pathlib import Path
from agent_worker.files.folder import Folder
from agent_worker.files.swap import _held, content_hash
with Folder.at(Path(sys.argv[1], "a")) as folder, folder.aside(b"half"), folder.aside(b"new") as new:
    folder.rename(new, _held("notes.md", content_hash("old")))
    print("holding", flush=True)
    sys.stdin.read()
"""


SWAP = """
import os, signal, sys
from pathlib import Path
from agent_worker.files import swap
from agent_worker.files.root import Root
root, expected = Root(Path(sys.argv[1])), sys.argv[2]
"""


def killed(code: str, root: Root, *, failpoints: str = "") -> bool:
    command = [sys.executable, "-c", SWAP + code, root.path, content_hash("old")]
    environment = os.environ | {"AGENT_WORKER_FAILPOINTS": failpoints}
    return subprocess.run(command, env=environment, timeout=PATIENCE).returncode == -signal.SIGKILL


@pytest.mark.parametrize(("point", "found"), [("replace.rename", "old"), ("replace.dirsync", "new")])
def test_a_crash_at_each_failpoint_leaves_the_old_or_the_new_version(exchanging: Root, point: str, found: str) -> None:
    exchanging.replace("x", "old")
    assert killed('root.swap("x", "new", expected=expected)', exchanging, failpoints=f"{point}=kill")
    assert exchanging.read_text("x") == found
    assert exchanging.sweep() == ()
    assert contents(exchanging) == {"x": found}


@pytest.mark.parametrize("edit", ["edited", None])
def test_d8_a_crash_right_after_the_exchange_loses_no_edit(exchanging: Root, edit: str | None) -> None:
    exchanging.replace("x", "old")
    code = f"""
def edit(_):
    if {edit!r}:
        (root.path / "x").write_text({edit!r})
def exchange_and_die(*arguments):
    exchange(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
exchange, swap.exchange, swap.failpoint = swap.exchange, exchange_and_die, edit
root.swap("x", "ours", expected=expected)
"""
    assert killed(code, exchanging)
    assert exchanging.sweep() == ((kept("edited", "x"),) if edit else ())
    assert contents(exchanging) == {"x": "ours"} | ({kept("edited", "x"): "edited"} if edit else {})


def test_the_system_knows_both_renames_or_says_so(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    try:
        (tmp_path / "a").write_text("1")
        (tmp_path / "b").write_text("2")
        try:
            exchange(here, "a", "b")
        except NotImplementedError:
            pytest.skip("this disk has no exchange")
        assert (tmp_path / "a").read_text() == "2"
        with pytest.raises(FileExistsError):
            rename_if_free(here, "a", "b")
        rename_if_free(here, "a", "c")
        with pytest.raises(FileNotFoundError) as missing:
            exchange(here, "a", "c")
        assert missing.value.errno == errno.ENOENT
    finally:
        os.close(here)
