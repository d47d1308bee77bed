"""What a run looks up before it begins, in a channel of a million messages against one of a thousand.

In both, the agent has the same twenty open deliveries and has seen all but the last fifty messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from agent_worker.agents import prompt_data
from agent_worker.agents.registry import AgentRuntime
from agent_worker.agents.run_begin import Assignment
from agent_worker.backends.mock import MockModel
from agent_worker.backends.tool_loop import ToolLoop
from agent_worker.core.clock import SystemClock
from agent_worker.core.events import Bus
from agent_worker.database.database import Transaction
from agent_worker.database.sqlite import SqliteDatabase, connect
from agent_worker.database.transaction import SqliteTransaction
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.work.agent_rows import Fence
from agent_worker.work.queue import Instruction, Lane
from agent_worker.workspaces import channel, deliveries, member_rows
from measures.figure import Figure, Series, us
from measures.posts import TEXT, open_workspace

SMALL, LARGE = 1_000, 1_000_000
AGENTS = 50
OPEN = 20  # deliveries to each member that nobody has answered
CALLS = 50
ROUNDS = 9
AT_MOST = 2.0

MESSAGES = """
with recursive n(seq) as (select 1 union all select seq + 1 from n where seq < :count)
insert into message(project, workspace, seq, id, sender, kind, text, mentions, root, hop, at)
select :project, :workspace, seq, printf('m_%08d', seq), 'user', 'message', :text, '[]', printf('m_%08d', seq), 0, seq
  from n"""

# To each member in turn; the last few of everyone are still open.
SEATS = "create temp table seat as select id from agent order by id"
DELIVERIES = """
insert into delivery(project, message, agent, workspace, seq, state)
select m.project, m.id, s.id, m.workspace, m.seq, case when m.seq > :open then 'queued' else 'acked' end
  from message m cross join seat s on s.rowid = m.seq % :agents + 1 order by m.seq"""

Query = Callable[[Transaction], object]


async def measure(folder: Path) -> list[Figure]:
    small = await _build(folder / "small.db", SMALL)
    large = await _build(folder / "large.db", LARGE)
    return [_compare(what, small[what], large[what]) for what in small]


async def _build(path: Path, messages: int) -> dict[str, Callable[[], object]]:
    """A filled database and what is asked of it, by name."""
    database = await SqliteDatabase.open(path, Bus())
    names = [f"agent{n}" for n in range(AGENTS)]
    stored, workspace = await open_workspace(database, *names)
    members = await stored.read(member_rows.members_in, workspace)
    agent = min(members.values())
    await database.close()
    fill(path, stored.project, workspace, messages)
    tx = SqliteTransaction(connect(str(path), write=False)).of(stored.project)
    job, worker = job_in(stored.project, workspace, agent, messages)
    queries: dict[str, Query] = {
        "inbox, 20 open": partial(deliveries.open_for, agent=agent, workspace=workspace),
        "last 50 of the channel": partial(channel.last, workspace=workspace, count=50),
        "all that a prompt is made of": partial(prompt_data.gather, job=job, worker=worker),
    }
    return {what: partial(query, tx) for what, query in queries.items()}


def fill(path: Path, project: str, workspace: str, count: int) -> None:
    with filling(path) as connection:
        values = {"project": project, "workspace": workspace, "count": count, "text": TEXT}
        connection.execute(MESSAGES, values)
        connection.execute(SEATS)
        connection.execute(DELIVERIES, {"open": count - OPEN * AGENTS, "agents": AGENTS})
        connection.execute("update workspace set seq = ?", (count,))
        connection.execute("update member set seen = ?", (count - 50,))


@contextmanager
def filling(path: Path) -> Iterator[apsw.Connection]:
    """One transaction for very many rows, and no log left of it."""
    connection = connect(str(path), write=True)
    connection.pragma("synchronous", "off")
    connection.pragma("cache_size", -200_000)
    with connection:
        yield connection
    connection.pragma("wal_checkpoint", "truncate")
    connection.close()


def job_in(project: str, workspace: str, agent: str, seq: int) -> tuple[Assignment, AgentRuntime]:
    """That of the agent, when it was called by this message."""
    message = f"m_{seq:08}"
    values: dict[str, Any] = {"source": "channel", "sender": "user", "text": TEXT, "message": message, "root": message}
    lead = Instruction(
        id="i_1",
        work="i_1",
        agent=agent,
        workspace=workspace,
        lane=Lane.IMMEDIATE,
        hop=0,
        state="running",
        attempts=0,
        failures=0,
        queued_at=0,
        **values,
    )
    definition = AgentDefinition(name="agent0", backend="mock")
    worker = AgentRuntime(agent, "agent0", project, definition, ToolLoop(MockModel(SystemClock())))
    return Assignment("r_1", Fence(project, agent, "h_1", 1), "agent0", (lead,), ()), worker


def _compare(what: str, small: Callable[[], object], large: Callable[[], object]) -> Figure:
    at_small, at_large = Series(), Series()
    for _ in range(ROUNDS):
        for query, series in (small, at_small), (large, at_large):
            with series.again():
                for _ in range(CALLS):
                    query()
    ratio = at_large.cpu / at_small.cpu
    return Figure(
        f"{what}, at {LARGE:,} messages",
        us(at_large.wall / CALLS),
        us(at_large.cpu / CALLS),
        f"at {SMALL:,} messages: {us(at_small.cpu / CALLS)} CPU",
        ratio,
        f"≤ {AT_MOST:g}×",
        ratio <= AT_MOST,
        ratio / AT_MOST,
        cost=at_large.cpu / CALLS,
    )
