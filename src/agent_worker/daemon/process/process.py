"""The daemon as a process: one per home, a port, a log, an end.

`serve` takes the kernel lock, binds, answers who it is, and only then lets the application be made, whose imports
take longer than all of this. What the application does is none of its business: it is handed in.
Ends with 0 when asked to stop, 1 when it failed, 2 when it may not start, 3 when another daemon has the home, 70 when
it got stuck. Time here is the system's: a real process does not wait for a test's clock. Below: discovery.py.
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
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import uvicorn
from uvicorn.lifespan.on import LifespanOn

from agent_worker.client import discovery
from agent_worker.client.answers import LOGS
from agent_worker.client.discovery import AlreadyRunning, DaemonFile
from agent_worker.core.clock import SystemClock
from agent_worker.core.errors import AgentWorkerError, BadInput, Refused
from agent_worker.core.ids import new_id
from agent_worker.core.redaction import Redactor, secrets_in
from agent_worker.daemon.http.accepting import Accepting, Capacity, Doorstep, raise_limit
from agent_worker.daemon.http.connection import Connection
from agent_worker.daemon.process.lock import UNKNOWN, lock_file, only_one, refuse_network_disk
from agent_worker.daemon.process.logs import logging_to
from agent_worker.daemon.process.port import address_of, listening, reached_at
from agent_worker.daemon.process.settings import ALREADY_RUNNING, FAILED, REFUSED, DaemonSettings
from agent_worker.daemon.process.watchdog import Watchdog

_STREAMS_END = 2  #: seconds that open streams get to say goodbye, of the whole grace
_APP_ENDS = 0.7  #: share of the grace that the application gets
_NONCE_HEADER = discovery.NONCE_HEADER.lower().encode()

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]  #: ASGI

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this daemon is, for the application it serves."""

    home: Path
    host: str  #: where clients connect to
    port: int
    instance: str
    started_at: str
    token: str = field(repr=False)
    redact: Redactor = field(repr=False)  #: as the log does it: what the application learns is kept out of both
    stop: Callable[[], None] = field(repr=False)  #: ask the daemon to end
    stopping: asyncio.Event = field(repr=False)  #: set when asked: endless streams say goodbye and end


MakeApp = Callable[[Identity], Awaitable[App]]


def serve(make_app: MakeApp, settings: DaemonSettings) -> int:
    """Be the daemon until asked to stop; the exit code. What prevents it is told to who started us, or on stderr.

    `make_app` runs when clients can already reach us; their requests wait for it, and if it raises the daemon ends.
    What it imports for long, it should import in a thread, or we cannot even say who we are meanwhile. An application
    that has something to end does so in its ASGI lifespan.
    """
    starter = _Starter.from_environment()
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


def _serve(make_app: MakeApp, settings: DaemonSettings, starter: _Starter) -> None:
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
        listener = held.enter_context(listening(home, address, settings.port))
        capacity = Capacity.within(raise_limit())
        daemon = _Daemon(
            home, settings, instance, token, redact=redact, listener=listener, watchdog=watchdog, capacity=capacity
        )
        asyncio.run(daemon.run(make_app, starter))


