"""Rounds through what agents remember: by command, and by itself once a night while nobody works with it.

What a round changes is in the audit, whole, before the files change: `agent revert NAME --source g_…` takes it back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta

from agent_worker.agents.registry import AgentRuntime
from agent_worker.core.errors import AgentWorkerError, NotFound
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.database.database import ProjectDatabase, Row, Transaction
from agent_worker.files.root import Root
from agent_worker.memory import audit, claims, memory, rounds
from agent_worker.memory.rounds import HOLDS_FOR, RoundChange, RoundPlan, changes_of
from agent_worker.memory.usage import usage
from agent_worker.service.messages import agent_id
from agent_worker.service.operation import operation
from agent_worker.service.round_judge import judged_pairs
from agent_worker.service.service import Service
from agent_worker.work import inbox
from agent_worker.workspaces import routing

log = logging.getLogger(__name__)

ROUND = "g_"  #: how the id of a round begins
GUARD = "guard"  #: who makes a round that nobody asked for
AGAIN = timedelta(minutes=10)  #: after an agent was at work


@dataclass(frozen=True, slots=True)
class RoundMade:
    """What a round has changed, or would change."""

    id: str  #: by which it is taken back; '' when nothing was changed
    changes: list[RoundChange]
    check: list[str] = field(default_factory=list)  #: keys of which the person is asked whether they still hold


@operation("POST", "/agents/{name}/memory/rounds")
async def memory_rounds(service: Service, name: str, dry_run: bool = False, project: str | None = None) -> RoundMade:
    """Tidy an agent's memory, as happens each night: what has ended, is there twice, or has long gone unused.

    `dry_run` changes nothing and shows what would change. Core memory, and what a person wrote, stays as it is.
    """
    loaded = await service.project(project)
    worker = service.runtime.registry.worker(agent_id(loaded, name))
    if worker.home is None:
        raise NotFound(f"{name} has no files of its own")
    return await make_round(service, worker, worker.home, agents=loaded.agents, who="user", dry_run=dry_run)


async def make_round(
    service: Service, worker: AgentRuntime, home: Root, *, agents: Collection[str], who: str, dry_run: bool = False
) -> RoundMade:
    database = service.runtime.database.of(worker.project)
    now = service.runtime.clock.now()
    await service.see_files(worker.agent)
    known = await database.read(usage, worker.agent, agents=agents, now=now)
    entries = await asyncio.to_thread(rounds.readable, home)
    judged = await judged_pairs(service, worker, home, await asyncio.to_thread(rounds.near_pairs, entries))
    planned = await asyncio.to_thread(rounds.plan, entries, replace(known, judged=judged))
    if dry_run:
        return RoundMade("", list(planned.changes), [entry.key for entry in planned.check])
    id = new_id("g") if planned.changes else ""
    await database.write(_record, worker, planned, id, who=who, now=service.now())
    made = await asyncio.to_thread(rounds.apply, home, planned.changes)
    await service.runtime.public.publish(worker)
    left = await asyncio.to_thread(claims.disputes, home)
    await database.write(_close_settled, worker.agent, {one.key for one, _ in left})
    return RoundMade(id, made, [entry.key for entry in planned.check])


def _record(tx: Transaction, worker: AgentRuntime, planned: RoundPlan, id: str, *, who: str, now: int) -> None:
    """Note a round before it changes anything: a change that is not noted could not be taken back."""
    if planned.changes:
        before, about = rounds.as_record(planned.changes), rounds.told(planned.changes)
        audit.note(tx, audit.AuditEntry(worker.agent, who, "tidied", about, before=before, run=id), now=now)
    for entry in planned.check:
        text = f"{worker.name} should know whether this still holds: {entry.key}: {entry.value[:300]}"
        inbox.ask(tx, "check", ref=f"{worker.agent}/{entry.key}", text=text, agent=worker.agent, now=now)


def _close_settled(tx: Transaction, agent: str, disputed: Collection[str]) -> None:
    """Close the inbox items about disputes that are none any more."""
    for row in inbox.open_items(tx):
        if row["kind"] == "dispute" and row["agent"] == agent and row["ref"].partition("/")[2] not in disputed:
            inbox.close_about(tx, "dispute", row["ref"])


def still_holds(home: Root, key: str, *, yes: bool, now: datetime) -> None:
    """The person has said whether an entry still holds: it is asked about again later, or goes into the archive."""
    known = memory.find(home, key)
    if known is None:
        return
    if yes:
        memory.restore(home, replace(known, check_after=(now + HOLDS_FOR).date().isoformat()))
    else:
        memory.forget(home, key, when=now)


# --- taking one back ----------------------------------------------------------------------------------


async def undo_round(
    service: Service, database: ProjectDatabase, agent: str, id: str, *, show: bool
) -> tuple[Sequence[RoundChange], Sequence[RoundChange]]:
    """What was put back (or would be), and what somebody has changed since. It is not made again by a later round."""
    worker, row = service.runtime.registry.worker(agent), await database.read(_round, agent, id)
    changes = await asyncio.to_thread(changes_of, row)
    if worker.home is None or show:
        return changes, []
    await service.see_files(agent)
    done = audit.AuditEntry(agent, "user", "reverted", id)
    await database.write(audit.note, done, now=service.now())
    put_back = await asyncio.to_thread(rounds.undo, worker.home, changes)
    await service.runtime.public.publish(worker)
    return put_back


def _round(tx: Transaction, agent: str, id: str) -> Row:
    made = {row["run"]: row for row in audit.of_deeds(tx, agent, "tidied")}
    if id not in made:
        near = ", ".join(list(made)[-3:]) or "none"
        raise NotFound(f"there was no round {id}", hint=f"agent-worker audit names them; the last: {near}")
    return made[id]


# --- once a night -------------------------------------------------------------------------------------


class NightRounds:
    """Goes its rounds from when it is made, at the hour that the settings name, in local time."""

    def __init__(self, service: Service) -> None:
        self._service = service
        service.background(self._keep_watch())

    async def _keep_watch(self) -> None:
        clock, seconds = self._service.runtime.clock, self._service.runtime.registry.settings.rounds_at
        while seconds >= 0:
            due = next_night(clock.now(), seconds)
            while clock.now() < due:  # in pieces: a machine that slept, or whose clock was set, is not late for long
                await clock.sleep(min((due - clock.now()).total_seconds(), 3600.0))
            await self._all(self._agents(), due)

    def _agents(self) -> list[AgentRuntime]:
        registry = self._service.runtime.registry
        return [own for worker in registry.workers() if (own := registry.own(worker.agent)) is worker and own.home]

    async def _all(self, workers: Iterable[AgentRuntime], night: datetime) -> None:
        """Tidy the memory of all agents. One that is at work is tried again later, for a day at most."""
        left, tries = list(workers), 86400 // int(AGAIN.total_seconds())
        for _ in range(tries):
            left = [worker for worker in left if not await self._one(worker, night)]
            if not left:
                return
            await self._service.runtime.clock.sleep(AGAIN.total_seconds())

    async def _one(self, worker: AgentRuntime, night: datetime) -> bool:
        """Tidy the memory of one agent. False when the agent is at work."""
        assert worker.home is not None
        database = self._service.runtime.database.of(worker.project)
        try:
            if await database.read(_is_at_work, worker.agent):
                return False
            if (host := self._service.runtime.supervisor.host) and not await database.write(
                _take, worker.agent, host, night, now=self._service.now()
            ):
                return True
            names = await database.read(_names)
            await make_round(self._service, worker, worker.home, agents=names, who=GUARD)
        except (AgentWorkerError, OSError) as error:  # one that cannot be tidied holds up no other
            log.warning("nobody could tidy what %s remembers: %s", worker.name, error)
        return True


def _take(tx: Transaction, agent: str, host: str, night: datetime, *, now: int) -> bool:
    """Take the nightly round of an agent for this host; the first host that comes, be it after midnight, gets it."""
    key = f"round/{agent}/{night.astimezone(UTC).date().isoformat()}"
    if routing.accepted(tx, key):
        return False
    routing.accept(tx, key, host, now=now)
    return True


def next_night(now: datetime, seconds: int) -> datetime:
    """When it is next so many seconds after midnight, where this machine is."""
    here = now.astimezone()
    midnight = here.replace(hour=0, minute=0, second=0, microsecond=0)
    due = midnight + timedelta(seconds=seconds)
    return due if due > here else due + timedelta(days=1)


def _is_at_work(tx: Transaction, agent: str) -> bool:
    sql = "select 1 as one from run where project = :project and agent = :agent and state = 'running' limit 1"
    return tx.one(sql, agent=agent) is not None


def _names(tx: Transaction) -> list[str]:
    return [row["name"] for row in tx.all("select name from agent where project = :project")]
