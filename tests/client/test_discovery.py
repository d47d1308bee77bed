"""What lies in the home directory is believed only as far as it can be checked, and nobody else can prepare it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from agent_worker.client.discovery import (
    DAEMON_FILE,
    HOME_VARIABLE,
    LOCK_FILE,
    DaemonFile,
    DaemonHolder,
    birth_of,
    check_home,
    home_directory,
    is_running,
    is_strong,
    make_home,
    open_private,
    proof,
    read_daemon,
    read_holder,
    remove_daemon,
    signal_daemon,
    write_daemon,
    write_holder,
)
from agent_worker.core.errors import Refused

TOKEN = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"
FOUND = DaemonFile(4242, "127.0.0.1", 5099, TOKEN, "d_1", "2026-01-05T09:00:00+00:00", "boot:1")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path / "home")


@contextmanager
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def claim(home: Path, process: subprocess.Popen[bytes]) -> DaemonFile:
    """As if that process were the daemon."""
    found = replace(FOUND, pid=process.pid, born=birth_of(process.pid) or "")
    write_daemon(home, found)
    hold(home, DaemonHolder(found.pid, found.born, found.instance))
    return found


def hold(home: Path, holder: DaemonHolder) -> None:
    lock = open_private(home / LOCK_FILE, os.O_RDWR | os.O_CREAT)
    write_holder(lock, holder)
    os.close(lock)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_was_written_is_read_and_the_token_is_not_shown(home: Path) -> None:
    write_daemon(home, FOUND)
    assert read_daemon(home) == FOUND
    assert TOKEN not in repr(FOUND)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_U1_home_and_file_are_private_under_every_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        home = make_home(tmp_path / "new" / "home")
        write_daemon(home, FOUND)
    finally:
        os.umask(before)
    assert [mode(home.parent), mode(home), mode(home / DAEMON_FILE)] == [0o700, 0o700, 0o600]


def test_U1_a_file_that_others_could_read_is_closed_to_them(home: Path) -> None:
    path = home / "daemon.log"
    path.write_text("said before")
    path.chmod(0o644)
    os.close(open_private(path, os.O_RDONLY))
    assert mode(path) == 0o600


def test_U2_a_home_that_others_may_write_is_refused(home: Path) -> None:
    home.chmod(0o770)
    with pytest.raises(Refused, match="others can write to"):
        check_home(home)


def test_U2_a_home_that_others_may_only_read_is_closed(home: Path) -> None:
    home.chmod(0o755)
    check_home(home)
    assert mode(home) == 0o700


def test_U2_a_home_of_another_user_is_refused(tmp_path: Path) -> None:
    theirs = Path("/usr")
    if os.geteuid() == 0:
        theirs = tmp_path / "theirs"
        theirs.mkdir(mode=0o700)
        os.chown(theirs, 12345, 12345)
    with pytest.raises(Refused, match="belongs to another user"):
        make_home(theirs)


def test_U2_a_home_that_is_a_link_is_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(home)
    with pytest.raises(Refused, match="is a link"):
        make_home(tmp_path / "link")


def test_S6_a_home_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Refused, match="cannot be made") as refusal:
        make_home(tmp_path / "file" / "home")
    assert HOME_VARIABLE in refusal.value.hint


def test_S6_the_home_is_found_without_HOME_and_may_have_a_long_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(HOME_VARIABLE, raising=False)
    monkeypatch.delenv("HOME", raising=False)
    assert home_directory().name == ".agent-worker"
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / ("x" * 200)))
    write_daemon(make_home(home_directory()), FOUND)
    assert read_daemon(home_directory()) == FOUND


def test_a_HOME_that_is_empty_does_not_put_the_home_at_the_root_of_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HOME_VARIABLE, raising=False)
    monkeypatch.setenv("HOME", "")
    with pytest.raises(Refused, match="HOME is set but empty") as refusal:
        home_directory()
    assert HOME_VARIABLE in refusal.value.hint


@pytest.mark.parametrize("given", ["state", "./state", "~/state", "../it's here"])
def test_a_home_that_would_be_another_one_in_each_directory_is_refused(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(HOME_VARIABLE, given)
    with pytest.raises(Refused, match=f"{HOME_VARIABLE} must be a full path") as refusal:
        home_directory()
    name, _, whole = refusal.value.hint.removeprefix("export ").partition("=")
    monkeypatch.setenv(name, shlex.split(whole)[0])
    assert home_directory() == Path(os.path.abspath(tmp_path / given.removeprefix("~/")))


def test_U3_a_link_in_place_of_the_file_is_replaced_and_not_followed(home: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text(json.dumps({"format": 1}))
    (home / DAEMON_FILE).symlink_to(target)
    assert read_daemon(home) is None
    write_daemon(home, FOUND)
    assert target.read_text() == json.dumps({"format": 1})
    assert not (home / DAEMON_FILE).is_symlink()


WHOLE = json.dumps({"format": 1} | {name: getattr(FOUND, name) for name in DaemonFile.__dataclass_fields__})


def changed(**fields: object) -> bytes:
    return json.dumps(json.loads(WHOLE) | fields).encode()


@pytest.mark.parametrize(
    "content",
    [
        *(WHOLE[:length].encode() for length in range(0, len(WHOLE), 20)),
        b"\0" * 300,
        b"\xff\xfe",
        b"[]",
        b"null",
        b"[" * 60_000,
        b'{"name": "package", "version": "1.0.0"}',
        changed(format=2),
        changed(pid=-1),
        changed(pid=0),
        changed(pid=True),
        changed(pid="4242"),
        changed(pid=2**40),
        changed(port=0),
        changed(port=65536),
        changed(host="127.0.0.1\r\nX: y"),
        changed(host=None),
        changed(token=""),
        changed(token=TOKEN + "\r\nX: y"),
        changed(token="short"),
        changed(instance=["d_1"]),
        changed(born=7),
        b" " * 100_000 + WHOLE.encode(),
    ],
)
def test_S3_a_damaged_foreign_or_future_file_claims_nothing(home: Path, content: bytes) -> None:
    (home / DAEMON_FILE).write_bytes(content)
    assert read_daemon(home) is None


def test_S3_what_is_no_file_claims_nothing_and_makes_nobody_wait(home: Path) -> None:
    assert read_daemon(home) is None
    os.mkfifo(home / DAEMON_FILE)
    assert read_daemon(home) is None
    (home / DAEMON_FILE).unlink()
    (home / DAEMON_FILE).mkdir()
    assert read_daemon(home) is None


def test_a_file_of_tomorrow_with_more_fields_is_still_read(home: Path) -> None:
    (home / DAEMON_FILE).write_bytes(changed(colour="green"))
    assert read_daemon(home) == FOUND


def test_only_the_own_file_is_removed_and_what_a_crash_left(home: Path) -> None:
    write_daemon(home, FOUND)
    (home / f".{DAEMON_FILE}.0123").touch()
    remove_daemon(home, "d_2")
    assert os.listdir(home) == [DAEMON_FILE]
    remove_daemon(home, FOUND.instance)
    assert os.listdir(home) == []


def test_the_daemon_is_signalled_when_everything_agrees(home: Path) -> None:
    with sleeper() as process:
        assert signal_daemon(home, claim(home, process), signal.SIGTERM)
        assert process.wait() == -signal.SIGTERM


@pytest.mark.parametrize("lie", [{"born": "boot:2"}, {"instance": "d_2"}])
def test_S3_a_process_that_got_the_number_is_never_signalled(home: Path, lie: dict[str, str]) -> None:
    with sleeper() as process:
        found = claim(home, process)
        assert not signal_daemon(home, replace(found, **lie), signal.SIGKILL)  # the file lies
        hold(home, replace(DaemonHolder(found.pid, found.born, found.instance), **lie))
        assert not signal_daemon(home, found, signal.SIGKILL)  # the lock file lies
        hold(home, replace(DaemonHolder(found.pid, "boot:2", found.instance)))
        assert not signal_daemon(home, replace(found, born="boot:2"), signal.SIGKILL)  # both agree, and are old
        assert process.poll() is None


def test_S3_a_zombie_and_a_dead_process_do_not_run(home: Path) -> None:
    process = subprocess.Popen(["true"])
    claimed = DaemonHolder(process.pid, birth_of(process.pid) or "", "d_1")
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    found = replace(FOUND, pid=process.pid, born=claimed.born)
    hold(home, claimed)
    assert birth_of(process.pid) is None  # a zombie
    assert not is_running(claimed)
    assert not signal_daemon(home, found, signal.SIGKILL)
    process.wait()
    assert not is_running(claimed)
    assert not signal_daemon(home, found, signal.SIGKILL)


def test_a_damaged_lock_file_names_nobody(home: Path) -> None:
    for content in ("", "{", "[]", '{"pid": -1, "born": "x", "instance": "y"}', '{"pid": 5}'):
        (home / LOCK_FILE).write_text(content)
        assert read_holder(home) is None


def test_S4_a_proof_is_for_one_token_nonce_port_and_instance() -> None:
    proofs = {
        proof(token, nonce=nonce, port=port, instance=instance)
        for token in ("t1", "t2")
        for nonce in ("n1", "n2")
        for port in (1, 11)
        for instance in ("i", "1i")
    }
    assert len(proofs) == 16


@pytest.mark.parametrize("token", ["undefined", "null", "", "12345678", "a" * 64, "with space " * 10])
def test_W16_weak_tokens_are_not_strong(token: str) -> None:
    assert not is_strong(token)


def test_a_command_does_not_pay_for_heavy_imports() -> None:
    code = (
        "import sys, agent_worker.client.connection\n"
        "heavy = {'asyncio', 'pydantic', 'starlette', 'uvicorn', 'psutil', 'http', 'ssl', 'logging', 'subprocess'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
