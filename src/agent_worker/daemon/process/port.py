"""The port a daemon listens on, and a sentence for each way it cannot be had."""

from __future__ import annotations

import errno
import ipaddress
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent_worker.client import connection, discovery
from agent_worker.core.errors import AgentWorkerError, BadInput, Refused
from agent_worker.daemon.process.lock import already_running
from agent_worker.daemon.process.settings import DaemonSettings

_CLOSING = {"04", "05", "06", "09", "0B"}  # states in /proc/net/tcp after one side has closed; 06 is TIME_WAIT
_LISTENING = "0A"


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
    if not 0 <= settings.port < 2**16:
        raise BadInput(f"{settings.port} is not a port", hint="a number up to 65535")
    if not address.is_loopback and not settings.exposed:
        raise Refused(f"{host} can be reached from other machines", hint="leave it at 127.0.0.1")
    if not address.is_loopback:
        told = f"warning: {host} can be reached from other machines; whoever has the token controls this account"
        print(told, file=sys.stderr, flush=True)
    return host


def reached_at(host: str) -> str:
    """The address that our own clients connect to, when the daemon listens everywhere."""
    return {"localhost": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def _cannot_listen(home: Path, address: str, port: int, error: OSError) -> AgentWorkerError:
    another = "choose another: AGENT_WORKER_PORT=…"
    if error.errno != errno.EADDRINUSE:
        return Refused(f"cannot listen on {discovery.authority(address, port)}: {error.strerror}", hint=another)
    ours = connection.find(home)
    if ours is not None and ours.found.port == port:  # somebody removed the lock file under it
        return already_running(home, ours.found)
    if connection.looks_like_ours(reached_at(address), port):
        told = f"port {port} is held by a daemon of another home directory or user"
        return Refused(told, hint=f"use its {discovery.HOME_VARIABLE}, or {another}")
    if _is_closing(port):
        told = f"port {port} was in use a moment ago, and the system keeps it for up to a minute (TIME_WAIT)"
        return Refused(told, hint=f"try again in a minute, or {another}")
    return Refused(f"port {port} is held by another program", hint=f"see which: lsof -i :{port}; or {another}")


def _is_closing(port: int) -> bool:
    """Whether nobody listens there, and only connections that are over keep the port."""
    states = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError), open(table) as lines:
            rows = [line.split() for line in lines]
            states |= {row[3] for row in rows if row[1].endswith(f":{port:04X}")}
    return _LISTENING not in states and bool(states & _CLOSING)
