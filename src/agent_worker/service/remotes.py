"""What was fetched from elsewhere: which commit of it is used, and moving to a newer one on purpose."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from agent_worker.agents.roster import Admitted
from agent_worker.errors import Stale
from agent_worker.service.office import Found, Office, read_fetched, workflow_source
from agent_worker.service.operation import operation
from agent_worker.service.trust import Wish, approve_all, wishes


@dataclass(frozen=True, slots=True)
class Locked:
    """A source, and the commit that it is until it is updated."""

    source: str
    commit: str
    at: str


@dataclass(frozen=True, slots=True)
class Newer:
    """What an update would bring."""

    source: str
    locked: str  #: the commit that is used now
    commit: str  #: the one that its branch or tag is now
    wishes: list[Wish]  #: what it would do that was not approved, as a difference where there was something before


@operation("GET", "/remotes")
async def remotes_list(office: Office) -> list[Locked]:
    """What was fetched, each with the commit it is locked at."""
    return [Locked(lock.source, lock.commit, lock.at) for lock in await office.remotes().locked()]


@operation("POST", "/remotes/look")
async def remote_look(office: Office, source: str, project: str | None = None) -> Newer:
    """What an update of a fetched workflow would change. Nothing is changed by looking."""
    admitted = await office.project(project)
    remote = workflow_source(source)
    now = await office.remotes().get(remote, now=office.stage.clock.now())
    newest = await _newest(office, admitted, source)
    assert newest.fetched is not None
    return Newer(str(remote), now.commit, newest.fetched.commit, await wishes(office, admitted, newest))


@operation("POST", "/remotes/update")
async def remote_update(
    office: Office, source: str, commit: str, project: str | None = None, digests: list[str] | None = None
) -> Locked:
    """Use this commit from now on, and approve what has these digests. It must be the one that was looked at."""
    admitted = await office.project(project)
    newest = await _newest(office, admitted, source)
    assert newest.fetched is not None
    if newest.fetched.commit != commit:
        raise Stale(f"{source} has moved again", hint=f"agent-worker remote update {source}")
    await approve_all(office, admitted, newest, digests or [])
    await office.remotes().move(newest.fetched.remote, commit, now=office.stage.clock.now())
    return next(lock for lock in await remotes_list(office) if lock.source == str(newest.fetched.remote))


async def _newest(office: Office, admitted: Admitted, source: str) -> Found:
    fetched = await office.remotes().newest(workflow_source(source))
    return await asyncio.to_thread(read_fetched, admitted, fetched)
