"""Sending and reading: every way in (Python, and later HTTP, MCP, the command line) comes through here."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from agent_worker import routing
from agent_worker.address import Address, canonical, parse_address
from agent_worker.agents.roster import Admitted
from agent_worker.clock import micros
from agent_worker.errors import AgentWorkerError, NotFound
from agent_worker.events import Ended, Event
from agent_worker.routing import Receipt, Speech
from agent_worker.storage.database import Transaction
from agent_worker.workflows.instance import Stage
from agent_worker.workspaces import channel, workspace

ENDS = ("done", "failed", "incomplete", "cancelled", "dead")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a question put to one agent."""

    text: str
    state: str  #: done | failed | incomplete | cancelled | dead
    reason: str = ""


class Messages:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def send(self, admitted: Admitted, to: str, text: str, *, key: str | None = None) -> Receipt:
        """Deliver and return a receipt. The same key is accepted once."""
        routing.check_size(text)
        return await self._stage.database.write(
            _send, admitted, parse_address(to), text, now=micros(self._stage.clock.now()), key=key
        )

    async def ask(self, admitted: Admitted, agent: str, text: str) -> Answer:
        """Send a direct message and wait for what becomes of it."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        ended: dict[str, Answer] = {}
        asked: list[str] = []

        def hear(event: Event) -> None:
            if isinstance(event, Ended) and event.state in ENDS:
                ended[event.instruction] = Answer(event.text, event.state, event.reason)
                if asked and asked[0] in ended and not answer.done():
                    answer.set_result(ended[asked[0]])

        unlisten = self._stage.bus.listen(hear)
        try:
            receipt = await self.send(admitted, agent, text)
            asked.append(receipt.id)
            return ended[receipt.id] if receipt.id in ended else await answer
        finally:
            unlisten()

    async def read(self, admitted: Admitted, at: str, *, since: int = 0, limit: int = 100) -> list[channel.Message]:
        """A channel in its order, after `since`."""
        address = parse_address(at)
        return await self._stage.database.read(_read, admitted, address, since, limit)


def _send(tx: Transaction, admitted: Admitted, to: Address, text: str, *, now: int, key: str | None) -> Receipt:
    if to.workflow is None:
        return routing.tell_agent(tx, _agent(admitted, to.agent or ""), text, now=now, key=key)
    room = workspace.find_running(tx, project=admitted.id, workflow=to.workflow, tag=to.tag)
    speech = Speech(workspace=room["id"], sender="user", text=text, to=to.agent)
    return routing.say(tx, speech, now=now, key=key)


def _read(tx: Transaction, admitted: Admitted, at: Address, since: int, limit: int) -> list[channel.Message]:
    if at.workflow is None:
        raise AgentWorkerError("only a channel can be read here", hint="write @workflow")
    room = workspace.find_running(tx, project=admitted.id, workflow=at.workflow, tag=at.tag)
    return channel.read(tx, room["id"], since=since, limit=limit)


def _agent(admitted: Admitted, name: str) -> str:
    found = canonical(name, admitted.agents)
    if found is None:
        known = ", ".join(admitted.agents) or "none yet"
        raise NotFound(f"there is no agent {name} in this project", hint=f"agents: {known}")
    return admitted.agents[found]
