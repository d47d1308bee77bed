"""What a host keeps, in its home: backups of it, made while it works, and room for it on the disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_worker import attention
from agent_worker.clock import from_micros
from agent_worker.errors import AgentWorkerError, NotFound, Refused, StorageFault
from agent_worker.service import backends
from agent_worker.service.office import Office
from agent_worker.service.operation import operation
from agent_worker.storage.database import Transaction
from agent_worker.storage.files import Root
from agent_worker.storage.space import Room
from agent_worker.trust import store
from agent_worker.workflows import remote

log = logging.getLogger(__name__)

BACKUPS = "backups"
#: Files of the home that are state: approvals, the commits that remotes are locked at, what tests of programs showed.
FILES = (store.FILE, f"remote/{remote.LOCK}", f"programs/{backends.RESULTS}")
LOOK = 30.0  #: seconds between two looks at the disk


@dataclass(frozen=True, slots=True)
class Backup:
    path: str
    bytes: int


@operation("POST", "/backups")
async def backup(office: Office) -> Backup:
    """Copy everything the daemon keeps to one file in its home, as of one moment, while the work goes on."""
    home = home_of(office)
    files = await asyncio.to_thread(_files, home)
    path = await asyncio.to_thread(_free_name, home, f"{from_micros(office.now()):%Y%m%dT%H%M%S}")
    await office.stage.database.back_up(path, files)
    return Backup(str(path), path.stat().st_size)


def home_of(office: Office) -> Root:
    if office.stage.home is None:
        raise Refused("nothing is kept here: there is no home", hint="use the daemon")
    return office.stage.home


def _free_name(home: Root, stamp: str) -> Path:
    home.make_dirs(BACKUPS)
    taken = {entry.name for entry in home.list(BACKUPS)}
    names = (f"{stamp}-{n}.db" if n else f"{stamp}.db" for n in range(1000))
    return home.location(f"{BACKUPS}/{next(name for name in names if name not in taken)}")


def _files(home: Root) -> dict[str, bytes]:
    found = {}
    for name in FILES:
        try:
            found[name] = home.read_bytes(name)
        except NotFound:
            continue
    return found


def put_files_back(home: Root, files: Mapping[str, bytes], *, stamp: str) -> None:
    """Those of a backup, in place of what is there, which is kept beside them."""
    now = _files(home)
    for name in FILES:
        if name not in files or files[name] == now.get(name):
            continue
        if name in now:
            home.replace(f"{name}.replaced-{stamp}", now[name])
        home.replace(name, files[name])


async def look_at_database(office: Office) -> None:
    """All of it, once, while the work goes on. A start does not wait for it: it takes seconds for each gigabyte."""
    try:
        await office.stage.database.check()
    except AgentWorkerError as error:
        log.error("%s", error)


class DiskWatch:
    """Looks at the disk from time to time, and puts it before the person when it is getting full."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._told: dict[str, str] = {}  # project → what it was told last
        office.background(self._watch())

    async def _watch(self) -> None:
        while True:
            try:
                await self._tell(self._office.stage.space.look())
            except StorageFault as error:  # not even this can be stored
                log.warning("%s", error)
            await self._office.stage.clock.sleep(LOOK)

    async def _tell(self, room: Room) -> None:
        for admitted in self._office.projects():
            if self._told.get(admitted.id) == room.state:
                continue
            if told := room.told():
                log.warning("%s", told)
            await self._office.stage.database.write(_put, admitted.id, room, now=self._office.now())
            self._told[admitted.id] = room.state


def _put(tx: Transaction, project: str, room: Room, *, now: int) -> None:
    """What was said about another state is settled by this one."""
    for state in ("low", "stopped"):
        if state != room.state:
            attention.close_about(tx, "space", f"{project}/{state}")
    if told := room.told():
        attention.ask(tx, "space", project=project, ref=f"{project}/{room.state}", text=told, now=now)
