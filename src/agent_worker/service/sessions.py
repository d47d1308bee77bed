"""Sessions: conversations that a program of somebody else has with an agent or a team, by a name of its own.

With a team a session is the tag of an instance; with an agent it is a workspace with it alone, `@alice:session`. Both
outlive the program and the daemon. Doors use this; what is said in a session goes the way of every message.
"""

from __future__ import annotations

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import ACP_TAG, WorkspaceName, canonical, check_tag
from agent_worker.core.errors import BadInput, Refused
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction
from agent_worker.service.addresses import no_agent
from agent_worker.service.found_workflow import SESSION
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.service.workflows import WorkflowRequest, begin
from agent_worker.workspaces import workspace_rows

MOST_RUNNING = 100  #: instances of one project that sessions may have brought to
_TITLE = 120  # characters


@dataclass(frozen=True, slots=True)
class OpenedSession:
    at: str  #: where it is talked in: `@alice:session`, `@review:tag`
    is_team: bool  #: several may answer


@dataclass(frozen=True, slots=True)
class SessionView:
    """A conversation that can be gone on with."""

    at: str  #: `@review:tag`, or `alice` for the one that everybody has with an agent
    who: str  #: `alice`, or `@review`
    title: str  #: what was said first
    last: int  #: when something was said last


@operation("POST", "/sessions")
async def session_open(
    service: Service, who: str, session: str, project: str | None = None, cause: str | None = None
) -> OpenedSession:
    """Open a session with an agent (`alice`) or a team (`@review`), or continue it."""
    loaded = await service.project(project)
    check_tag(session)
    if who.startswith("@"):
        workflow = canonical(who[1:], loaded.project.workflows)
        if workflow is None:
            raise loaded.project.no_workflow(who[1:])
        await open_instance(service, loaded, WorkspaceName(workflow, session), workflow, cause=cause)
        return OpenedSession(f"@{WorkspaceName(workflow, session)}", is_team=True)
    agent = canonical(who, loaded.agents)
    if agent is None:
        raise no_agent(who, loaded.agents)
    return OpenedSession(f"@{await open_with_agent(service, loaded, agent, session)}", is_team=False)


@operation("GET", "/sessions")
async def sessions_list(service: Service, project: str | None = None, limit: int = 100) -> list[SessionView]:
    """Conversations with the agents and teams of a project, the most recent first."""
    loaded = await service.project(project)
    found = await service.read(loaded, _in_channels) + await service.read(loaded, _with_agents)
    return sorted(found, key=lambda each: -each.last)[: max(1, min(limit, 1000))]


async def open_with_agent(service: Service, loaded: LoadedProject, agent: str, session: str) -> WorkspaceName:
    """Open a session with an agent alone."""
    if canonical(agent, loaded.project.workflows) is not None:
        told = f"there is a workflow {agent} too, so a session with the agent has no name of its own"
        raise BadInput(told, hint=f"ask {agent} without a session, or @{agent}")
    name = WorkspaceName(agent, session)
    await open_instance(service, loaded, name, f"{SESSION}{agent}")
    return name


async def open_instance(
    service: Service,
    loaded: LoadedProject,
    name: WorkspaceName,
    workflow: str,
    params: dict[str, str] | None = None,
    cause: str | None = None,
) -> None:
    """Start an instance that does not run. It is kept alive until somebody stops it."""
    if await runs(service, loaded, name):
        return
    async with service.opening_session:
        if not await runs(service, loaded, name):
            await _make_room(service, loaded)
            root = str(loaded.project.root)
            await begin(service, WorkflowRequest(workflow, root, name.tag, params or {}, cause=cause))


async def runs(service: Service, loaded: LoadedProject, name: WorkspaceName) -> bool:
    return await service.read(loaded, _is_running, name)


async def _make_room(service: Service, loaded: LoadedProject) -> None:
    """Close the oldest idle session of an agent alone or of an editor, where too many instances run.

    What was said there is kept. Teams that a person has started are left alone.
    """
    running = await service.read(loaded, _running)
    if len(running) < MOST_RUNNING:
        return
    for row in running:
        ours = row["file"].startswith(SESSION) or row["tag"].startswith(ACP_TAG)
        if ours and not row["busy"] and (instance := service.running(row["id"])) is not None:
            await service.stop(instance, reason="another session needed its place")
            return
    raise Refused(f"{MOST_RUNNING} teams are already running", hint="agent-worker ls, then agent-worker stop @name")


# --- reading ------------------------------------------------------------------------------------------


def _is_running(tx: Transaction, name: WorkspaceName) -> bool:
    row = tx.one(
        """select 1 as one from workspace
            where project = :project and workflow = :workflow and tag = :tag and state = 'running'""",
        workflow=name.workflow,
        tag=name.tag,
    )
    return row is not None


def _running(tx: Transaction) -> list[Row]:
    """The running instances, the oldest first, each with whether there is work in it."""
    rows = [row for row in workspace_rows.of_project(tx) if row["state"] == "running"]
    busy = {
        row["workspace"]
        for row in tx.all(
            """select distinct workspace from instruction
                where project = :project and state in ('queued', 'running', 'waiting') and workspace is not null"""
        )
    }
    return [{**row, "busy": row["id"] in busy} for row in sorted(rows, key=lambda row: row["started_at"])]


def _in_channels(tx: Transaction) -> list[SessionView]:
    rows = tx.all(
        """select w.workflow, w.tag, w.file, w.started_at,
                  (select m.text from message m
                    where m.project = :project and m.workspace = w.id and m.sender = 'user' and m.seq > w.cleared
                      and m.held = 0 order by m.seq limit 1) as title,
                  (select m.at from message m
                    where m.project = :project and m.workspace = w.id order by m.seq desc limit 1) as last
             from workspace w where w.project = :project and w.state <> 'archived'"""
    )
    return [
        SessionView(
            f"@{workspace_rows.name_of(row)}",
            row["workflow"] if row["file"].startswith(SESSION) else f"@{row['workflow']}",
            _title(row["title"]),
            row["last"] or row["started_at"],
        )
        for row in rows
    ]


def _with_agents(tx: Transaction) -> list[SessionView]:
    rows = tx.all(
        """select a.name,
                  (select k.text from talk k where k.project = :project and k.agent = t.agent and k.context = ''
                      and k.seq > t.cleared and k.who = 'user' and k.held = 0 order by k.seq limit 1) as title,
                  (select k.at from talk k where k.project = :project and k.agent = t.agent and k.context = ''
                    order by k.seq desc limit 1) as last
             from thread t join agent a on a.project = :project and a.id = t.agent
            where t.project = :project and t.context = '' and t.seq > t.cleared and a.kind <> 'inline'"""
    )
    return [SessionView(row["name"], row["name"], _title(row["title"]), row["last"] or 0) for row in rows]


def _title(text: str | None) -> str:
    words = " ".join((text or "").split())
    return words if len(words) <= _TITLE else words[: _TITLE - 1] + "…"
