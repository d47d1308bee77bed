"""Gathers what may enter the prompt of a run: one consistent look at the database, and what the agent remembers.

From its memory: core memory always, working memory as far as it matters here, open todos.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from agent_worker.agents.prompt import NAMES, Brief, PromptEntry, PromptLine, tokens_in
from agent_worker.agents.registry import AgentRuntime
from agent_worker.agents.run_begin import Assignment
from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.ids import new_id
from agent_worker.database.database import Row, Transaction
from agent_worker.memory import memory, todos
from agent_worker.memory.library import OWN
from agent_worker.proposals import store
from agent_worker.work import threads
from agent_worker.workspaces import channel, deliveries, workspace_rows

DIGEST = 50  # messages of the channel that are looked at; older ones are counted


@dataclass(frozen=True, slots=True)
class PromptData:
    brief: Brief
    seen: int = 0  #: the last message of the channel that was there to be shown
    open_votes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  #: proposals it is called on for → options


def gather(tx: Transaction, job: Assignment, worker: AgentRuntime, tools: tuple[str, ...]) -> PromptData:
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
        return PromptData(brief)
    return _in_workspace(tx, brief, job, job.workspace, worker.workspace_name)


def _in_workspace(tx: Transaction, brief: Brief, job: Assignment, workspace: str, name: str) -> PromptData:
    others = workspace_rows.others(tx, workspace, job.fence.agent, limit=NAMES)
    place_row = workspace_rows.get(tx, workspace)
    last = place_row["seq"]
    seen = workspace_rows.seen(tx, workspace, job.fence.agent)
    fetched = channel.last(tx, workspace, DIGEST, after=seen)
    mine = deliveries.seqs_open_for(tx, job.fence.agent, workspace, since=fetched[0].seq) if fetched else set()
    digest = [m for m in fetched if m.seq not in mine and m.sender != brief.name]
    given = deliveries.given_to(tx, job.run)
    return PromptData(
        replace(
            brief,
            workspace=name,
            members=others.names,
            members_left_out=others.more,
            roles=_services(place_row),
            digest=[PromptLine(m.sender, m.text, m.seq, m.run) for m in digest],
            digest_left_out=max(0, last - seen - len(fetched)),
            # Only what this run was given and will finish: the rest is work of its own, and its turn comes.
            inbox=[
                PromptLine(row["sender"], row["text"], row["seq"], row["run"])
                for row in given
                if row["id"] != job.lead.message
            ],
        ),
        seen=last,
        open_votes={
            row["proposal"]: store.find(tx, workspace, row["proposal"]).rules.options
            for row in given
            if row["kind"] == "proposal"
        },
    )


def _services(workspace: Row) -> list[str]:
    coordinator, owner = workspace["coordinator"], workspace["document_owner"]
    sentences = [f"{coordinator} coordinates the team."] if coordinator else []
    if owner:
        sentences.append(f"{owner} owns the documents and alone writes them; others use team_doc_suggest.")
    return sentences


def _line(talk: threads.ThreadEntry) -> PromptLine:
    return PromptLine(talk.who if talk.kind == "message" else "system (failure)", talk.text, run=talk.run)


def _cause(tx: Transaction, job: Assignment) -> str | None:
    """The run that posted the message which asks for this work."""
    if job.workspace is None or job.lead.message is None:
        return None
    row = tx.one(
        """select m.run from delivery d
             join message m on m.project = :project and m.workspace = d.workspace and m.seq = d.seq
            where d.project = :project and d.message = :message and d.agent = :agent""",
        message=job.lead.message,
        agent=job.fence.agent,
    )
    return row["run"] if row else None


RELEVANT = 20  # entries of working memory that are looked at


@dataclass(frozen=True, slots=True)
class PromptMemory:
    memory: tuple[PromptEntry, ...] = ()
    left_out: int = 0  #: entries of working memory that do not matter here
    todos: tuple[str, ...] = ()


def prompt_memory(worker: AgentRuntime, about: str, now: datetime) -> PromptMemory:
    """Reads files: call it in a thread. A file that cannot be read is said in the prompt, it does not stop the work."""
    if worker.home is None or not worker.home.may_hold(memory.FOLDER, todos.FOLDER):
        return PromptMemory()
    try:
        shown, left_out = _memories(worker, about, now)
        return PromptMemory(tuple(shown), left_out, tuple(t.text for t in todos.open_items(worker.home)))
    except (AgentWorkerError, OSError) as error:
        return PromptMemory((PromptEntry(f"(your memory could not be read: {error})", "agent-worker", "core"),))


def _memories(worker: AgentRuntime, about: str, now: datetime) -> tuple[list[PromptEntry], int]:
    """Entries of memory that are shown, core first, and how many of the working memory are not."""
    assert worker.home is not None
    loaded = memory.load(worker.home)
    settings = worker.definition.memory
    mistakes = [
        PromptEntry(f"(a file of your memory has a mistake: {problem})", "agent-worker", "core")
        for problem in loaded.problems
    ]
    always = [e for e in loaded.entries if e.file in settings.auto_load]
    searched = set(settings.search)
    working = [e for e in loaded.entries if e.file not in settings.auto_load and {e.file, e.tier} & searched]
    chosen = working
    if sum(tokens_in(_memory_line(e)) for e in (*always, *working)) > settings.budget:
        found = worker.library.search(about, now=now, kinds={"memory"}, limit=RELEVANT)
        by_place = {(f"{OWN}{memory.path_of(e.file)}", e.key): e for e in working}
        places = [(f.entry.source, f.entry.id) for f in found]
        chosen = [by_place[place] for place in places if place in by_place]
    shown = [PromptEntry(_memory_line(e), memory.path_of(e.file), e.tier, e.source) for e in (*always, *chosen)]
    return [*mistakes, *shown], len(working) - len(chosen)


def _memory_line(entry: memory.MemoryEntry) -> str:
    return f"{entry.key}: {entry.value}{' (from outside)' if entry.label else ''}"
