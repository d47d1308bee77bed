"""What an agent brings along to a run: core memory always, working memory as far as it matters here, open todos."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from agent_worker.agents.registry import Worker
from agent_worker.errors import AgentWorkerError
from agent_worker.personal import memory, todos
from agent_worker.prompt import Memory, tokens_in

RELEVANT = 20  # entries of working memory that are looked at


@dataclass(frozen=True, slots=True)
class Recollection:
    memory: tuple[Memory, ...] = ()
    todos: tuple[str, ...] = ()


def recollect(worker: Worker, about: str, *, now: datetime) -> Recollection:
    """Reads files: call it in a thread. A file that cannot be read is said in the prompt, it does not stop the work."""
    if worker.home is None or not worker.home.is_there:
        return Recollection()
    try:
        return Recollection(tuple(_memories(worker, about, now)), tuple(t.text for t in todos.open_items(worker.home)))
    except (AgentWorkerError, OSError) as error:
        return Recollection((Memory(f"(your memory could not be read: {error})", "agent-worker", "core"),))


def _memories(worker: Worker, about: str, now: datetime) -> Iterable[Memory]:
    assert worker.home is not None
    loaded = memory.load(worker.home)
    for problem in loaded.problems:
        yield Memory(f"(a file of your memory has a mistake: {problem})", "agent-worker", "core")
    settings = worker.definition.memory
    always = [e for e in loaded.entries if e.file in settings.auto_load]
    for entry in always:
        yield Memory(f"{entry.key}: {entry.value}", memory.path_of(entry.file), entry.tier)
    working = [e for e in loaded.entries if e.file not in settings.auto_load and e.tier == memory.WORKING]
    if not working:
        return
    if sum(tokens_in(f"{e.key}: {e.value}") for e in (*always, *working)) <= settings.budget:
        chosen = working  # all of it fits: nothing to choose
    else:
        found = worker.library.search(about, now=now, kinds={"memory"}, limit=RELEVANT)
        by_key = {e.key: e for e in working}
        chosen = [by_key[f.entry.id] for f in found if f.entry.id in by_key]
    for entry in chosen:
        yield Memory(f"{entry.key}: {entry.value}", memory.path_of(entry.file), entry.tier)
