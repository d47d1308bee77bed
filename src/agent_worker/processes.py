"""Child processes: started clean, read without end, and ended together with all they started.

A child gets its own session, an environment built from nothing, none of our descriptors, and on Linux it dies with
us. Whatever it starts inherits a mark in the environment, so a grandchild that left the session is found too. One
that left the session and cleared its environment is found only as long as the parent above it still lives.
Time here is the system's: a real process does not wait for a test's clock. Knows no agent and no tool.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

import psutil

from agent_worker.errors import BadInput, NotFound, Refused

GRACE = 5.0  #: seconds between asking a process to end and ending it
OUTPUT_CAP = 1024 * 1024
MARK = "AGENT_WORKER_CHILD"  #: environment variable of all our children: whose they are

_BASE = {"HOME", "LANG", "LANGUAGE", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}
_CERTIFICATES = {"SSL_CERT_DIR", "SSL_CERT_FILE"}  # where they are, not what they are
_MARKED = re.compile(rf"(?:^|\0){MARK}=([0-9]+\.[0-9]+\.[0-9a-f]+)".encode())
_CHUNK = 64 * 1024
_KILL_ROUNDS = 10  # one is enough for a group; more are for what keeps leaving it while we look
_KILL_PATIENCE = 2.0

# The death signal is set between fork and exec, by a program that then becomes the child. Not by a preexec_fn: that
# would fork the whole daemon (20 ms of standstill at 500 MB) and run Python between its threads' locks. util-linux has
# such a program, and takes 2 ms; whom we die from under before it has set the signal is swept at the next start.
_SETPRIV = ("--pdeathsig", "KILL", "--")
# Where there is none, 20 ms. By libc, as `import signal` would take half as long again; Python ignores two signals,
# which its child must not inherit.
_LAUNCHER = f"""\
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.prctl(1, {signal.SIGKILL:d})
if os.getppid() != int(sys.argv[1]):
    os._exit(125)
libc.signal({signal.SIGPIPE:d}, None)
libc.signal({signal.SIGXFSZ:d}, None)
try:
    os.execv(sys.argv[2], sys.argv[2:])
except OSError as error:
    os.write(2, f"{{sys.argv[2]}}: {{error.strerror}}\\n".encode())
    os._exit(126)
"""


def safe_environment(extra: Iterable[str] = (), source: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What a child may know: a base set without secrets, and the variables its definition names."""
    wanted = _BASE | _CERTIFICATES | set(extra)
    chosen = {name: value for name, value in source.items() if name in wanted or name.startswith("LC_")}
    path = source.get("PATH", os.defpath).split(os.pathsep)
    # An empty or relative entry would run whatever lies in the working directory.
    return chosen | {"PATH": os.pathsep.join(entry for entry in path if os.path.isabs(entry))}


@dataclass(frozen=True, slots=True)
class Completed:
    exit_code: int  #: as a shell counts it: 128 + the signal when one ended it
    output: str  #: both streams as they came; where it was cut, a line says so
    cut: int  #: bytes of output left out in the middle
    timed_out: bool


async def run_command(
    command: str | Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,  # noqa: ASYNC109 — reaching it is a result here, with the output so far
    output_cap: int = OUTPUT_CAP,
    stdin: bytes | None = None,
) -> Completed:
    """Run to the end, or to the time limit. A text is for the shell; nothing it started outlives it."""
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else command
    kept = Ends(output_cap)
    async with start(argv, cwd=cwd, env=env, stdin=stdin) as child:
        reading = asyncio.create_task(kept.take_all(child.stdout))
        try:
            timed_out = not await _happens(child.exited, within=timeout)
            await child.kill_tree()
            # Who escaped us may still hold the other end: then what came so far is the output.
            await asyncio.wait({reading}, timeout=_KILL_PATIENCE)
            return Completed(await child.wait(), kept.text(), kept.cut, timed_out)
        finally:
            reading.cancel()


@asynccontextmanager
async def start(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes | int | None = None,
    stderr: int = subprocess.STDOUT,
) -> AsyncIterator[Child]:
    """A running child; when the block is left, however, it and all it started are gone.

    Only on the main thread's event loop: Linux ends a child with the *thread* that started it. `stderr` may be
    `subprocess.PIPE` to read it apart, and `stdin` to talk to the child while it runs.
    """
    mark = f"{_namespace()}.{os.getpid()}.{secrets.token_hex(8)}"
    child = Child(_spawn(argv, cwd=cwd, env={**env, MARK: mark}, stdin=stdin, stderr=stderr), mark)
    try:
        await child.attach()
        yield child
    finally:
        try:
            await child.kill_tree()
        finally:
            child.detach()


