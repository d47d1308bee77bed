"""Gathers what may enter the prompt of a run, in one consistent look at the database."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent_worker import threads
from agent_worker.agents.assignments import Assignment
from agent_worker.agents.registry import Worker
from agent_worker.ids import new_id
from agent_worker.prompt import NAMES, Brief, Line
from agent_worker.storage.database import Row, Transaction
from agent_worker.workspaces import channel, inbox, workspace

DIGEST = 50  # messages of the channel that are looked at; older ones are counted


@dataclass(frozen=True, slots=True)
class Briefing:
    brief: Brief
    seen: int = 0  #: the last message of the channel that was there to be shown


def gather(tx: Transaction, job: Assignment, worker: Worker, tools: tuple[str, ...]) -> Briefing:
    context = job.workspace or threads.PERSONAL
    thin = worker.definition.context.thin_thread
    brief = Brief(
        name=worker.name,
        mark=new_id("q")[-12:],
        instruction=job.lead.text,
        sender=job.lead.sender,
        cause=_cause(tx, job),
        system=worker.definition.system,
        soul=worker.definition.soul.record(),
        memory_budget=worker.definition.memory.budget,
        workflow_note=worker.note,
        tools=tools,
        thread=[_line(talk) for talk in threads.recent(tx, job.fence.agent, context, thin)],
        resumed=job.lead.attempts > 0 and bool(job.past),
    )
    if job.workspace is None:
        return Briefing(brief)
    return _in_room(tx, brief, job, job.workspace, worker.place)


def _in_room(tx: Transaction, brief: Brief, job: Assignment, room: str, place: str) -> Briefing:
    others = workspace.others(tx, room, job.fence.agent, limit=NAMES)
    place_row = workspace.get(tx, room)
    last = place_row["seq"]
    seen = workspace.seen(tx, room, job.fence.agent)
    fetched = channel.last(tx, room, DIGEST, after=seen)
    mine = inbox.seqs_open_for(tx, job.fence.agent, room, since=fetched[0].seq) if fetched else set()
    digest = [m for m in fetched if m.seq not in mine and m.sender != brief.name]
    return Briefing(
        replace(
            brief,
            workspace=place,
            members=others.names,
            members_left_out=others.more,
            offices=_offices(place_row),
            digest=[Line(m.sender, m.text, m.seq, m.run) for m in digest],
            digest_left_out=max(0, last - seen - len(fetched)),
            # Only what this run was given and will finish: the rest is work of its own, and its turn comes.
            inbox=[
                Line(row["sender"], row["text"], row["seq"], row["run"])
                for row in inbox.given_to(tx, job.run)
                if row["id"] != job.lead.message
            ],
        ),
        seen=last,
    )


def _offices(room: Row) -> list[str]:
    coordinator, owner = room["coordinator"], room["document_owner"]
    sentences = [f"{coordinator} coordinates the team."] if coordinator else []
    if owner:
        sentences.append(f"{owner} owns the documents and alone writes them; others use team_doc_suggest.")
    return sentences


def _line(talk: threads.Talk) -> Line:
    return Line(talk.who if talk.sort == "message" else "system (failure)", talk.text, run=talk.run)


def _cause(tx: Transaction, job: Assignment) -> str | None:
    """The run that posted the message which asks."""
    if job.workspace is None or job.lead.message is None:
        return None
    row = tx.one(
        """select m.run from delivery d join message m on m.workspace = d.workspace and m.seq = d.seq
            where d.message = :message and d.agent = :agent""",
        message=job.lead.message,
        agent=job.fence.agent,
    )
    return row["run"] if row else None
