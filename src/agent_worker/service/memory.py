"""What an agent keeps for itself, as a person looks at it and edits it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, field
from typing import Literal

from agent_worker.core.errors import NotFound, Stale
from agent_worker.core.later import dataclass
from agent_worker.database.database import Transaction
from agent_worker.files.root import Root
from agent_worker.memory import audit, claims, memory, notes, todos
from agent_worker.memory.todos import Todo
from agent_worker.service.messages import agent_id
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.work import inbox


@dataclass(frozen=True, slots=True)
class Dispute:
    """What is remembered, and what says otherwise and is trusted less."""

    known: memory.MemoryEntry
    heard: memory.MemoryEntry
    item: str  #: of the inbox, that asks about it; '' when it was answered


@dataclass(frozen=True, slots=True)
class Remembered:
    entries: list[memory.MemoryEntry]
    problems: list[str]  #: files with a mistake in them
    disputes: list[Dispute] = field(default_factory=list)


@operation("GET", "/agents/{name}/memory")
async def memory_show(service: Service, name: str, project: str | None = None) -> Remembered:
    """Everything an agent remembers, and what is held back from it (file quarantine)."""
    home = await home_of_agent(service, name, project)
    found = await asyncio.to_thread(memory.load, home)
    held = await asyncio.to_thread(memory.load, home, only=memory.QUARANTINE)
    loaded = await service.project(project)
    asked = await service.read(loaded, _asked_about, agent_id(loaded, name))
    pairs = await asyncio.to_thread(claims.disputes, home)
    disputes = [Dispute(known, heard, asked.get(known.key, "")) for known, heard in pairs]
    return Remembered([*found.entries, *held.entries], [*found.problems, *held.problems], disputes)


def _asked_about(tx: Transaction, agent: str) -> dict[str, str]:
    """The items of the inbox that ask about disputes in the memory of an agent, by key."""
    rows = [row for row in inbox.open_items(tx) if row["kind"] == "dispute" and row["agent"] == agent]
    return {row["ref"].partition("/")[2]: row["id"] for row in rows}


@operation("PUT", "/agents/{name}/memory")
async def memory_set(
    service: Service,
    name: str,
    key: str,
    value: str,
    file: str = memory.CORE,
    project: str | None = None,
    was: str | None = None,
    visibility: Literal["private", "shareable", "public"] | None = None,
) -> str:
    """Make an agent remember something; an empty value archives it. With `was`, only if that is still its value.

    What is `shareable` its colleagues get to hear when they ask; without `visibility` that stays as it was.
    """
    home, redact = await home_of_agent(service, name, project), service.runtime.database.redact
    key, value, now = redact(key), redact(value), service.runtime.clock.now()
    known = await asyncio.to_thread(memory.find, home, key)
    if was is not None:
        _same(f"what {name} remembers as {key}", known.value if known else "", was)
    if value or known is not None:  # what is not there is not edited
        await note(service, name, project, "edited", key, known)
    if not value:
        await asyncio.to_thread(memory.forget, home, key, when=now)
        await published(service, name, project)
        return "archived"
    seen_by = visibility or (known.visibility if known else "private")
    entry = memory.MemoryEntry(
        key=key, value=value, file=file, visibility=seen_by, learned=now.isoformat(timespec="seconds")
    )
    kept = await asyncio.to_thread(claims.keep, home, entry, now=now, typed=True)
    await published(service, name, project)
    return "changed" if kept.outcome == "replaced" else kept.outcome


@operation("POST", "/agents/{name}/memory/release")
async def memory_release(service: Service, name: str, key: str, project: str | None = None) -> str:
    """Release memory that was held back from an agent."""
    home, key = await home_of_agent(service, name, project), service.runtime.database.redact(key)
    await asyncio.to_thread(memory.release, home, key)
    await note(service, name, project, "released", key)
    await published(service, name, project)
    return "remembered"


@operation("GET", "/agents/{name}/notes")
async def notes_list(service: Service, name: str, project: str | None = None) -> list[str]:
    """The names of an agent's notes, newest first."""
    return await asyncio.to_thread(notes.names, await home_of_agent(service, name, project))


@operation("POST", "/agents/{name}/notes")
async def note_add(service: Service, name: str, text: str, project: str | None = None) -> str:
    """Add a note; its name. The first line is the title."""
    home, text = await home_of_agent(service, name, project), service.runtime.database.redact(text)
    title = text.strip().partition("\n")[0][:80]
    kept = await asyncio.to_thread(notes.write, home, title, text, when=service.runtime.clock.now())
    await note(service, name, project, "edited", kept)
    return kept


@operation("GET", "/agents/{name}/notes/{note}")
async def note_show(service: Service, name: str, note: str, project: str | None = None) -> str:
    """One note."""
    return await asyncio.to_thread(notes.read, await home_of_agent(service, name, project), note)


@operation("PUT", "/agents/{name}/notes/{note}")
async def note_edit(service: Service, name: str, note: str, text: str, was: str, project: str | None = None) -> str:
    """Replace a note, if it still says what it `was`."""
    home = await home_of_agent(service, name, project)
    text = service.runtime.database.redact(text)
    await asyncio.to_thread(notes.edit, home, note, text, was=was)
    return text


@operation("GET", "/agents/{name}/todos")
async def todos_list(service: Service, name: str, project: str | None = None) -> list[Todo]:
    """An agent's todos."""
    return await asyncio.to_thread(todos.load, await home_of_agent(service, name, project))


@operation("POST", "/agents/{name}/todos")
async def todo_put(service: Service, name: str, text: str, project: str | None = None) -> list[Todo]:
    """Add a todo."""
    home = await home_of_agent(service, name, project)
    await asyncio.to_thread(todos.add, home, service.runtime.database.redact(text))
    return await asyncio.to_thread(todos.load, home)


@operation("DELETE", "/agents/{name}/todos/{number}")
async def todo_tick(
    service: Service, name: str, number: int, project: str | None = None, was: str | None = None
) -> list[Todo]:
    """Tick off a todo. With `was`, only if that number still says so."""
    home = await home_of_agent(service, name, project)
    if was is not None:
        there = await asyncio.to_thread(todos.load, home)
        _same(f"todo {number} of {name}", next((t.text for t in there if t.number == number), ""), was)
    await asyncio.to_thread(todos.finish, home, number)
    return await asyncio.to_thread(todos.load, home)


async def note(
    service: Service,
    name: str,
    project: str | None,
    deed: audit.Deed,
    about: str,
    before: memory.MemoryEntry | None = None,
) -> None:
    """What a person did, in the audit, with what stood there before."""
    loaded = await service.project(project)
    stood = json.dumps(asdict(before)) if before else ""
    done = audit.AuditEntry(agent=agent_id(loaded, name), who="user", deed=deed, about=about, before=stood)
    await service.write(loaded, audit.note, done, now=service.now())


async def published(service: Service, name: str, project: str | None) -> None:
    """Bring the public documents of an agent up to date, after a change of what it remembers."""
    loaded = await service.project(project)
    await service.runtime.public.publish(service.runtime.registry.worker(agent_id(loaded, name)))


def _same(what: str, now: str, was: str) -> None:
    if now != was:
        raise Stale(f"{what} was changed in the meantime: it is now {now[:200]!r}", hint="look at it again")


async def home_of_agent(service: Service, name: str, project: str | None) -> Root:
    loaded = await service.project(project)
    worker = service.runtime.registry.worker(agent_id(loaded, name))
    if worker.home is None:
        raise NotFound(f"{name} has no files of its own")
    await service.see_files(worker.agent)
    return worker.home
