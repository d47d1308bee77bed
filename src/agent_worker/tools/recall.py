"""Tools to remember and to look things up: memory, notes, todos and history. Only ever one's own."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import asdict, replace
from typing import Literal

from agent_worker import threads
from agent_worker.clock import micros
from agent_worker.errors import Refused
from agent_worker.guard import ask, audit
from agent_worker.guard.library import PERSONAL, Library
from agent_worker.guard.recall import Found
from agent_worker.guard.tables import Kind
from agent_worker.personal import memory, notes, todos
from agent_worker.storage.database import Transaction
from agent_worker.storage.files import Root
from agent_worker.tools.tool import Desk, Tool, tool

PAGE = 20


@tool(repeatable=True, personal=True, in_turn=True)
async def memory_write(
    desk: Desk,
    key: str,
    value: str,
    tier: Literal["working", "core"] = "working",
    visibility: Literal["private", "shareable"] | None = None,
) -> str:
    """Remember something beyond this work: a fact, a decision, a preference. The same key again replaces it.

    What is `shareable` your colleagues get to hear when they ask about you; everything else is private.

    Core memory is always before you; keep it for what matters every time. It can be written only in a direct
    conversation, before you have read files, pages or skills: what others wrote must not become part of you unasked.
    """
    if tier == memory.CORE:
        _not_from_others(desk, "written")
    home, redact = _home(desk), desk.database.redact
    entry = memory.Entry(
        key=redact(key),
        value=redact(value),
        file=tier,
        source=desk.seat.run,
        updated=desk.clock.now().date().isoformat(),
        label=memory.OUTSIDE if desk.outside else "",
    )
    before = await asyncio.to_thread(memory.find, home, entry.key)
    entry = replace(entry, visibility=visibility or (before.visibility if before else entry.visibility))
    if entry.visibility != "private":
        await _keeps_no_secret(home, entry)
    outcome = await asyncio.to_thread(memory.write, home, entry)
    if outcome != "known":
        await _note(desk, "remembered", entry.key, before)
    return {"new": "Remembered.", "changed": "Replaced what was there.", "known": "You knew that already."}[outcome]


@tool(repeatable=True, personal=True)
async def memory_read(desk: Desk, key: str = "") -> str:
    """What you remember under a key; without a key, the list of all keys."""
    found = await asyncio.to_thread(memory.load, _home(desk))
    if not key:
        lines = [f"{e.key} ({e.tier})" for e in found.entries if e.tier != memory.ARCHIVE]
        return "\n".join([*lines, *found.problems]) or "You remember nothing yet."
    lines = [f"{e.value}\n[{e.tier}, {_origin(e)}]" for e in found.entries if e.key == key]
    return "\n".join(lines) or f"Nothing is remembered under {key!r}. memory_recall searches by meaning."


@tool(repeatable=True, personal=True)
async def memory_recall(desk: Desk, query: str, limit: int = 8) -> str:
    """Search your memory and notes, the archive too. Says why each was found."""
    return await _search(desk, query, ("memory", "note"), None, limit)


@tool(repeatable=True, personal=True, in_turn=True)
async def memory_forget(desk: Desk, key: str) -> str:
    """Put an entry into the archive: it is no longer shown to you, but can be found again."""
    known = await asyncio.to_thread(memory.find, _home(desk), key)
    if known and known.tier == memory.CORE:
        _not_from_others(desk, "forgotten")
    await asyncio.to_thread(memory.forget, _home(desk), key, when=desk.clock.now())
    await _note(desk, "forgot", key, known)
    return "Archived."


@tool(repeatable=True, personal=True)
async def memory_stats(desk: Desk) -> str:
    """How much you remember, by file."""
    found = await asyncio.to_thread(memory.load, _home(desk))
    counted = Counter(entry.file for entry in found.entries)
    lines = [f"{file}: {count}" for file, count in sorted(counted.items())]
    return "\n".join([*lines, *found.problems]) or "You remember nothing yet."


@tool(repeatable=True, personal=True, in_turn=True)
async def note_write(desk: Desk, title: str, text: str) -> str:
    """Keep a reflection for yourself, as long as it needs to be, in Markdown."""
    redact = desk.database.redact
    name = await asyncio.to_thread(notes.write, _home(desk), redact(title), redact(text), when=desk.clock.now())
    await _note(desk, "noted", name)
    return f"Kept as {name}."


@tool(repeatable=True, personal=True)
async def note_read(desk: Desk, name: str = "") -> str:
    """Read one of your notes; without a name, the list of them, newest first."""
    home = _home(desk)
    if name:
        return await asyncio.to_thread(notes.read, home, name)
    return "\n".join((await asyncio.to_thread(notes.names, home))[:200]) or "You have no notes yet."


@tool(repeatable=True, personal=True, in_turn=True)
async def todo_add(desk: Desk, text: str) -> str:
    """Put something on your own todo list; it stays before you until it is done."""
    text = desk.database.redact(text)
    new = await asyncio.to_thread(todos.add, _home(desk), text)
    if new:
        await _note(desk, "planned", text)
    return "Added." if new else "It is on the list already."


@tool(repeatable=True, personal=True)
async def todo_list(desk: Desk) -> str:
    """Your todos with their numbers."""
    items = await asyncio.to_thread(todos.load, _home(desk))
    return "\n".join(f"{t.number}. [{'x' if t.done else ' '}] {t.text}" for t in items) or "Nothing to do."


@tool(repeatable=True, personal=True, in_turn=True)
async def todo_done(desk: Desk, number: int) -> str:
    """Tick off a todo by its number."""
    todo = await asyncio.to_thread(todos.finish, _home(desk), number)
    return f"Done: {todo.text}"


@tool(personal=True)
def history_read(tx: Transaction, desk: Desk, before: int | None = None, count: int = PAGE) -> str:
    """Read your conversation here, oldest first: the last `count` lines, or those before line number `before`."""
    count = max(1, min(count, 200))
    talk = threads.before(tx, desk.seat.agent, desk.seat.workspace or threads.PERSONAL, before, count)
    if not talk and before is not None and before > 1:  # a new database took over only the end of the files
        return "What is older stands only in your files: history_search finds it."
    if not talk:
        return "There is nothing further back here."
    more = f"[older lines: before={talk[0].seq}]\n" if talk[0].seq > 1 else ""
    return more + "\n".join(f"{t.seq}. {t.who}: {t.text}" for t in talk)


@tool(repeatable=True, personal=True)
async def history_search(desk: Desk, query: str, limit: int = 8) -> str:
    """Search your conversations: direct ones, and those of the workspace you are in. Says why each was found."""
    library, room = _library(desk), desk.seat.workspace
    scopes = [PERSONAL]
    if room:
        scopes.append(room)
        known = await asyncio.to_thread(library.heard, room)
        talk = await desk.database.read(threads.since, desk.seat.agent, room, known, limit=100_000)
        await asyncio.to_thread(library.hear, room, talk)
    return await _search(desk, query, ("history",), scopes, limit)


async def _search(desk: Desk, query: str, kinds: tuple[Kind, ...], scopes: list[str] | None, limit: int) -> str:
    limit = max(1, min(limit, 50))
    found = await asyncio.to_thread(
        _library(desk).search, query, now=desk.clock.now(), kinds=kinds, scopes=scopes, limit=limit
    )
    return "\n".join(map(_shown, found)) or "Nothing was found."


def _shown(found: Found) -> str:
    entry = found.entry
    who = f"{entry.author}: " if entry.author else f"{entry.label}: " if entry.label else ""
    return f"- {who}{entry.text[:600]}\n  [{found.why}]"


def _origin(entry: memory.Entry) -> str:
    learned = f"learned in {entry.source}" if entry.source else "written by a person"
    learned += " from outside" if entry.label else ""
    return f"{learned}, {entry.updated}" if entry.updated else learned


def _not_from_others(desk: Desk, done: str) -> None:
    if desk.seat.workspace:
        raise Refused(f"core memory is {done} in a direct conversation only", hint="use tier working here")
    if desk.outside:
        raise Refused(
            f"core memory is not {done} after {desk.outside}: it may be what others want you to be",
            hint="use tier working, and tell the person what you would keep for ever",
        )


async def _keeps_no_secret(home: Root, entry: memory.Entry) -> None:
    others = [each for each in (await asyncio.to_thread(memory.load, home)).entries if each.key != entry.key]
    if key := ask.repeats(entry.value, others):
        raise Refused(f"it says what you keep private under {key!r}", hint="leave that out, or keep it private")


async def _note(desk: Desk, deed: audit.Deed, about: str, before: memory.Entry | None = None) -> None:
    """In the audit."""
    done = audit.Done(
        project=desk.seat.project,
        agent=desk.seat.agent,
        who=desk.seat.name,
        deed=deed,
        about=about,
        before=json.dumps(asdict(before)) if before else "",
        run=desk.seat.run,
    )
    await desk.database.write(audit.note, done, now=micros(desk.clock.now()))


def _home(desk: Desk) -> Root:
    if desk.home is None:
        raise Refused("you have no files of your own: you live only in this workflow", hint="use the team's documents")
    return desk.home


def _library(desk: Desk) -> Library:
    assert desk.library is not None
    return desk.library


OWN: tuple[Tool, ...] = (
    memory_write,
    memory_read,
    memory_recall,
    memory_forget,
    memory_stats,
    note_write,
    note_read,
    todo_add,
    todo_list,
    todo_done,
)
HISTORY: tuple[Tool, ...] = (history_read, history_search)