class _Starter:
    """Whoever started us and waits for a word; nobody when a person did."""

    def __init__(self, pipe: int | None) -> None:
        self._pipe = pipe

    @classmethod
    def from_environment(cls) -> _Starter:
        given = os.environ.pop(discovery.READY_VARIABLE, "")  # our own children do not need it
        with suppress(ValueError, OSError):
            if stat.S_ISFIFO(os.fstat(int(given)).st_mode):
                os.set_inheritable(int(given), False)
                return cls(int(given))
        return cls(None)

    def ready(self, instance: str) -> None:
        self._tell({"ready": instance})

    def refuse(self, error: AgentWorkerError, code: int) -> int:
        if self._pipe is None:
            hint = f"\n  try: {error.hint}" if error.hint else ""
            print(f"error: {error.message}{hint}", file=sys.stderr, flush=True)
        self._tell({"error": _shown(error)})
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
        self._front = _Front(self._identity)
        self._server = _Server(_configured(self._front, lifespan="off"), self._announce, capacity)

    async def run(self, make_app: MakeApp, starter: _Starter) -> None:
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
        """Without its home nobody finds this daemon any more, and the next one would begin beside it: it ends."""
        home = self._identity.home
        held = lock_file(home)
        while lock_file(home) == held:
            await SystemClock().sleep(self._home_look)
        log.error("%s was removed or replaced: this daemon ends", home)
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
        app = await make_app(self._identity)
        life = LifespanOn(_configured(app, lifespan="auto"))
        await life.startup()
        if life.should_exit:
            raise AgentWorkerError("the application did not start", hint=LOGS)
        self._front.open(app)
        return life

    def _made(self, making: asyncio.Task[LifespanOn], starter: _Starter) -> None:
        if making.cancelled():
            return
        if (error := making.exception()) is None:
            return starter.ready(self._identity.instance)
        self._front.open(_refusing(error))  # those who wait already get the reason
        self.stop()

    async def _end(self, life: LifespanOn) -> None:
        try:
            async with asyncio.timeout(self._grace * _APP_ENDS):
                await life.shutdown()
        except TimeoutError:
            log.error("the application did not end in time")


class _Front:
    """Proves who we are from the first moment; every other request waits until the application is there."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._app: App | None = None
        self._opened = asyncio.Event()

    def open(self, app: App) -> None:
        self._app = app
        self._opened.set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if (nonce := self._nonce(scope)) is not None:
            return await _answer(send, 200, self._proof(nonce))
        await self._opened.wait()
        assert self._app is not None
        await self._app(scope, receive, send)

    def _nonce(self, scope: Message) -> str | None:
        """Only of a client that asks as ours do. Whatever else comes to this path, the application judges."""
        if scope["type"] != "http" or scope["method"] != "GET" or scope["path"] != "/health":
            return None
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        values = [value.decode("latin-1") for name, value in headers if name == _NONCE_HEADER]
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        expected = [discovery.authority(self._identity.host, self._identity.port)]
        from_browser = any(name in (b"origin", b"sec-fetch-site") for name, _ in headers)
        if from_browser or hosts != expected or len(values) != 1 or not discovery.NONCE.fullmatch(values[0]):
            return None
        return values[0]

    def _proof(self, nonce: str) -> dict[str, str]:
        me = self._identity
        return {
            "service": "agent-worker",
            "status": "ok" if self._app else "starting",
            "proof": discovery.proof(me.token, nonce=nonce, port=me.port, instance=me.instance),
        }


class _Server(uvicorn.Server):
    """Says when it accepts connections, accepts them in our way, and leaves the signals to us."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None], capacity: Capacity) -> None:
        super().__init__(config)
        self._announce = announce
        self._doorstep = Doorstep(capacity)
        self._accepting: list[Accepting] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        self._accepting = [Accepting(each, self._connection, self._doorstep) for each in sockets or ()]
        self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for each in self._accepting:
            each.close()
        await super().shutdown(sockets)

    def _connection(self) -> Connection:
        return Connection(self.config, self.server_state, app_state=self.lifespan.state, doorstep=self._doorstep)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _configured(app: App, *, lifespan: Literal["auto", "off"]) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="asyncio",
        http=Connection,
        ws="none",
        lifespan=lifespan,
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # a header must not say who is asking
        server_header=False,
        timeout_graceful_shutdown=_STREAMS_END,
    )


def _refusing(error: BaseException) -> App:
    known = error if isinstance(error, AgentWorkerError) else None
    told = known or AgentWorkerError("the daemon could not start", hint=LOGS)

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await _answer(send, 503, {"error": _shown(told)})

    return app


async def _answer(send: Send, status: int, content: dict[str, Any]) -> None:
    body = json.dumps(content).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _shown(error: AgentWorkerError) -> dict[str, str]:
    return {"code": error.code, "message": error.message, "hint": error.hint}


def _token(settings: DaemonSettings) -> str:
    if settings.token is None:
        return secrets.token_urlsafe(32)
    if not discovery.is_strong(settings.token):
        raise BadInput("the configured token is too weak", hint="leave it out: every start makes a new one")
    return settings.token
