"""A daemon, as its clients see it: found or started, proved to be ours, then asked.

Speaks just enough HTTP/1.1 for our own daemon, over a plain socket: the usual libraries cost more time than a whole
command. Every connection is proved before the token travels on it, and on the same connection, so there is no moment
in which a stranger could take the port over. Follows no redirect, repeats no request. Below: discovery.py.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_worker.daemon.discovery import (
    HOME_VARIABLE,
    LOG_FILE,
    NONCE_HEADER,
    READY_VARIABLE,
    AlreadyRunning,
    Found,
    authority,
    check_home,
    home_directory,
    is_running,
    make_home,
    open_private,
    proof,
    read_daemon,
    read_holder,
)
from agent_worker.errors import AgentWorkerError, BadInput, DefinitionError, NotFound, Refused

#: -P: a file in the directory where the user happens to be must not be taken for a module of ours.
COMMAND = (sys.executable, "-P", "-m", "agent_worker.daemon.main")
LOGS = "agent-worker daemon logs"

_PROOF_PATIENCE = 3.0  #: seconds, for connecting and the proof together
_START_PATIENCE = 20.0
_LARGEST_HEAD = 64 * 1024
_LARGEST_BODY = 64 * 1024 * 1024
_CHUNK = 64 * 1024
_PATH = re.compile(r"/[!-~]*")
_TAIL = 12  #: lines of the log that explain a failed start


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event."""

    event: str  #: "message" when the daemon names none
    id: str  #: of this or the last event that had one; resume with it
    data: str


