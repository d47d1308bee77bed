"""A long past, written where it is stored: a room in which much was said and done, without the time it took.

Every fourth message was the answer of a run: with its instruction, its step, its charge, and its lines in the thread.
"""

from __future__ import annotations

from pathlib import Path

from agent_worker.database.sqlite import EVENTS_KEPT
from measures.lookups import OPEN, filling
from measures.posts import TEXT

ANSWERS = 4  # one of so many messages

_SEATS = "create temp table seat as select agent as id, name from member where workspace = :workspace order by agent"

_MESSAGES = """
with recursive n(seq) as (select 1 union all select seq + 1 from n where seq < :count)
insert into message(workspace, seq, id, sender, kind, text, mentions, root, hop, at)
select :workspace, seq, printf('m_%08d', seq), case when seq % :answers = 0 then s.name else 'user' end, 'message',
       :text, '[]', printf('m_%08d', seq), 0, seq
  from n join seat s on s.rowid = seq % :members + 1"""

_DELIVERIES = """
insert into delivery(message, agent, workspace, seq, state, run)
select m.id, s.id, m.workspace, m.seq, case when m.seq > :open then 'queued' else 'acked' end, 'r_' || m.id
  from message m cross join seat s on s.rowid = m.seq % :members + 1 where m.workspace = :workspace order by m.seq"""

_ANSWERS = "create temp table answer as select seq, id, sender, at from message where seq % :answers = 0"

_WORK = (
    """insert into instruction(id, work, agent, workspace, source, sender, lane, ord, text, message, root, hop, state,
                               run, heard, queued_at, ended_at)
       select 'i_' || m.id, 'i_' || m.id, s.id, :workspace, 'channel', 'user', 0, -m.seq, :text, m.id, m.id, 0, 'done',
              'r_' || m.id, 1, m.at, m.at from answer m join seat s on s.name = m.sender order by m.seq""",
    """insert into run(id, instruction, agent, workspace, root, state, text, started_at, ended_at)
       select run, id, agent, workspace, root, state, text, queued_at, ended_at from instruction
        where state = 'done' order by rowid""",
    """insert into step(work, n, run, reply, at)
       select work, 0, run, '{"text": "done"}', queued_at from instruction where state = 'done' order by rowid""",
    """insert into ledger(id, run, step, agent, project, root, model, input, cached, output, micros, estimated, at)
       select 'l_' || i.id, i.run, 0, i.agent, a.project, i.root, 'mock', 9, 0, 9, 9, 0, i.queued_at
         from instruction i join agent a on a.id = i.agent where i.state = 'done' order by i.rowid""",
    """insert into talk(agent, context, seq, who, kind, text, run, at)
       select agent, workspace, row_number() over (partition by agent order by rowid), 'user', 'message', text, run,
              queued_at from instruction where state = 'done' order by agent, rowid""",
    """insert into thread(agent, context, seq)
       select agent, context, max(seq) from talk where context = :workspace group by agent, context
           on conflict (agent, context) do update set seq = excluded.seq""",
)

_EVENTS = """
insert into event(id, workspace, seq, record, at)
select (select coalesce(max(id), 0) from event) + m.seq - :skipped, m.workspace, m.seq, '{"event": "message"}', m.at
  from message m where m.workspace = :workspace and m.seq > :skipped"""


def fill(path: Path, workspace: str, count: int, *, members: int) -> None:
    values = {"room": workspace, "count": count, "text": TEXT, "members": members, "answers": ANSWERS}
    values |= {"open": count - OPEN * members, "skipped": max(0, count - EVENTS_KEPT)}
    with filling(path) as connection:
        for sql in (_SEATS, _MESSAGES, _DELIVERIES, _ANSWERS, *_WORK, _EVENTS):
            connection.execute(sql, values)
        connection.execute("update workspace set seq = ? where id = ?", (count, workspace))
        connection.execute("update member set seen = ? where workspace = ?", (count - 50, workspace))
