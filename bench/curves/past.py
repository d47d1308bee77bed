"""A long past, written where it is stored: a room in which much was said and done, without the time it took.

Every fourth message was the answer of a run: with its instruction, its step, its charge, and its lines in the thread.
"""

from __future__ import annotations

from agent_worker.database.sqlite import EVENTS_KEPT
from agent_worker.database.transaction import SqliteTransaction
from measures.lookups import OPEN
from measures.posts import TEXT

ANSWERS = 4  # one of so many messages

_SEATS = "create temp table seat as select agent as id, name from member where workspace = :workspace order by agent"

_MESSAGES = """
with recursive n(seq) as (select 1 union all select seq + 1 from n where seq < :count)
insert into message(project, workspace, seq, id, sender, kind, text, mentions, root, hop, at)
select :project, :workspace, seq, printf('m_%08d', seq), case when seq % :answers = 0 then s.name else 'user' end,
       'message', :text, '[]', printf('m_%08d', seq), 0, seq
  from n join seat s on s.rowid = seq % :members + 1"""

_DELIVERIES = """
insert into delivery(project, message, agent, workspace, seq, state, run)
select m.project, m.id, s.id, m.workspace, m.seq, case when m.seq > :open then 'queued' else 'acked' end, 'r_' || m.id
  from message m cross join seat s on s.rowid = m.seq % :members + 1 where m.workspace = :workspace order by m.seq"""

_ANSWERS = "create temp table answer as select seq, id, sender, at from message where seq % :answers = 0"

_WORK = (
    """insert into instruction(project, id, work, agent, workspace, source, sender, lane, ord, text, message, root, hop,
                               state, run, heard, queued_at, ended_at)
       select :project, 'i_' || m.id, 'i_' || m.id, s.id, :workspace, 'channel', 'user', 0, -m.seq, :text, m.id, m.id,
              0, 'done', 'r_' || m.id, 1, m.at, m.at from answer m join seat s on s.name = m.sender order by m.seq""",
    """insert into run(project, id, instruction, agent, workspace, root, state, text, started_at, ended_at)
       select project, run, id, agent, workspace, root, state, text, queued_at, ended_at from instruction
        where state = 'done' order by rowid""",
    """insert into step(project, work, n, run, reply, at)
       select project, work, 0, run, '{"text": "done"}', queued_at from instruction
        where state = 'done' order by rowid""",
    """insert into ledger(project, run, id, step, agent, root, model, input, cached, output, micros, estimated, at)
       select project, run, 'l_' || id, 0, agent, root, 'mock', 9, 0, 9, 9, 0, queued_at
         from instruction where state = 'done' order by rowid""",
    """insert into talk(project, agent, context, seq, who, kind, text, run, at)
       select project, agent, workspace, row_number() over (partition by agent order by rowid), 'user', 'message', text,
              run, queued_at from instruction where state = 'done' order by agent, rowid""",
    """insert into thread(project, agent, context, seq)
       select project, agent, context, max(seq) from talk where context = :workspace group by project, agent, context
           on conflict (project, agent, context) do update set seq = excluded.seq""",
)

_EVENTS = """
insert into event(id, project, workspace, seq, record, at)
select (select coalesce(max(id), 0) from event) + m.seq - :skipped, m.project, m.workspace, m.seq,
       '{"event": "message"}', m.at
  from message m where m.workspace = :workspace and m.seq > :skipped"""


_DONE = (
    "update workspace set seq = :count where id = :workspace",
    "update member set seen = :count - 50 where workspace = :workspace",
    "drop table seat",
    "drop table answer",
)


def fill(tx: SqliteTransaction, project: str, workspace: str, count: int, *, members: int) -> None:
    """By the writer itself: what another program writes into an open database is not borne."""
    values: dict[str, str | int] = {"project": project, "workspace": workspace, "count": count, "text": TEXT}
    values |= {"members": members, "answers": ANSWERS}
    values |= {"open": count - OPEN * members, "skipped": max(0, count - EVENTS_KEPT)}
    for sql in (_SEATS, _MESSAGES, _DELIVERIES, _ANSWERS, *_WORK, _EVENTS, *_DONE):
        tx.connection.execute(sql, values)