class Client:
    """A daemon that has proved itself. One connection per request; made by `connect` and `find`."""

    def __init__(self, found: Found) -> None:
        self.found = found

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        timeout: float = 60.0,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Status and JSON of the answer. A refusal is raised as the error it was in the daemon."""
        with self._asked(method, path, body, within=timeout, headers=headers) as (wire, status, answered):
            content = b"".join(wire.body(status, answered))
        return status, _json(content, status)

    def stream(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        last_event_id: str = "",
        silence: float = 60.0,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[Event]:
        """Events as they come, until the daemon ends the stream. `silence` is how long it may say nothing at all."""
        extra = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_event_id} if last_event_id else {})
        with self._asked(method, path, body, within=silence, headers=extra | dict(headers or {})) as asked:
            wire, status, answered = asked
            if "text/event-stream" not in answered.get("content-type", ""):
                raise AgentWorkerError("the daemon answered without a stream of events", hint=LOGS)
            yield from events(wire.body(status, answered, within=silence))

    @contextmanager
    def _asked(
        self, method: str, path: str, body: object, *, within: float, headers: Mapping[str, str] | None = None
    ) -> Iterator[tuple[_Wire, int, dict[str, str]]]:
        if not _PATH.fullmatch(path):
            raise BadInput(f"not a path of the daemon: {path!r}")
        with _explained(self.found, within), _proven(self.found) as wire:
            wire.allow(within)
            content = None if body is None else json.dumps(body).encode()
            sent = {"Authorization": f"Bearer {self.found.token}", "Connection": "close", **(headers or {})}
            wire.ask(method, path, sent, content)
            status, answered = wire.head()
            if status >= 300:
                raise _error(status, _object(b"".join(wire.body(status, answered))))
            yield wire, status, answered


def find(home: Path | None = None) -> Client | None:
    """The running daemon. A stale file, or a stranger on the port it names, is no daemon: None."""
    home = home or home_directory()
    if not os.path.lexists(home):
        return None
    check_home(home)
    found = read_daemon(home)
    if found is None:
        return None
    try:
        with _proven(found):
            return Client(found)
    except TimeoutError:
        if is_running(found):
            raise AgentWorkerError(f"the daemon (process {found.pid}) does not answer", hint=LOGS) from None
    except (OSError, _Stranger):
        pass
    return None


def connect(
    *,
    start: bool = True,
    home: Path | None = None,
    command: Sequence[str] = COMMAND,
    patience: float = _START_PATIENCE,
) -> Client:
    """The running daemon; if there is none it is started, by one of all who want it."""
    home = home or home_directory()
    if client := find(home):
        return client
    if not start:
        raise Refused("the daemon is not running", hint="agent-worker daemon run")
    make_home(home)
    until = time.monotonic() + patience
    with _alone(home):  # the others wait here, and find what we started
        while True:
            if client := find(home):
                return client
            if time.monotonic() >= until:  # also for those who waited for one that did not start
                raise AgentWorkerError("the daemon is not ready yet; it may still be starting", hint=LOGS)
            if client := _started(home, command, until):
                return client


def looks_like_ours(host: str, port: int) -> bool:
    """Whether a daemon of ours, of whatever user and home, seems to listen there. Good for a sentence, no proof."""
    with suppress(OSError):
        wire = _Wire(host, port, within=1.0)
        try:
            return _health(wire, os.urandom(32).hex()).get("service") == "agent-worker"
        finally:
            wire.close()
    return False


def events(pieces: Iterator[bytes]) -> Iterator[Event]:
    """Read server-sent events from bytes that may be cut anywhere."""
    kind, last_id, data = "", "", list[str]()
    for line in _lines(pieces):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "" if not line:
                if data:
                    yield Event(kind or "message", last_id, "\n".join(data))
                kind, data = "", []
            case "event":
                kind = value
            case "id":
                last_id = value
            case "data":
                data.append(value)


class _Stranger(Exception):
    """What listens there is not the daemon we look for."""


class _Garbled(Exception):
    """Not the HTTP that ours speaks."""


class _Wire:
    """One connection: bytes out, an HTTP answer in, all before a moment that the caller moves."""

    def __init__(self, host: str, port: int, *, within: float) -> None:
        self._host = authority(host, port)
        self._read = bytearray()
        self.allow(within)
        self._socket = socket.create_connection((host, port), timeout=within)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self._socket.close()

    def allow(self, seconds: float) -> None:
        """From now on; a peer that sends a byte now and then gets no more than this."""
        self._until = time.monotonic() + seconds

    def ask(self, method: str, path: str, headers: Mapping[str, str], content: bytes | None = None) -> None:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if content is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
        self._socket.settimeout(self._left())
        self._socket.sendall("\r\n".join((*lines, "", "")).encode("latin-1") + (content or b""))

    def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers, their names in small letters."""
        protocol, _, rest = self._line().partition(b" ")
        if not protocol.startswith(b"HTTP/1.") or not rest[:3].isdigit():
            raise _Garbled
        headers = {}
        while line := self._line():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        return int(rest[:3]), headers

    def body(self, status: int, headers: Mapping[str, str], *, within: float | None = None) -> Iterator[bytes]:
        """Pieces as they come. With `within` each may take that long; otherwise all of them count together."""
        pieces = self._chunks() if "chunked" in headers.get("transfer-encoding", "") else self._sized(status, headers)
        total = 0
        for piece in pieces:
            if within is not None:
                self.allow(within)
            elif (total := total + len(piece)) > _LARGEST_BODY:
                raise AgentWorkerError(f"the daemon answered with more than {_LARGEST_BODY:,} bytes")
            yield piece

    def _sized(self, status: int, headers: Mapping[str, str]) -> Iterator[bytes]:
        length = headers.get("content-length", "0" if status == 204 else "")
        if not re.fullmatch("[0-9]{1,12}", length):
            raise _Garbled  # ours always says where its answer ends
        yield from self._exactly(int(length))

    def _chunks(self) -> Iterator[bytes]:
        while size := _hexadecimal(self._line()):
            yield from self._exactly(size)
            self._line()
        self._line()

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size:
            if not self._read:
                self._more()
            piece = bytes(self._read[:size])
            del self._read[:size]
            size -= len(piece)
            yield piece

    def _line(self) -> bytes:
        while (end := self._read.find(b"\n")) < 0:
            if len(self._read) > _LARGEST_HEAD:
                raise _Garbled
            self._more()
        line = bytes(self._read[:end])
        del self._read[: end + 1]
        return line.removesuffix(b"\r")

    def _more(self) -> None:
        self._socket.settimeout(self._left())
        received = self._socket.recv(_CHUNK)
        if not received:
            raise ConnectionResetError
        self._read += received

    def _left(self) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


@contextmanager
def _proven(found: Found) -> Iterator[_Wire]:
    """A connection whose other end holds the token, listens on that port, and is that instance."""
    wire = _Wire(found.host, found.port, within=_PROOF_PATIENCE)
    try:
        nonce = os.urandom(32).hex()
        expected = proof(found.token, nonce=nonce, port=found.port, instance=found.instance)
        if _health(wire, nonce).get("proof") != expected:  # a nonce is used once: there is no time to measure
            raise _Stranger
        yield wire
    finally:
        wire.close()


def _health(wire: _Wire, nonce: str) -> dict[str, Any]:
    try:
        wire.ask("GET", "/health", {NONCE_HEADER: nonce})
        status, headers = wire.head()
        return _object(b"".join(wire.body(status, headers)))
    except _Garbled:
        return {}
    except ConnectionError:
        raise ConnectionRefusedError from None  # it ended while we asked: as good as not being there


