"""Files beneath a root: rows C9, C10, D6, F3–F7, F13, U1–U3, U8."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.needs import skip_without
from tests.patience import PATIENCE, tries

from agent_worker.core.errors import BadInput, NotFound, Refused
from agent_worker.files.folder import exchange
from agent_worker.files.root import Root
from agent_worker.files.swap import content_hash

ATTEMPTS: list[Callable[[Root, str], object]] = [
    lambda root, name: root.read_text(name),
    lambda root, name: root.replace(name, "ours"),
    lambda root, name: root.swap(name, "ours", expected=content_hash("secret")),
    lambda root, name: root.swap(name, "ours", expected=None),
    lambda root, name: root.append(name, "ours"),
    lambda root, name: root.exists(name),
    lambda root, name: os.close(root.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)),
]


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path / "documents")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.md").write_text("secret")
    return tmp_path / "outside"


def run(code: str, *arguments: str | Path, failpoints: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"AGENT_WORKER_FAILPOINTS": failpoints}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)


def test_what_was_written_is_read_back(root: Root) -> None:
    assert root.replace("a/b/notes.md", "first\r\n") == content_hash("first\r\n")
    root.append("a/b/notes.md", "second\n")
    assert root.read_text("a/b/notes.md") == "first\r\nsecond\n"
    assert root.exists("a/b")
    assert root.exists("a/b/notes.md")
    root.remove("a/b/notes.md")
    assert not root.exists("a/b/notes.md")
    assert not root.exists("no/such")
    with pytest.raises(NotFound, match=r"'a/b/notes\.md' does not exist"):
        root.read_text("a/b/notes.md")


def test_reading_has_a_limit_and_wants_utf8(root: Root) -> None:
    root.replace("x", b"\xff\xfe")
    with pytest.raises(BadInput, match="not UTF-8"):
        root.read_text("x")
    root.replace("x", "12345")
    assert root.read_text("x", limit=5) == "12345"
    with pytest.raises(Refused, match="larger than 4 bytes"):
        root.read_text("x", limit=4)
    with pytest.raises(BadInput, match="UTF-8"):
        root.replace("x", "\ud800")


def test_a_smaller_root_is_still_walked_from_the_trusted_one(root: Root, outside: Path) -> None:
    alice = root.beneath("alice")
    alice.replace("notes/x.md", "hers")
    assert root.read_text("alice/notes/x.md") == "hers"
    assert alice.location("notes") == root.path / "alice/notes"
    alice.remove_tree("notes")
    (root.path / "alice").rmdir()
    (root.path / "alice").symlink_to(outside)
    with pytest.raises(Refused, match="link"):
        alice.read_text("secret.md")


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_u1_files_are_0600_and_directories_0700_whatever_the_umask(root: Root, umask: int) -> None:
    before = os.umask(umask)
    try:
        Root.private(root.path)
        root.replace("a/replaced", "x")
        root.swap("a/swapped", "x", expected=None)
        root.swap("a/swapped", "y", expected=content_hash("x"))
        root.swap("a/swapped", "z", expected=content_hash("x"))
        root.append("b/c/appended", "x")
        os.close(root.open("d/opened", os.O_WRONLY | os.O_CREAT))
        root.make_dirs("e/f")
    finally:
        os.umask(before)
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in [root.path, *root.path.rglob("*")]}
    assert modes == {(True, 0o700), (False, 0o600)}


def test_u2_a_private_root_must_be_ours_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert Root.private(home).path == home
    home.chmod(0o755)
    Root.private(home)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    home.chmod(0o770)
    with pytest.raises(Refused, match="others can write"):
        Root.private(home)
    (tmp_path / "link").symlink_to(home)
    with pytest.raises(Refused, match="is a link"):
        Root.private(tmp_path / "link")
    (tmp_path / "file").touch()
    with pytest.raises(Refused):
        Root.private(tmp_path / "file")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_u2_a_private_root_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(0o700)
    os.chown(tmp_path / "home", 12345, 12345)
    with pytest.raises(Refused, match="belongs to another user"):
        Root.private(tmp_path / "home")


@pytest.mark.parametrize("attempt", range(len(ATTEMPTS)))
@pytest.mark.parametrize("relative", ["link.md", "dir/secret.md", "dangling", "loop"])
def test_u3_f3_links_are_not_followed(root: Root, outside: Path, relative: str, attempt: int) -> None:
    root.make_dirs()
    (root.path / "link.md").symlink_to(outside / "secret.md")
    (root.path / "dir").symlink_to(outside)
    (root.path / "dangling").symlink_to(outside / "new.md")
    (root.path / "loop").symlink_to("loop")
    with pytest.raises(Refused, match="is a link"):
        ATTEMPTS[attempt](root, relative)
    assert [path.name for path in outside.iterdir()] == ["secret.md"]
    assert (outside / "secret.md").read_text() == "secret"
    assert root.list() == ()


def test_f4_a_directory_swapped_for_a_link_lets_nothing_escape(root: Root, outside: Path) -> None:
    root.make_dirs("work")
    (root.path / "link").symlink_to(outside)
    done = threading.Event()

    def swap_forever() -> None:
        here = os.open(root.path, os.O_RDONLY)
        while not done.is_set():
            exchange(here, "work", "link")
        os.close(here)

    attacker = threading.Thread(target=swap_forever)
    attacker.start()
    outcomes: list[object] = []

    def was_a_link_and_was_none() -> bool:
        return Refused in outcomes and bool(set(outcomes) - {Refused, NotFound})

    try:
        for number in tries(200, enough=was_a_link_and_was_none):
            for attempt in (ATTEMPTS[number % len(ATTEMPTS)], ATTEMPTS[0]):
                try:
                    outcomes.append(attempt(root, "work/secret.md"))
                except (Refused, NotFound) as refusal:
                    outcomes.append(type(refusal))
    finally:
        done.set()
        attacker.join()
    assert "secret" not in outcomes
    assert [path.name for path in outside.iterdir()] == ["secret.md"]
    assert (outside / "secret.md").read_text() == "secret"


@pytest.fixture(params=["pipe", "socket", "directory", "device"])
def special(request: pytest.FixtureRequest, root: Root, monkeypatch: pytest.MonkeyPatch) -> str:
    root.make_dirs()
    path = root.path / "special"
    match request.param:
        case "pipe":
            os.mkfifo(path)
        case "socket":
            monkeypatch.chdir(root.path)  # the whole path is too long for a socket
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind("special")
        case "directory":
            path.mkdir()
        case "device":
            try:
                os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
            except PermissionError:
                pytest.skip("making devices needs rights")
    return str(request.param)


@pytest.mark.parametrize("attempt", [n for n in range(len(ATTEMPTS)) if n != 5])
def test_f6_only_regular_files_are_opened_and_nothing_hangs(root: Root, special: str, attempt: int) -> None:
    with pytest.raises(Refused, match=f"a {special}, not a regular file"):
        ATTEMPTS[attempt](root, "special")


def test_f6_a_pipe_put_there_after_the_check_does_not_hang_us(root: Root) -> None:
    root.replace("x", "file")
    done = threading.Event()

    def change_forever() -> None:
        while not done.is_set():
            os.mkfifo(root.path / "pipe")
            os.rename(root.path / "pipe", root.path / "x")
            (root.path / "new").write_text("file")
            os.rename(root.path / "new", root.path / "x")

    attacker = threading.Thread(target=change_forever)
    attacker.start()
    seen: Counter[str] = Counter()
    try:
        for _ in tries(200, enough=lambda: len(seen) == 2):
            try:
                assert root.read_text("x") == "file"
                seen["a file"] += 1
            except Refused:
                seen["a pipe"] += 1
    finally:
        done.set()
        attacker.join()


def test_f6_a_hard_link_is_not_written_through(root: Root, outside: Path) -> None:
    root.make_dirs()
    os.link(outside / "secret.md", root.path / "x.md")
    for attempt in (ATTEMPTS[n] for n in (1, 2, 3, 4, 6)):
        with pytest.raises(Refused, match="hard link"):
            attempt(root, "x.md")
    assert (outside / "secret.md").read_text() == "secret"


def test_f7_another_spelling_is_the_same_document(root: Root) -> None:
    root.replace("Docs/notes.md", "one")
    root.replace("docs/Notes.md", "two")
    root.append("DOCS/NOTES.MD", " three")
    assert root.read_text("docs/nOtes.md") == "two three"
    assert [entry.name for entry in root.list()] == ["Docs"]
    assert [entry.name for entry in root.list("docs")] == ["notes.md"]


def test_f7_two_spellings_created_at_once_are_one_document(root: Root) -> None:
    spellings = [f"{a}{b}{c}{d}" for a in "nN" for b in "oO" for c in "tT" for d in "eE"]
    threads = [threading.Thread(target=root.replace, args=(spelling, "x")) for spelling in spellings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(root.list()) == 1


def test_f13_removing_a_linked_directory_removes_only_the_link(root: Root, outside: Path) -> None:
    root.make_dirs("bob/deep")
    (root.path / "alice").symlink_to(outside)
    (root.path / "bob/deep/link").symlink_to(outside)
    root.remove_tree("alice")
    root.remove_tree("bob")
    assert list(root.path.iterdir()) == []
    assert (outside / "secret.md").read_text() == "secret"
    (root.path / "alice").symlink_to(outside)
    root.remove("alice")
    assert (outside / "secret.md").exists()


def test_f13_a_mounted_directory_is_not_emptied(root: Root, outside: Path) -> None:
    root.make_dirs("alice")
    root.make_dirs("bob/inner")
    code = """
