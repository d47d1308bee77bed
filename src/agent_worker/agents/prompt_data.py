"""Gathers what may enter the prompt of a run: one consistent look at the database, and what the agent remembers.

The look is part of the transaction in which the run begins: another one would cost as much as the look itself.
From its memory: core memory always, working memory as far as it matters here, open todos.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime

from agent_worker.agents import run_begin
from agent_worker.agents.project_instructions import project_instructions
from agent_worker.agents.prompt import NAMES, Brief, PromptEntry, PromptLine, PromptText
from agent_worker.agents.registry import AgentRuntime
from agent_worker.agents.retries import LONGEST_WAIT
from agent_worker.agents.run_begin import Assignment, NotYet, Suspect, TermsOf
from agent_worker.core.errors import AgentWorkerError, NotFound
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Soon, Transaction
from agent_worker.identity.soul import has_own, look
from agent_worker.memory import judging, memory, outside_words, selection, todos
from agent_worker.memory.library import OWN
from agent_worker.memory.memory import MemoryEntry
from agent_worker.proposals import store
from agent_worker.work import threads
from agent_worker.work.agent_rows import Fence
from agent_worker.work.queue import Ageing
from agent_worker.workspaces import channel, deliveries, member_rows


@dataclass(frozen=True, slots=True)
class PromptData:
    brief: Brief
    seen: int = 0  #: the last message of the channel that was there to be shown
    open_votes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  #: proposals it is called on for → options
    heard: tuple[str, ...] = ()  #: what it shows that earlier work may have from outside our workspaces
    outside_known: bool = False  #: there are words in the project that came from there
    beside: bool = False  #: it shows memory that is from there
    passed_on: str = ""  #: who passed this very work on from there; '' for nobody


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that has begun, and what its prompt is made of."""

    job: Assignment
    data: PromptData | None  #: None: it could not be gathered; whoever works on it is told why when it tries again


def begin(
    tx: Transaction,
    fence: Fence,
    terms_of: TermsOf,
    worker_of: Callable[[str | None], AgentRuntime],
    *,
    now: int,
    ageing: Ageing,
    alone: bool = False,
    longest: float = LONGEST_WAIT,
) -> Begun | NotYet | Suspect | None:
    """As `run_begin.begin`, with a look at what the run will be told."""
    taken = run_begin.begin(tx, fence, terms_of, now=now, ageing=ageing, alone=alone, longest=longest)
    if not isinstance(taken, Assignment):
        return taken
    try:
        return Begun(taken, gather(tx, taken, worker_of(taken.workspace)))
    except (AgentWorkerError, LookupError, ValueError):  # a fault of this work: it must not keep the run from beginning
        return Begun(taken, None)


def gather(tx: Transaction, job: Assignment, worker: AgentRuntime) -> PromptData:
    """Asks for everything before it takes an answer: one trip."""
    context = job.workspace or threads.PERSONAL
    asked = threads.told_soon(tx, job.fence.agent, context, worker.definition.context.thin_thread)
    cause, outside_known = _cause_soon(tx, job), outside_words.any_known_soon(tx)
    around = _look_around(tx, job, job.workspace) if job.workspace else None
    caused, talk = cause(), asked()[::-1]
    brief = Brief(
        name=worker.name,
        mark=new_id("q")[-12:],
        instruction=job.lead.text,
        sender=job.lead.sender,
        cause=caused["run"] if caused else None,
        system=worker.definition.system,
        memory_budget=worker.definition.memory.budget,
        workflow_note=worker.note,
        thread=[_line(each) for each in talk],
        resumed=job.lead.attempts > 0 and bool(job.past),
    )
    data = PromptData(brief, outside_known=outside_known())
    said = [*([caused] if caused else []), *talk]
    if not around:
        return _with_origin(data, said)
    there = around()
    data = _in_workspace(tx, data, job, there, worker.workspace_name)
    data = data if worker.knows_workspace else _without_workspace(data)
    return _with_origin(data, [*said, *there.unseen, *there.given])


def _with_origin(data: PromptData, said: Iterable[Row]) -> PromptData:
    """The data with its label: what came from outside keeps it, through however many runs it was passed on."""
    outside = {row["run"] for row in said if row["outside"]}
    if not outside:
        return data
    brief = data.brief
    lines = [*brief.thread, *brief.digest, *brief.inbox]
    asked = [(brief.sender, brief.cause), *((line.who, line.run) for line in brief.inbox)]
    passed_on = next((f"what {who} passed on" for who, run in asked if run in outside), "")
    return replace(data, heard=tuple(line.text for line in lines if line.run in outside), passed_on=passed_on)