@contextmanager
def _explained(found: Found, within: float) -> Iterator[None]:
    """What goes wrong on the way, as a sentence with the next command."""
    try:
        yield
    except _Stranger:
        told = f"what listens on {found.host}:{found.port} is not our daemon; nothing was sent to it"
        raise AgentWorkerError(told, hint="agent-worker daemon status") from None
    except _Garbled:
        raise AgentWorkerError("the daemon's answer cannot be read", hint=LOGS) from None
    except ConnectionRefusedError:
        again = "run the command again: it starts the daemon"
        raise AgentWorkerError("the daemon is not running any more", hint=again) from None
    except TimeoutError:
        hint = "agent-worker daemon status"
        raise AgentWorkerError(f"the daemon did not answer within {within:g} s", hint=hint) from None
    except OSError:
        raise AgentWorkerError("the daemon ended before it had answered", hint=LOGS) from None


def _started(home: Path, command: Sequence[str], until: float) -> Client | None:
    """Start a daemon and wait for its word; None when it is not ready yet, or another was faster and has ended."""
    try:
        ready = _spawn(home, command, until)
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
    if not ready:
        return None
    if client := find(home):
        return client
    raise AgentWorkerError("the daemon started, and ended at once", hint=LOGS)


def _spawn(home: Path, command: Sequence[str], until: float) -> bool:
    """Whether the daemon serves in time. It lives on: own session, none of our descriptors, no terminal."""
    import subprocess

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
            return word is not None
        case {"error": _}:
            process.wait()
            raise _error(503, word)
        case _:
            raise _failed_start(process.wait(), home, before)


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
    return _object(said)


def _failed_start(code: int, home: Path, before: int) -> AgentWorkerError:
    said = ""
    with suppress(OSError, Refused), os.fdopen(open_private(home / LOG_FILE, os.O_RDONLY), "rb") as log:
        size = os.fstat(log.fileno()).st_size
        log.seek(max(before if before <= size else 0, size - _CHUNK))
        said = "\n".join(f"  {line}" for line in log.read().decode(errors="replace").splitlines()[-_TAIL:])
    return AgentWorkerError(f"the daemon ended while it started (exit code {code})\n{said}".rstrip(), hint=LOGS)


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    import fcntl

    lock = open_private(home / "start.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # no limit needed: whoever holds it has one
        yield
    finally:
        os.close(lock)


def _error(status: int, answer: dict[str, Any]) -> AgentWorkerError:
    """The error the daemon raised: of its class if we know it, of the nearest if not."""
    match answer.get("error"):
        case {"message": str(message), **rest}:
            kind = _classes().get(str(rest.get("code"))) or _by_status(status)
            return kind(message, hint=str(rest.get("hint") or ""))
    return AgentWorkerError(f"the daemon answered with status {status} and no explanation", hint=LOGS)


def _classes() -> dict[str, type[AgentWorkerError]]:
    known, waiting = dict[str, type[AgentWorkerError]](), [AgentWorkerError]
    while waiting:
        kind = waiting.pop()
        known[kind.code] = kind
        waiting += kind.__subclasses__()
    return known | {DefinitionError.code: BadInput}  # that one is made of problems, and we have a sentence


def _by_status(status: int) -> type[AgentWorkerError]:
    return {400: BadInput, 422: BadInput, 404: NotFound, 401: Refused, 403: Refused, 409: Refused}.get(
        status, AgentWorkerError
    )


def _object(content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _json(content: bytes, status: int) -> Any:
    if not content:
        return None
    try:
        return json.loads(content)
    except ValueError:
        raise AgentWorkerError(f"the daemon answered with status {status} and no JSON", hint=LOGS) from None


def _hexadecimal(line: bytes) -> int:
    size = line.partition(b";")[0]
    if not re.fullmatch(rb"[0-9A-Fa-f]{1,8}", size):
        raise _Garbled
    return int(size, 16)


def _lines(pieces: Iterator[bytes]) -> Iterator[str]:
    rest = bytearray()
    for piece in pieces:
        rest += piece
        *whole, rest = rest.split(b"\n") if b"\n" in piece else [rest]  # ours never ends a line with \r alone
        if len(rest) > _LARGEST_BODY:
            raise AgentWorkerError(f"an event of more than {_LARGEST_BODY:,} bytes", hint=LOGS)
        for line in whole:
            yield line.removesuffix(b"\r").decode(errors="replace")
