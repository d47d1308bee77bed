"""Tells the person elsewhere what waits for them: reads the outbox, never blocks anybody, tries again what failed.

It looks when something was put into the inbox, and when something is due. What is sent and not yet marked so when the
process dies is sent once more, with the same id. Where nobody is to be told, entries are only taken away.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from agent_worker.core.clock import from_micros, micros, sleep_until
from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.events import Event, HostChanged, InboxItemAdded
from agent_worker.database.database import Row
from agent_worker.definitions.notifications import Notifications, Sink, read_notifications
from agent_worker.doors.outbox.notice import Notice, NotSent, notice_of
from agent_worker.doors.outbox.timing import after_quiet, due, wait_after
from agent_worker.processes.child import run_command
from agent_worker.processes.environment import safe_environment
from agent_worker.service.answer_links import make_links
from agent_worker.service.hosts import is_first
from agent_worker.service.service import Service
from agent_worker.work import outbox

_COMMAND_SECONDS = 30.0
_DESKTOP = ("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR")  # for notify-send

log = logging.getLogger(__name__)


class OutboxSender:
    """Works from when it is made, until the service is closed."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._stirred = asyncio.Event()
        self._sending: set[str] = set()  # sinks: one that is slow holds up no other
        service.listen(self._hear, InboxItemAdded, HostChanged)
        service.background(self._work())

    def _hear(self, _: Event) -> None:
        self._stirred.set()

    async def _work(self) -> None:
        clock, database = self._service.runtime.clock, self._service.runtime.database
        while True:
            self._stirred.clear()
            try:
                if not await is_first(self._service):  # that one tells the person, by its own file
                    await self._stirred.wait()
                    continue
                await self._look()
                following = await database.read(outbox.next_due)
            except AgentWorkerError as error:  # of the file, or of the disk: in a while it may be right
                log.warning("notifications: %s", error)
                following = micros(clock.now() + timedelta(minutes=1))
            at = None if following is None else from_micros(following)
            if at is not None and at <= clock.now():  # somebody is being told: we hear when that is done
                at = clock.now() + timedelta(seconds=1)
            await sleep_until(clock, at, or_when=self._stirred)

    async def _look(self) -> None:
        rows = await self._service.runtime.database.read(outbox.due, now=self._service.now())
        if not rows:
            return
        wanted = await asyncio.to_thread(self._wanted)
        groups: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            if row["state"] != "open" or (row["sink"] and row["sink"] not in wanted.sinks):
                await self._write(row, outbox.drop)
            elif row["sink"]:
                groups[row["sink"]].append(row)
            else:
                await self._assign(row, wanted)
        for name, due_now in groups.items():
            if name not in self._sending:
                self._sending.add(name)
                self._service.background(self._tell(name, wanted.sinks[name], due_now))

    def _wanted(self) -> Notifications:
        home = self._service.runtime.home
        return read_notifications(home.location()) if home else Notifications()

    async def _assign(self, row: Row, wanted: Notifications) -> None:
        now = self._on_the_wall()
        is_test = row["kind"] == "test"  # for every sink, and now: the person is looking whether it arrives
        places = {
            name: micros(now if is_test else due(sink, now))
            for name, sink in wanted.sinks.items()
            if is_test or not sink.kinds or row["kind"] in sink.kinds
        }
        await self._service.runtime.database.of(row["project"]).write(outbox.assign, row["item"], places)
        self._stirred.set()

    async def _tell(self, name: str, sink: Sink, rows: Sequence[Row]) -> None:
        try:
            for told in [rows] if sink.digest else [[row] for row in rows]:
                try:
                    links = await make_links(self._service, told) if sink.links else {}
                    await SINKS[sink.to](sink, notice_of(told, links))
                except NotSent as error:
                    log.warning("notification %s: %s", name, error.message)
                    await self._failed(told, error.message)
                else:
                    await self._sent(sink, told)
        finally:
            self._sending.discard(name)
            self._stirred.set()

    async def _sent(self, sink: Sink, rows: Sequence[Row]) -> None:
        again = None
        if sink.again:
            again = micros(after_quiet(sink, self._on_the_wall() + timedelta(seconds=sink.again)))
        for row in rows:
            database = self._service.runtime.database.of(row["project"])
            await database.write(outbox.sent, row["item"], row["sink"], again=again)

    async def _failed(self, rows: Sequence[Row], reason: str) -> None:
        for row in rows:
            tries = row["tries"] + 1
            wait = wait_after(tries)
            at = outbox.NEVER if wait is None else self._service.now() + int(wait * 1e6)
            database = self._service.runtime.database.of(row["project"])
            await database.write(outbox.failed, row["item"], row["sink"], tries=tries, due_at=at, reason=reason)

    async def _write(self, row: Row, change: Callable[..., None]) -> None:
        await self._service.runtime.database.of(row["project"]).write(change, row["item"])

    def _on_the_wall(self) -> datetime:
        return self._service.runtime.clock.now().astimezone()


# --- sinks --------------------------------------------------------------------------------------------


async def _webhook(sink: Sink, notice: Notice) -> None:
    from agent_worker.doors.outbox.web import send_webhook

    await asyncio.to_thread(send_webhook, sink, notice)


async def _ntfy(sink: Sink, notice: Notice) -> None:
    from agent_worker.doors.outbox.web import send_ntfy

    await asyncio.to_thread(send_ntfy, sink, notice)


async def _email(sink: Sink, notice: Notice) -> None:
    from agent_worker.doors.outbox.mail import send_email

    await asyncio.to_thread(send_email, sink, notice)


async def _command(sink: Sink, notice: Notice) -> None:
    """The person's own command. What is told stands in variables, so that nothing in it is read by the shell."""
    told = {"NOTICE_TITLE": notice.title, "NOTICE_TEXT": notice.text, "NOTICE_JSON": notice.json}
    command = str(sink.command)
    env = safe_environment(_DESKTOP) | told
    done = await run_command(command, cwd=Path.home(), env=env, timeout=_COMMAND_SECONDS)
    if done.timed_out:
        raise NotSent(f"it took longer than {_COMMAND_SECONDS:.0f} s: {shlex.quote(command)}")
    if done.exit_code != 0:
        raise NotSent(f"exit {done.exit_code}: {done.output.strip()[:200]}")


SINKS: dict[str, Callable[[Sink, Notice], Awaitable[None]]] = {
    "webhook": _webhook,
    "ntfy": _ntfy,
    "command": _command,
    "email": _email,
}
