"""The daemon's process: one per home, explained when it cannot start, ended when asked, noticed when stuck."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.minimal import COMMAND, Launched, end, running
from tests.patience import PATIENCE

from agent_worker.client.connection import connect, find
from agent_worker.client.discovery import LOG_FILE, NONCE_HEADER, make_home, read_daemon
from agent_worker.daemon.process.logs import LogFile


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = make_home(tmp_path / "home")
    yield home
    end(home)


def refused(home: Path, **settings: Any) -> tuple[int, str]:
    """Exit code, and what it told who started it."""
    launched = Launched(home, **settings)
    error = launched.word()["error"]
    code, said = launched.outcome()
    assert said == ""
    return code, error["message"]


def records(home: Path) -> list[dict[str, str]]:
    """Every record there is; fails if one is not a line of JSON."""
    files = sorted(home.glob(f"{LOG_FILE}*"), reverse=True)
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def wait_for_word(word: str, home: Path) -> None:
    """The log is written by a thread of its own, which tells nobody; it may also be renamed right now."""
    while not (home / LOG_FILE).exists() or word not in (home / LOG_FILE).read_text():
        time.sleep(0.01)


def get(address: tuple[str, int], *headers: str) -> tuple[str, str]:
    """Head and body of `/health`, as any program would get it."""
    with socket.create_connection(address, timeout=PATIENCE) as connection:
        lines = ("GET /health HTTP/1.1", *headers, "Connection: close", "", "")
        connection.sendall("\r\n".join(lines).encode())
        head, _, body = b"".join(iter(lambda: connection.recv(65536), b"")).decode().partition("\r\n\r\n")
        return head, body


@pytest.mark.parametrize("round", range(2))
def test_S1_of_eight_started_at_once_one_wins_and_the_others_name_it(home: Path, round: int) -> None:
    all_eight = [Launched(home) for _ in range(8)]
    words = [each.word() for each in all_eight]
    (winner,) = [each for each, word in zip(all_eight, words, strict=True) if "ready" in word]
    try:
        losers = [(each, word) for each, word in zip(all_eight, words, strict=True) if each is not winner]
        for loser, word in losers:
            assert f"process {winner.process.pid}," in word["error"]["message"]
            assert loser.outcome()[0] == 3
        client = find(home)
        assert client
        assert client.found.pid == winner.process.pid
    finally:
        winner.kill()


def test_S1_the_lock_ends_with_the_process_however_that_ends(home: Path) -> None:
    for _ in range(3):
        with running(home) as (_, launched):
            launched.process.send_signal(signal.SIGKILL)
            launched.process.wait()
    assert read_daemon(home)  # the last one left its file: stale, and no obstacle
    with running(home):
        pass


def test_S2_a_port_that_is_taken_is_explained_in_three_ways(home: Path, tmp_path: Path) -> None:
    with running(home) as (client, _):
        code, ours = refused(tmp_path / "other", port=client.found.port)
        assert code == 2
        assert "daemon of another home" in ours
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        code, theirs = refused(home, port=stranger.getsockname()[1])
        assert code == 2
        assert re.search(rf"is held by \S+ \(process {os.getpid()}\)", theirs), theirs
    code, nobodys = refused(home, port=port_in_time_wait())
    assert code == 2
    assert "TIME_WAIT" in nobodys
    assert read_daemon(home) is None or not find(home)  # and no other port was taken instead


def test_a_port_that_nobody_named_is_the_next_free_one_which_is_said_once_and_kept(home: Path) -> None:
    make_home(home)
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        taken = stranger.getsockname()[1]
        (home / "port").write_text(f"{taken}\n")
        first = Launched(home, port=None)
        note = first.word()["note"]
        found = read_daemon(home)
        assert found is not None
        assert found.port > taken
        assert f"port {taken} is held by " in note
        assert note.endswith(f"; this daemon listens on {found.port} from now on")
        first.kill()
        again = Launched(home, port=None)
        assert again.word()["note"] == "", "it is said once"
        kept = read_daemon(home)
        assert kept is not None
        assert kept.port == found.port
        again.kill()


def port_in_time_wait() -> int:
    with socket.socket() as server:  # without SO_REUSEADDR: its connections keep the port from everybody
        server.bind(("127.0.0.1", 0))
        server.listen()
        with socket.create_connection(server.getsockname()) as client:
            accepted, _ = server.accept()
            accepted.close()
            assert client.recv(1) == b""
        port: int = server.getsockname()[1]
        return port


def test_S2_a_daemon_whose_lock_file_was_removed_is_still_known_by_its_port(home: Path) -> None:
    with running(home, home_look=600) as (client, launched):
        (home / "daemon.lock").unlink()
        code, said = refused(home, port=client.found.port)
        assert code == 3
        assert f"process {launched.process.pid}," in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_R6_asked_to_stop_it_ends_properly_with_streams_open(home: Path, number: signal.Signals) -> None:
    with running(home) as (client, launched):
        polite = client.stream("GET", "/ticks")
        next(polite)
        launched.process.send_signal(number)
        *_, last = polite
        assert last.event == "goodbye"
        assert launched.process.wait(timeout=PATIENCE) == 0
    assert (home / "ended-properly").exists()
    assert not (home / "daemon.json").exists()
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", client.found.port))


def test_R6_a_stream_that_does_not_listen_is_cut_and_who_comes_meanwhile_starts_the_next(home: Path) -> None:
    with running(home) as (client, launched):
        deaf = client.stream("GET", "/deaf")
        next(deaf)
        client.request("POST", "/shutdown", {})
        following = connect(home=home, command=COMMAND)
        assert launched.process.wait(timeout=PATIENCE) == 0
        assert following.found.instance != client.found.instance
        assert following.request("GET", "/health")[0] == 200
    assert (home / "ended-properly").exists()


def test_R6_an_application_that_does_not_end_is_left_behind(home: Path) -> None:
    with running(home, grace=1.0, stuck_after=1.0) as (client, launched):
        threading.Thread(target=lambda: ignore_end(client.request, "/block"), daemon=True).start()
        wait_for_word("blocking", home)
        launched.process.terminate()
        assert launched.process.wait(timeout=PATIENCE) == 70


def ignore_end(request: Any, path: str) -> None:
    try:
        request("POST", path, {})
    except Exception:
        return


def test_only_its_own_file_is_removed_at_the_end(home: Path) -> None:
    with running(home) as (client, launched):
        text = (home / "daemon.json").read_text().replace(client.found.instance, "d_another")
        (home / "daemon.json").write_text(text)
        launched.process.terminate()
        assert launched.process.wait(timeout=PATIENCE) == 0
    assert "d_another" in (home / "daemon.json").read_text()


def test_R7_a_stuck_event_loop_is_noticed_and_the_next_start_recovers(home: Path) -> None:
    with running(home, stuck_after=1.0) as (client, launched):
        ignore_end(client.request, "/block")
        assert launched.process.wait(timeout=PATIENCE) == 70
    (told,) = [record for record in records(home) if record["level"] == "CRITICAL"]
    assert told["message"] == "the event loop was blocked for 1 s"
    assert "in block" in told["stacks"]
    with running(home):
        pass


def test_R7_a_process_that_was_frozen_is_not_taken_for_stuck(home: Path) -> None:
    with running(home, stuck_after=1.0) as (client, launched):
        launched.process.send_signal(signal.SIGSTOP)
        time.sleep(1.3)  # nothing to wait for: it is the passing of time that must not matter
        launched.process.send_signal(signal.SIGCONT)
        assert client.request("GET", "/health")[0] == 200


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_U1_everything_is_private_under_every_umask(tmp_path: Path, umask: int) -> None:
    home = tmp_path / "new" / "home"
    before = os.umask(umask)
    try:
        client = connect(home=home, command=("env", 'MINIMAL={"log_bytes": 2000}', *COMMAND))
        for text in ("x" * 1500, "x" * 1500, "the last word"):
            client.request("POST", "/note", {"text": text})
        wait_for_word("the last word", home)
    finally:
        os.umask(before)
    try:
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (home, *home.iterdir())}
    finally:
        end(home)
    assert modes.pop("home") == 0o700
    assert {"daemon.json", "daemon.lock", "daemon.log", "daemon.log.1", "start.lock"} <= set(modes)
    assert set(modes.values()) == {0o600}


def test_U2_a_home_that_others_may_write_is_refused(home: Path) -> None:
    home.chmod(0o777)
    code, said = refused(home)
    assert code == 2
    assert "others can write to" in said
    home.chmod(0o700)


@pytest.mark.parametrize("name", ["daemon.lock", "daemon.log"])
def test_U3_a_planted_link_is_refused_and_its_target_unchanged(home: Path, tmp_path: Path, name: str) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    (home / name).symlink_to(target)
    code, said = refused(home)
    assert code == 2
    assert "is a link" in said
    assert target.read_text() == "mine"


def test_U3_links_at_other_names_are_replaced_and_not_followed(home: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    (home / "daemon.json").symlink_to(target)
    (home / "daemon.log.1").symlink_to(target)
    with running(home, log_bytes=200) as (client, _):
        client.request("POST", "/note", {"text": "x" * 300})
    assert target.read_text() == "mine"
    assert not (home / "daemon.json").is_symlink()


def test_G3_what_is_logged_and_printed_stays_within_its_share(home: Path) -> None:
    limit = 20_000
    command = ("env", f'MINIMAL={{"log_bytes": {limit}}}', *COMMAND)
    client = connect(home=home, command=command)
    client.request("GET", "/print_much?lines=3000")
    client.request("POST", "/note", {"text": "the last word"})
    client.request("POST", "/shutdown", {})
    connect(home=home, command=command)  # the first has ended, and written all it had
    sizes = {path.name: path.stat().st_size for path in home.glob(f"{LOG_FILE}*")}
    assert set(sizes) == {LOG_FILE, *(f"{LOG_FILE}.{number}" for number in range(1, 5))}
    assert max(sizes.values()) <= limit
    messages = [record["message"] for record in records(home)]
    assert messages.count("x" * 999) > 50
    assert "the last word" in messages
    assert "'%d of %d' with unfitting values" in messages


def test_G3_a_log_that_cannot_be_written_is_silent(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "log", limit=100, keep=3)
    (tmp_path / "log.1").mkdir()
    (tmp_path / "log.1" / "in the way").touch()
    for _ in range(30):
        file.write(b"x" * 39 + b"\n")
    assert (tmp_path / "log").stat().st_size <= 100
    file.close()
    file.write(b"the disk is gone\n")


def test_X8_one_record_is_one_line_and_the_token_is_not_in_it(home: Path) -> None:
    forged = 'hello\n{"level": "INFO", "message": "forged"}\r\x1b[2J\u2028\u0085'
    with running(home) as (client, launched):
        client.request("POST", "/note", {"text": forged})
        client.request("POST", "/note", {"text": f"Bearer {client.found.token}"})
        launched.process.terminate()
        launched.process.wait(timeout=PATIENCE)
    messages = [record["message"] for record in records(home)]
    assert forged in messages
    assert "forged" not in messages
    assert "Bearer [redacted:secret]" in messages
    assert (home / LOG_FILE).read_text().isascii()


def test_W14_health_tells_a_stranger_nothing(home: Path) -> None:
    with running(home) as (client, launched):
        found = client.found
        host, nonce = f"Host: {found.host}:{found.port}", f"{NONCE_HEADER}: {'0' * 64}"
        head, body = get((found.host, found.port), host, nonce)
        assert set(json.loads(body)) == {"service", "status", "proof"}
        for secret in (found.token, found.instance, str(launched.process.pid), str(home), "uvicorn", "0.1.0"):
            assert secret not in head + body


@pytest.mark.parametrize(
    "headers",
    [
        ("Host: evil.example", f"{NONCE_HEADER}: {'0' * 64}"),
        ("Host: HERE", f"{NONCE_HEADER}: {'0' * 64}", "Origin: http://evil.example"),
        ("Host: HERE", f"{NONCE_HEADER}: {'0' * 64}", "Sec-Fetch-Site: cross-site"),
        ("Host: HERE", f"{NONCE_HEADER}: {'0' * 64}", f"{NONCE_HEADER}: {'1' * 64}"),
        ("Host: HERE", f"{NONCE_HEADER}: short"),
        ("Host: HERE", f"{NONCE_HEADER}: {'ä' * 64}"),
        ("Host: HERE",),
    ],
)
def test_W1_only_a_client_that_asks_as_ours_do_gets_a_proof(shared: tuple[str, int], headers: tuple[str, ...]) -> None:
    here = f"{shared[0]}:{shared[1]}"
    _, body = get(shared, *(header.replace("HERE", here) for header in headers))
    assert json.loads(body) == {"status": "ok"}  # the application's answer, who judges the rest


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    with running(tmp_path_factory.mktemp("shared") / "home") as (client, _):
        yield client.found.host, client.found.port


def test_W15_it_is_reached_through_loopback_only_unless_asked(home: Path, tmp_path: Path) -> None:
    code, said = refused(home, host="0.0.0.0")
    assert code == 2
    assert "from other machines" in said
    with running(home) as (client, _), pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", client.found.port))  # stands for every other address of this machine
    with running(tmp_path / "exposed", host="0.0.0.0", exposed=True) as (client, launched):
        assert client.found.host == "127.0.0.1"
        assert client.request("GET", "/health")[0] == 200
        launched.process.terminate()
        assert "warning: 0.0.0.0" in launched.outcome()[1]


@pytest.mark.parametrize("token", ["undefined", "", "12345678", "a" * 64])
def test_W16_a_weak_token_refuses_the_start(home: Path, token: str) -> None:
    code, said = refused(home, token=token)
    assert code == 2
    assert "too weak" in said
    assert not list(home.iterdir())


def test_S6_a_home_that_cannot_be_written_is_explained(home: Path) -> None:
    (home / "daemon.lock").mkdir()
    code, said = refused(home)
    assert code == 2
    assert str(home / "daemon.lock") in said


def test_S6_a_disk_that_is_full_while_it_starts_is_explained(home: Path) -> None:
    """Whichever file it writes then, such as the `host-id` of a host."""
    code, said = refused(home, fault="full disk")
    assert code == 2
    assert said == f"the daemon cannot start in {home}: the disk is full: nothing was written"


def test_a_person_reads_on_stderr_why_it_does_not_start(home: Path) -> None:
    environment = os.environ | {"AGENT_WORKER_HOME": str(home), "MINIMAL": '{"token": "null"}'}
    done = subprocess.run(COMMAND, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "error: the configured token is too weak\n  hint: leave it out: every start makes a new one\n"


def test_a_token_is_new_with_every_start_and_in_no_command_line(home: Path) -> None:
    tokens = set()
    for _ in range(2):
        with running(home) as (client, launched):
            tokens.add(client.found.token)
            pid = launched.process.pid
            shown = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
            assert client.found.token.encode() not in shown
    assert len(tokens) == 2
    assert all(len(token) == 43 for token in tokens)


def test_starting_imports_nothing_that_only_the_application_needs() -> None:
    code = (
        "import sys, agent_worker.daemon.process.process\n"
        "heavy = {'starlette', 'pydantic', 'apsw', 'psutil', 'yaml', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
