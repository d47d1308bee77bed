"""Just enough HTTP/1.1 to ask our own daemon, over a plain socket: the usual libraries cost more time than a command.

Also its streams of events, and what an answer means: its JSON, or the error that the daemon raised, as that error.
Follows no redirect, repeats no request. Knows no token and no daemon.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any

from agent_worker.client.discovery import authority
from agent_worker.core.errors import AgentWorkerError, BadInput, DefinitionError, NotFound, Refused, Slip
from agent_worker.core.later import dataclass

_LARGEST_HEAD = 64 * 1024
_LARGEST_BODY = 64 * 1024 * 1024
_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One server-sent event."""

    event: str  #: "message" when the daemon names none
    id: str  #: of this or the last event that had one; resume with it
    data: str


class Garbled(Exception):
    """Raised when the answer is not the HTTP that our daemon speaks."""


class HttpSocket:
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
        """Set how many seconds are left from now on; a peer that sends a byte now and then gets no more."""
        self._until = time.monotonic() + seconds

    def ask(self, method: str, path: str, headers: Mapping[str, str], content: bytes | None = None) -> None:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if content is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
        self._socket.settimeout(self._left())
        self._socket.sendall("\r\n".join((*lines, "", "")).encode("latin-1") + (content or b""))

    def head(self) -> tuple[int, dict[str, str]]:
        """Read status and headers, their names in small letters."""
        protocol, _, rest = self._line().partition(b" ")
        if not protocol.startswith(b"HTTP/1.") or not rest[:3].isdigit():
            raise Garbled
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
            raise Garbled  # ours always says where its answer ends
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
                raise Garbled
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


def events(pieces: Iterator[bytes]) -> Iterator[ServerEvent]:
    """Read server-sent events from bytes that may be cut anywhere."""
    kind, last_id, data = "", "", list[str]()
    for line in _lines(pieces):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "" if not line:
                if data:
                    yield ServerEvent(kind or "message", last_id, "\n".join(data))
                kind, data = "", []
            case "event":
                kind = value
            case "id":
                last_id = value
            case "data":
                data.append(value)


def _hexadecimal(line: bytes) -> int:
    size = line.partition(b";")[0]
    if not re.fullmatch(rb"[0-9A-Fa-f]{1,8}", size):
        raise Garbled
    return int(size, 16)


def _lines(pieces: Iterator[bytes]) -> Iterator[str]:
    rest = bytearray()
    for piece in pieces:
        rest += piece
        *whole, rest = rest.split(b"\n") if b"\n" in piece else [rest]  # ours never ends a line with \r alone
        if len(rest) > _LARGEST_BODY:
            raise AgentWorkerError(f"an event of more than {_LARGEST_BODY:,} bytes")
        for line in whole:
            yield line.removesuffix(b"\r").decode(errors="replace")


class DaemonEnded(AgentWorkerError):
    """The daemon was there when it was asked, and not any more when it should have answered."""

    code = "daemon_ended"


LOGS = "agent-worker daemon logs"  #: what to type when it was not as it should be


def json_of(content: bytes, status: int) -> Any:
    if not content:
        return None
    try:
        return json.loads(content)
    except ValueError:
        raise AgentWorkerError(f"the daemon answered with status {status} and no JSON", hint=LOGS) from None


def json_object(content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def error_of(status: int, answer: dict[str, Any]) -> AgentWorkerError:
    """The error the daemon raised: of its class if we know it, of the nearest if not."""
    match answer.get("error"):
        case {"message": str(message), **rest}:
            kind = _classes().get(str(rest.get("code"))) or _by_status(status)
            error = kind(message, hint=str(rest.get("hint") or ""))
            error.slip = _slip_of(rest)
            return error
    return AgentWorkerError(f"the daemon answered with status {status} and no explanation", hint=LOGS)


def _slip_of(error: Mapping[object, object]) -> Slip | None:
    match error.get("slip"):
        case {"typed": str(typed), "meant": str(meant)}:
            return Slip(typed, meant)
    return None


def _classes() -> dict[str, type[AgentWorkerError]]:
    known, waiting = dict[str, type[AgentWorkerError]](), [AgentWorkerError]
    while waiting:
        kind = waiting.pop()
        if "code" in vars(kind):  # a finer one of the same code may be made of more than a sentence
            known[kind.code] = kind
        waiting += kind.__subclasses__()
    return known | {DefinitionError.code: BadInput}  # that one is made of problems, and we have a sentence


def _by_status(status: int) -> type[AgentWorkerError]:
    return {400: BadInput, 422: BadInput, 404: NotFound, 401: Refused, 403: Refused, 409: Refused}.get(
        status, AgentWorkerError
    )
