"""The port a daemon listens on, and a sentence for each way it cannot be had."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent_worker.client import connection, discovery
from agent_worker.core.errors import AgentWorkerError, BadInput, Refused
from agent_worker.daemon.process.lock import already_running
from agent_worker.daemon.process.settings import PORT, DaemonSettings

_CLOSING = {"04", "05", "06", "09", "0B"}  # states in /proc/net/tcp after one side has closed; 06 is TIME_WAIT
_LISTENING = "0A"
_KEPT = "port"  # a file in the home
_TRIED = 100  # ports in a row
_ANOTHER = "choose another: AGENT_WORKER_PORT=…"


@contextmanager
def found_port(home: Path, address: str, named: int | None, *, say: Callable[[str], None]) -> Iterator[socket.socket]:
    """A listening socket on the port that the person named; without one, on the port that this home had the last
    time, else the default one, else the next that is free, which is kept in the home and said."""
    if named is not None:
        with listening(home, address, named) as listener:
            yield listener
        return
    first = _kept(home) or PORT
    for port in range(first, min(first + _TRIED, 2**16)):
        try:
            with listening(home, address, port) as listener:
                if port != first:
                    _keep(home, port)
                    say(f"port {first} is held by {holder(first)}; this daemon listens on {port} from now on")
                yield listener
                return
        except PortTaken:
            continue
    raise Refused(f"ports {first} to {port} are all taken", hint=_ANOTHER)


class PortTaken(Refused):
    """Somebody else listens there."""


def _kept(home: Path) -> int | None:
    """The port that an earlier daemon of this home found free."""
    with suppress(OSError, ValueError):
        port = int((home / _KEPT).read_text())
        return port if 0 < port < 2**16 else None
    return None


def _keep(home: Path, port: int) -> None:
    with os.fdopen(discovery.open_private(home / _KEPT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w") as file:
        file.write(f"{port}\n")


@contextmanager
def listening(home: Path, address: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # With its protocol named: only then asyncio lets small pieces go at once on what is accepted.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, port))
            listener.listen()
        except OSError as error:
            raise _cannot_listen(home, address, port, error) from None
        yield listener


def address_of(settings: DaemonSettings) -> str:
    host = "127.0.0.1" if settings.host == "localhost" else settings.host
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise BadInput(f"{host!r} is not an IP address", hint="127.0.0.1 is this machine only") from None
    if settings.port is not None and not 0 <= settings.port < 2**16:
        raise BadInput("the port is not a number up to 65535", hint="AGENT_WORKER_PORT=5099, or leave it out")
    if not address.is_loopback and not settings.exposed:
        raise Refused(f"{host} can be reached from other machines", hint="leave it at 127.0.0.1")
    if not address.is_loopback:
        told = f"warning: {host} can be reached from other machines; anyone who has the token controls this account"
        print(told, file=sys.stderr, flush=True)
    return host


def reached_at(host: str) -> str:
    """The address that our own clients connect to, when the daemon listens everywhere."""
    return {"localhost": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def _cannot_listen(home: Path, address: str, port: int, error: OSError) -> AgentWorkerError:
    another = _ANOTHER
    if error.errno != errno.EADDRINUSE:
        return Refused(f"cannot listen on {discovery.authority(address, port)}: {error.strerror}", hint=another)
    ours = connection.find(home)
    if ours is not None and ours.found.port == port:  # somebody removed the lock file under it
        return already_running(home, ours.found)
    if connection.looks_like_ours(reached_at(address), port):
        told = f"port {port} is held by a daemon of another home directory or user"
        return PortTaken(told, hint=f"use its {discovery.HOME_VARIABLE}, or {another}")
    if _is_closing(port):
        told = f"port {port} was in use a moment ago, and the system keeps it for up to a minute (TIME_WAIT)"
        return PortTaken(told, hint=f"try again in a minute, or {another}")
    return PortTaken(f"port {port} is held by {holder(port)}", hint=f"stop it, or {another}")


def holder(port: int) -> str:
    """Who listens on a port, in a few words, as far as the system tells us."""
    if connection.looks_like_ours("127.0.0.1", port):
        return "a daemon of another home directory or user"
    sockets, users = _listeners(port)
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if sockets & {os.readlink(file) for file in (process / "fd").iterdir()}:
                return f"{(process / 'comm').read_text().strip()} (process {process.name})"
    others = [user for user in users if user != os.geteuid()]
    return f"a program of the user {_named(others[0])}" if others else "another program"


def _listeners(port: int) -> tuple[set[str], list[int]]:
    """The sockets that listen on a port, as links in /proc name them, and the users they belong to."""
    sockets, users = set(), []
    for row in _rows(port):
        if row[3] == _LISTENING:
            sockets.add(f"socket:[{row[9]}]")
            users.append(int(row[7]))
    return sockets, users


def _named(user: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _rows(port: int) -> Iterator[list[str]]:
    """What the system tells about connections of this port, where it does."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError), open(table) as lines:
            yield from (row for row in map(str.split, lines) if row[1].endswith(f":{port:04X}"))


def _is_closing(port: int) -> bool:
    """Whether nobody listens there, and only connections that are over keep the port."""
    states = {row[3] for row in _rows(port)}
    return _LISTENING not in states and bool(states & _CLOSING)
