"""The door of editors and other programs that speak the Agent Client Protocol, over standard input and output.

Runs in a process of its own, which the editor starts, as a client of the daemon like every command: whatever is talked
of here is a session of the daemon's, and outlives both. A session that was begun here is a tag, `acp-…`, of whom it is
talked with; every other conversation of the project can be gone on with by its address. Importing this takes a second.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import wraps
from importlib.metadata import version
from typing import Any, TypeVar, cast

from acp import PROTOCOL_VERSION
from acp.agent.connection import AgentSideConnection
from acp.helpers import text_block
from acp.interfaces import Agent, Client
from acp.schema import (
    AgentCapabilities,
    AgentMessageChunk,
    AuthenticateResponse,
    AuthMethodAgent,
    ClientCapabilities,
    CloseSessionResponse,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
    UserMessageChunk,
)

from agent_worker.api.connected import ConnectedOperations
from agent_worker.api.functions import OwnFunctions
from agent_worker.core.address import ACP_TAG, MAIN, as_written
from agent_worker.core.errors import AgentWorkerError, BadInput, NotRunning, Refused
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.core.text import clean
from agent_worker.doors.acp.asking import Editor
from agent_worker.doors.acp.pipes import standard_streams
from agent_worker.doors.acp.texts import message_of, no_session, refusal
from agent_worker.doors.acp.turn import AcpTurn, SessionPlace
from agent_worker.doors.acp.who import WHO, WhoChoice, choices, modes, options

#: Said in what an agent can do: programs that offer tools know that these go unused, and that nothing is amiss.
NO_TOOLS = {"agent-worker": {"tools": False}}
_AUTH = "agent-worker"
_REPLAYED = 500  # messages
_LISTED = 200

Method = TypeVar("Method", bound=Callable[..., Awaitable[Any]])


def serve(only: str) -> None:
    """Serve an editor until our input ends. `only`: an agent, or a team as `@name`, that alone can be talked with; ''
    for all.
    """
    asyncio.run(_serve(AcpDoor(only)))


async def _serve(door: AcpDoor) -> None:
    streams = await standard_streams()
    connection = AgentSideConnection(cast(Agent, door), streams, listening=False, use_unstable_protocol=True)
    try:
        await connection.listen()
    finally:
        await connection.close()
        await door.close()


def explained(method: Method) -> Method:
    """Tell our errors as those of the protocol."""

    @wraps(method)
    async def explain(*args: Any, **kwargs: Any) -> Any:
        try:
            return await method(*args, **kwargs)
        except AgentWorkerError as error:
            raise refusal(error) from None

    return cast(Method, explain)


@dataclass(slots=True)
class AcpSession:
    id: str
    project: str
    offered: Sequence[WhoChoice]
    who: str
    at: str = ""  #: '' until something is said in it
    is_fixed: bool = False  #: it is a conversation with somebody already
    turn: AcpTurn | None = None
    place: SessionPlace | None = None  #: where the last prompt was said, so that the next one asks only once


class AcpDoor:
    """What the library calls, one method for each of the protocol's."""

    def __init__(self, only: str = "") -> None:
        self._only = only
        self._daemon = ConnectedOperations(None, None, start=True, trust=False)
        self._is_open = False
        self._client: Client | None = None
        self._can: ClientCapabilities | None = None
        self._sessions: dict[str, AcpSession] = {}

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def close(self) -> None:
        """Stop following, because the editor has left. What is under way goes on in the daemon."""
        for session in self._sessions.values():
            if session.turn is not None:
                await session.turn.close()
        await self._daemon.close(None, None, None)

    # --- greeting

    @explained
    async def initialize(
        self, protocol_version: int, client_capabilities: ClientCapabilities | None = None, **_: Any
    ) -> InitializeResponse:
        self._can = client_capabilities
        sessions = SessionCapabilities(
            list=SessionListCapabilities(), resume=SessionResumeCapabilities(), close=SessionCloseCapabilities()
        )
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=Implementation(name="agent-worker", title="agent-worker", version=version("agent-worker")),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=False, audio=False, embedded_context=True),
                mcp_capabilities=McpCapabilities(http=False, sse=False),
                session_capabilities=sessions,
                field_meta=NO_TOOLS,
            ),
            auth_methods=[
                AuthMethodAgent(
                    id=_AUTH,
                    name="This user's daemon",
                    description="Nothing to log in to. Keys of models are stored with: agent-worker key set anthropic",
                )
            ],
        )

    @explained
    async def authenticate(self, method_id: str, **_: Any) -> AuthenticateResponse:
        """Check that the daemon answers: whoever can start this process is the user."""
        if method_id != _AUTH:
            raise BadInput(f"there is no login method {method_id[:100]}", hint=_AUTH)
        await self._found()
        return AuthenticateResponse()

    # --- sessions

    @explained
    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        session = await self._begun(new_tag(), cwd)
        return NewSessionResponse(
            session_id=session.id,
            config_options=list(options(session.offered, session.who)),
            modes=modes(session.offered, session.who),
        )

    @explained
    async def load_session(self, cwd: str, session_id: str, **_: Any) -> LoadSessionResponse:
        session = await self._found_again(session_id, cwd)
        await self._replay(session)
        return LoadSessionResponse(
            config_options=list(options(session.offered, session.who)), modes=modes(session.offered, session.who)
        )

    @explained
    async def resume_session(self, session_id: str, cwd: str, **_: Any) -> ResumeSessionResponse:
        session = await self._found_again(session_id, cwd)
        return ResumeSessionResponse(
            config_options=list(options(session.offered, session.who)), modes=modes(session.offered, session.who)
        )

    @explained
    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **_: Any) -> ListSessionsResponse:
        project = _directory(cwd or os.getcwd())
        found = [
            SessionInfo(
                session_id=_id_of(each["at"]),
                cwd=project,
                title=clean(f"{each['who']}: {each['title']}" if each["title"] else each["at"]),
                updated_at=_time(each["last"]),
            )
            for each in await self._known(project)
        ]
        return ListSessionsResponse(sessions=list({each.session_id: each for each in reversed(found)}.values())[::-1])

    @explained
    async def close_session(self, session_id: str, **_: Any) -> CloseSessionResponse:
        """Stop following it. What is under way is cancelled, as the protocol wants; what was said is kept."""
        session = self._session(session_id)
        if session.turn is not None and not session.turn.is_over:
            await session.turn.cancel()
            await session.turn.close()
        del self._sessions[session_id]
        return CloseSessionResponse()

    # --- who

    @explained
    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> SetSessionConfigOptionResponse:
        if config_id != WHO:
            raise BadInput(f"there is no option {config_id[:100]}", hint=WHO)
        session = self._choose(session_id, str(value))
        await self._editor.client.session_update(
            session.id, CurrentModeUpdate(session_update="current_mode_update", current_mode_id=session.who)
        )
        return SetSessionConfigOptionResponse(config_options=list(options(session.offered, session.who)))

    @explained
    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> SetSessionModeResponse:
        session = self._choose(session_id, mode_id)
        changed = list(options(session.offered, session.who))
        await self._editor.client.session_update(
            session.id, ConfigOptionUpdate(session_update="config_option_update", config_options=changed)
        )
        return SetSessionModeResponse()

    def _choose(self, id: str, who: str) -> AcpSession:
        session = self._session(id)
        found = next((each.who for each in session.offered if each.who.lower() == who.lower()), None)
        if found is None:
            raise BadInput(f"there is no {who[:100]} here", hint=", ".join(each.who for each in session.offered))
        if found != session.who:
            session.who, session.at, session.place = found, "", None
        return session

    # --- prompts

    @explained
    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        session = self._session(session_id)
        text = message_of(prompt)
        if session.turn is not None and session.turn.waits_for_words:
            return await session.turn.answer(text)
        if session.turn is not None and session.turn.is_asked:
            raise Refused("an earlier prompt in this session is still being answered", hint="cancel it, or wait")
        if session.turn is not None:
            await session.turn.close()
        opened = session.place
        try:
            return await self._begin(session, opened or await self._opened(session), text)
        except NotRunning:  # it was stopped since the last prompt
            if opened is None:
                raise
            return await self._begin(session, await self._opened(session), text)

    async def _begin(self, session: AcpSession, place: SessionPlace, text: str) -> PromptResponse:
        session.turn = AcpTurn(self._daemon, self._editor, place)
        return await session.turn.begin(text)

    async def cancel(self, session_id: str, **_: Any) -> None:
        session = self._sessions.get(session_id)
        if session is not None and session.turn is not None:
            await session.turn.cancel()

    async def _opened(self, session: AcpSession) -> SessionPlace:
        """The place of a session, opened now if nothing was said in it yet or it was stopped."""
        if not session.at.startswith("@") and session.is_fixed:
            session.place = SessionPlace(session.id, session.project, session.at, is_team=False)
            return session.place
        tag = as_written(session.at)[1] or (MAIN if session.is_fixed else session.id)
        opened = await self._daemon.call(
            "session_open", {"who": session.who, "session": tag, "project": session.project}
        )
        session.at = opened["at"]
        session.place = SessionPlace(session.id, session.project, opened["at"], opened["is_team"])
        return session.place

    # --- finding

    @property
    def _editor(self) -> Editor:
        assert self._client is not None
        return Editor(self._client, self._can)

    async def _found(self) -> None:
        if not self._is_open:
            await self._daemon.open(OwnFunctions())
            self._is_open = True

    def _session(self, id: str) -> AcpSession:
        if id not in self._sessions:
            raise no_session(id)
        return self._sessions[id]

    async def _begun(self, id: str, cwd: str) -> AcpSession:
        await self._found()
        project = _directory(cwd)
        offered = await choices(self._daemon, project, self._only)
        session = self._sessions[id] = AcpSession(id, project, offered, offered[0].who)
        return session

    async def _known(self, project: str) -> list[dict[str, Any]]:
        await self._found()
        found = await self._daemon.call("sessions_list", {"project": project, "limit": _LISTED})
        return [each for each in found if not self._only or each["who"].lower() == self._only.lower()]

    async def _found_again(self, id: str, cwd: str) -> AcpSession:
        """A session by its id, from this process or from what the daemon keeps; an empty one for an id of ours in which
        nothing was said.
        """
        there = [each for each in await self._known(_directory(cwd)) if _id_of(each["at"]) == id]
        if not there and not is_tag(id):
            raise no_session(id)
        old = self._sessions.get(id)
        session = await self._begun(id, cwd)
        session.turn = old.turn if old is not None else None
        if not there:
            return session
        session.at, session.who, session.is_fixed = there[0]["at"], there[0]["who"], not is_tag(id)
        if session.is_fixed:
            session.offered = [WhoChoice(session.who, session.at)]
        elif not any(each.who == session.who for each in session.offered):
            session.offered = [*session.offered, WhoChoice(session.who, "not here any more")]
        return session

    async def _replay(self, session: AcpSession) -> None:
        """Tell an editor that has forgotten a session what was said in it."""
        if not session.at:
            return
        where = {"at": session.at, "project": session.project, "limit": _REPLAYED, "last": True}
        lines = await self._daemon.call("read", where)
        is_team = session.who.startswith("@")
        for line in lines:
            if line["kind"] not in ("message", "failure"):
                continue
            await self._editor.client.session_update(session.id, _replayed(line, is_team=is_team))


def new_tag() -> str:
    return ACP_TAG + new_id("s").partition("_")[2]


def is_tag(id: str) -> bool:
    return id.startswith(ACP_TAG) and id.replace("-", "").isalnum()


def _replayed(line: dict[str, Any], *, is_team: bool) -> UserMessageChunk | AgentMessageChunk:
    id = f"{line['at']}-{line['seq']}"
    if line["sender"] == "user":
        said = text_block(clean(line["text"]))
        return UserMessageChunk(session_update="user_message_chunk", content=said, message_id=id)
    text = f"**{line['sender']}:** {line['text']}" if is_team else line["text"]
    return AgentMessageChunk(
        session_update="agent_message_chunk", content=text_block(clean(text) + "\n\n"), message_id=id
    )


def _id_of(at: str) -> str:
    """What a session is called here: by its tag if it was begun here, else by its address."""
    _, tag = as_written(at)
    return tag if tag and is_tag(tag) else at


def _directory(cwd: str) -> str:
    if not os.path.isabs(cwd):
        raise BadInput(f"{clean(cwd)[:200]} is not a full path", hint="cwd is the directory of the project")
    return cwd


def _time(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1e6, UTC).isoformat()
