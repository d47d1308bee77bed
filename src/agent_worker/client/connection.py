"""A daemon, as its clients see it: found or started, proved to be ours, then asked.

Every connection is proved before the token travels on it, and on the same connection, so there is no moment in which
a stranger could take the port over. A daemon that is started outlives whoever starts it and tells by one word that it
serves; whoever wants one meanwhile waits for whoever was first. Below: plain_http.py, discovery.py.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from agent_worker.client.discovery import (
    HOME_VARIABLE,
    LOG_FILE,
    NONCE_HEADER,
    READY_VARIABLE,
    RUN_TOKEN,
    AlreadyRunning,
    DaemonFile,
    authority,
    check_home,
    come_from,
    home_directory,
    is_running,
    make_home,
    open_private,
    proof,
    read_daemon,
    read_holder,
)
from agent_worker.client.plain_http import (
    LOGS,
    DaemonEnded,
    Garbled,
    HttpSocket,
    ServerEvent,
    error_of,
    events,
    json_object,
    json_of,
)
from agent_worker.core.errors import AgentWorkerError, BadInput, Refused
from agent_worker.core.later import pattern

#: -P: a file in the directory where the user happens to be must not be taken for a module of ours.
COMMAND = (sys.executable, "-P", "-m", "agent_worker.daemon.main")

_daemons: set[int] = set()  #: daemons that this process has started, and has not seen end
_TAIL = 12  #: lines of the log that explain a failed start
_CHUNK = 64 * 1024


@contextmanager
def alone(home: Path) -> Iterator[None]:
    import fcntl

    lock = open_private(home / "start.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # no limit needed: whoever holds it has one
        yield
    finally:
        os.close(lock)


def spawn(home: Path, command: Sequence[str], until: float) -> str | None:
    """Start a daemon and return what it says once it serves, mostly nothing; None when it does not in time.

    It lives on: own session, none of our descriptors, no terminal.
    """
    import subprocess

    _bury()
    log = open_private(home / LOG_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    before = os.fstat(log).st_size
    ready, told = os.pipe()
    with os.fdopen(ready, "rb", buffering=0) as reading:
        try:
            environment = {**os.environ, HOME_VARIABLE: str(home), READY_VARIABLE: str(told)}
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=home,
                env=environment,
                pass_fds=(told,),
                start_new_session=True,
            )
        except OSError as error:
            raise AgentWorkerError(f"{command[0]} cannot be started: {error.strerror}") from None
        finally:
            os.close(told)
            os.close(log)
        word = _word(reading.fileno(), until)
    match word:
        case None | {"ready": _}:
            process.returncode = 0  # said to the library: we will not wait for it, it is meant to outlive us
            _daemons.add(process.pid)
            return None if word is None else str(word.get("note", ""))
        case {"error": _}:
            process.wait()
            raise error_of(503, word)
        case _:
            raise _failed_start(process.wait(), home, before)


def _bury() -> None:
    """See to the end of daemons that we started and that have not outlived us: else each leaves a zombie here."""
    for pid in tuple(_daemons):
        try:
            ended, _ = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:  # we are a fork of who started it, or somebody has waited for it
            ended = pid
        if ended:
            _daemons.discard(pid)


def _word(ready: int, until: float) -> dict[str, Any] | None:
    """What the daemon said: one JSON object; empty when it died without a word, None when time ran out."""
    import select

    waiting = select.poll()  # not select(): that knows no descriptor above 1023
    waiting.register(ready, select.POLLIN)
    said = b""
    while not said.endswith(b"\n"):
        if not waiting.poll(max(0.0, until - time.monotonic()) * 1000):
            return None
        if not (piece := os.read(ready, _CHUNK)):
            break
        said += piece
    return json_object(said)


def _failed_start(code: int, home: Path, before: int) -> AgentWorkerError:
    said = ""
    with suppress(OSError, Refused), os.fdopen(open_private(home / LOG_FILE, os.O_RDONLY), "rb") as log:
        size = os.fstat(log.fileno()).st_size
        log.seek(max(before if before <= size else 0, size - _CHUNK))
        said = "\n".join(f"  {line}" for line in log.read().decode(errors="replace").splitlines()[-_TAIL:])
    return AgentWorkerError(f"the daemon ended while it started (exit code {code})\n{said}".rstrip(), hint=LOGS)


T = TypeVar("T")

_PROOF_PATIENCE = 3.0  #: seconds, for connecting and the proof together
_TRIES = 8  #: when it has too much to do
_LONGEST_WAIT = 5.0  #: seconds between two of them
_START_PATIENCE = 20.0
_PATH = pattern(r"/[!-~]*")


class Client:
    """A daemon that has proved itself. One connection per request; made by `connect` and `find`."""

    def __init__(self, found: DaemonFile, note: str = "") -> None:
        self.found = found
        self.note = note  #: what the daemon that we started has to say

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        timeout: float = 60.0,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Status and JSON of the answer. A refusal is raised as the error it was in the daemon.

        A daemon that asks us to come again later, having done nothing, is asked again a few times.
        """
        return _patiently(lambda: self._request(method, path, body, timeout, headers))

    def _request(
        self, method: str, path: str, body: object, timeout: float, headers: Mapping[str, str] | None
    ) -> tuple[int, Any]:
        with self._asked(method, path, body, within=timeout, headers=headers) as (wire, status, answered):
            content = b"".join(wire.body(status, answered))
        return status, json_of(content, status)

    def stream(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        last_event_id: str = "",
        silence: float = 60.0,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[ServerEvent]:
        """Events as they come, until the daemon ends the stream: all that happen once this has returned.

        `silence` is how long it may say nothing at all.
        """
        extra = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_event_id} if last_event_id else {})
        with ExitStack() as held:
            asking = partial(self._asked, method, path, body, within=silence, headers=extra | dict(headers or {}))
            wire, status, answered = _patiently(lambda: held.enter_context(asking()))
            kind = answered.get("content-type", "")
            if kind == "application/json" and kind in (headers or {}).get("Accept", ""):  # there is nothing to stream
                return iter([ServerEvent("message", "", b"".join(wire.body(status, answered)).decode())])
            if "text/event-stream" not in kind:
                raise AgentWorkerError("the daemon answered without a stream of events", hint=LOGS)
            opened = held.pop_all()
        return _events_of(opened, wire.body(status, answered, within=silence))

    @contextmanager
    def _asked(
        self, method: str, path: str, body: object, *, within: float, headers: Mapping[str, str] | None = None
    ) -> Iterator[tuple[HttpSocket, int, dict[str, str]]]:
        if not _PATH.fullmatch(path):
            raise BadInput(f"not a path of the daemon: {path!r}")
        with _explained(self.found, within), _proven(self.found) as wire:
            wire.allow(within)
            content = None if body is None else json.dumps(body).encode()
            sent = {"Authorization": f"Bearer {self.found.token}", "Connection": "close"}
            wire.ask(method, path, sent | come_from() | dict(headers or {}), content)
            status, answered = wire.head()
            if status >= 300:
                error = error_of(status, json_object(b"".join(wire.body(status, answered))))
                raise _Later(answered["retry-after"], error) if "retry-after" in answered else error
            yield wire, status, answered


