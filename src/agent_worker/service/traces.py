"""What ended since an event, as a program that watches wants it: each run with its cause, its steps and its calls.

Read from the record after the fact, so whoever watches costs those at work nothing. Which run came of which is told by
the message between them. What it is called in a protocol of others is decided at the door.
"""

from __future__ import annotations

import json
from dataclasses import field

from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction, WholeTransaction
from agent_worker.workspaces import workspace_rows

AT_ONCE = 200  #: events
_ENDED, _CHANGED = '{"event": "ended"', '{"event": "workspace"'
_OVER = ("stopped", "archived")
_FINAL = ("done", "failed", "incomplete", "cancelled", "yielded", "lost")


@dataclass(frozen=True, slots=True)
class TracedStep:
    n: int
    begin: int
    end: int
    model: str
    input: int
    cached: int
    output: int
    micros: int
    reply: str


@dataclass(frozen=True, slots=True)
class TracedCall:
    id: str
    step: int
    tool: str
    arguments: str
    result: str
    ok: bool
    begin: int
    end: int
    own: bool = False  #: made by a coding program with a tool of its own


@dataclass(frozen=True, slots=True)
class TracedRun:
    id: str
    root: str
    agent: str  #: its id
    name: str
    workspace: str  #: its name; '' in direct messages
    context: str  #: the id of the workspace, or of the agent: a conversation
    backend: str
    model: str
    state: str
    reason: str
    begin: int
    end: int
    said_by: str = ""  #: the run whose message called on it
    workflow: str = ""  #: the instance it belongs to, when the kickoff called on it
    steps: tuple[TracedStep, ...] = ()
    calls: tuple[TracedCall, ...] = ()


@dataclass(frozen=True, slots=True)
class TracedWorkflow:
    id: str  #: of this instance, from its start to its end
    root: str  #: of its kickoff
    name: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Traced:
    last: int  #: the event up to which this goes
    runs: list[TracedRun] = field(default_factory=list)
    workflows: list[TracedWorkflow] = field(default_factory=list)


def ended_since(tx: WholeTransaction, event: int) -> Traced | None:
    """What ended after this event, at most so much at once; None when nothing did."""
    rows = tx.all(
        """select id, project, workspace, record from event
            where id > :event and (substr(record, 1, :ended) = :is_ended or substr(record, 1, :changed) = :is_changed)
            order by id limit :limit""",
        event=event,
        ended=len(_ENDED),
        is_ended=_ENDED,
        changed=len(_CHANGED),
        is_changed=_CHANGED,
        limit=AT_ONCE,
    )
    if not rows:
        return None
    found = Traced(rows[-1]["id"])
    seen: set[str] = set()
    for row in rows:
        told, mine = json.loads(row["record"]), tx.of(row["project"])
        if told["event"] == "ended" and told["run"] not in seen:
            seen.add(told["run"])
            found.runs.extend(_run(mine, told["run"]))
        elif told["event"] == "workspace" and told["state"] in _OVER:
            found.workflows.extend(_workflow(mine, row["workspace"]))
    return found


def _run(tx: Transaction, id: str) -> list[TracedRun]:
    row = tx.one(
        """select r.*, a.name, i.work, i.message from run r
             join agent a on a.project = :project and a.id = r.agent
             join instruction i on i.project = :project and i.id = r.instruction
            where r.project = :project and r.id = :id""",
        id=id,
    )
    if row is None or row["state"] not in _FINAL or row["ended_at"] is None:
        return []
    workspace = _workspace(tx, row["workspace"])
    calls = _calls(tx, row)
    said_by = _said_by(tx, row["message"])
    begun = workspace is not None and not said_by and _kickoff(tx, workspace) == row["root"]
    return [
        TracedRun(
            id=row["id"],
            root=row["root"],
            agent=row["agent"],
            name=row["name"],
            workspace="" if workspace is None else str(workspace_rows.name_of(workspace)),
            context=row["workspace"] or row["agent"],
            backend=row["backend"],
            model=row["model"],
            state=row["state"],
            reason=row["reason"],
            begin=row["started_at"],
            end=row["ended_at"],
            said_by=said_by,
            workflow=_instance(workspace) if workspace is not None and begun else "",
            steps=_steps(tx, row, calls),
            calls=calls,
        )
    ]


