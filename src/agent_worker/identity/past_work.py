"""What an agent was asked and answered, and the tools it used: the work that an observer looks back at.

A question about what is stored; nothing is changed. What a person took back is not there.
"""

from __future__ import annotations

from collections.abc import Iterator

from agent_worker.core.clock import from_micros
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction

PERSON = "user"
DIRECT = ("dm", "workspace")  #: how a person speaks to one agent. What stands in a channel may be a kickoff


@dataclass(frozen=True, slots=True)
class PastTurn:
    """One piece of work that was done."""

    run: str
    at: int
    asked: str
    answer: str
    from_person: bool = False  #: said by the person to this agent: no kickoff, no schedule, no other agent
    tools: tuple[str, ...] = ()  #: called and went well, each once

    @property
    def day(self) -> str:
        return from_micros(self.at).date().isoformat()


_DONE = """
select i.text as asked, i.source, i.sender, i.hop, i.work, r.id as run, r.text as answer, r.ended_at
  from instruction i join run r on r.project = :project and r.id = i.run
 where i.project = :project and i.agent = :agent and i.ended_at is not null and i.state = 'done' and r.held = 0
 order by i.ord desc limit :limit"""
_TOOLS = "select distinct tool from call where project = :project and work = :work and run = :run and ok = 1"
_OWN_TOOLS = "select distinct tool from program_call where project = :project and work = :work and run = :run"


def turns(tx: Transaction, agent: str, *, limit: int, with_tools: int = 0) -> list[PastTurn]:
    """The last of what an agent has done, oldest first. Of the newest `with_tools` it is said which tools they used."""
    rows = tx.all(_DONE, agent=agent, limit=limit)
    return [_turn(tx, row, with_tools=number < with_tools) for number, row in enumerate(rows)][::-1]


def said_to(tx: Transaction, agent: str, *, limit: int) -> list[str]:
    """What the person said to an agent directly, newest first, what it works on now too."""
    rows = tx.all(
        """select i.text from instruction i left join run r on r.project = :project and r.id = i.run
            where i.project = :project and i.agent = :agent and i.source in ('dm', 'workspace')
              and i.sender = :person and i.hop = 0 and coalesce(r.held, 0) = 0
            order by i.ord desc limit :limit""",
        agent=agent,
        person=PERSON,
        limit=limit,
    )
    return [row["text"] for row in rows]


def _turn(tx: Transaction, row: Row, *, with_tools: bool) -> PastTurn:
    return PastTurn(
        run=row["run"],
        at=row["ended_at"],
        asked=row["asked"],
        answer=row["answer"],
        from_person=row["source"] in DIRECT and row["sender"] == PERSON and row["hop"] == 0,
        tools=tuple(_tools(tx, row)) if with_tools else (),
    )


def _tools(tx: Transaction, row: Row) -> Iterator[str]:
    for query in (_TOOLS, _OWN_TOOLS):
        yield from (call["tool"] for call in tx.all(query, work=row["work"], run=row["run"]))
