"""Child processes: started clean, read without end, and ended together with all they started.

Time here is the system's: a real process does not wait for a test's clock. Knows no agent and no tool.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from agent_worker.core.later import dataclass
from agent_worker.processes import descendants
from agent_worker.processes.launch import spawn
from agent_worker.processes.streams import CHUNK, OUTPUT_CAP, Ends

if TYPE_CHECKING:
    import psutil

COMMAND_SECONDS = 120.0  #: for a command that stands in a project's file: a set-up, the check of a schedule
GRACE = 5.0  #: seconds between asking a process to end and ending it
_KILL_ROUNDS = 10  # one is enough for a group; more are for what keeps leaving it while we look
_KILL_PATIENCE = 2.0


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
            timed_out = not await happens(child.exited, within=timeout)
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
    mark = descendants.new_mark()
    child = Child(spawn(argv, cwd=cwd, env=env, mark=mark, stdin=stdin, stderr=stderr), mark)
    descendants.held.add(child.pid)
    try:
        await child.attach()
        yield child
    finally:
        try:
            await child.kill_tree()
        finally:
            child.detach()
            descendants.held.discard(child.pid)
            await asyncio.to_thread(descendants.end_strays)


class Child:
    """One process, and everything that comes from it. Made by `start`."""

    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader  #: only when asked for
    stdin: asyncio.StreamWriter  #: only when asked for

    def __init__(self, process: subprocess.Popen[bytes], mark: int) -> None:
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
        """Wait for the exit code, as a shell counts it. What the process left running is ended first."""
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
            self._kill_at_once()
            raise
        return self._gone

    def _kill_at_once(self) -> None:
        """Kill everything without waiting: also what has left the group, and what forks while we look."""
        self._signal_group(signal.SIGKILL)
        for _ in range(_KILL_ROUNDS):
            if not (members := descendants.family(self.pid, self._mark)):
                return
            descendants.tell(members, signal.SIGKILL)

    async def _end(self, number: int, patience: float) -> bool:
        members = await asyncio.to_thread(descendants.family, self.pid, self._mark)
        if members:
            self._signal_group(number)
            descendants.tell(members, number)
            await _all_end(members, within=patience)
            members = await asyncio.to_thread(descendants.family, self.pid, self._mark)
        # Its end reaches us by a thread, a moment after the system shows it.
        return not members and await happens(self.exited, within=_KILL_PATIENCE)

    def _signal_group(self, number: int) -> None:
        """Signal all of the group in one step: nothing in it can fork away meanwhile."""
        if self._process.returncode is None:  # once it is reaped, the number may be somebody else's
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    async def _reader(self, pipe: IO[bytes]) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=CHUNK)
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


def _tell_exit(process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop, tell: Callable[[], None]) -> None:
    with suppress(ChildProcessError):
        if sys.platform == "linux":
            # Not reaped yet: so its number stays taken until its group is ended.
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        else:
            process.wait()
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(tell)


async def happens(event: asyncio.Event, *, within: float) -> bool:
    try:
        async with asyncio.timeout(within):
            return await event.wait()
    except TimeoutError:
        return False


async def _all_end(processes: Sequence[psutil.Process], *, within: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            # The system tells nobody but its parent when a process ends.
            while descendants.any_alive(processes):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
