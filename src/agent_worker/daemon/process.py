"""The daemon as a process: one per home, a port, a log, an end.

`serve` takes the kernel lock, binds, answers who it is, and only then lets the application be made, whose imports
take longer than all of this. What the application does is none of its business: it is handed in.
Ends with 0 when asked to stop, 1 when it failed, 2 when it may not start, 3 when another daemon has the home, 70 when
it got stuck. Time here is the system's: a real process does not wait for a test's clock. Below: discovery.py.
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
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self

import filelock
import uvicorn
from uvicorn.lifespan.on import LifespanOn

from agent_worker.clock import SystemClock
from agent_worker.daemon import client, discovery
from agent_worker.daemon.discovery import AlreadyRunning, Found, Holder
from agent_worker.daemon.wire import Connection
from agent_worker.errors import AgentWorkerError, BadInput, Refused
from agent_worker.ids import new_id

PORT = 5099
FAILED, REFUSED, ALREADY_RUNNING, STUCK = 1, 2, 3, 70  #: exit codes

_STREAMS_END = 2  #: seconds that open streams get to say goodbye, of the whole grace
_APP_ENDS = 0.7  #: share of the grace that the application gets
_TICKS = 30  #: how often the watchdog looks before it gives up
_BACKLOG = 10_000  #: records that wait for a slow disk; more are dropped
_LONGEST = 64 * 1024  #: characters of one record
_CHUNK = 8 * 1024
_CLOSING = {"04", "05", "06", "09", "0B"}  # states in /proc/net/tcp after one side has closed; 06 is TIME_WAIT
_LISTENING = "0A"
_UNKNOWN = "unknown"  #: our own birth, where the system does not tell
_NONCE_HEADER = discovery.NONCE_HEADER.lower().encode()
_NETWORK_DISKS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "9p", "fuse.sshfs", "fuse.glusterfs"}

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]  #: ASGI

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


MakeApp = Callable[[Identity], Awaitable[App]]


def serve(make_app: MakeApp, settings: Settings) -> int:
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


def _serve(make_app: MakeApp, settings: Settings, starter: _Starter) -> None:
    token, instance, address = _token(settings), new_id("d"), _address(settings)
    home = discovery.make_home(settings.home)
    with ExitStack() as held:
        try:
            _refuse_network_disk(home)
            held.enter_context(_only_one(home, instance))
            file = held.enter_context(_logging(home, settings, token))
        except OSError as error:
            told = f"the daemon cannot use {error.filename or home}: {error.strerror}"
            raise Refused(told, hint=f"set {discovery.HOME_VARIABLE} to another directory") from None
        watchdog = held.enter_context(Watchdog(file, patience=settings.stuck_after))
        listener = held.enter_context(_listening(home, address, settings.port))
        daemon = _Daemon(home, settings, instance, token, listener=listener, watchdog=watchdog)
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
        settings: Settings,
        instance: str,
        token: str,
        *,
        listener: socket.socket,
        watchdog: Watchdog,
    ) -> None:
        self._grace = settings.grace
        self._listener = listener
        self._watchdog = watchdog
        self._identity = Identity(
            home=home,
            host=_reached_at(settings.host),
            port=listener.getsockname()[1],
            instance=instance,
            started_at=SystemClock().now().isoformat(timespec="milliseconds"),
            token=token,
            stop=self.stop,
            stopping=asyncio.Event(),
        )
        self._announced = asyncio.Event()
        self._front = _Front(self._identity)
        self._server = _Server(_configured(self._front, lifespan="off"), self._announce)

    async def run(self, make_app: MakeApp, starter: _Starter) -> None:
        loop = asyncio.get_running_loop()
        self._watchdog.watch(loop)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._signalled)
        making = asyncio.create_task(self._make(make_app))
        making.add_done_callback(lambda _: self._made(making, starter))
        try:
            await self._server.serve(sockets=[self._listener])
        finally:
            self._withdraw()
            making.cancel()
        with suppress(asyncio.CancelledError):  # stopped before it was made
            await self._end(await making)

    def stop(self) -> None:
        if self._identity.stopping.is_set():
            return
        log.info("asked to stop")
        self._identity.stopping.set()
        self._server.should_exit = True
        self._watchdog.expect_end(self._grace)
        self._withdraw()  # whoever comes now shall start the next one

    def _signalled(self) -> None:
        self._server.force_exit = self._identity.stopping.is_set()  # asked again: somebody is in a hurry
        self.stop()

    def _announce(self) -> None:
        me = self._identity
        born = discovery.birth_of(os.getpid()) or _UNKNOWN
        found = Found(os.getpid(), me.host, me.port, me.token, me.instance, me.started_at, born)
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
            raise AgentWorkerError("the application did not start", hint=client.LOGS)
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
    """Says when it accepts connections, and leaves the signals to us."""

    def __init__(self, config: uvicorn.Config, accepting: Callable[[], None]) -> None:
        super().__init__(config)
        self._accepting = accepting

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._accepting()

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
    told = known or AgentWorkerError("the daemon could not start", hint=client.LOGS)

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


# --- the home is ours alone


@contextmanager
def _only_one(home: Path, instance: str) -> Iterator[None]:
    """The kernel's lock on this home, for life: it ends with the process, however that ends."""
    holder = Holder(os.getpid(), discovery.birth_of(os.getpid()) or _UNKNOWN, instance)
    path = home / discovery.LOCK_FILE
    os.close(discovery.open_private(path, os.O_RDWR | os.O_CREAT))  # refuses a link with a sentence
    lock = filelock.FileLock(
        path,
        timeout=0,
        mode=0o600,
        fallback_to_soft=False,  # where the kernel has no locks, a file that may be stale is no help
        on_acquired=lambda descriptor: discovery.write_holder(descriptor, holder),
    )
    try:
        lock.acquire()
    except filelock.Timeout:
        raise _already_running(home, _winner(home)) from None
    try:
        yield
    finally:
        lock.release()


