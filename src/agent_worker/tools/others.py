"""The tool that asks what a colleague has to share. Nobody reads the memory of another: the Guard answers."""

from __future__ import annotations

import asyncio

from agent_worker.address import canonical
from agent_worker.clock import micros
from agent_worker.errors import Refused
from agent_worker.guard import ask, audit
from agent_worker.storage.database import Transaction
from agent_worker.tools.tool import Desk, tool
from agent_worker.workspaces import workspace

ASKS = 20  # of one run: more would be probing


@tool(repeatable=True, in_turn=True)
async def ask_agent(desk: Desk, agent: str, question: str) -> str:
    """Look up what a colleague knows about something and shares, without waking them. What is private stays so."""
    assert desk.seat.workspace
    members: dict[str, str] = await desk.database.read(workspace.seated, desk.seat.workspace)
    name = canonical(agent.removeprefix("@"), members)
    if name is None or name == desk.seat.name:
        others = ", ".join(each for each in members if each != desk.seat.name)
        await _deny(desk, f"{agent}: {question}")
        raise Refused(
            f"{agent} is not a colleague of yours in this workspace", hint=f"you can ask: {others or 'nobody'}"
        )
    if await desk.database.read(audit.count, desk.seat.run, "asked") >= ASKS:
        await _deny(desk, f"{name}: {question}")
        raise Refused(f"you have asked {ASKS} times in this run", hint="work with what you know")
    home = desk.home_of(members[name])
    found = await asyncio.to_thread(ask.shared, home, question, now=desk.clock.now()) if home else ()
    await desk.database.write(_note, desk, name, members[name], question, found)
    lines = [f"- {entry.key}: {entry.value} [{name}, {entry.file}.yaml]" for entry in found]
    return "\n".join(lines) or f"{name} shares nothing about that. You can ask in the channel: @{name} …"


def _note(tx: Transaction, desk: Desk, name: str, id: str, question: str, found: tuple[ask.Entry, ...]) -> None:
    """On both sides."""
    now = micros(desk.clock.now())
    audit.note(tx, _done(desk, desk.seat.agent, "asked", f"{name}: {question}"), now=now)
    audit.note(tx, _done(desk, id, "told", ", ".join(entry.key for entry in found)), now=now)


async def _deny(desk: Desk, about: str) -> None:
    done = _done(desk, desk.seat.agent, "denied", about)
    await desk.database.write(audit.note, done, now=micros(desk.clock.now()))


def _done(desk: Desk, whose: str, deed: audit.Deed, about: str) -> audit.Done:
    return audit.Done(desk.seat.project, whose, desk.seat.name, deed, about, run=desk.seat.run)
