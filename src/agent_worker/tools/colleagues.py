"""The tool that asks what a colleague has to share. Nobody reads the memory of another: the Guard answers."""

from __future__ import annotations

import asyncio
from functools import partial

from agent_worker.core.address import canonical
from agent_worker.core.errors import Refused
from agent_worker.database.database import Transaction
from agent_worker.files.root import Root
from agent_worker.memory import audit, judging, memory, sharing
from agent_worker.tools.tool import ToolContext, tool
from agent_worker.work import inbox
from agent_worker.workspaces import member_rows

ASKS = 20  # of one run: more would be probing


@tool(repeatable=True, in_turn=True)
async def ask_agent(context: ToolContext, agent: str, question: str) -> str:
    """Look up what a colleague knows about something and shares, without waking them. What is private stays so."""
    assert context.identity.workspace
    members: dict[str, str] = await context.database.read(member_rows.members_in, context.identity.workspace)
    name = canonical(agent.removeprefix("@"), members)
    if name is None or name == context.identity.name:
        others = ", ".join(each for each in members if each != context.identity.name)
        await _deny(context, f"{agent}: {question}")
        raise Refused(
            f"{agent} is not a colleague of yours in this workspace", hint=f"you can ask: {others or 'nobody'}"
        )
    if await context.database.read(audit.count, context.identity.run, "asked") >= ASKS:
        await _deny(context, f"{name}: {question}")
        raise Refused(f"you have asked {ASKS} times in this run", hint="work with what you know")
    home = context.home_of(members[name])
    asking = partial(sharing.shared, asker=context.identity.name, now=context.clock.now())
    found = await asyncio.to_thread(asking, home, question) if home else sharing.Shared(())
    await context.database.write(_note, context, name, members[name], question, found)
    lines = [f"- {entry.key}: {entry.value} [{name}, {entry.file}.yaml]" for entry in found.told]
    if lines and home and (answer := await _worded(context, home, question, found)):
        lines = [answer, *lines]  # a model may leave out what matters: what it is from stands beneath
    return "\n".join(lines) or f"{name} shares nothing about that. You can ask in the channel: @{name} …"


async def _worded(context: ToolContext, home: Root, question: str, found: sharing.Shared) -> str:
    """The answer in the words of a model, which is shown nothing but what may be told; '' where none is asked."""
    answer = await judging.worded(context.judge, question, [f"{entry.key}: {entry.value}" for entry in found.told])
    if not answer:
        return ""
    known = await asyncio.to_thread(memory.load, home)
    private = [entry for entry in known.entries if not sharing.is_open(entry, context.identity.name)]
    return "" if sharing.gives_away(answer, private) else answer


def _note(tx: Transaction, context: ToolContext, name: str, id: str, question: str, found: sharing.Shared) -> None:
    """Note in the audit of both agents: who asked, and what was told. Of what is withheld a person hears, once."""
    now = context.clock.micros()
    audit.note(tx, _done(context, context.identity.agent, "asked", f"{name}: {question}"), now=now)
    audit.note(tx, _done(context, id, "told", ", ".join(entry.key for entry in found.told)), now=now)
    for entry, private in found.withheld:
        text = f"{name} shares {entry.key}, but does not tell it: it gives away {private}, which is private."
        text += f" Share both, or say it otherwise: agent-worker agent memory {name}"
        inbox.ask(tx, "sharing", ref=f"{id}/{entry.key}", text=text, agent=id, now=now)


async def _deny(context: ToolContext, about: str) -> None:
    done = _done(context, context.identity.agent, "denied", about)
    await context.database.write(audit.note, done, now=context.clock.micros())


def _done(context: ToolContext, whose: str, deed: audit.Deed, about: str) -> audit.AuditEntry:
    return audit.AuditEntry(whose, context.identity.name, deed, about, run=context.identity.run)