@dataclass(frozen=True, slots=True)
class _Around:
    """What a run finds in its workspace."""

    id: str
    place: Row  #: with the last message that it was shown there
    others: member_rows.Others
    unseen: Sequence[Row]  #: the newest messages
    are_older: bool  #: there are more that it was not shown: those are counted
    mine: Collection[int]  #: seqs of those that are the agent's to answer
    given: Sequence[Row]


def _look_around(tx: Transaction, job: Assignment, workspace: str) -> Soon[_Around]:
    agent = job.fence.agent
    place = member_rows.workspace_of_soon(tx, workspace, agent)
    others = member_rows.others_soon(tx, workspace, agent, limit=NAMES)
    unseen = channel.unseen_soon(tx, workspace, agent)
    mine = deliveries.seqs_open_for_soon(tx, agent, workspace)
    given = deliveries.given_to_soon(tx, job.run)

    def found() -> _Around:
        if (row := place()) is None:
            raise NotFound(f"there is no workspace {workspace}")
        new = unseen()
        shown, are_older = new[: channel.UNSEEN][::-1], len(new) > channel.UNSEEN
        return _Around(workspace, row, others(), shown, are_older, mine(), given())

    return found


def _in_workspace(tx: Transaction, data: PromptData, job: Assignment, there: _Around, name: str) -> PromptData:
    digest = [m for m in there.unseen if m["seq"] not in there.mine and m["sender"] != data.brief.name]
    last = there.place["seq"]
    return replace(
        data,
        brief=replace(
            data.brief,
            workspace=name,
            members=there.others.names,
            members_left_out=there.others.more,
            roles=_services(there.place),
            digest=[_said(each) for each in digest],
            digest_left_out=_older(tx, there, data.brief.name),
            # Only what this run was given and will finish: the rest is work of its own, and its turn comes.
            inbox=[_said(each) for each in there.given if each["id"] != job.lead.message],
        ),
        seen=last,
        open_votes={
            row["proposal"]: store.find(tx, there.id, row["proposal"]).rules.options
            for row in there.given
            if row["kind"] == "proposal"
        },
    )


def _older(tx: Transaction, there: _Around, me: str) -> int:
    """How many messages came since it last looked, before those that were fetched."""
    if not there.are_older:
        return 0
    return channel.count_from_others(tx, there.id, me, after=there.place["seen"], before=there.unseen[0]["seq"])


def _without_workspace(data: PromptData) -> PromptData:
    """The data for a member that does not know its workspace, as in a session with it alone: what was asked and no
    more.
    """
    return replace(data, brief=replace(data.brief, workspace=None, members=(), roles=(), digest=(), digest_left_out=0))


def _services(workspace: Row) -> list[str]:
    coordinator, owner = workspace["coordinator"], workspace["document_owner"]
    sentences = [f"{coordinator} coordinates the team."] if coordinator else []
    if workspace["desk"]:
        sentences.append(f"What a person says without calling on anybody is for {workspace['desk']}.")
    if owner:
        sentences.append(f"{owner} owns the documents and alone writes them; others use team_doc_suggest.")
    return sentences


def _line(talk: Row) -> PromptLine:
    return PromptLine(talk["who"] if talk["kind"] == "message" else "system (failure)", talk["text"], run=talk["run"])


def _said(message: Row) -> PromptLine:
    return PromptLine(message["sender"], message["text"], message["seq"], message["run"])


def _cause_soon(tx: Transaction, job: Assignment) -> Soon[Row | None]:
    """The run that posted the message which asks for this work, and whether it read from outside."""
    if job.workspace is None or job.lead.message is None:
        return lambda: None
    return tx.one_soon(
        """select m.run, (select r.outside from run r where r.project = :project and r.id = m.run) as outside
             from delivery d
             join message m on m.project = :project and m.workspace = d.workspace and m.seq = d.seq
            where d.project = :project and d.message = :message and d.agent = :agent""",
        message=job.lead.message,
        agent=job.fence.agent,
    )


RELEVANT = 50  # entries of memory that are looked for


