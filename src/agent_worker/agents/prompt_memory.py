"""What an agent brings along to a run: core memory always, working memory as far as it matters here, open todos."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from agent_worker.agents.prompt import PromptEntry, tokens_in
from agent_worker.agents.registry import AgentRuntime
from agent_worker.core.errors import AgentWorkerError
from agent_worker.memory import memory, todos
from agent_worker.memory.library import OWN

RELEVANT = 20  # entries of working memory that are looked at


@dataclass(frozen=True, slots=True)
class PromptMemory:
    memory: tuple[PromptEntry, ...] = ()
    left_out: int = 0  #: entries of working memory that do not matter here
    todos: tuple[str, ...] = ()


def prompt_memory(worker: AgentRuntime, about: str, now: datetime) -> PromptMemory:
    """Reads files: call it in a thread. A file that cannot be read is said in the prompt, it does not stop the work."""
    if worker.home is None or not worker.home.is_there:
        return PromptMemory()
    try:
        shown, left_out = _memories(worker, about, now)
        return PromptMemory(tuple(shown), left_out, tuple(t.text for t in todos.open_items(worker.home)))
    except (AgentWorkerError, OSError) as error:
        return PromptMemory((PromptEntry(f"(your memory could not be read: {error})", "agent-worker", "core"),))


def _memories(worker: AgentRuntime, about: str, now: datetime) -> tuple[list[PromptEntry], int]:
    """What is shown, core first, and how much of the working memory is not."""
    assert worker.home is not None
    loaded = memory.load(worker.home)
    settings = worker.definition.memory
    mistakes = [
        PromptEntry(f"(a file of your memory has a mistake: {problem})", "agent-worker", "core")
        for problem in loaded.problems
    ]
    always = [e for e in loaded.entries if e.file in settings.auto_load]
    working = [e for e in loaded.entries if e.file not in settings.auto_load and e.tier == memory.WORKING]
    chosen = working
    if sum(tokens_in(_line(e)) for e in (*always, *working)) > settings.budget:
        found = worker.library.search(about, now=now, kinds={"memory"}, limit=RELEVANT)
        by_place = {(f"{OWN}{memory.path_of(e.file)}", e.key): e for e in working}
        places = [(f.entry.source, f.entry.id) for f in found]
        chosen = [by_place[place] for place in places if place in by_place]
    shown = [PromptEntry(_line(e), memory.path_of(e.file), e.tier, e.source) for e in (*always, *chosen)]
    return [*mistakes, *shown], len(working) - len(chosen)


def _line(entry: memory.MemoryEntry) -> str:
    return f"{entry.key}: {entry.value}{' (from outside)' if entry.label else ''}"