def _winner(home: Path) -> Holder | None:
    for _ in range(100):
        holder = discovery.read_holder(home)
        if holder is not None and discovery.is_running(holder):
            return holder
        time.sleep(0.01)  # it has the lock since a moment ago, and is about to write its name
    return discovery.read_holder(home)


def _already_running(home: Path, winner: Holder | Found | None) -> AlreadyRunning:
    who = f"process {winner.pid}, instance {winner.instance}" if winner else "its process is unknown"
    return AlreadyRunning(f"another daemon runs on {home}: {who}", hint="agent-worker daemon status")


def _refuse_network_disk(home: Path) -> None:
    """Neither locks nor the database can be relied on there."""
    device = os.stat(home).st_dev
    with suppress(OSError), open("/proc/self/mountinfo") as mounts:
        for line in mounts:
            before, _, after = line.partition(" - ")
            if before.split()[2] == f"{os.major(device)}:{os.minor(device)}" and after.split()[0] in _NETWORK_DISKS:
                told = f"{home} is on a network disk ({after.split()[0]}), and the database needs a local one"
                raise Refused(told, hint=f"set {discovery.HOME_VARIABLE} to a directory on this machine")


def _token(settings: Settings) -> str:
    if settings.token is None:
        return secrets.token_urlsafe(32)
    if not discovery.is_strong(settings.token):
        raise BadInput("the configured token is too weak", hint="leave it out: every start makes a new one")
    return settings.token


# --- the port


@contextmanager
def _listening(home: Path, address: str, port: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, port))
            listener.listen()
        except OSError as error:
            raise _cannot_listen(home, address, port, error) from None
        yield listener


