"""The daemon as a process: one per home, a port, a log, an end.

`serve` takes the kernel lock, binds, answers who it is, and only then lets the application be made, whose imports
take longer than all of this. What the application does is none of its business: that is http.py, handed in.
Ends with 0 when asked to stop, 2 when it may not start, 3 when another daemon has the home, 70 when it got stuck.
Below: discovery.py, which says what is written where.
"""

from __future__ import annotations

import asyncio
import errno
import faulthandler
import ipaddress
import json
import logging
import os
import queue
import secrets
import signal
import socket
import stat
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import filelock
import uvicorn

from agent_worker.daemon import client, discovery
from agent_worker.daemon.discovery import AlreadyRunning, Found, Holder
from agent_worker.errors import AgentWorkerError, BadInput, Refused
from agent_worker.ids import new_id

PORT = 5099
FAILED, REFUSED, ALREADY_RUNNING, STUCK = 1, 2, 3, 70  #: exit codes

_STREAMS_END = 2  #: seconds that open streams get to say goodbye
_TICKS = 30  #: how often the watchdog looks before it gives up
_BACKLOG = 10_000  #: records that wait for a slow disk; more are dropped
_LONGEST = 64 * 1024  #: characters of one record
_CHUNK = 8 * 1024
_NETWORK_DISKS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "9p", "fuse.sshfs", "fuse.glusterfs"}

type_ = MutableMapping[str, Any]
App = Callable[[type_, Callable[[], Awaitable[type_]], Callable[[type_], Awaitable[None]]], Awaitable[None]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    home: Path
    host: str = "127.0.0.1"
    port: int = PORT
    exposed: bool = False  #: the user asked, by a flag, to listen beyond this machine
    token: str | None = field(default=None, repr=False)  #: None: a new one with every start
    grace: float = 10.0  #: seconds from being asked to stop to being gone
    stuck_after: float = 30.0
    log_bytes: int = 10 * 1024 * 1024
    log_files: int = 5


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this daemon is, for the application it serves."""

    home: Path
    host: str  #: where clients connect to
    port: int
    instance: str
    started_at: str
    token: str = field(repr=False)
    stop: Callable[[], None] = field(repr=False)  #: ask the daemon to end
    stopping: asyncio.Event = field(repr=False)  #: set when asked: endless streams say goodbye and end


def serve(make_app: Callable[[Identity], Awaitable[App]], settings: Settings) -> int:
    """Be the daemon until asked to stop; the exit code. What prevents it is told on stderr and to who started us.

    `make_app` runs when clients can already reach us. Raising prevents the start. An application that must end
    properly does so in its ASGI lifespan.
    """
    starter = _Starter.from_environment()
    try:
        _serve(make_app, settings, starter)
    except AlreadyRunning as error:
        return starter.refuse(error, ALREADY_RUNNING)
    except AgentWorkerError as error:
        return starter.refuse(error, REFUSED)
    except OSError as error:
        told = f"the daemon cannot use {error.filename or settings.home}: {error.strerror}"
        return starter.refuse(Refused(told, hint=f"set {discovery.HOME_VARIABLE} to another directory"), REFUSED)
    except Exception:
        log.critical("the daemon failed", exc_info=True)
        traceback.print_exc()
        return FAILED
    return 0


def _serve(make_app: Callable[[Identity], Awaitable[App]], settings: Settings, starter: _Starter) -> None:
    token = _token(settings)
    home = discovery.make_home(settings.home)
    _refuse_network_disk(home)
    instance = new_id("d")
    with _only_one(home, instance), _logging(home, settings, token) as file, _listening(home, settings) as listener:
        daemon = _Daemon(home, settings, instance, token, listener)
        asyncio.run(daemon.run(make_app, starter, file))


class _Starter:
    """Whoever started us and waits for a word; nobody when a person did."""

    def __init__(self, pipe: int | None) -> None:
        self._pipe = pipe

    @classmethod
    def from_environment(cls) -> _Starter:
        given = os.environ.pop(discovery.READY_VARIABLE, "")  # not for our own children
        with suppress(ValueError, OSError):
            if stat.S_ISFIFO(os.fstat(int(given)).st_mode):
                os.set_inheritable(int(given), False)
                return cls(int(given))
        return cls(None)

    def ready(self, instance: str) -> None:
        self._tell({"ready": instance})

    def refuse(self, error: AgentWorkerError, code: int) -> int:
        log.error("%s", error.message)
        self._tell({"error": _shown(error)})
        print(f"error: {error.message}" + (f"\n  try: {error.hint}" if error.hint else ""), file=sys.stderr, flush=True)
        return code

    def _tell(self, word: dict[str, Any]) -> None:
        if self._pipe is None:
            return
        with suppress(OSError):  # it did not wait
            os.write(self._pipe, json.dumps(word).encode() + b"\n")
        os.close(self._pipe)
        self._pipe = None


class _Daemon:
    """From listening to the end."""

    def __init__(self, home: Path, settings: Settings, instance: str, token: str, listener: socket.socket) -> None:
        self._settings = settings
        self._listener = listener
        self._stopping = asyncio.Event()
        self._identity = Identity(
            home=home,
            host=_reached_at(settings.host),
            port=listener.getsockname()[1],
            instance=instance,
            started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            token=token,
            stop=self.stop,
            stopping=self._stopping,
        )
        self._front = _Front(self._identity)
        self._server = _Server(_configured(self._front), self._announce)

    async def run(
        self, make_app: Callable[[Identity], Awaitable[App]], starter: _Starter, file: LogFile
    ) -> None:
        loop = asyncio.get_running_loop()
        self._watchdog = Watchdog(loop, file, patience=self._settings.stuck_after)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._signalled)
        making = asyncio.create_task(self._make(make_app, starter))
        try:
            await self._server.serve(sockets=[self._listener])
        finally:
            self._stop_by = loop.time() + self._settings.grace - _STREAMS_END
            making.cancel()
            self._withdraw()
        with suppress(asyncio.CancelledError):
            await making

    def stop(self) -> None:
        if self._stopping.is_set():
            return
        log.info("asked to stop")
        self._stopping.set()
        self._withdraw()
        self._watchdog.end_within(self._settings.grace)
        self._server.should_exit = True

    def _signalled(self) -> None:
        self._server.force_exit = self._stopping.is_set()  # asked again: somebody is in a hurry
        self.stop()

    async def _make(self, make_app: Callable[[Identity], Awaitable[App]], starter: _Starter) -> None:
        ...
