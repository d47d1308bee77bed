"""What goes on in a project right now: who works on what, the newest words, and how each of its workflows stands."""

from __future__ import annotations

from agent_worker.core.clock import from_micros, micros
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction
from agent_worker.proposals import store
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.workspaces import channel, workspace_rows

NEWEST = 8  #: messages of a project
FROM_EACH = 4  #: of them, at most, of one workspace
LONGEST = 300  #: characters of a text


UNDER_WAY = """
select i.id, i.text, i.run, a.name, w.workflow, w.tag, r.started_at, coalesce(m.status, '') as doing
  from instruction i join agent a on a.project = :project and a.id = i.agent
  left join run r on r.project = :project and r.id = i.run
  left join workspace w on w.project = :project and w.id = i.workspace
  left join member m on m.project = :project and m.workspace = i.workspace and m.agent = i.agent
 where i.project = :project and i.state in ('queued', 'running', 'waiting') and i.state = 'running'
 order by r.started_at, i.id"""


@dataclass(frozen=True, slots=True)
class WorkNow:
    """One instruction that is being worked on."""

    id: str
    agent: str
    text: str
    run: str
    since: int
    workspace: str = ""  #: '' for a direct message
    doing: str = ""  #: what the agent says it does


@dataclass(frozen=True, slots=True)
class LastWord:
    at: str  #: the workspace, as it is addressed
    seq: int
    sender: str
    text: str
    time: int


@dataclass(frozen=True, slots=True)
class InstanceNow:
    """An instance of a workflow: what was last said in it, and what it cost today."""

    id: str
    name: str
    last: LastWord | None
    usd: float
    estimated: bool


@dataclass(frozen=True, slots=True)
class Overview:
    work: list[WorkNow]
    newest: list[LastWord]
    instances: list[InstanceNow]


@operation("GET", "/overview")
async def overview(service: Service, project: str | None = None) -> Overview:
    """Who works on what, the newest messages of all channels, and of each workflow its last word and today's cost."""
    loaded = await service.project(project)
    return await service.read(loaded, _overview, now=service.now())


def _overview(tx: Transaction, *, now: int) -> Overview:
    rows = workspace_rows.of_project(tx)
    midnight = micros(from_micros(now).replace(hour=0, minute=0, second=0, microsecond=0))
    said = {row["id"]: _last_words(tx, row) for row in rows}
    newest = sorted((word for words in said.values() for word in words), key=lambda word: -word.time)
    instances = [_instance(tx, row, said[row["id"]], midnight) for row in rows]
    return Overview([_work(each) for each in tx.all(UNDER_WAY)], newest[:NEWEST], instances)


def _work(row: Row) -> WorkNow:
    name = "" if row["workflow"] is None else str(workspace_rows.name_of(row))
    return WorkNow(
        row["id"], row["name"], row["text"][:LONGEST], row["run"] or "", row["started_at"] or 0, name, row["doing"]
    )


def _last_words(tx: Transaction, workspace: Row) -> list[LastWord]:
    """The last messages of one channel, the newest first."""
    at = f"@{workspace_rows.name_of(workspace)}"
    lines = channel.read(tx, workspace["id"], since=max(0, workspace["seq"] - FROM_EACH), limit=FROM_EACH)
    return [LastWord(at, line.seq, line.sender, _text(tx, line), line.at) for line in reversed(lines)]


def _text(tx: Transaction, line: channel.Message) -> str:
    """What was said; of a question that is put to the vote, the question."""
    if line.kind == "proposal" and line.proposal is not None:
        return f"asks for votes: {store.find(tx, line.workspace, line.proposal).question}"[:LONGEST]
    return line.text[:LONGEST]


def _instance(tx: Transaction, workspace: Row, said: list[LastWord], midnight: int) -> InstanceNow:
    spent = tx.one(
        """select coalesce(sum(l.micros), 0) as micros, coalesce(max(l.estimated), 0) as estimated
             from run r join ledger l on l.project = :project and l.run = r.id
            where r.project = :project and r.workspace = :workspace and r.started_at >= :midnight""",
        workspace=workspace["id"],
        midnight=midnight,
    )
    assert spent is not None
    name = str(workspace_rows.name_of(workspace))
    last = said[0] if said else None
    return InstanceNow(workspace["id"], name, last, spent["micros"] / 1e6, bool(spent["estimated"]))
