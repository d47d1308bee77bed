"""Whom a question is for: a model's name and a session become work for an agent, a running team, or one to be started.

alice                  its one conversation with the person
alice, session s       a workspace of its own with alice alone, @alice:s
@review                the team that runs under this name; else one that is started for this question and ends
@review, session s     the team @review:s, started if it does not run
@review:tag            the same, named by the model
"""

from __future__ import annotations

import hashlib

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import MAIN, TAG, Address, WorkspaceName, canonical, parse_address
from agent_worker.core.errors import BadInput, NotFound, Refused
from agent_worker.core.later import dataclass
from agent_worker.database.database import Transaction
from agent_worker.doors.openai.request import DoorQuestion
from agent_worker.service.found_workflow import SESSION
from agent_worker.service.run import RunRequest
from agent_worker.service.service import Service
from agent_worker.service.sessions import MOST_RUNNING, open_instance, open_with_agent, runs
from agent_worker.work.door_tokens import DoorToken


class NoModel(NotFound):
    """Raised for a model that does not exist, or that this token does not open; the client is not told which."""

    code = "model_not_found"


@dataclass(frozen=True, slots=True)
class AskTarget:
    request: RunRequest
    is_team: bool  #: several may answer, so it is said who does
    once: WorkspaceName | None = None  #: the name that a team has for this question only: to be given back when it runs


class Targets:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._taken: set[WorkspaceName] = set()  # names of teams that are about to be started for one question

    async def of(self, loaded: LoadedProject, token: DoorToken, question: DoorQuestion) -> AskTarget:
        address = await self._address(loaded, question)
        check_opens(token, address)
        root = str(loaded.project.root)
        if address.agent is not None and (address.workflow is not None or not question.session):
            return AskTarget(_request(str(address), question, root), is_team=False)
        if address.agent is not None:
            name = await self._session_with(loaded, address.agent, question)
            return AskTarget(_request(f"@{name}", question, root), is_team=False)
        name = WorkspaceName(address.workflow or "", _tag(question.session) or address.tag)
        if name.workflow in loaded.agents and canonical(name.workflow, loaded.project.workflows) is None:
            await self._open(loaded, name, f"{SESSION}{name.workflow}", question)
            return AskTarget(_request(f"@{name}", question, root), is_team=False)
        return await self._team(loaded, name, question)

    async def _address(self, loaded: LoadedProject, question: DoorQuestion) -> Address:
        try:
            named = parse_address(question.model)
        except BadInput:
            raise _no_model(question.model) from None
        found = _spelled(loaded, named)
        if found is None:
            raise _no_model(question.model)
        if not question.previous:
            return found
        before = await self._service.read(loaded, answered, question.previous)
        if before is None:
            raise BadInput(
                f"previous_response_id: {question.previous[:100]} is unknown, or the team that gave it has ended",
                hint="name a session to keep a team: conversation, user or X-Session-Id",
            )
        if not _goes_on(found, before):
            raise BadInput(f"previous_response_id: {question.previous} is an answer of {before}, not of {found}")
        return before

    async def _team(self, loaded: LoadedProject, name: WorkspaceName, question: DoorQuestion) -> AskTarget:
        root = str(loaded.project.root)
        if name.tag == MAIN and not await self._runs(loaded, name):
            params = _params(loaded, name.workflow, question)
            once = await self._free(loaded, name.workflow)
            asked = RunRequest(
                question.text,
                workflow=name.workflow,
                tag=once.tag,
                params=params,
                project=root,
                cause=question.cause,
            )
            return AskTarget(asked, is_team=True, once=once)
        await self._open(loaded, name, name.workflow, question)
        return AskTarget(_request(f"@{name}", question, root), is_team=True)

    async def _free(self, loaded: LoadedProject, workflow: str) -> WorkspaceName:
        """A name that no running team has. The lowest number: the last one that had it is put away then."""
        for n in range(1, 2 * MOST_RUNNING):
            name = WorkspaceName(workflow, f"v{n}")
            if name not in self._taken:
                self._taken.add(name)
                if not await self._runs(loaded, name):
                    return name
                self._taken.discard(name)
        raise Refused(f"too many teams of {workflow} are already running", hint="agent-worker ls")

    def give_back(self, target: AskTarget) -> None:
        """Release an instance that runs, or could not be started: from now on all who look see it."""
        if target.once is not None:
            self._taken.discard(target.once)

    async def _session_with(self, loaded: LoadedProject, agent: str, question: DoorQuestion) -> WorkspaceName:
        return await open_with_agent(self._service, loaded, agent, _tag(question.session))

    async def _open(self, loaded: LoadedProject, name: WorkspaceName, workflow: str, question: DoorQuestion) -> None:
        """Start an instance that does not run. It is kept alive until somebody stops it."""
        if await self._runs(loaded, name):
            return
        if question.previous and not workflow.startswith(SESSION):
            raise BadInput(
                f"previous_response_id: @{name} has ended, and its conversation is gone",
                hint=f"name a session, or keep it running: agent-worker start {name.workflow}",
            )
        params = _params(loaded, workflow, question)
        await open_instance(self._service, loaded, name, workflow, params, cause=question.cause)

    async def _runs(self, loaded: LoadedProject, name: WorkspaceName) -> bool:
        return await runs(self._service, loaded, name)


