"""An agent's todos: a Markdown check list in `todo/index.md`. Any other line in it is left as it is."""

from __future__ import annotations

from collections.abc import Collection

from agent_worker.core.errors import BadInput, NotFound
from agent_worker.core.later import dataclass, pattern
from agent_worker.files.root import Root
from agent_worker.memory.edits import rewrite, text_of

FOLDER = "todo"
PATH = f"{FOLDER}/index.md"
QUARANTINE = f"{FOLDER}/quarantine.md"
LONGEST = 500
_ITEM = pattern(r"^(?P<lead>\s*[-*] \[)(?P<mark>[ xX])(?P<rest>\] (?P<text>.*))$")


@dataclass(frozen=True, slots=True)
class Todo:
    number: int  #: its place in the list, from 1
    text: str
    done: bool


def load(root: Root) -> list[Todo]:
    found = [m for line in (text_of(root, PATH) or "").splitlines() if (m := _ITEM.match(line))]
    return [Todo(n, m["text"].strip(), m["mark"] != " ") for n, m in enumerate(found, start=1)]


def open_items(root: Root) -> list[Todo]:
    return [todo for todo in load(root) if not todo.done]


def add(root: Root, text: str) -> bool:
    """Add a todo; False when it is on the list already."""
    text = in_one_line(text)
    if not text or len(text) > LONGEST:
        raise BadInput(f"a todo is one line of at most {LONGEST} characters")

    def changed(before: str) -> str:
        if any(todo.text == text for todo in open_items(root)):
            return before
        gap = "" if not before or before.endswith("\n") else "\n"
        return f"{before}{gap}- [ ] {text}\n"

    return rewrite(root, PATH, changed)


def in_one_line(text: str) -> str:
    """A todo as it stands on the list."""
    return " ".join(text.split())


def finish(root: Root, number: int) -> Todo:
    items = load(root)
    todo = next((t for t in items if t.number == number), None)
    if todo is None:
        shown = f"the list goes from 1 to {len(items)}" if items else "the list is empty"
        raise NotFound(f"there is no todo number {number}", hint=shown)

    def changed(before: str) -> str:
        lines, seen = before.splitlines(keepends=True), 0
        for place, line in enumerate(lines):
            if match := _ITEM.match(line.rstrip("\n")):
                seen += 1
                if seen == number:
                    lines[place] = f"{match['lead']}x{match['rest']}" + ("\n" if line.endswith("\n") else "")
        return "".join(lines)

    rewrite(root, PATH, changed)
    return todo


def hold_back(root: Root, texts: Collection[str]) -> list[str]:
    """Move todos, done or not, into a file that only a person looks into; returns what was moved."""
    texts = set(map(in_one_line, texts))
    held = [todo for todo in load(root) if in_one_line(todo.text) in texts]
    if not held:
        return []
    lines = "".join(f"- [{'x' if todo.done else ' '}] {todo.text}\n" for todo in held)
    rewrite(root, QUARANTINE, lambda before: before + lines)

    def is_held(line: str) -> bool:
        item = _ITEM.match(line.rstrip("\n"))
        return item is not None and in_one_line(item["text"]) in texts

    def changed(before: str) -> str:
        return "".join(line for line in before.splitlines(keepends=True) if not is_held(line))

    rewrite(root, PATH, changed)
    return [todo.text for todo in held]
