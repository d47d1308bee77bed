"""What a host keeps, in its home: backups of it, made while it works, and room for it on the disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

from agent_worker.core.clock import from_micros
from agent_worker.core.disk_space import FreeSpace
from agent_worker.core.errors import AgentWorkerError, NotFound, Refused, StorageFault
from agent_worker.core.later import dataclass
from agent_worker.database.backup import DUMP
from agent_worker.database.database import Transaction
from agent_worker.files.root import Root
from agent_worker.service import backends
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.trust import store
from agent_worker.work import inbox
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
async def backup(service: Service) -> Backup:
    """Copy everything the daemon keeps to one file in its home, as of one moment, while work continues."""
    home = home_of(service)
    files = await asyncio.to_thread(_files, home)
    path = await asyncio.to_thread(_free_name, home, f"{from_micros(service.now()):%Y%m%dT%H%M%S}")
    await service.runtime.database.back_up(path, files)
    return Backup(str(path), path.stat().st_size)


def made_elsewhere(service: Service) -> str:
    """The command that makes a backup, where the daemon makes none."""
    return DUMP if service.runtime.supervisor.host else ""


def home_of(service: Service) -> Root:
    if service.runtime.home is None:
        raise Refused("nothing is kept here: there is no home", hint="use the daemon")
    return service.runtime.home


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
    """Put the files of a backup in place of what is there, which is kept beside them."""
    now = _files(home)
    for name in FILES:
        if name not in files or files[name] == now.get(name):
            continue
        if name in now:
            home.replace(f"{name}.replaced-{stamp}", now[name])
        home.replace(name, files[name])


async def look_at_database(service: Service) -> None:
    """Check the whole database once, while the work goes on. A start does not wait for that: it takes seconds per
    gigabyte."""
    try:
        await service.runtime.database.check()
    except AgentWorkerError as error:
        log.error("%s", error)


class DiskWatch:
    """Looks at the disk from time to time, and puts it before the person when it is getting full."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._told: dict[str, str] = {}  # project → what it was told last
        service.background(self._watch())

    async def _watch(self) -> None:
        while True:
            try:
                await self._tell(self._service.runtime.space.look())
            except StorageFault as error:  # not even this can be stored
                log.warning("%s", error)
            await self._service.runtime.clock.sleep(LOOK)

    async def _tell(self, space: FreeSpace) -> None:
        for loaded in self._service.projects():
            if self._told.get(loaded.id) == space.state:
                continue
            if told := space.told():
                log.warning("%s", told)
            await self._service.write(loaded, _put, space, now=self._service.now())
            self._told[loaded.id] = space.state


def _put(tx: Transaction, space: FreeSpace, *, now: int) -> None:
    """Tell the person how full the disk is; what was said about another state is closed."""
    for state in ("low", "stopped"):
        if state != space.state:
            inbox.close_about(tx, "space", state)
    if told := space.told():
        inbox.ask(tx, "space", ref=space.state, text=told, now=now)
