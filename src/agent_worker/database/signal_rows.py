"""What hosts tell each other beside events. The one writer of tables `closed_gate`, `watch` and `waiting_agent`.

Only PostgreSQL has rows here. They need not last: they are written apart from everything else, and not synced. Whoever
has no row in `host` watches nothing and waits for nothing. That something has changed is told by `LOOK_AGAIN`; each
beat looks as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction, WholeTransaction
from agent_worker.database.event_rows import CHANNEL

LOOK_AGAIN = "look"  #: told to all hosts on the channel of events, where all else is numbers
LONGEST = 7900  #: bytes of one word to another host: PostgreSQL takes no more

_NOTIFY = "select pg_notify(:channel, :payload)"
_WATCH = "insert into watch(project, host) values (:project, :host) on conflict do nothing"
_UNWATCH = "delete from watch where project = :project and host = :host"
_CLOSE_GATE = """
insert into closed_gate(key, host, until_at, refusals)
values (:key, :host, extract(epoch from clock_timestamp()) * 1000000 + :micros, :refusals)
on conflict (key) do update set host = excluded.host, refusals = excluded.refusals,
   until_at = greatest(closed_gate.until_at, excluded.until_at)"""
_WAIT = """
insert into waiting_agent(project, agent, host, workspace, name, what, reason, since_at, until_at)
values (:project, :agent, :host, :workspace, :name, :what, :reason, :since, :until)
on conflict (project, agent, host) do update set workspace = excluded.workspace, what = excluded.what,
   reason = excluded.reason, since_at = excluded.since_at, until_at = excluded.until_at"""
_WAIT_NO_LONGER = "delete from waiting_agent where project = :project and agent = :agent and host = :host"

#: What a host looks at with each beat, of all but itself: one trip for the three tables.
LOOK = """
select 'watch', to_jsonb(w) from watch w join host h on h.id = w.host where w.host <> :me
union all
select 'wait', to_jsonb(t) from waiting_agent t join host h on h.id = t.host where t.host <> :me
union all
select 'gate', jsonb_build_object('key', key, 'refusals', refusals,
                                  'left', until_at - extract(epoch from clock_timestamp()) * 1000000)
  from closed_gate where host <> :me and until_at > extract(epoch from clock_timestamp()) * 1000000"""


@dataclass(frozen=True, slots=True)
class ClosedGate:
    """A key that a provider refuses."""

    key: str
    seconds: float  #: until it may be used
    refusals: int


@dataclass(frozen=True, slots=True)
class WaitElsewhere:
    """An agent that has work on another host, and waits."""

    project: str
    agent: str
    name: str
    workspace: str | None
    what: str
    reason: str
    since: int
    until: int | None


@dataclass(frozen=True, slots=True)
class Signals:
    """All that other hosts tell at one moment."""

    watched: frozenset[tuple[str, str]] = frozenset()  #: project ('' is all) and host
    gates: tuple[ClosedGate, ...] = ()
    waits: tuple[WaitElsewhere, ...] = ()


class SignalDoor(Protocol):
    """How what need not last gets to the other hosts, in order."""

    async def tell(self, change: Callable[[WholeTransaction], None]) -> None:
        """Store it, soon rather than surely. Raises StorageFault."""
        ...

    async def close(self) -> None: ...


def signals_in(rows: Iterable[tuple[str, Row]]) -> Signals:
    """What the rows of `LOOK` say."""
    watched, gates, waits = set[tuple[str, str]](), list[ClosedGate](), list[WaitElsewhere]()
    for kind, row in rows:
        match kind:
            case "watch":
                watched.add((row["project"], row["host"]))
            case "gate":
                gates.append(ClosedGate(row["key"], row["left"] / 1e6, row["refusals"]))
            case _:
                about = (row["project"], row["agent"], row["name"], row["workspace"])
                waits.append(WaitElsewhere(*about, row["what"], row["reason"], row["since_at"], row["until_at"]))
    return Signals(frozenset(watched), tuple(gates), tuple(waits))


def ear_of(host: str) -> str:
    """The channel on which one host is told what is being written."""
    return f"{CHANNEL}_{host}"


def notify(tx: WholeTransaction, channel: str, payload: str) -> None:
    tx.all(_NOTIFY, channel=channel, payload=payload)


def watch(tx: Transaction, host: str) -> None:
    tx.run(_WATCH, host=host)


def unwatch(tx: Transaction, host: str) -> None:
    tx.run(_UNWATCH, host=host)


def close_gate(tx: WholeTransaction, gate: ClosedGate, host: str) -> None:
    tx.run(_CLOSE_GATE, key=gate.key, host=host, micros=round(gate.seconds * 1e6), refusals=gate.refusals)


def wait(tx: Transaction, wait: WaitElsewhere, host: str) -> None:
    tx.run(
        _WAIT,
        agent=wait.agent,
        host=host,
        workspace=wait.workspace,
        name=wait.name,
        what=wait.what,
        reason=wait.reason,
        since=wait.since,
        until=wait.until,
    )


def wait_no_longer(tx: Transaction, agent: str, host: str) -> None:
    tx.run(_WAIT_NO_LONGER, agent=agent, host=host)


def forget_gone(tx: WholeTransaction) -> None:
    """Take away what hosts said that are gone. A gate stays closed: the provider has not gone."""
    tx.run("delete from watch where not exists (select 1 from host h where h.id = watch.host)")
    tx.run("delete from waiting_agent where not exists (select 1 from host h where h.id = waiting_agent.host)")
    tx.run("delete from closed_gate where until_at < extract(epoch from clock_timestamp()) * 1000000")
