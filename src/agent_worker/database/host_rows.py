"""The hosts that share a database, and how long each is counted on. The one writer of table `host`.

Only PostgreSQL has rows here: a daemon whose state is in SQLite is alone, and needs no lease. Whether a host is dead is
decided by one statement, by the database's own clock: `bury` takes its row away, and whatever belongs to a host that
has no row is free. Who does what about that: agents/hosting.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Protocol

from agent_worker.core.events import HostChanged
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, WholeTransaction
from agent_worker.database.signal_rows import Signals

LEASE = 10.0  #: seconds that a host is counted on after its last beat
BEAT = 2.0  #: seconds between two beats
FENCE = 8.0  #: seconds after its last beat when a host ends its own work: before anybody else may begin it

_ENTER = """
insert into host(id, node, home, place, pid, labels, version, began_at, lease_until)
values (:id, :node, :home, :here, :pid, :labels, :version, extract(epoch from clock_timestamp()) * 1000000, 0)
on conflict (id) do update set labels = excluded.labels"""
#: By the session of the lease, outside of everything else that is written.
BEAT_ONCE = """
update host set lease_until = extract(epoch from clock_timestamp()) * 1000000 + :lease where id = :id returning id"""
#: What a host looks at with each beat: how far events go, whose lease is over, what time it is, how many there are.
LOOK = """
select c.numbered, h.id, cast(extract(epoch from clock_timestamp()) * 1000000 as bigint), (select count(*) from host)
  from event_count c left join host h on h.lease_until < extract(epoch from clock_timestamp()) * 1000000"""
_BURY = """
delete from host where id = :id and lease_until < extract(epoch from clock_timestamp()) * 1000000 returning node"""
_ALL = """
select id, node, place, pid, labels, version, began_at,
       lease_until - cast(extract(epoch from clock_timestamp()) * 1000000 as bigint) as left_of_lease
  from host order by began_at, id"""


@dataclass(frozen=True, slots=True)
class Host:
    """A daemon among others."""

    id: str
    node: str
    home: str
    pid: int
    version: str
    labels: frozenset[str] = frozenset()
    has_home: bool = True  #: by which its checkouts are known after a restart


@dataclass(frozen=True, slots=True)
class Beat:
    """What one beat has found."""

    asked: float  #: when, by the clock of event loops: the lease counts from then at the earliest
    listed: bool  #: whether this host has a row: without one it was found dead
    dead: tuple[str, ...]  #: whose lease is over
    ahead: int = 0  #: microseconds by which the database's clock is ahead of this machine's
    hosts: int = 1  #: how many there are, with this one


class Lease(Protocol):
    """Beats from when it is opened, in a thread of its own."""

    beaten: Callable[[Beat], None]  #: told each beat, in the event loop
    signalled: Callable[[Signals], None]  #: told what other hosts signal, in the event loop; the same again and again
    overheard: Callable[[str], None]  #: told what is being written on another host, in the event loop

    async def open(self) -> int:
        """Begin; by how many microseconds the database's clock is ahead of ours."""
        ...

    async def close(self) -> None: ...


def enter(tx: WholeTransaction, host: Host) -> None:
    """Be one of the hosts from now on. Whoever was here from the same home is gone, or we could not be here."""
    tx.run("delete from host where home = :home and id <> :id", home=host.home, id=host.id)
    tx.run(
        _ENTER,
        id=host.id,
        node=host.node,
        home=host.home,
        pid=host.pid,
        labels=json.dumps(sorted(host.labels)),
        version=host.version,
    )
    tx.run(BEAT_ONCE, id=host.id, lease=int(LEASE * 1e6))
    tx.tell(HostChanged(host=host.id, node=host.node, state="joined"))


def count(tx: WholeTransaction) -> int:
    row = tx.one("select count(*) as n from host")
    return int(row["n"]) if row else 0


def leave(tx: WholeTransaction, host: Host) -> None:
    if tx.changed("delete from host where id = :id", id=host.id):
        tx.tell(HostChanged(host=host.id, node=host.node, state="left"))


def bury(tx: WholeTransaction, id: str) -> bool:
    """Take away a host whose lease is over. False: it has said meanwhile that it lives, or another host was faster."""
    row = tx.one(_BURY, id=id)
    if row:
        tx.tell(HostChanged(host=id, node=row["node"], state="dead"))
    return row is not None


def listed(tx: WholeTransaction) -> list[Row]:
    """All hosts, with the microseconds that are left of their leases."""
    return tx.all(_ALL)