@dataclass(frozen=True, slots=True)
class PromptMemory:
    memory: tuple[PromptEntry, ...] = ()
    left_out: int = 0  #: entries that were looked at and are not shown
    considered: tuple[dict[str, object], ...] = ()  #: each with what it is worth here and why it is in or out
    todos: tuple[str, ...] = ()
    soul: Mapping[str, object] = field(default_factory=dict)
    own_soul: bool = False  #: it has a soul of its own, beyond its definition
    project: tuple[PromptText, ...] = ()  #: what its repository tells agents
    long: tuple[MemoryEntry, ...] = ()  #: entries it had no space for, and a summary might have
    from_others: tuple[str, ...] = ()  #: of the memory that is shown, what was written outside our workspaces


def prompt_memory(worker: AgentRuntime, about: str, now: datetime) -> PromptMemory:
    """What the agent remembers that may enter its prompt. Reads files: call it in a thread. A file that cannot be read
    is named in the prompt, and does not stop the work.
    """
    defined = worker.definition.soul.record()
    told = project_instructions(worker.root, worker.definition.cwd) if worker.definition.project_instructions else ()
    known = replace(_remembered(worker, about, now), soul=defined, project=told)
    if worker.home is None or not has_own(worker.home):
        return known
    try:
        return replace(known, soul=look(worker.home, worker.definition.soul).spoken, own_soul=True)
    except (AgentWorkerError, OSError):  # then it is who its definition says
        return replace(known, own_soul=True)


def _remembered(worker: AgentRuntime, about: str, now: datetime) -> PromptMemory:
    if worker.home is None or not worker.home.may_hold(memory.FOLDER, todos.FOLDER):
        return PromptMemory()
    try:
        known = _memories(worker, about, now)
        return replace(known, todos=tuple(t.text for t in todos.open_items(worker.home)))
    except (AgentWorkerError, OSError) as error:
        return PromptMemory((PromptEntry(f"(your memory could not be read: {error})", "agent-worker", "core"),))


def _memories(worker: AgentRuntime, about: str, now: datetime) -> PromptMemory:
    """What is worth most here of what the agent remembers, core first."""
    assert worker.home is not None
    loaded = memory.load(worker.home)
    settings = worker.definition.memory
    mistakes = [
        PromptEntry(f"(a file of your memory has a mistake: {problem})", "agent-worker", "core")
        for problem in loaded.problems
    ]
    wanted = {*settings.auto_load, *settings.search}
    everything = selection.all_fit(loaded.entries, settings.budget)
    kept = {} if everything else judging.kept_answers(worker.home)
    choices = selection.choose(
        [entry for entry in loaded.entries if {entry.file, entry.tier} & wanted],
        {} if everything else _relevance(worker, about, now),
        about,
        always=settings.auto_load,
        budget=settings.budget,
        today=now.date().isoformat(),
        summaries=lambda value: kept.get(judging.summary_id(value), "") if kept else "",
    )
    shown = [
        PromptEntry(each.line, memory.path_of(each.entry.file), each.entry.tier, each.entry.source)
        for each in choices
        if each.line
    ]
    considered = [
        {"key": each.entry.key, "worth": each.worth, "shown": bool(each.line), "why": each.why} for each in choices
    ]
    others = tuple(each.entry.value for each in choices if each.line and each.entry.is_of_others)
    left_out = len(choices) - len(shown)
    long = tuple(each.entry for each in choices if _wants_summary(each))
    return PromptMemory((*mistakes, *shown), left_out, tuple(considered[:CONSIDERED]), from_others=others, long=long)


def _wants_summary(choice: selection.Choice) -> bool:
    """Whether there was no space for an entry that is long and not from outside."""
    entry = choice.entry
    return choice.why == selection.NO_SPACE and len(entry.value) > selection.LONG and not entry.is_of_others


CONSIDERED = 100  # entries that the manifest names


def _relevance(worker: AgentRuntime, about: str, now: datetime) -> dict[tuple[str, str], float]:
    """How well entries answer what is asked, the best 1, by file and key."""
    found = worker.library.search(about, now=now, kinds={"memory"}, limit=RELEVANT)
    best = max((each.score for each in found), default=0.0)
    files = {f"{OWN}{memory.path_of(file)}": file for file in memory.files(worker.home)} if worker.home else {}
    return {
        (files[each.entry.source], each.entry.id): each.score / best
        for each in found
        if best > 0 and each.entry.source in files
    }
