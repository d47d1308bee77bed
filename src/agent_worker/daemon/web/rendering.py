"""Texts that may take long to render are rendered by processes of their own, never by the one that answers.

A parser of Markdown, or a pattern that colours code, can be made to work for minutes by a text of a few kilobytes, and
in Python everybody else waits meanwhile. So a process renders it that has two seconds of computing time and is ended
after that. What it made is kept by the hash of the text: one rendering for each revision, however often the page is
loaded. Above: prose.py says which texts these are, and shows what could not be made as it was written. Beside:
renderer.py is that process.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import json
import logging
import os
import select
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Literal

from agent_worker.core.later import dataclass
from agent_worker.processes.environment import safe_environment

COMMAND = (sys.executable, "-P", "-m", "agent_worker.daemon.web.renderer")  # -P: nothing is imported from where we are
PROCESSES = 2  #: processes at once
WAITING = 128  #: texts that wait for one of them; more are shown as they are
PATIENCE = 5.0  #: seconds that one view waits for all its texts together
GIVEN_UP = 30.0  #: seconds that one process may take, however busy the machine is
KEPT = 32 * 1024 * 1024  #: characters of what was made
ENTRY = 500  #: as so many characters count a text's place among them, also where nothing could be made

_CHUNK = 1024 * 1024

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RenderJob:
    """One text to be rendered."""

    kind: Literal["prose", "code"]
    text: str
    about: tuple[str, ...] = ()  #: of prose: who is called; of code: its language

    @property
    def key(self) -> bytes:
        said = json.dumps([self.kind, self.about]).encode()
        return hashlib.sha256(said + b"\0" + self.text.encode(errors="surrogatepass")).digest()


class Rendering:
    """Made on the first text that needs it; its processes end by themselves when nobody needs them."""

    def __init__(self, command: Sequence[str] = COMMAND, *, kept: int = KEPT) -> None:
        self._command = command
        self._kept = kept
        self._made: OrderedDict[bytes, str | None] = OrderedDict()  # None: it could not be
        self._size = 0
        self._under_way: dict[bytes, asyncio.Future[str | None]] = {}
        self._pool = ThreadPoolExecutor(PROCESSES, thread_name_prefix="rendering")
        self._local = threading.local()
        self._processes: set[_Renderer] = set()
        self._closed = False

    def look(self, job: RenderJob) -> str | None:
        """What was made of it; None when there is nothing, or nothing yet."""
        key = job.key
        if key in self._made:
            self._made.move_to_end(key)
        return self._made.get(key)

    async def prepare(self, jobs: Iterable[RenderJob], *, within: float = PATIENCE) -> None:
        """Let what is not there yet be made, so that it can be looked at. What takes too long is made for the next."""
        waiting = [made for job in jobs if (made := self._begun(job)) is not None]
        if waiting:
            await asyncio.wait(waiting, timeout=within)

    def make(self, jobs: Iterable[RenderJob]) -> None:
        """As `prepare`, for a program that does nothing else meanwhile."""
        for job in jobs:
            if (key := job.key) not in self._made:
                self._keep(key, self._work(job))

    def close(self) -> None:
        """End the processes, and what waits for them."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in tuple(self._processes):
            process.end()

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    def _begun(self, job: RenderJob) -> asyncio.Future[str | None] | None:
        key = job.key
        if key in self._made or self._closed or (key not in self._under_way and len(self._under_way) >= WAITING):
            return None
        if key not in self._under_way:
            work = asyncio.get_running_loop().run_in_executor(self._pool, self._work, job)
            work.add_done_callback(lambda done: self._done(key, done))
            self._under_way[key] = work
        return self._under_way[key]

    def _done(self, key: bytes, work: asyncio.Future[str | None]) -> None:
        del self._under_way[key]
        if not work.cancelled() and work.exception() is None:
            self._keep(key, work.result())

    def _keep(self, key: bytes, html: str | None) -> None:
        self._made[key] = html
        self._size += ENTRY + len(html or "")
        while self._size > self._kept:
            self._size -= ENTRY + len(self._made.popitem(last=False)[1] or "")

    def _work(self, job: RenderJob) -> str | None:
        """Have a text rendered by the process of this thread."""
        renderer: _Renderer | None = getattr(self._local, "renderer", None)
        for _ in range(2):
            if self._closed:
                return None
            if renderer is None or not renderer.is_there:
                renderer = self._local.renderer = self._begin_anew(renderer)
            try:
                return renderer.render(job)
            except _RendererGone:  # it had ended because nobody needed it: once more, with a new one
                continue
            except (OSError, ValueError) as error:
                log.warning("a text of %d characters could not be rendered: %s", len(job.text), error)
                renderer.end()
        return None

    def _begin_anew(self, before: _Renderer | None) -> _Renderer:
        if before is not None:
            before.end()
        renderer = _Renderer(self._command)
        self._processes = {each for each in self._processes if each.is_there} | {renderer}
        if self._closed:  # meanwhile
            renderer.end()
        return renderer


class _RendererGone(Exception):
    """The process had ended before it was asked."""


class _Renderer:
    """One process: a line of JSON in, a line of JSON out."""

    def __init__(self, command: Sequence[str]) -> None:
        environment = {**safe_environment(()), **{k: v for k, v in os.environ.items() if k.startswith("PYTHON")}}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd="/",
        )
        self._asked = False

    @property
    def is_there(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        with suppress(OSError):
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with suppress(OSError):
                    pipe.close()

    def render(self, job: RenderJob) -> str | None:
        """The HTML of a text; None when it took too long, or too much memory, or failed: then a new process is made."""
        assert self._process.stdin is not None
        asked_before, self._asked = self._asked, True
        line = json.dumps({"kind": job.kind, "text": job.text, "about": job.about}).encode() + b"\n"
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
            answer = self._line(time.monotonic() + GIVEN_UP)
        except BrokenPipeError:
            answer = b""
        if answer:
            html: str | None = json.loads(answer)["html"]
            return html
        self.end()
        if asked_before and self._process.returncode == 0:  # it went by itself, before it heard us
            raise _RendererGone
        return None

    def _line(self, until: float) -> bytes:
        """The next line from the process; empty when the process ended, or time is up."""
        assert self._process.stdout is not None
        received = bytearray()
        while not received.endswith(b"\n"):
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                return b""
            piece = os.read(self._process.stdout.fileno(), _CHUNK)
            if not piece:
                return b""
            received += piece
        return bytes(received)


@cache
def rendering() -> Rendering:
    """The renderer that all pages of this process share; it ends with the process."""
    atexit.register(end_rendering)
    return Rendering()


def end_rendering() -> None:
    """End the shared renderer; the next call of `rendering` makes a new one."""
    if rendering.cache_info().currsize:
        rendering().close()
        rendering.cache_clear()
