"""The daemon as a process: one per home, a port, a log, an end.

`serve` takes the kernel lock, binds, answers who it is, and only then lets the application be made, whose imports
take longer than all of this. What the application does is none of its business: it is handed in.
Ends with 0 when asked to stop, 1 when it failed, 2 when it may not start, 3 when another daemon has the home, 70 when
it got stuck. Time here is the system's: a real process does not wait for a test's clock. Below: client/discovery.py.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import signal
import socket
import stat
import sys
import traceback
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from uvicorn.lifespan.on import LifespanOn

from agent_worker.client import discovery
from agent_worker.client.discovery import AlreadyRunning, DaemonFile
from agent_worker.client.plain_http import LOGS
from agent_worker.core.clock import SystemClock
from agent_worker.core.errors import AgentWorkerError, BadInput, Refused, trouble_of
from agent_worker.core.ids import new_id
from agent_worker.core.redaction import Redactor, secrets_in
from agent_worker.daemon.http.asgi import App
from agent_worker.daemon.http.connection import Capacity
from agent_worker.daemon.http.server import DaemonServer, configured, raise_limit
from agent_worker.daemon.process.front import Front, Identity, refusing, shown
from agent_worker.daemon.process.heap import share_heaps
from agent_worker.daemon.process.lock import UNKNOWN, lock_file, only_one, refuse_network_disk
from agent_worker.daemon.process.logs import logging_to
from agent_worker.daemon.process.port import address_of, found_port, reached_at
from agent_worker.daemon.process.settings import ALREADY_RUNNING, FAILED, REFUSED, DaemonSettings
from agent_worker.daemon.process.watchdog import Watchdog


class Starter:
    """The process that started the daemon and waits to hear that it is ready; nobody when a person started it."""

    def __init__(self, pipe: int | None) -> None:
        self._pipe = pipe
        self._note = ""

    @classmethod
    def from_environment(cls) -> Starter:
        given = os.environ.pop(discovery.READY_VARIABLE, "")  # our own children do not need it
        with suppress(ValueError, OSError):
            if stat.S_ISFIFO(os.fstat(int(given)).st_mode):
                os.set_inheritable(int(given), False)
                return cls(int(given))
        return cls(None)

    def note(self, text: str) -> None:
        """Add something that a person should know about this start; it is told with the word that we are ready."""
        self._note = text
        log.warning("%s", text)
        if self._pipe is None:
            print(f"note: {text}", file=sys.stderr, flush=True)

    def ready(self, instance: str) -> None:
        self._tell({"ready": instance, "note": self._note})

    def refuse(self, error: AgentWorkerError, code: int) -> int:
        if self._pipe is None:
            hint = f"\n  hint: {error.hint}" if error.hint else ""
            print(f"error: {error.message}{hint}", file=sys.stderr, flush=True)
        self._tell({"error": shown(error)})
        return code

    def _tell(self, word: dict[str, Any]) -> None:
        if self._pipe is None:
            return
        with suppress(OSError):  # it did not wait
            os.write(self._pipe, json.dumps(word).encode() + b"\n")
        os.close(self._pipe)
        self._pipe = None


_APP_ENDS = 0.7  #: share of the grace that the application gets


log = logging.getLogger(__name__)


MakeApp = Callable[[Identity], Awaitable[App]]


def serve(make_app: MakeApp, settings: DaemonSettings) -> int:
    """Be the daemon until asked to stop; the exit code. What prevents it is told to who started us, or on stderr.

    `make_app` runs when clients can already reach us; their requests wait for it, and if it raises the daemon ends.
    What it imports for long, it should import in a thread, or we cannot even say who we are meanwhile. An application
    that has something to end does so in its ASGI lifespan.
    """
    starter = Starter.from_environment()
    share_heaps()
    try:
        _serve(make_app, settings, starter)
    except AlreadyRunning as error:
        return starter.refuse(error, ALREADY_RUNNING)
    except AgentWorkerError as error:
        return starter.refuse(error, REFUSED)
    except Exception:
        traceback.print_exc()
        return FAILED
    return 0


def _serve(make_app: MakeApp, settings: DaemonSettings, starter: Starter) -> None:
    token, instance, address = _token(settings), new_id("d"), address_of(settings)
    home, redact = discovery.make_home(settings.home), Redactor([token, *secrets_in(os.environ)])
    with ExitStack() as held:
        try:
            refuse_network_disk(home)
            held.enter_context(only_one(home, instance))
            file = held.enter_context(logging_to(home, settings, redact))
        except OSError as error:
            told = f"the daemon cannot use {error.filename or home}: {error.strerror}"
            raise Refused(told, hint=f"set {discovery.HOME_VARIABLE} to another directory") from None
        watchdog = held.enter_context(Watchdog(file, patience=settings.stuck_after))
        listener = held.enter_context(found_port(home, address, settings.port, say=starter.note))
        capacity = Capacity.within(raise_limit())
        daemon = _Daemon(
            home, settings, instance, token, redact=redact, listener=listener, watchdog=watchdog, capacity=capacity
        )
        asyncio.run(daemon.run(make_app, starter))


class _Daemon:
    """The running daemon, from listening to the end."""

    def __init__(
        self,
        home: Path,
        settings: DaemonSettings,
        instance: str,
        token: str,
        *,
        redact: Redactor,
        listener: socket.socket,
        watchdog: Watchdog,
        capacity: Capacity,
    ) -> None:
        self._grace = settings.grace
        self._home_look = settings.home_look
        self._listener = listener
        self._watchdog = watchdog
        self._identity = Identity(
            home=home,
            host=reached_at(settings.host),
            port=listener.getsockname()[1],
            instance=instance,
            started_at=SystemClock().now().isoformat(timespec="milliseconds"),
            token=token,
            redact=redact,
            stop=self.stop,
            stopping=asyncio.Event(),
        )
        self._announced = asyncio.Event()
        self._front = Front(self._identity)
        self._server = DaemonServer(configured(self._front, lifespan="off"), self._announce, capacity)

    async def run(self, make_app: MakeApp, starter: Starter) -> None:
        loop = asyncio.get_running_loop()
        self._watchdog.watch(loop)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._signalled)
        making = asyncio.create_task(self._make(make_app))
        making.add_done_callback(lambda _: self._made(making, starter))
        watching = asyncio.create_task(self._watch_home())
        try:
            await self._server.serve(sockets=[self._listener])
        finally:
            self._withdraw()
            making.cancel()
            watching.cancel()
        await asyncio.wait({making})
        if not making.cancelled():  # else it was stopped before it was made
            await self._end(making.result())

    def stop(self) -> None:
        if self._identity.stopping.is_set():
            return
        log.info("asked to stop")
        self._identity.stopping.set()
        self._server.should_exit = True
        self._watchdog.expect_end(self._grace)
        self._withdraw()  # whoever comes now shall start the next one

    async def _watch_home(self) -> None:
        """End if the home is gone: nobody would find this daemon any more, and the next one would begin beside it."""
        home = self._identity.home
        held = lock_file(home)
        while lock_file(home) == held:
            await SystemClock().sleep(self._home_look)
        log.error("%s was removed or replaced: this daemon exits", home)
        self.stop()

    def _signalled(self) -> None:
        self._server.force_exit = self._identity.stopping.is_set()  # asked again: somebody is in a hurry
        self.stop()

    def _announce(self) -> None:
        me = self._identity
        born = discovery.birth_of(os.getpid()) or UNKNOWN
        found = DaemonFile(os.getpid(), me.host, me.port, me.token, me.instance, me.started_at, born)
        discovery.write_daemon(me.home, found)
        self._announced.set()
        log.info("listening on %s", discovery.authority(me.host, me.port))

    def _withdraw(self) -> None:
        with suppress(OSError):  # then it is stale, and that misleads nobody
            discovery.remove_daemon(self._identity.home, self._identity.instance)

    async def _make(self, make_app: MakeApp) -> LifespanOn:
        await self._announced.wait()
        try:
            app = await make_app(self._identity)
        except OSError as error:  # whichever of the files it was that a start writes
            if (trouble := trouble_of(error)) is None:
                raise
            told = f"the daemon cannot start in {self._identity.home}: {trouble.message}"
            raise Refused(told, hint=trouble.hint) from error
        life = LifespanOn(configured(app, lifespan="auto"))
        await life.startup()
        if life.should_exit:
            raise AgentWorkerError("the application did not start", hint=LOGS)
        self._front.open(app)
        return life

    def _made(self, making: asyncio.Task[LifespanOn], starter: Starter) -> None:
        if making.cancelled():
            return
        if (error := making.exception()) is None:
            return starter.ready(self._identity.instance)
        self._front.open(refusing(error))  # those who wait already get the reason
        self.stop()

    async def _end(self, life: LifespanOn) -> None:
        try:
            async with asyncio.timeout(self._grace * _APP_ENDS):
                await life.shutdown()
        except TimeoutError:
            log.error("the application did not end in time")


def _token(settings: DaemonSettings) -> str:
    if settings.token is None:
        return secrets.token_urlsafe(32)
    if not discovery.is_strong(settings.token):
        raise BadInput("the configured token is too weak", hint="leave it out: every start makes a new one")
    return settings.token
