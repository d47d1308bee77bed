"""The person is told elsewhere what waits for them: by real receivers, once, and also when we die in between."""

from __future__ import annotations

import hashlib
import hmac
import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from email import message_from_string
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from tests.patience import PATIENCE, eventually
from tests.shells.served import Served, daemon_command, kill_daemon, served

from agent_worker.client.connection import connect
from agent_worker.core.errors import BadInput
from agent_worker.definitions.notifications import Sink, read_notifications
from agent_worker.doors.outbox.timing import TRIES, due, wait_after

ASKS = "backend: mock\nscript: [{ call: [{ tool: ask_user, with: { question: which colour? } }] }, { say: done }]\n"


class Receiver(BaseHTTPRequestHandler):
    """Keeps what it is sent; answers as it is told to."""

    got: ClassVar[list[tuple[dict[str, str], bytes]]]
    answers: ClassVar[list[int]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
        status = self.answers.pop(0) if self.answers else 200
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def receiver(*answers: int) -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    kind = type("Kept", (Receiver,), {"got": [], "answers": list(answers)})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/topic", kind.got  # type: ignore[attr-defined]
        server.shutdown()


def wants(home: Path, **sinks: dict[str, Any]) -> None:
    home.mkdir(exist_ok=True)
    (home / "notify.yaml").write_text(yaml.safe_dump({"sinks": sinks}))


def asked(daemon: Served) -> None:
    """An agent asks the person something, and waits."""
    daemon.do("POST", "/serve", agent="alice", message="paint it")


def listed(daemon: Served) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = daemon.client.request("GET", daemon.query("/notifications"))[1]
    return found


def test_a_webhook_is_told_once_and_can_see_that_it_was_us(tmp_path: Path) -> None:
    with receiver() as (url, got):
        wants(tmp_path / "home", chat={"to": "webhook", "url": url, "secret": "$MY_SECRET"})
        with served(tmp_path, {"MY_SECRET": "shh"}, alice=ASKS) as daemon:
            asked(daemon)
            assert eventually(lambda: got)
            headers, body = got[0]
            signed = hmac.new(b"shh", body, hashlib.sha256).hexdigest()
            assert headers["x-agent-worker-signature"] == f"sha256={signed}"
            (item,) = json.loads(body)["items"]
            assert (item["kind"], item["agent"]) == ("question", "alice")
            assert "which colour?" in item["text"]
            assert item["command"] == 'agent-worker inbox answer 1 "…"'
            assert eventually(lambda: not listed(daemon)[0]["waiting"])
            assert len(got) == 1


def test_ntfy_a_command_and_mail_are_told(tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    with receiver() as (url, got), mailbox() as (port, mails):
        mail = {"to": "email", "server": f"127.0.0.1:{port}", "sender": "a@example.org", "recipient": "b@example.org"}
        command = f'printf "%s" "$NOTICE_JSON" > {told}.part && mv {told}.part {told}'
        phone = {"to": "ntfy", "url": url, "secret": "tk"}
        wants(tmp_path / "home", phone=phone, mail=mail, desk={"to": "command", "command": command})
        with served(tmp_path, alice=ASKS) as daemon:
            asked(daemon)
            assert eventually(lambda: got and mails and told.exists())
    headers, body = got[0]
    assert (headers["title"], headers["authorization"]) == ("question: alice in project", "Bearer tk")
    assert b"which colour?" in body
    assert json.loads(told.read_text())["items"][0]["number"] == 1
    message = message_from_string(mails[0])
    assert (message["Subject"], message["To"]) == ("question: alice in project", "b@example.org")


def test_what_was_not_told_when_we_died_is_told_by_the_next_daemon(tmp_path: Path) -> None:
    with receiver(*[503] * 50) as (url, got):
        wants(tmp_path / "home", chat={"to": "webhook", "url": url})
        with served(tmp_path, shorter={"agent_worker.doors.outbox.timing._FIRST": 1.0}, alice=ASKS) as daemon:
            asked(daemon)
            assert eventually(lambda: listed(daemon)[0]["trouble"] == "it answered 503")
            kill_daemon(daemon.home, daemon.client.found)
            before = len(got)
            connect(home=daemon.home, command=daemon_command(), patience=PATIENCE)
            assert eventually(lambda: len(got) > before)
    assert len({json.loads(body)["id"] for _, body in got}) == 1, "whoever gets it twice can tell"


def test_what_is_answered_meanwhile_is_not_told(tmp_path: Path) -> None:
    with receiver(*[503] * 50) as (url, _):
        wants(tmp_path / "home", chat={"to": "webhook", "url": url})
        with served(tmp_path, alice=ASKS) as daemon:
            asked(daemon)
            assert eventually(lambda: listed(daemon)[0]["trouble"])
            (item,) = daemon.client.request("GET", daemon.query("/inbox"))[1]
            daemon.client.request("POST", f"/inbox/{item['id']}", {"action": "answer", "text": "red"})
            assert listed(daemon)[0]["waiting"] == 0


def test_only_the_kinds_that_are_wanted_are_told_and_a_redirect_is_not_followed(tmp_path: Path) -> None:
    with receiver() as (url, got), receiver(*[302] * 50) as (leads, _):
        wants(
            tmp_path / "home",
            never={"to": "webhook", "url": url, "kinds": ["failure"]},
            astray={"to": "webhook", "url": leads},
        )
        with served(tmp_path, alice=ASKS) as daemon:
            asked(daemon)
            told = {"never": "", "astray": "it answered 302"}
            assert eventually(lambda: {each["name"]: each["trouble"] for each in listed(daemon)} == told)
    assert not got


def test_a_mistake_in_the_file_stops_nothing_and_is_told_with_its_line(tmp_path: Path) -> None:
    wants(tmp_path / "home", phone={"to": "ntfy"})
    with served(tmp_path, alice=ASKS) as daemon:
        asked(daemon)
        answer = daemon.ask("POST", "/notifications/test", body={"project": str(daemon.project)})
        assert (answer.status, "url: is required for ntfy" in answer.json["error"]["message"]) == (422, True)
        (daemon.home / "notify.yaml").unlink()
        answer = daemon.ask("POST", "/notifications/test", body={"project": str(daemon.project)})
        assert "no notifications are set up yet" in answer.json["error"]["message"]


NIGHT = Sink.model_validate({"to": "command", "command": "true", "quiet": "22:00-07:00"})


@pytest.mark.parametrize(("hour", "day", "then"), [(23, 1, 7), (6, 0, 7), (7, 0, 7), (12, 0, 12)])
def test_in_quiet_hours_nothing_is_sent_until_they_end(hour: int, day: int, then: int) -> None:
    now = datetime(2026, 1, 5, hour, 0)
    assert due(NIGHT, now) == datetime(2026, 1, 5, then, 0) + timedelta(days=day)


def test_a_digest_is_sent_at_the_end_of_its_time() -> None:
    sink = Sink.model_validate({"to": "command", "command": "true", "digest": "15m"})
    assert due(sink, datetime(2026, 1, 5, 9, 3)) == datetime(2026, 1, 5, 9, 15)


def test_a_failure_is_tried_again_ever_later_and_then_given_up() -> None:
    waits = [wait_after(tries) for tries in range(1, TRIES + 1)]
    assert waits[:3] == [10, 40, 160]
    assert waits[-1] is None


@pytest.mark.parametrize(
    "sink",
    [
        {"to": "pigeon"},
        {"to": "ntfy", "url": "file:///etc/passwd"},
        {"to": "webhook", "url": "https://"},
        {"to": "command"},
        {"to": "command", "command": "x", "quiet": "late"},
        {"to": "command", "command": "x", "again": 5},
        {"to": "command", "command": "x", "kinds": ["questions"]},
        {"to": "email", "server": "x"},
        {"to": "command", "command": "x", "unknown": 1},
    ],
)
def test_what_is_no_sink_is_refused_with_its_line(tmp_path: Path, sink: dict[str, Any]) -> None:
    wants(tmp_path, wrong=sink)
    with pytest.raises(BadInput, match=r"notify\.yaml:"):
        read_notifications(tmp_path)


# --- a mail server that keeps what it is sent


@contextmanager
def mailbox() -> Iterator[tuple[int, list[str]]]:
    mails: list[str] = []

    class Mail(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            while line := self.rfile.readline():
                if line.upper().startswith(b"DATA"):
                    self.wfile.write(b"354 go on\r\n")
                    lines = iter(self.rfile.readline, b".\r\n")
                    mails.append(b"".join(lines).decode())
                self.wfile.write(b"221 bye\r\n" if line.upper().startswith(b"QUIT") else b"250 ok\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mail) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], mails
        server.shutdown()