def check_opens(token: DoorToken, address: Address) -> None:
    """Whether a token opens an agent, or a team with all its instances and members."""
    name = address.agent if address.workflow is None else f"@{address.workflow}"
    # A session with an agent is a workspace that is called like the agent.
    if token.opens and name not in token.opens and address.workflow not in token.opens:
        raise _no_model(str(address))


def _no_model(name: str) -> NoModel:
    return NoModel(f"there is no model {name[:200]} here", hint="GET /v1/models lists them")


def _spelled(loaded: LoadedProject, named: Address) -> Address | None:
    """The address as the files spell it; None for who is not there."""
    if named.workflow is None:
        agent = canonical(named.agent or "", loaded.agents)
        return Address(agent) if agent else None
    workflow = canonical(named.workflow, loaded.project.workflows)
    if workflow is None and named.agent is None:  # a session with an agent, by the name of its workspace
        workflow = canonical(named.workflow, loaded.agents)
    return Address(named.agent, workflow, named.tag) if workflow else None


def _goes_on(found: Address, before: Address) -> bool:
    """Whether this model may go on from that answer: of the agent itself, in a session with it, or of the team."""
    if before.workflow is None or found.workflow is None:
        return found == before or (before.agent is None and found.agent == before.workflow)
    return found.workflow == before.workflow and found.tag in (MAIN, before.tag)


def _request(to: str, question: DoorQuestion, root: str) -> RunRequest:
    return RunRequest(question.text, agent=to, project=root, key=question.key, cause=question.cause)


def _tag(session: str) -> str:
    """The tag of a session: what the client calls it, if a tag may be called so."""
    if not session or (TAG.fullmatch(session) and session != MAIN):
        return session
    return "s" + hashlib.sha256(session.encode()).hexdigest()[:24]


def _params(loaded: LoadedProject, workflow: str, question: DoorQuestion) -> dict[str, str]:
    """The metadata that the workflow has a parameter for."""
    if workflow not in loaded.project.workflows:
        return {}
    known = {param.name for param in loaded.project.workflows[workflow].params}
    return {name: value for name, value in question.metadata.items() if name in known}


# --- reading ------------------------------------------------------------------------------------------


def answered(tx: Transaction, response: str) -> Address | None:
    """Who gave an earlier answer, and where; None for one that is not known."""
    id = response.removeprefix("resp_")
    row = tx.one(
        """select a.name, w.workflow, w.tag from instruction i
             join agent a on a.project = :project and a.id = i.agent
             left join workspace w on w.project = :project and w.id = i.workspace
            where i.project = :project and i.id = :id""",
        id=id,
    )
    if row is not None:
        return Address(row["name"], row["workflow"], row["tag"] or MAIN)
    row = tx.one(
        """select w.workflow, w.tag from delivery d join workspace w on w.project = :project and w.id = d.workspace
            where d.project = :project and d.message = :id limit 1""",
        id=id,
    )
    return Address(None, row["workflow"], row["tag"]) if row else None
