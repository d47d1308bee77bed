"""Why a run happened, and what came of it: the messages that led to it, the vote they told of, the runs they woke.

Pure look-ups; `explain` in service/runs.py hands them out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction
from agent_worker.workspaces import workspace_rows

LONGEST = 50  #: messages between a request and a run that are told; the newest of them
SAID = 200  #: characters of each


@dataclass(frozen=True, slots=True)
class CausingMessage:
    """One message on the way to a run."""

    seq: int
    sender: str
    text: str  #: its beginning
    at: int
    workspace: str  #: its name
    run: str | None = None  #: that said it; None: a person, or nobody
    proposal: int | None = None  #: the number of the one it announces, or whose end it tells


@dataclass(frozen=True, slots=True)
class WokenRun:
    """A run that was called by what another said."""

    id: str
    agent: str
    state: str
    seq: int  #: of the message that called it


@dataclass(frozen=True, slots=True)
class RunCopy:
    """What a run had changed in the working copy of its agent when it ended."""

    text: str
    resource: str  #: the difference; '' when it was too large to be kept
    workspace: str


@dataclass(frozen=True, slots=True)
class Causes:
    chain: list[CausingMessage] = field(default_factory=list)  #: from the request to the message it was called by
    beside: list[CausingMessage] = field(default_factory=list)  #: that it was given together with the last of these
    woke: list[WokenRun] = field(default_factory=list)
    copy: RunCopy | None = None


def causes_of(tx: Transaction, run: Row, message: str | None) -> Causes:
    """What led to a run, given its whole row; `message` is the one that its instruction was made from."""
    given = {row["id"]: row for row in tx.all(_GIVEN, run=run["id"])}
    called = tx.one(_BY_ID, id=message) if message else None
    if called is None and given:
        called = given[next(iter(given))]
    chain = list(_chain(tx, called)) if called else []
    beside = [_cause(row) for row in given.values() if called is None or row["id"] != called["id"]]
    return Causes(chain[::-1], beside, *_came_of(tx, run))


def _chain(tx: Transaction, message: Row | None) -> Iterator[CausingMessage]:
    """The messages that led to a run, newest first: each was said by the run that the next one called."""
    for _ in range(LONGEST):
        if message is None:
            return
        yield _cause(message)
        message = tx.one(_CALLED_BY, run=message["run"]) if message["run"] else None


def _came_of(tx: Transaction, run: Row) -> tuple[list[WokenRun], RunCopy | None]:
    """The runs that a run's messages woke, and what it changed in its working copy."""
    woke, copy = [], None
    for row in tx.all(_SAID, workspace=run["workspace"], run=run["id"]) if run["workspace"] else ():
        if row["kind"] == "system":
            copy = RunCopy(row["text"], row["resource"] or "", str(workspace_rows.name_of(row)))
            continue
        woken = tx.all(_WOKEN, message=row["id"])
        woke += [WokenRun(each["run"], each["name"], each["state"], row["seq"]) for each in woken]
    return woke, copy


def _cause(row: Row) -> CausingMessage:
    place = str(workspace_rows.name_of(row))
    return CausingMessage(row["seq"], row["sender"], row["text"][:SAID], row["at"], place, row["run"], row["proposal"])


#: What every look for a message selects, and from where; which of them, each says itself.
_MESSAGE = """
       m.id, m.seq, m.sender, m.kind, m.text, m.resource, m.at, m.run, m.proposal, w.workflow, w.tag
  from message m join workspace w on w.project = :project and w.id = m.workspace"""

#: A delivery knows where its message is; a message has no index but its place.
_GIVEN = f"""select {_MESSAGE}
  join instruction i on i.project = :project and i.run = :run
  join delivery d on d.project = :project and d.message = i.message and d.agent = i.agent
   and d.workspace = m.workspace and d.seq = m.seq
 where m.project = :project order by m.seq"""

_BY_ID = f"""select {_MESSAGE}
  join delivery d on d.project = :project and d.workspace = m.workspace and d.seq = m.seq
 where m.project = :project and d.message = :id limit 1"""

_CALLED_BY = f"""select {_MESSAGE}
  join run r on r.project = :project and r.id = :run
  join instruction i on i.project = :project and i.id = r.instruction
  join delivery d on d.project = :project and d.message = i.message and d.agent = i.agent
   and d.workspace = m.workspace and d.seq = m.seq
 where m.project = :project"""

_SAID = f"""select {_MESSAGE}
 where m.project = :project and m.workspace = :workspace and m.run = :run order by m.seq"""

_WOKEN = """
select r.id as run, r.state, a.name from delivery d
  join run r on r.project = :project and r.id = d.run
  join agent a on a.project = :project and a.id = d.agent
 where d.project = :project and d.message = :message order by a.name"""
