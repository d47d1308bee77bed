"""Agent rows: who exists, who runs them, and whether they may work. The one writer of table `agent`.

A host that runs an agent's loop holds a `Fence`: agent, owner, epoch. Every write of the loop passes through
`hold` first, in the same transaction; a loop that was stopped, or whose agent moved to another host, is
refused there and can change nothing any more.
"""

from __future__ import annotations

from typing import Literal

from agent_worker.core.errors import Fenced, NotFound
from agent_worker.core.events import AgentChanged, Queued
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction

#: What a host finds that asks for an agent: work to take, none, or that another host has the agent.
Prospect = Literal["work", "nothing", "elsewhere"]


@dataclass(frozen=True, slots=True)
class Fence:
    project: str
    agent: str
    owner: str
    epoch: int


def enrol(tx: Transaction, *, name: str, kind: str = "project", home: str = "", host: str = "") -> str:
    """The id of this agent, new or known. An inline agent's home is its workspace; a quick one lives on its host."""
    known = tx.one(
        "select id from agent where project = :project and home = :home and name = :name",
        home=home,
        name=name,
    )
    if known:
        return str(known["id"])
    made = tx.one(
        """insert into agent(project, id, name, home, kind, host)
           values (:project, :id, :name, :home, :kind, :host)
           on conflict (project, home, name) do update set name = excluded.name returning id""",
        id=new_id("a"),
        name=name,
        home=home,
        kind=kind,
        host=host,
    )
    assert made is not None
    return str(made["id"])


def make_lasting(tx: Transaction, agent: str) -> None:
    """A quick agent gets a file: it no longer ends with its host."""
    tx.run("update agent set kind = 'project', host = '' where project = :project and id = :agent", agent=agent)


def identity(tx: Transaction, agent: str) -> Row:
    row = tx.one("select * from agent where project = :project and id = :agent", agent=agent)
    if row is None:
        raise NotFound(f"there is no agent {agent}")
    return row


def next_place(tx: Transaction, agent: str) -> int:
    """Number the instructions of an agent; the number never goes back, whatever clocks do."""
    row = tx.one(
        "update agent set ordered = ordered + 1 where project = :project and id = :agent returning ordered", agent=agent
    )
    if row is None:
        raise NotFound(f"there is no agent {agent}")
    return int(row["ordered"])


def claim(tx: Transaction, agent: str, owner: str) -> Fence:
    """Become the one who runs this agent; whoever did before is fenced off. Raises Fenced: another host has it.

    Where there are hosts, a host that was found dead and does not know it yet claims nobody.
    """
    row = tx.one(
        """update agent set owner = :owner, epoch = epoch + 1
            where project = :project and id = :agent and (coalesce(owner, '') = :owner
                  or not exists (select 1 from host h where h.id = agent.owner))
              and (exists (select 1 from host h where h.id = :owner) or not exists (select 1 from host))
           returning epoch""",
        agent=agent,
        owner=owner,
    )
    if row is None:
        identity(tx, agent)
        raise Fenced(f"agent {agent} is run by another host")
    return Fence(tx.project, agent, owner, row["epoch"])


def prospect(tx: Transaction, agent: str, owner: str) -> Prospect:
    """What this host would find if it claimed an agent: it asks before it claims, as all the others do."""
    row = tx.one(
        """select case
              when coalesce(a.owner, '') <> :owner and exists (select 1 from host h where h.id = a.owner)
                then 'elsewhere'
              when exists (select 1 from host h where h.id = :owner)
               and exists (select 1 from instruction i
                            where i.project = :project and i.agent = :agent and i.state = 'queued') then 'work'
              else 'nothing' end as found
             from agent a where a.project = :project and a.id = :agent""",
        agent=agent,
        owner=owner,
    )
    found: Prospect = row["found"] if row else "nothing"
    return found


def release(tx: Transaction, fence: Fence) -> bool:
    """Let go of an agent that has nothing to do: the next host that has work for it may be another one."""
    released = tx.changed(
        """update agent set owner = null
            where project = :project and id = :agent and owner = :owner and epoch = :epoch and state <> 'error'
              and not exists (select 1 from instruction i
                               where i.project = :project and i.agent = :agent and i.state = 'queued')""",
        agent=fence.agent,
        owner=fence.owner,
        epoch=fence.epoch,
    )
    return bool(released)


def let_go(tx: Transaction, fence: Fence) -> None:
    """Let go of an agent whose work can only be done elsewhere, and say that it waits."""
    hold(tx, fence)
    tx.run("update agent set owner = null where project = :project and id = :agent", agent=fence.agent)
    waiting = tx.one(
        """select id, workspace, lane from instruction
            where project = :project and agent = :agent and state = 'queued' order by lane, id limit 1""",
        agent=fence.agent,
    )
    if waiting:
        lane, work = waiting["lane"], waiting["id"]
        tx.tell(Queued(agent=fence.agent, instruction=work, lane=lane, workspace=waiting["workspace"]))


