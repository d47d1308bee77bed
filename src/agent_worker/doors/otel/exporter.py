"""Sends what ended to whoever collects traces: reads the record after the fact, so nobody at work waits for it.

It looks when a run or an instance has ended, and otherwise sleeps. How far it came is stored once the other side has
taken it; sent and not yet stored when the process dies, the same spans go once more, under the same ids.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import ssl
import urllib.error
import urllib.request
from functools import partial

from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.events import Ended, Event, HostChanged, WorkspaceChanged
from agent_worker.core.failpoints import failpoint
from agent_worker.core.late_imports import taking_turns
from agent_worker.database.patient import until_possible
from agent_worker.doors.otel.settings import TraceSettings
from agent_worker.doors.outbox.web import NoRedirect
from agent_worker.service.hosts import is_first
from agent_worker.service.service import Service
from agent_worker.service.traces import Traced, ended_since
from agent_worker.work import export_cursor

NAME = "otel"  #: of our cursor
_LATER = (408, 429, 502, 503, 504)  # statuses after which the same may be sent again
_FIRST, _LONGEST = 1.0, 60.0  # seconds between two tries

log = logging.getLogger(__name__)


class NotExported(AgentWorkerError):
    """Raised when nobody took the spans; they may be sent again."""


class TraceExporter:
    """Works from when it is made, until the service is closed."""

    def __init__(self, service: Service, settings: TraceSettings) -> None:
        self._service = service
        self._settings = settings
        self._stirred = asyncio.Event()
        service.runtime.bus.listen(self._hear, Ended, WorkspaceChanged, HostChanged)
        service.background(self._work())

    def _hear(self, _: Event) -> None:
        self._stirred.set()

    async def _work(self) -> None:
        if not await asyncio.to_thread(_is_there):
            return log.error("traces need a library that is not installed here: pip install '.[otel]'")
        clock = self._service.runtime.clock
        await until_possible(self._begin, clock)
        wait = _FIRST
        while True:
            self._stirred.clear()
            if not await until_possible(partial(is_first, self._service), clock):  # that one sends for all hosts
                await self._stirred.wait()
                continue
            try:
                while await until_possible(self._send_some, clock):
                    wait = _FIRST
            except NotExported as error:
                log.warning("traces: %s; they are sent again in %.0f s", error.message, wait)
                await clock.sleep(wait)
                wait = min(2 * wait, _LONGEST)
                continue
            await self._stirred.wait()

    async def _begin(self) -> None:
        """From now on: the past stays where it is."""
        database = self._service.runtime.database
        if await database.read(export_cursor.reached, NAME) is None:
            await database.write(export_cursor.move, NAME, await database.read(export_cursor.newest))

    async def _send_some(self) -> bool:
        """Send some of the finished work; whether there was any."""
        database = self._service.runtime.database
        reached = await database.read(export_cursor.reached, NAME)
        traced = await database.read(ended_since, reached or 0)
        if traced is None:
            return False
        if traced.runs or traced.workflows:
            await asyncio.to_thread(_send, self._settings, traced)
        failpoint("otel.sent")
        await database.write(export_cursor.move, NAME, traced.last)
        return True


def _is_there() -> bool:
    try:
        with taking_turns:
            import agent_worker.doors.otel.spans  # noqa: F401  takes a moment: this runs in a thread
    except ImportError:
        return False
    return True


def _send(settings: TraceSettings, traced: Traced) -> None:
    """Blocks. Raises NotExported; what the other side will never take is told in the log, and left out."""
    from agent_worker.doors.otel.spans import request_of

    body = request_of(traced, settings).SerializeToString()
    headers = {"Content-Type": "application/x-protobuf", **settings.headers}
    if settings.gzip:
        body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
    context = ssl.create_default_context(cafile=settings.certificate or None)
    opener = urllib.request.build_opener(NoRedirect, urllib.request.HTTPSHandler(context=context))
    try:
        request = urllib.request.Request(settings.endpoint, data=body, headers=headers, method="POST")
        with opener.open(request, timeout=settings.seconds) as answer:
            answer.read(64 * 1024)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in _LATER:
            raise NotExported(f"{settings.endpoint} answered {error.code}") from None
        log.error("traces: %s answered %d, so these are left out", settings.endpoint, error.code)
    except (OSError, ValueError) as error:
        told = f"{settings.endpoint} could not be reached: {getattr(error, 'reason', error)}"
        raise NotExported(told) from None
