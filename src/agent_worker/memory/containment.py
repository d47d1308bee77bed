"""What came of a run: the later runs that were shown its words, those that were shown theirs, and so on.

The manifest of a run names the runs whose words stood in its prompt; what its tools showed it is in their results. A
question about what is stored, and nothing is changed: that is agents/revert.py.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping

from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction

LONG_ENOUGH = 16  # characters; a shorter line stands in many texts that have nothing to do with each other
TELLING = 8  # characters of a shorter line that holds a digit: a code, a date, a version
LONGEST = 200  # characters of a line that are looked for


@dataclass(frozen=True, slots=True)
class Descent:
    """A run that is taken back: one that was named, or one that saw words of another in the list."""

    run: str
    agent: str
    name: str  #: of the agent
    workspace: str | None
    work: str
    started_at: int
    saw: str | None  #: the run whose words it saw, the first that is known; None: it was named itself


def since(tx: Transaction, agent: str, at: int) -> list[str]:
    """The runs of an agent from a time on."""
    rows = tx.all(
        "select r.id from run r where r.project = :project and r.agent = :agent and r.started_at >= :at order by r.id",
        agent=agent,
        at=at,
    )
    return [row["id"] for row in rows]


def tree(tx: Transaction, named: Collection[str]) -> list[Descent]:
    """The named runs, and every later run of the project that saw words of one of these, oldest first."""
    first = [row for run in named if (row := tx.one(_RUN, run=run))]
    found = {row["id"]: _descent(row, saw=None) for row in first}
    if not found:
        return []
    words: dict[str, str] = {}  # line → the run that has it first
    for each in found.values():
        _learn(words, tx, each)
    # In order of time: whoever saw something began, or called a tool, after it was said.
    for row in _later(tx, min(each.started_at for each in found.values())):
        if row["id"] in found:
            continue
        if saw := next((run for run in _shown(row["manifest"]) if run in found), None) or _called_up(tx, row, words):
            found[row["id"]] = _descent(row, saw=saw)
            _learn(words, tx, found[row["id"]])
    return sorted(found.values(), key=lambda each: (each.started_at, each.run))


def _learn(words: dict[str, str], tx: Transaction, run: Descent) -> None:
    for line in _said(tx, run):
        words.setdefault(line, run.run)


_RUN = """
select r.id, r.agent, coalesce(a.name, r.agent) as name, r.workspace, r.manifest, r.started_at,
       coalesce(i.work, '') as work
  from run r left join agent a on a.project = :project and a.id = r.agent
       left join instruction i on i.project = :project and i.id = r.instruction
 where r.project = :project and r.id = :run"""


def _descent(row: Row, *, saw: str | None) -> Descent:
    return Descent(row["id"], row["agent"], row["name"], row["workspace"], row["work"], row["started_at"], saw)


def _later(tx: Transaction, at: int) -> Iterator[Row]:
    """Runs of a project from a time on, in order."""
    ids = tx.all(
        """select r.id from run r join agent a on a.project = :project and a.id = r.agent
            where r.project = :project and (r.started_at >= :at or r.state = 'running') order by r.started_at, r.id""",
        at=at,
    )
    return (row for each in ids if (row := tx.one(_RUN, run=each["id"])))


def _shown(manifest: str) -> Iterator[str]:
    for section in json.loads(manifest or "[]"):
        yield from section.get("runs", ())


def _said(tx: Transaction, run: Descent) -> Iterator[str]:
    """Lines that can be recognised of all that a run was told and said, learned and wrote."""
    texts = [row["text"] for row in tx.all(_TOLD, agent=run.agent, run=run.run)]
    texts += [row["text"] for row in tx.all(_POSTED, workspace=run.workspace, run=run.run)]
    for call in tx.all(_CALLS, work=run.work, run=run.run):
        texts += _strings(call["arguments"]) if call["tool"] in _WRITING else ()
    return (line for text in texts for line in _lines(text))


#: Tools that leave words where others read them, and by which they are read again.
_WRITING = frozenset(
    {"memory_write", "note_write", "todo_add", "channel_send", "resource_create", "team_proposal_create", "team_vote"}
    | {"team_doc_create", "team_doc_write", "team_doc_append", "team_doc_suggest", "my_status_set"}
)
_TOLD = "select text from talk where project = :project and agent = :agent and run = :run"
_POSTED = "select text from message where project = :project and workspace = :workspace and run = :run"
_CALLS = "select tool, arguments, result from call where project = :project and work = :work and run = :run"
_OWN_CALLS = "select result from program_call where project = :project and work = :work and run = :run"


def _called_up(tx: Transaction, row: Row, words: Mapping[str, str]) -> str | None:
    """The run whose words a tool, ours or the program's own, showed to this run; None when it showed nobody's."""
    made = [*tx.all(_CALLS, work=row["work"], run=row["id"]), *tx.all(_OWN_CALLS, work=row["work"], run=row["id"])]
    results = [call["result"] for call in made]
    return next((run for line, run in words.items() for result in results if result and line in result), None)


def _strings(arguments: str) -> Iterable[str]:
    try:
        found = json.loads(arguments)
    except ValueError:
        return ()
    return [value for value in found.values() if isinstance(value, str)] if isinstance(found, dict) else ()


def _lines(text: str) -> Iterator[str]:
    return (line[:LONGEST] for line in map(str.strip, text.splitlines()) if _is_telling(line))


def _is_telling(line: str) -> bool:
    """Whether a line is long or odd enough that whoever shows it must have it from there."""
    return len(line) >= LONG_ENOUGH or (len(line) >= TELLING and any(map(str.isdigit, line)))