def free_from_others(tx: Transaction, owner: str) -> None:
    """Agents that a host held which is gone are free, and those that were at work or in error are idle."""
    tx.run(
        """update agent set owner = null, state = case when state in ('running', 'error') then 'idle' else state end
            where project = :project and coalesce(owner, '') <> :owner
              and not exists (select 1 from host h where h.id = agent.owner)""",
        owner=owner,
    )


def hold(tx: Transaction, fence: Fence) -> Row:
    """Prove the fence and keep it until the commit; the agent. Call first in every write of a loop."""
    # An update, not a select: on PostgreSQL it locks the row against a rival's claim.
    row = tx.one(
        """update agent set epoch = epoch where project = :project and id = :agent and owner = :owner and epoch = :epoch
           returning *""",
        agent=fence.agent,
        owner=fence.owner,
        epoch=fence.epoch,
    )
    if row is None:
        raise Fenced(f"agent {fence.agent} is run by another loop now")
    return row


def holds(tx: Transaction, fence: Fence, *, run: str | None = None) -> bool:
    """Is the fence good, and the run still open? If it is, both stay so until the commit."""
    held = tx.changed(
        """update agent set epoch = epoch where project = :project and id = :agent and owner = :owner and epoch = :epoch
              and (cast(:run as text) is null or exists (
                select 1 from run r where r.project = :project and r.id = :run and r.state = 'running'))""",
        agent=fence.agent,
        owner=fence.owner,
        epoch=fence.epoch,
        run=run,
    )
    return bool(held)


def set_state(tx: Transaction, agent: str, state: str, *, reason: str = "", now: int | None = None) -> None:
    """idle, running, stopped or error. `now` marks activity, which idle schedules count from."""
    row = tx.one(
        """update agent set state = :state, reason = :reason, active_at = coalesce(:now, active_at)
            where project = :project and id = :agent returning name""",
        agent=agent,
        state=state,
        reason=reason,
        now=now,
    )
    if row:
        tx.tell(AgentChanged(agent=agent, name=row["name"], state=state, reason=reason))


def rest(tx: Transaction, agent: str, *, now: int) -> None:
    """Note that an agent's run is over. One that a person stopped meanwhile stays stopped."""
    row = tx.one(
        """update agent set active_at = :now, state = case when state = 'running' then 'idle' else state end
            where project = :project and id = :agent returning name, state, reason""",
        agent=agent,
        now=now,
    )
    if row:
        tx.tell(AgentChanged(agent=agent, name=row["name"], state=row["state"], reason=row["reason"]))


def pause(tx: Transaction, agent: str, reason: str) -> None:
    _set_paused(tx, agent, reason)


def resume(tx: Transaction, agent: str) -> None:
    _set_paused(tx, agent, "")


def _set_paused(tx: Transaction, agent: str, reason: str) -> None:
    row = tx.one(
        "update agent set paused = :reason where project = :project and id = :agent returning name, state",
        agent=agent,
        reason=reason,
    )
    if row is None:
        raise NotFound(f"there is no agent {agent}")
    state = "paused" if reason else row["state"]
    tx.tell(AgentChanged(agent=agent, name=row["name"], state=state, reason=reason))


def forget(tx: Transaction, agent: str) -> None:
    """Forget an agent: its name is free again, and whoever has it next is somebody else."""
    row = tx.one("delete from agent where project = :project and id = :agent returning name", agent=agent)
    if row:
        tx.tell(AgentChanged(agent=agent, name=row["name"], state="deleted"))


def owned(tx: Transaction) -> list[Row]:
    """Agents that a host has, those that are at work first."""
    return tx.all(
        """select owner, name, state from agent where project = :project and owner is not null
            order by case state when 'running' then 0 else 1 end, name"""
    )


def at_home(tx: Transaction) -> list[Row]:
    """All lasting and quick agents of the project."""
    return tx.all("select * from agent where project = :project and home = ''")


def known(tx: Transaction, name: str) -> Row | None:
    """The lasting or quick agent that has this name, or had it when its file was last seen. Case does not count."""
    return tx.one(
        "select * from agent where project = :project and home = '' and lower(name) = lower(:name)",
        name=name,
    )


def quick(tx: Transaction, host: str) -> list[Row]:
    """Agents without a file whose daemon is gone, or is this one: they end with it."""
    return tx.all(
        """select a.*, coalesce(c.root, '') as root from agent a
             left join checkout c on c.project = :project and c.host = :here
            where a.project = :project and a.kind = 'ephemeral'
              and (a.host = :host or not exists (select 1 from host h where h.id = a.host))""",
        host=host,
    )