import os, subprocess, sys
from pathlib import Path
from agent_worker.core.errors import Refused
from agent_worker.files.root import Root
outside, path = map(Path, sys.argv[1:])
for name in ("alice", "bob/inner"):
    subprocess.run(["mount", "--bind", outside, path / name], check=True)
for name in ("alice", "bob"):
    try:
        Root(path).remove_tree(name)
    except Refused as refused:
        print(refused)
"""
    command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-c", code, outside, root.path]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except FileNotFoundError:
        skip_without("unshare")
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip("mounting is not allowed here")
    assert done.stdout.splitlines() == ["'alice' is a mounted disk", "'bob' is a mounted disk"], done.stderr
    assert (outside / "secret.md").read_text() == "secret"


def test_a_tree_deeper_than_the_stack_is_removed(root: Root) -> None:
    root.make_dirs()
    here = os.open(root.path, os.O_RDONLY)
    for _ in range(sys.getrecursionlimit() + 100):
        os.mkdir("deep", dir_fd=here)
        inner = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    try:
        root.remove_tree("deep")
        assert list(root.path.iterdir()) == []
    finally:  # pytest could not
        subprocess.run(["rm", "-rf", root.path], check=True)


def test_u8_temporary_names_cannot_be_guessed_and_are_swept_after_a_crash(root: Root, outside: Path) -> None:
    root.replace("a/notes.md", "kept")
    (root.path / "a/.tmp-1").write_text("half")
    (root.path / "a/.tmp-2").mkdir()
    (root.path / "a/.tmp-2/x").write_text("half deleted")
    (root.path / "a/.tmp-3").symlink_to(outside)
    assert [entry.name for entry in root.list("a")] == ["notes.md"]
    assert root.sweep() == ()
    assert [path.name for path in (root.path / "a").iterdir()] == ["notes.md"]
    assert (outside / "secret.md").exists()


def test_d6_the_order_is_write_sync_rename_sync_of_the_directory(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    root.replace("x", "old")
    steps: list[str] = []

    def watch(name: str, label: Callable[..., str]) -> None:
        original = getattr(os, name)

        def watched(*arguments: object, **options: object) -> object:
            steps.append(label(*arguments))
            return original(*arguments, **options)

        monkeypatch.setattr(os, name, watched)

    watch("write", lambda descriptor, _: f"write {kind(descriptor)}")
    watch("fsync", lambda descriptor: f"sync {kind(descriptor)}")
    watch("rename", lambda old, new: f"rename {old[:5]} {new}")
    root.replace("x", "new")
    assert steps == ["write file", "sync file", "rename .tmp- x", "sync directory"]


def kind(descriptor: int) -> str:
    return "directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"


WRITE = """
import sys
from pathlib import Path
from agent_worker.files.root import Root
Root(Path(sys.argv[1])).replace("x", sys.argv[2])
"""


@pytest.mark.parametrize(
    ("point", "found"), [("replace.tmp", "old"), ("replace.rename", "old"), ("replace.dirsync", "new")]
)
def test_d6_a_crash_at_each_failpoint_leaves_the_old_or_the_new_file(root: Root, point: str, found: str) -> None:
    root.replace("x", "old")
    done = run(WRITE, root.path, "new", failpoints=f"{point}=kill")
    assert done.returncode == -signal.SIGKILL
    assert root.read_text("x") == found
    root.sweep()
    assert [path.name for path in root.path.iterdir()] == ["x"]


@pytest.mark.parametrize("point", ["replace.tmp=enospc", "replace.rename=eio"])
def test_d6_a_failing_disk_leaves_the_old_file_and_no_rubbish(root: Root, point: str) -> None:
    root.replace("x", "old")
    done = run(WRITE, root.path, "new", failpoints=point)
    assert "OSError" in done.stderr
    assert [path.name for path in root.path.iterdir()] == ["x"]
    assert root.read_text("x") == "old"


REWRITE = """
import sys
from pathlib import Path
from agent_worker.files.root import Root
root = Root(Path(sys.argv[1]))
print("ready", flush=True)
for number in range(1_000_000):
    root.replace("x", "abcdefgh"[number % 8] * 1_000_000)
"""


def test_d6_readers_see_old_or_new_while_the_writer_is_killed_again_and_again(root: Root) -> None:
    root.replace("x", "z" * 1_000_000)
    reads = 0
    for _ in range(10):
        writer = subprocess.Popen([sys.executable, "-c", REWRITE, root.path], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        for _ in range(15):
            text = root.read_text("x")
            assert len(text) == text.count(text[0]) == 1_000_000
            reads += 1
        writer.kill()
        writer.wait()
        writer.stdout.close()
    assert reads == 150
    root.sweep()
    assert [path.name for path in root.path.iterdir()] == ["x"]