class Child:
    """One process, and everything that comes from it. Made by `start`."""

    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader  #: only when asked for
    stdin: asyncio.StreamWriter  #: only when asked for

    def __init__(self, process: subprocess.Popen[bytes], mark: str) -> None:
        self.pid = process.pid
        self.exited = asyncio.Event()  #: it ended; what it started may still run
        self._process = process
        self._mark = mark
        self._transports: list[asyncio.ReadTransport | asyncio.WriteTransport] = []
        self._gone = False

    async def attach(self) -> None:
        loop = asyncio.get_running_loop()
        wait = threading.Thread(
            target=_tell_exit, args=(self._process, loop, self.exited.set), name=f"child-{self.pid}", daemon=True
        )
        wait.start()
        if self._process.stdout:
            self.stdout = await self._reader(self._process.stdout)
        if self._process.stderr:
            self.stderr = await self._reader(self._process.stderr)
        if self._process.stdin:
            self.stdin = await self._writer(self._process.stdin)

    def detach(self) -> None:
        for transport in self._transports:
            if isinstance(transport, asyncio.WriteTransport) and transport.get_write_buffer_size():
                transport.abort()  # nobody will read it any more
            transport.close()
        # It is dead or about to be: at most the moment between a signal and its effect.
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)

    async def wait(self) -> int:
        """Its exit code, as a shell counts it. What it left running is ended first."""
        await self.exited.wait()
        await self.kill_tree()
        code = self._process.wait()
        return code if code >= 0 else 128 - code

    async def kill_tree(self, *, grace: float = GRACE) -> bool:
        """Ask all of it to end, and end what has not after the grace; True when nothing is left."""
        try:
            self._gone = self._gone or await self._end(signal.SIGTERM, grace)
            for _ in range(_KILL_ROUNDS):
                self._gone = self._gone or await self._end(signal.SIGKILL, _KILL_PATIENCE)
        except BaseException:  # cancelled while we were polite
            self._signal_group(signal.SIGKILL)
            raise
        return self._gone

    async def _end(self, number: int, patience: float) -> bool:
        members = await asyncio.to_thread(self._members)
        if members:
            self._signal_group(number)
            for member in members:
                with suppress(psutil.Error):
                    member.send_signal(number)
                    member.send_signal(signal.SIGCONT)  # a stopped process cannot even hear that it should end
            await _all_end(members, within=patience)
            members = await asyncio.to_thread(self._members)
        # Its end reaches us by a thread, a moment after the system shows it.
        return not members and await _happens(self.exited, within=_KILL_PATIENCE)

    def _members(self) -> list[psutil.Process]:
        """What is alive of it: descendants, its session, and whatever bears its mark."""
        found: dict[int, psutil.Process] = {}
        with suppress(psutil.Error):
            leader = psutil.Process(self.pid)
            if _is_alive(leader):  # else its children are somebody else's now
                found = {process.pid: process for process in [leader, *leader.children(recursive=True)]}
        for pid in psutil.pids():
            with suppress(psutil.Error, OSError):
                if pid not in found and (os.getsid(pid) == self.pid or _mark_of(pid) == self._mark):
                    found[pid] = psutil.Process(pid)
        return list(filter(_is_alive, found.values()))

    def _signal_group(self, number: int) -> None:
        """All of the group in one step: nothing in it can fork away meanwhile."""
        if self._process.returncode is None:  # once it is reaped, the number may be somebody else's
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    async def _reader(self, pipe: IO[bytes]) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=_CHUNK)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._transports.append(transport)
        return reader

    async def _writer(self, pipe: IO[bytes]) -> asyncio.StreamWriter:
        loop = asyncio.get_running_loop()
        # The protocol is a reader's, whose reading half stays unused: it is the public one that can wait for room.
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), pipe
        )
        self._transports.append(transport)
        return asyncio.StreamWriter(transport, protocol, None, loop)


