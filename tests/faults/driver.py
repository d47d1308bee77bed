"""The one who kills, and who keeps the books outside: which sends were accepted, and what must have come of them."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_worker.agents.hosting import lasting_id
from agent_worker.database.database import Row
from agent_worker.files.root import Root
from tests import engine, stored
from tests.faults.worker import Order
from tests.patience import PATIENCE, eventually
from tests.teams import write_project


class Nursery:
    """Makes lives. One for all tests: its imports are paid once."""

    def __init__(self) -> None:
        self._door, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tests.faults.worker", "--nursery", str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()

    def close(self) -> None:
        self._door.close()
        self._process.wait(PATIENCE)

    def life(self, order: Order) -> Life:
        ours, theirs = socket.socketpair()
        socket.send_fds(self._door, [b"live"], [theirs.fileno()])
        theirs.close()
        return Life(ours, order)


class Killed(Exception):
    """The life ended without saying goodbye."""


class Silent(AssertionError):
    """The life says nothing and does not end: it hangs."""


class Life:
    """One run of the worker process, seen from outside."""

    def __init__(self, wire: socket.socket, order: Order) -> None:
        self._wire = wire
        self._rest = b""
        self.pid = 0
        self.patience = PATIENCE  #: seconds; a life that is silent for so long hangs, and that is a failure
        self.seen: list[dict[str, Any]] = []
        with suppress(BrokenPipeError):
            wire.sendall(order.dump())

    def ask(self, **what: object) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # it was killed: reading will tell
            self._wire.sendall(json.dumps(what).encode() + b"\n")

    def next(self) -> dict[str, Any]:
        """The next line it reports. Raises Killed at the end that it did not announce."""
        while b"\n" not in self._rest:
            if not select.select([self._wire], [], [], self.patience)[0]:
                self.kill()
                raise Silent(f"nothing heard for {self.patience} s; last: {self.seen[-5:]}")
            try:
                more = self._wire.recv(65536)
            except ConnectionResetError:
                more = b""
            if not more:
                raise Killed
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        said = json.loads(line)
        assert "crashed" not in said, said["crashed"]
        if "event" not in said:
            self.seen.append(said)
        self.pid = said.get("born", self.pid)
        return said

    def until(self, word: str) -> dict[str, Any]:
        while word not in (said := self.next()):
            pass
        return said

    def kill(self) -> None:
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def drain(self) -> Iterator[dict[str, Any]]:
        """What it still said before it was dead. One that was killed before we heard of its birth dies with that."""
        self.patience = PATIENCE
        with suppress(Killed):
            while True:
                said = self.next()
                if "born" in said:
                    self.kill()
                yield said

    def close(self) -> None:
        self._wire.close()


@dataclass
class Books:
    """The ledger outside: what was sent under which key, and the id that came back. Synced line by line."""

    path: Path
    sent: dict[str, tuple[str, str]] = field(default_factory=dict)  #: key → (address, text)
    accepted: dict[str, str] = field(default_factory=dict)  #: key → id

    def note(self, said: dict[str, Any]) -> None:
        if "accepted" not in said:
            return
        key, id = said["accepted"], said["id"]
        assert self.accepted.setdefault(key, id) == id, f"{key} was accepted twice"
        with self.path.open("a") as file:
            file.write(f"{key} {id}\n")
            file.flush()
            os.fsync(file.fileno())

    @property
    def unanswered(self) -> dict[str, tuple[str, str]]:
        return {key: what for key, what in self.sent.items() if key not in self.accepted}


class Scene:
    """A home, its books, and the lives that come and go on it."""

    def __init__(
        self, nursery: Nursery, home: Path, members: tuple[str, ...] = ("alice", "bob", "carol"), *, workflow: str = ""
    ) -> None:
        self.home = home
        self.members = members
        self.nursery = nursery
        home.mkdir(parents=True, exist_ok=True)
        write_project(home / "project", members, workflow=workflow)
        if engine.is_postgresql():  # else the first fault of a file would be that of the file with the host's id
            lasting_id(Root.private(home))
        self.books = Books(home / "books.txt")
        self.deaths = 0  #: lives that `settle` lost

    @property
    def project(self) -> Path:
        return self.home / "project"

    @property
    def workspace(self) -> Path:
        return self.project / ".workspace" / "review" / "main"

    def read(self, view: stored.View, **wanted: object) -> list[Row]:
        """What is stored, looked at from outside."""
        return stored.read(self.home / "state.db", view, **wanted)

    @contextmanager
    def life(self, *, failpoints: str = "", gate_open: bool = True) -> Iterator[Life]:
        order = Order(str(self.home), self.members, failpoints=failpoints, gate_open=gate_open)
        life = self.nursery.life(order)
        try:
            yield life
        finally:
            with closing(life):
                life.kill()
                for said in life.drain():
                    self.books.note(said)

    def intend(self, key: str, to: str, text: str) -> None:
        """To be sent by whichever life gets so far."""
        self.books.sent[key] = (to, text)

    def send(self, life: Life, key: str, to: str, text: str) -> None:
        self.intend(key, to, text)
        life.ask(send={"key": key, "to": to, "text": text})

    def send_again(self, life: Life) -> None:
        """What nobody answered is sent once more, under the same key, as a client does."""
        for key, (to, text) in self.books.unanswered.items():
            life.ask(send={"key": key, "to": to, "text": text})

    def hear_until(self, life: Life, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            said = life.next()
            self.books.note(said)
            if done(said):
                return said

    def hear_answers(self, life: Life) -> None:
        while self.books.unanswered:
            self.books.note(life.next())

    def hear_lines(self, life: Life, count: int) -> None:
        """So many, or fewer when there are no more to come."""
        life.ask(quiet=True)
        for _ in range(count):
            said = life.next()
            self.books.note(said)
            if "quiet" in said:
                return

    def settle(self, *, gate_open: bool = True) -> None:
        """Live without faults until there is nothing left to do, then stop properly. Poison may need several lives."""
        for _ in range(30):
            with self.life(gate_open=gate_open) as life, suppress(Killed):
                life.until("ready")
                self.send_again(life)
                self.hear_answers(life)
                life.ask(quiet=True)
                self.hear_until(life, lambda said: "quiet" in said)
                life.ask(stop=True)
                self.hear_until(life, lambda said: "bye" in said)
                return
            self.deaths += 1
        raise AssertionError("not quiet after 30 lives")


def wait_a_moment(chance: random.Random, longest: float) -> None:
    """The fault itself: a kill at no particular moment."""
    time.sleep(chance.random() * longest)


def wait_for(holds: Callable[[], Any]) -> None:
    """Look from outside until it holds: another process has no event to wait for."""
    assert eventually(holds), "it never came to hold"