def _said_by(tx: Transaction, message: str | None) -> str:
    """The run that said a message; '' when a person did."""
    row = message and tx.one(
        """select m.run from delivery d
             join message m on m.project = :project and m.workspace = d.workspace and m.seq = d.seq
            where d.project = :project and d.message = :message limit 1""",
        message=message,
    )
    return str(row["run"] or "") if row else ""


def _steps(tx: Transaction, run: Row, calls: tuple[TracedCall, ...]) -> tuple[TracedStep, ...]:
    """The steps of a run, each from when the calls before it had returned to when its answer was kept."""
    costs = {
        row["step"]: row
        for row in tx.all(
            """select step, max(model) as model, sum(input) as input, sum(cached) as cached, sum(output) as output,
                      sum(micros) as micros
                 from ledger where project = :project and run = :run group by step""",
            run=run["id"],
        )
    }
    found, begin = [], run["started_at"]
    for row in tx.all(
        "select * from step where project = :project and work = :work and run = :run order by n",
        work=run["work"],
        run=run["id"],
    ):
        cost = costs.get(row["n"], {"model": "", "input": 0, "cached": 0, "output": 0, "micros": 0})
        found.append(
            TracedStep(
                n=row["n"],
                begin=begin,
                end=row["at"],
                model=cost["model"] or run["model"],
                input=int(cost["input"]),
                cached=int(cost["cached"]),
                output=int(cost["output"]),
                micros=int(cost["micros"]),
                reply=row["reply"],
            )
        )
        begin = max([row["at"], *(call.end for call in calls if call.step == row["n"])])
    return tuple(found)


def _calls(tx: Transaction, run: Row) -> tuple[TracedCall, ...]:
    ours = tx.all(
        "select * from call where project = :project and work = :work and run = :run order by step, at, id",
        work=run["work"],
        run=run["id"],
    )
    own = tx.all(
        "select * from program_call where project = :project and work = :work and run = :run order by n",
        work=run["work"],
        run=run["id"],
    )
    return (
        *(_call(row, row["id"], own=False) for row in ours),
        *(_call(row, f"own/{row['n']}", own=True) for row in own),
    )


def _call(row: Row, id: str, *, own: bool) -> TracedCall:
    end = row["at"] if row["done_at"] is None else row["done_at"]
    values = row["tool"], row["arguments"], row["result"], bool(row["ok"])
    return TracedCall(id, row["step"], *values, row["at"], end, own)


def _workspace(tx: Transaction, id: str | None) -> Row | None:
    return tx.one("select * from workspace where project = :project and id = :id", id=id) if id else None


def _kickoff(tx: Transaction, workspace: Row) -> str:
    """The root of the first thing that was said in this instance; '' when nothing was."""
    row = tx.one(
        """select root from message
            where project = :project and workspace = :workspace and at >= :since and sender = 'user'
            order by seq limit 1""",
        workspace=workspace["id"],
        since=workspace["started_at"],
    )
    return str(row["root"]) if row else ""


def _workflow(tx: Transaction, id: str | None) -> list[TracedWorkflow]:
    workspace = _workspace(tx, id)
    if workspace is None or workspace["ended_at"] is None or not (root := _kickoff(tx, workspace)):
        return []
    name = str(workspace_rows.name_of(workspace))
    return [TracedWorkflow(_instance(workspace), root, name, workspace["started_at"], workspace["ended_at"])]


def _instance(workspace: Row) -> str:
    """What one instance is known by: a workspace that is kept is started again and again."""
    return f"{workspace['id']}/{workspace['started_at']}"