class Ends:
    """The beginning and the end of a stream, however long it is."""

    def __init__(self, cap: int) -> None:
        self._half = max(cap // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self._seen = 0

    async def take_all(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(_CHUNK):
            self.add(chunk)

    def add(self, chunk: bytes) -> None:
        self._seen += len(chunk)
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * self._half:  # not at every chunk: moving the rest costs
            del self._tail[: -self._half]

    @property
    def cut(self) -> int:
        return max(self._seen - len(self._head) - self._half, 0)

    def text(self) -> str:
        marker = f"\n[… {self.cut:,} bytes left out …]\n".encode() if self.cut else b""
        return (self._head + marker + self._tail[-self._half :]).decode(errors="replace")


async def lines(
    stream: asyncio.StreamReader, *, cap: int = OUTPUT_CAP, most: int | None = None
) -> AsyncIterator[bytes]:
    """Lines without their ends; one longer than the cap keeps its beginning and says what is missing.

    Refused when `most` bytes were read and there are still more.
    """
    line, missing, read = bytearray(), 0, 0
    while chunk := await stream.read(_CHUNK):
        read += len(chunk)
        if most is not None and read > most:
            raise Refused(f"it wrote more than {most // 1024**2:,} MB")
        for number, piece in enumerate(chunk.split(b"\n")):
            if number:
                yield _whole(line, missing)
                line, missing = bytearray(), 0
            room = cap - len(line)
            line += piece[:room]
            missing += max(len(piece) - room, 0)
    if line:
        yield _whole(line, missing)


def kill_orphans() -> int:
    """End what the children of a daemon left behind that died without a word. For the start of the next one.

    Goes by the mark and by ages, never by name: the parent named in the mark is dead if nobody has its number, or
    somebody younger than the child.
    """
    ours = psutil.Process()
    spared = {ours.pid, *(parent.pid for parent in ours.parents())}
    killed = 0
    for pid in psutil.pids():
        with suppress(psutil.Error, OSError):
            if pid not in spared and (mark := _mark_of(pid)) and _is_orphan(pid, mark):
                psutil.Process(pid).kill()
                killed += 1
    return killed


def _spawn(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: bytes | int | None, stderr: int
) -> subprocess.Popen[bytes]:
    if not cwd.is_dir():
        raise NotFound(f"there is no directory {cwd} to run {argv[0]} in")
    program = _program(argv[0], cwd=cwd, path=env.get("PATH", os.defpath))
    with _input(stdin) as source:
        try:
            return subprocess.Popen(
                [*_launcher(), program, *argv[1:]],
                cwd=cwd,
                env=env,
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
                bufsize=0,
            )
        except ValueError as error:  # a NUL in it, or something that is no text
            raise BadInput(f"cannot run this command: {error}") from None
        except OSError as error:
            if error.errno == errno.E2BIG:
                raise BadInput("the command is too long", hint="put the text into a file") from None
            raise Refused(f"could not start {argv[0]}: {error.strerror}") from None


def _program(name: str, *, cwd: Path, path: str) -> str:
    found = shutil.which(str(cwd / name) if os.sep in name else name, path=path)
    if found is None:
        raise NotFound(f"there is no program {name!r}", hint="install it, or give its full path")
    return found


def _launcher() -> list[str]:
    if sys.platform != "linux":
        return []
    if setpriv := _setpriv():
        return [setpriv, *_SETPRIV]
    return [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid())]


@cache
def _setpriv() -> str | None:
    """Only where it knows the death signal: that of busybox does not."""
    found = shutil.which("setpriv", path=os.defpath)
    if found and subprocess.run([found, *_SETPRIV, "/bin/true"], capture_output=True).returncode == 0:
        return found
    return None


@contextmanager
def _input(content: bytes | int | None) -> Iterator[int | IO[bytes]]:
    if not isinstance(content, bytes):
        yield subprocess.DEVNULL if content is None else content
        return
    # A file without a name, not a pipe: nobody has to feed it, and a child that does not read blocks nobody.
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file


def _tell_exit(process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop, tell: Callable[[], None]) -> None:
    with suppress(ChildProcessError):
        if sys.platform == "linux":
            # Not reaped yet: so its number stays taken until its group is ended.
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        else:
            process.wait()
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(tell)


async def _happens(event: asyncio.Event, *, within: float) -> bool:
    try:
        async with asyncio.timeout(within):
            return await event.wait()
    except TimeoutError:
        return False


async def _all_end(processes: Iterable[psutil.Process], *, within: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            # The system tells nobody but its parent when a process ends.
            while any(map(_is_alive, processes)):  # noqa: ASYNC110
                await asyncio.sleep(0.01)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _is_orphan(pid: int, mark: str) -> bool:
    namespace, parent, _ = mark.split(".")
    if namespace != _namespace():
        return False  # numbered in another container: we cannot tell
    try:
        return psutil.Process(int(parent)).create_time() > psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return True


def _mark_of(pid: int) -> str:
    if sys.platform != "linux":
        return psutil.Process(pid).environ().get(MARK, "")
    with open(f"/proc/{pid}/environ", "rb") as file:  # asked of every process there is: psutil takes ten times as long
        found = _MARKED.search(file.read())
    return found[1].decode() if found else ""


def _namespace() -> str:
    with suppress(OSError):
        return str(os.stat("/proc/self/ns/pid").st_ino)
    return "0"


def _whole(line: bytearray, missing: int) -> bytes:
    return bytes(line) + (f"[… {missing:,} bytes left out …]".encode() if missing else b"")