def find(home: Path | None = None) -> Client | None:
    """The running daemon. A stale file, or a stranger on the port it names, is no daemon: None."""
    home = home or home_directory()
    if not os.path.lexists(home):
        return None
    check_home(home)
    found = read_daemon(home)
    return None if found is None else _patiently(lambda: _found(found))


def _found(found: DaemonFile) -> Client | None:
    try:
        with _proven(found):
            return Client(found)
    except TimeoutError:
        if is_running(found):
            raise AgentWorkerError(
                f"the daemon at {where(found)} (process {found.pid}) does not answer", hint=LOGS
            ) from None
    except (OSError, _Stranger):
        pass
    return None


def _events_of(opened: ExitStack, pieces: Iterator[bytes]) -> Iterator[ServerEvent]:
    with opened:
        yield from events(pieces)


def connect(
    *,
    start: bool = True,
    home: Path | None = None,
    command: Sequence[str] = COMMAND,
    patience: float = _START_PATIENCE,
) -> Client:
    """The running daemon; if there is none, one of all who want it starts it.

    Refused in the shell of a program that works as an agent: the person's commands are not the agent's to use.
    """
    if os.environ.get(RUN_TOKEN):
        raise Refused(
            "this is the shell of an agent at work, which has its own tools", hint="agent-worker context tools"
        )
    home = home or home_directory()
    if client := find(home):
        return client
    if not start:
        raise Refused("the daemon is not running", hint="agent-worker daemon run")
    make_home(home)
    until = time.monotonic() + patience
    with alone(home):  # the others wait here, and find what we started
        while True:
            if client := find(home):
                return client
            if time.monotonic() >= until:  # also for those who waited for one that did not start
                raise AgentWorkerError("the daemon is not ready yet; it may still be starting", hint=LOGS)
            if client := _started(home, command, until):
                return client


