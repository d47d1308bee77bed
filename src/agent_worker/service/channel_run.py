"""Something said in the channel of a running team, followed until all that came of it is done.

What belongs to it is known by its root: others may be talked with in the same channel at the same time. The answer is
the last word of a member. Work goes on whether anybody follows it or not.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import Address
from agent_worker.core.errors import AgentWorkerError, BadInput, NotFound, Permanent
from agent_worker.core.later import dataclass
from agent_worker.core.mentions import nobody_called
from agent_worker.database.database import Row, Transaction
from agent_worker.proposals import store
from agent_worker.service.events import EventRecord, Filter, Follower
from agent_worker.service.followed import STOPPING, Followed, Served, UsageTotals, listening, waiting_for
from agent_worker.service.messages import hand_over
from agent_worker.service.service import Service
from agent_worker.work import inbox
from agent_worker.workflows.quiet import held_up
from agent_worker.workspaces import channel, member_rows, resources, routing, workspace_rows
from agent_worker.workspaces.carried_root import CarriedRoot

_OF_A_RUN = frozenset({"started", "chunk", "tool_call", "tool_result", "step", "retry", "ended"})


@dataclass(frozen=True, slots=True)
class SaidThere:
    """What was said, and the root of all that comes of it: itself, or what an agent that said it works on."""

    workspace: str
    message: str
    root: str
    seq: int
    at: int
    woke: tuple[str, ...] = ()  #: whom it called on


async def say_and_follow(
    service: Service,
    loaded: LoadedProject,
    to: str,
    text: str,
    *,
    key: str | None = None,
    cause: CarriedRoot | None = None,
) -> Followed:
    """Say something in `@review`, and follow what comes of it."""
    address = await service.address(loaded, to)
    routing.check_size(text)
    say = partial(service.write, loaded, _say, loaded, address, text, now=service.now(), key=key, cause=cause)
    follower, said = await listening(service, say)
    follower.narrow(Filter(project=loaded.id))  # also what agents are kept from working by, which is in no channel
    made = ChannelRun(service, loaded, follower, said)
    made.may_be_over = key is not None
    return made


async def came_of(service: Service, loaded: LoadedProject, message: str) -> Served | AgentWorkerError | None:
    """What has come by now of a message in a channel; None while it is worked on."""
    said = await service.read(loaded, _said, message)
    following = ChannelRun(service, loaded, Follower(service, Filter(), until=service.closing), said)
    following.leaves_when_asked = True
    return await following.so_far()


async def take_up_said(service: Service, loaded: LoadedProject, message: str) -> Followed:
    """Follow what comes of a message that was said earlier. It may be over."""
    follower, said = await listening(service, partial(service.read, loaded, _said, message))
    follower.narrow(Filter(project=loaded.id))
    made = ChannelRun(service, loaded, follower, said)
    made.may_be_over = True
    return made


class ChannelRun(Followed):
    def __init__(self, service: Service, loaded: LoadedProject, follower: Follower, said: SaidThere) -> None:
        super().__init__(service, follower)
        self._database = service.database(loaded)
        self._said = said
        self._runs: dict[str, bool] = {}  # whether a run is at our work

    def begun(self) -> dict[str, Any]:
        return {"message": self._said.message, "woke": self._said.woke}

    async def _is_part(self, told: EventRecord) -> bool:
        record = told.record()
        if told.kind == "waiting":
            return await self._database.read(_works_here, self._said, record["agent"])
        if record.get("workspace") != self._said.workspace:
            return False
        if told.kind == "message":
            return await self._database.read(_is_of_root, self._said, record["seq"])
        if told.kind in _OF_A_RUN:
            if record["run"] not in self._runs:
                self._runs[record["run"]] = await self._database.read(_is_run_of, record["run"], self._said)
            return self._runs[record["run"]]
        return told.kind in ("inbox", "settled", "proposal", "vote", "decision")

    async def _is_over(self) -> bool:
        left = await self._database.read(_left, self._said)
        return left.is_nothing or bool(left.held_by) or (self.leaves_when_asked and self._rests(left))

    def _rests(self, left: _WorkLeft) -> bool:
        """Whether only a person can make any of it go on; that can be a vote."""
        rows = left.open
        return (bool(rows) or left.asked) and all(
            row["state"] == "waiting" or (row["state"] == "queued" and self._lacks_key(row["agent"])) for row in rows
        )

    async def _conclude(self) -> Served | AgentWorkerError:
        came = await self._came()
        return replace(came, woke=list(self._said.woke)) if isinstance(came, Served) else came

    async def _came(self) -> Served | AgentWorkerError:
        left = await self._database.read(_left, self._said)
        content, usage = await self._database.read(_answer, self._said)
        if self.leaves_when_asked and self._rests(left):
            items = await self._database.read(inbox.asked_in, self._said.workspace)
            keys = [self._lacks_key(row["agent"]) for row in left.open]
            return waiting_for(items, keys, self._tools, usage, content)
        if left.held_by:
            return Served(content, self._tools, usage, "limit", left.held_by)
        if not left.is_nothing:
            return STOPPING
        if (failed := await self._database.read(_failure, self._said)) is None:
            return Served(content, self._tools, usage)
        if not content:
            return Permanent(failed["reason"] or failed["state"], hint=f"agent-worker explain {failed['run'] or ''}")
        return Served(content, self._tools, usage, "incomplete", failed["reason"])


# --- transactions -------------------------------------------------------------------------------------


def _say(
    tx: Transaction,
    loaded: LoadedProject,
    to: Address,
    text: str,
    *,
    now: int,
    key: str | None = None,
    cause: CarriedRoot | None = None,
) -> SaidThere:
    receipt = hand_over(tx, loaded, to, text, now=now, key=key, cause=cause)
    if receipt.seq is not None and not receipt.woke:  # and so it is not said at all
        told = receipt.told or nobody_called(receipt.members)
        raise BadInput(told, hint="call on a member: @name …; or name one in the workflow's file: desk: name")
    return _said(tx, receipt.id)


def _said(tx: Transaction, message: str) -> SaidThere:
    row = tx.one(
        """select m.workspace, m.root, m.seq, m.at, m.sender from delivery d
             join message m on m.project = :project and m.workspace = d.workspace and m.seq = d.seq
            where d.project = :project and d.message = :id limit 1""",
        id=message,
    )
    if row is None or row["sender"] != "user":
        raise NotFound(f"there is no message {message}", hint="agent-worker peek")
    called = tx.all(
        """select b.name from delivery d
             join member b on b.project = :project and b.workspace = d.workspace and b.agent = d.agent
            where d.project = :project and d.message = :id order by b.name""",
        id=message,
    )
    return SaidThere(
        row["workspace"], message, row["root"], row["seq"], row["at"], tuple(each["name"] for each in called)
    )


@dataclass(frozen=True, slots=True)
class _WorkLeft:
    open: list[Row]
    votes: bool
    asked: bool  #: is the person one of those who have still to vote?
    held_by: str

    @property
    def is_nothing(self) -> bool:
        return not self.open and not self.votes


def _left(tx: Transaction, said: SaidThere) -> _WorkLeft:
    rows = tx.all(
        """select i.agent, i.state, a.state as doing, a.paused from instruction i
             join agent a on a.project = :project and a.id = i.agent
            where i.project = :project and i.workspace = :workspace and i.root = :root
              and i.state in ('queued', 'running', 'waiting')""",
        workspace=said.workspace,
        root=said.root,
    )
    votes = any(each.root == said.root for each in store.open_in(tx, said.workspace))
    asked = votes and any(item["kind"] in ("vote", "veto") for item in inbox.asked_in(tx, said.workspace))
    stuck = bool(rows) and all(row["state"] == "queued" for row in rows)
    return _WorkLeft(rows, votes, asked, held_up(tx, said.workspace) if stuck and _are_held(tx, said, rows) else "")


def _are_held(tx: Transaction, said: SaidThere, rows: list[Row]) -> bool:
    """Whether none of this work is begun until a person lets it."""
    if workspace_rows.get(tx, said.workspace)["paused"]:
        return True
    return all(row["paused"] or row["doing"] in ("stopped", "error") for row in rows)


def _answer(tx: Transaction, said: SaidThere) -> tuple[str, UsageTotals]:
    last = tx.one(
        """select seq from message
            where project = :project and workspace = :workspace and seq > :seq and root = :root
              and sender not in ('user', 'system') and held = 0
            order by seq desc limit 1""",
        workspace=said.workspace,
        seq=said.seq,
        root=said.root,
    )
    used = tx.one(
        """select coalesce(sum(l.input), 0) as input, coalesce(sum(l.output), 0) as output,
                  coalesce(sum(l.micros), 0) as micros, coalesce(max(l.estimated), 0) as estimated
             from run r join ledger l on l.project = :project and l.run = r.id
            where r.project = :project and r.workspace = :workspace and r.started_at >= :at and r.root = :root""",
        workspace=said.workspace,
        at=said.at,
        root=said.root,
    )
    assert used is not None
    usage = UsageTotals(used["input"], used["output"], used["micros"] / 1e6, bool(used["estimated"]))
    return (resources.whole_text(tx, said.workspace, last["seq"]) if last else ""), usage


def _failure(tx: Transaction, said: SaidThere) -> Row | None:
    """The last piece of this work that did not end well."""
    return tx.one(
        """select state, reason, run from instruction
            where project = :project and workspace = :workspace and ended_at >= :at and root = :root
              and state in ('failed', 'dead', 'cancelled', 'incomplete')
            order by ended_at desc limit 1""",
        workspace=said.workspace,
        at=said.at,
        root=said.root,
    )


def _works_here(tx: Transaction, said: SaidThere, agent: str) -> bool:
    return member_rows.member_row(tx, said.workspace, agent) is not None


def _is_of_root(tx: Transaction, said: SaidThere, seq: int) -> bool:
    message = channel.at(tx, said.workspace, seq)
    return message is not None and message.root == said.root


def _is_run_of(tx: Transaction, run: str, said: SaidThere) -> bool:
    row = tx.one("select root from run where project = :project and id = :run", run=run)
    return row is not None and row["root"] == said.root
