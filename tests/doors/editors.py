"""An editor that speaks ACP by the protocol's own library, for tests of our door: it keeps what it is told."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from acp import PROTOCOL_VERSION
from acp.agent.connection import AgentSideConnection
from acp.client.connection import ClientSideConnection
from acp.helpers import text_block
from acp.interfaces import Agent, Client
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    RequestPermissionResponse,
)
from tests.patience import PATIENCE
from tests.shells.served import Served

from agent_worker.doors.acp.server import AcpDoor


class Editor:
    """What the door tells and asks is kept; permissions are answered by `chooses`, forms by `fills`."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, Any]] = []
        self.asked: list[Any] = []
        self.forms: list[tuple[str, Any]] = []
        self.chooses: str | None = None  #: the id of an option; None cancels
        self.fills: dict[str, Any] | None = None
        self.holds = asyncio.Event()  #: permissions are answered once it is set
        self.holds.set()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append((session_id, update))

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> RequestPermissionResponse:
        self.asked.append((tool_call, {each.option_id: each for each in options}))
        await self.holds.wait()
        if self.chooses is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=self.chooses))

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> dict[str, Any]:
        self.forms.append((message, mode))
        return {"action": "accept", "content": self.fills} if self.fills else {"action": "decline"}

    def on_connect(self, conn: Any) -> None: ...

    def kinds(self) -> list[str]:
        return [update.session_update for _, update in self.updates]

    def said(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update.content.text for _, update in self.updates if update.session_update == kind)

    def of(self, kind: str) -> list[Any]:
        return [update for _, update in self.updates if update.session_update == kind]


class Opened:
    """A door with an editor on the other side."""

    def __init__(self, agent: ClientSideConnection, editor: Editor, daemon: Served) -> None:
        self.agent = agent
        self.editor = editor
        self.daemon = daemon

    async def begin(self, who: str = "") -> str:
        made = await self.agent.new_session(cwd=str(self.daemon.project), mcp_servers=[])
        if who:
            await self.agent.set_config_option(config_id="who", session_id=made.session_id, value=who)
        return made.session_id

    async def prompt(self, session: str, text: str) -> Any:
        async with asyncio.timeout(PATIENCE):
            return await self.agent.prompt(session_id=session, prompt=[text_block(text)])


@asynccontextmanager
async def opened(daemon: Served, only: str = "", *, forms: bool = False) -> AsyncIterator[Opened]:
    """Our door and an editor, over a pair of sockets: as over pipes, without a process."""
    ours, theirs = socket.socketpair()
    here, there = await asyncio.open_connection(sock=ours), await asyncio.open_connection(sock=theirs)
    editor = Editor()
    served = AcpDoor(only)
    door = AgentSideConnection(cast(Agent, served), here[1], here[0], use_unstable_protocol=True)
    agent = ClientSideConnection(cast(Client, editor), there[1], there[0], use_unstable_protocol=True)
    elicitation = ElicitationCapabilities(form=ElicitationFormCapabilities()) if forms else None
    try:
        can = ClientCapabilities(elicitation=elicitation)
        await agent.initialize(protocol_version=PROTOCOL_VERSION, client_capabilities=can)
        yield Opened(agent, editor, daemon)
    finally:
        await agent.close()
        await door.close()
        await served.close()
        for _, writer in (here, there):
            writer.close()