def request_with(
    token: str,
    host: str,
    port: int,
    path: str,
    body: object,
    *,
    timeout: float = 600.0,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """The answer to somebody who has the token of a run, and knows nothing else of the daemon."""
    there = DaemonFile(0, host, port, token, "", "", "")
    sent = {
        "Accept": "application/json, text/event-stream",
        **(headers or {}),
        "Authorization": f"Bearer {token}",
        "Connection": "close",
    }
    with _explained(there, timeout), closing(HttpSocket(host, port, within=timeout)) as wire:
        wire.ask("POST", path, sent, json.dumps(body).encode())
        status, answered = wire.head()
        content = b"".join(wire.body(status, answered))
    if status >= 300:
        raise error_of(status, json_object(content))
    return json_of(content, status)


def where(found: DaemonFile) -> str:
    """The address of a daemon, for people."""
    return authority(found.host, found.port)


def looks_like_ours(host: str, port: int) -> bool:
    """Whether a daemon of ours, of whatever user and home, seems to listen there. Good enough for a sentence to people;
    it proves nothing.
    """
    with suppress(OSError, _Later):
        wire = HttpSocket(host, port, within=1.0)
        try:
            return _health(wire, os.urandom(32).hex()).get("service") == "agent-worker"
        finally:
            wire.close()
    return False


class _Later(Exception):
    """The daemon has too much to do, and has done nothing of what it was asked."""

    def __init__(self, seconds: str, error: AgentWorkerError) -> None:
        super().__init__(error.message)
        self.seconds = min(float(seconds), _LONGEST_WAIT) if re.fullmatch("[0-9]{1,6}", seconds) else 1.0
        self.error = error


def _patiently(ask: Callable[[], T]) -> T:
    """Ask again while the daemon says that it is busy. How often and how long is decided here: the answer may be a
    stranger's.
    """
    for _ in range(_TRIES):
        try:
            return ask()
        except _Later as later:
            error = later.error
            # Not all of a thousand at the same moment again.
            time.sleep(later.seconds * (0.5 + random.random()))
    raise error


class _Stranger(Exception):
    """What listens there is not the daemon we look for."""


@contextmanager
def _proven(found: DaemonFile) -> Iterator[HttpSocket]:
    """A connection whose other end holds the token, listens on that port, and is that instance."""
    wire = HttpSocket(found.host, found.port, within=_PROOF_PATIENCE)
    try:
        nonce = os.urandom(32).hex()
        expected = proof(found.token, nonce=nonce, port=found.port, instance=found.instance)
        if _health(wire, nonce).get("proof") != expected:  # a nonce is used once: there is no time to measure
            raise _Stranger
        yield wire
    finally:
        wire.close()


def _health(wire: HttpSocket, nonce: str) -> dict[str, Any]:
    try:
        wire.ask("GET", "/health", {NONCE_HEADER: nonce})
        status, headers = wire.head()
        answer = json_object(b"".join(wire.body(status, headers)))
        if status == 503 and "retry-after" in headers:
            raise _Later(headers["retry-after"], error_of(status, answer))
        return answer
    except Garbled:
        return {}
    except ConnectionError:
        raise ConnectionRefusedError from None  # it ended while we asked: as good as not being there


@contextmanager
def _explained(found: DaemonFile, within: float) -> Iterator[None]:
    """Turn what goes wrong on the way to the daemon into a sentence with the next command."""
    try:
        yield
    except _Stranger:
        told = f"what listens on {where(found)} is not our daemon; nothing was sent to it"
        raise AgentWorkerError(told, hint="agent-worker daemon status") from None
    except Garbled:
        raise AgentWorkerError(f"the answer from the daemon at {where(found)} cannot be read", hint=LOGS) from None
    except ConnectionRefusedError:
        again = "run the command again: it starts the daemon"
        raise AgentWorkerError(f"the daemon at {where(found)} is no longer running", hint=again) from None
    except TimeoutError:
        hint = "agent-worker daemon status"
        raise AgentWorkerError(f"the daemon at {where(found)} did not answer within {within:g} s", hint=hint) from None
    except OSError:
        raise DaemonEnded(f"the daemon at {where(found)} ended before it had answered", hint=LOGS) from None


def _started(home: Path, command: Sequence[str], until: float) -> Client | None:
    """Start a daemon and wait for its word; None when it is not ready yet, or another was faster and has ended."""
    try:
        said = spawn(home, command, until)
    except AlreadyRunning as refusal:
        # Started by hand just now, or about to stop: neither tells us, so we look.
        while time.monotonic() < until:
            if client := find(home):
                return client
            holder = read_holder(home)
            if holder is None or not is_running(holder):
                return None
            time.sleep(0.02)
        raise refusal
    if said is None:
        return None
    if client := find(home):
        return Client(client.found, said)
    raise AgentWorkerError("the daemon started and ended at once", hint=LOGS)