def _address(settings: Settings) -> str:
    host = "127.0.0.1" if settings.host == "localhost" else settings.host
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise BadInput(f"{host!r} is not an IP address", hint="127.0.0.1 is this machine only") from None
    if not 0 <= settings.port < 2**16:
        raise BadInput(f"{settings.port} is not a port", hint="a number up to 65535")
    if not address.is_loopback and not settings.exposed:
        raise Refused(f"{host} can be reached from other machines", hint="leave it at 127.0.0.1, or say --expose")
    if not address.is_loopback:
        told = f"warning: {host} can be reached from other machines; whoever has the token controls this account"
        print(told, file=sys.stderr, flush=True)
    return host


def _reached_at(host: str) -> str:
    """Where our own clients connect to, when it listens everywhere."""
    return {"localhost": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def _cannot_listen(home: Path, address: str, port: int, error: OSError) -> AgentWorkerError:
    another = "choose another with --port"
    if error.errno != errno.EADDRINUSE:
        return Refused(f"cannot listen on {discovery.authority(address, port)}: {error.strerror}", hint=another)
    ours = client.find(home)
    if ours is not None and ours.found.port == port:  # somebody removed the lock file under it
        return _already_running(home, ours.found)
    if client.looks_like_ours(_reached_at(address), port):
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


# --- the log


class LogFile:
    """A file of lines that stays within its share: when full it becomes `.1`, and the oldest goes.

    Its descriptor keeps its number, so that a crash of the interpreter can be written to it. Never raises and
    never complains: a log that reports its own trouble feeds on itself.
    """

    def __init__(self, path: Path, *, limit: int, keep: int) -> None:
        self.descriptor = discovery.open_private(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._path = path
        self._limit = limit
        self._keep = keep
        self._lock = threading.Lock()
        self._torn = False

    def write(self, line: bytes) -> None:
        with self._lock, suppress(OSError):
            if os.fstat(self.descriptor).st_size + len(line) > self._limit:
                self._rotate()
            line = b"\n" + line if self._torn else line
            self._torn = True  # unless all of it gets through: the disk may be full in the middle
            self._torn = os.write(self.descriptor, line) != len(line)

    def close(self) -> None:
        os.close(self.descriptor)

    def _rotate(self) -> None:
        try:
            for number in range(self._keep - 1, 0, -1):
                with suppress(FileNotFoundError):
                    os.replace(self._numbered(number - 1), self._numbered(number))
            fresh = discovery.open_private(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.dup2(fresh, self.descriptor, inheritable=False)
            os.close(fresh)
        except (OSError, Refused):
            os.ftruncate(self.descriptor, 0)  # bounded is worth more than complete
        self._torn = False

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path


class Scribe(logging.Handler):
    """Log records as lines of JSON, written by its own thread: a slow disk must not hold up the event loop."""

    def __init__(self, file: LogFile, *, secret: str) -> None:
        super().__init__()
        self._file = file
        self._secret = secret.encode()
        self._waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()  # may be put to in the middle of a put
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        if self._waiting.qsize() >= _BACKLOG:
            return
        try:
            message = record.getMessage()
        except Exception:  # whoever logs may pass anything
            message = f"{record.msg!r} with unfitting values"
        extra = {"exception": "".join(traceback.format_exception(*record.exc_info))} if record.exc_info else {}
        at = datetime.fromtimestamp(record.created, UTC)
        line = _line(at, record.levelname, record.name, message, **extra)
        self._waiting.put(line.replace(self._secret, b"[token]"))

    def close(self) -> None:
        self._waiting.put(None)
        self._thread.join(timeout=2)
        super().close()

    def _write(self) -> None:
        while (line := self._waiting.get()) is not None:
            self._file.write(line)


@contextmanager
def _logging(home: Path, settings: Settings, token: str) -> Iterator[LogFile]:
    """All that this process has to say goes to its log; why it ends, too."""
    file = LogFile(home / discovery.LOG_FILE, limit=settings.log_bytes, keep=settings.log_files)
    scribe, root = Scribe(file, secret=token), logging.getLogger()
    root.addHandler(scribe)
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
    sys.unraisablehook = lambda unraisable: log.error("in %r", unraisable.object, exc_info=unraisable.exc_value)
    faulthandler.enable(file.descriptor)
    try:
        with _output_recorded(file):
            yield file
    except AgentWorkerError as error:
        log.error("%s", error.message)
        raise
    except Exception:
        log.critical("the daemon failed", exc_info=True)
        raise
    finally:
        root.removeHandler(scribe)
        scribe.close()
        faulthandler.disable()
        file.close()


@contextmanager
def _output_recorded(file: LogFile) -> Iterator[None]:
    """In the background, what libraries and children print becomes log lines too, and so stays bounded."""
    if not _is_same(2, file.descriptor):
        yield
        return
    kept = os.dup(2)
    reading, writing = os.pipe()
    _redirect(writing)
    os.close(writing)
    recorder = threading.Thread(target=_record_output, args=(reading, file), name="output", daemon=True)
    recorder.start()
    try:
        yield
    finally:
        _redirect(kept)
        recorder.join(timeout=0.5)  # a child that outlives us may still hold the other end


def _redirect(target: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(target, 1)
    os.dup2(target, 2)


def _record_output(reading: int, file: LogFile) -> None:
    rest = b""
    while piece := os.read(reading, _CHUNK):
        *whole, rest = (rest + piece).split(b"\n")
        if len(rest) > _CHUNK:
            whole, rest = [*whole, rest], b""
        for line in filter(None, whole):
            file.write(_line(SystemClock().now(), "INFO", "output", line.decode(errors="replace")))


def _line(at: datetime, level: str, logger: str, message: str, **extra: str) -> bytes:
    """One record is one line: JSON escapes every line end, and all that is not ASCII."""
    record = {"at": at.isoformat(timespec="milliseconds"), "level": level, "logger": logger, "message": message}
    return json.dumps({name: value[:_LONGEST] for name, value in (record | extra).items()}).encode() + b"\n"


def _is_same(one: int, other: int) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.fstat(one), os.fstat(other))
    return False


# --- the watchdog


class Watchdog:
    """Ends a process whose event loop stands still, or that does not end when asked to; first writes down why.

    Counts how often it looked, not the time that passed: a machine that slept is not a stuck loop. Blind while an
    extension holds the interpreter's lock, as every thread is.
    """

    def __init__(self, file: LogFile, *, patience: float) -> None:
        self._file = file
        self._patience = patience
        self._tick = patience / _TICKS
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ticks_to_end: float | None = None
        self._beaten = True
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def expect_end(self, seconds: float) -> None:
        self._ticks_to_end = seconds / self._tick

    def _watch(self) -> None:
        missed = 0
        while not self._closed.wait(self._tick):
            if self._ticks_to_end is not None:
                self._ticks_to_end -= 1
                if self._ticks_to_end <= 0:
                    self._give_up("the daemon did not end in time")
            elif self._beaten:
                missed = 0
                self._ask_for_a_beat()
            elif (missed := missed + 1) >= _TICKS:
                self._give_up(f"the event loop stood still for {self._patience:g} s")

    def _ask_for_a_beat(self) -> None:
        if self._loop is None:
            return
        self._beaten = False
        with suppress(RuntimeError):  # the loop is closed: the end is near
            self._loop.call_soon_threadsafe(self._beat)

    def _beat(self) -> None:
        self._beaten = True

    def _give_up(self, reason: str) -> None:
        self._file.write(_line(SystemClock().now(), "CRITICAL", __name__, reason, stacks=_stacks()))
        os._exit(STUCK)


def _stacks() -> str:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sorted(sys._current_frames().items(), key=lambda each: names.get(each[0]) != "MainThread")
    return "\n".join(f"{names.get(ident)}:\n{''.join(traceback.format_stack(frame))}" for ident, frame in frames)
