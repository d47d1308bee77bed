"""Skills: folders with a SKILL.md that an agent reads when it needs them.

Nothing of a skill is ever run by reading it. Only regular text files under a cap are read, no link is followed, and
characters made to be overlooked are shown. What the text says is advice from whoever wrote it, not from us.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agent_worker.core.errors import AgentWorkerError, DefinitionError, NotFound, Refused
from agent_worker.core.later import dataclass, pattern
from agent_worker.core.text import written_out
from agent_worker.definitions.source import parse_source
from agent_worker.files.root import Root
from agent_worker.tools.tool import Tool, ToolContext, tool

MAIN = "SKILL.md"
FILE_CAP = 64 * 1024
DESCRIPTION_CAP = 500  #: characters
SKILLS = 200
LEVELS = 3  #: folders above a skill: those that were imported lie in owner/repo/
FILES = 100  #: named with a skill

_FRONT = pattern(r"---[ \t]*\r?\n(.*?)^---[ \t]*$(?:\r?\n)?", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Skill:
    name: str
    description: str
    root: Root


def skill_tools(directories: Sequence[Path], check: Callable[[], None] = lambda: None) -> tuple[Tool, Tool]:
    """The two tools over these directories; of two skills with one name, the first directory's counts.

    `check` blocks, and raises unless they are what was approved: an agent may have written there since.
    """

    @tool(repeatable=True, personal=True, foreign=True)
    async def skill_list(context: ToolContext) -> str:
        """The skills you can use: instructions for special tasks, each with a line that says when it helps."""
        await asyncio.to_thread(check)
        skills = await asyncio.to_thread(find_skills, directories)
        return "\n".join(f"- {skill.name}: {skill.description}" for skill in skills) or "(no skills)"

    @tool(repeatable=True, personal=True, foreign=True)
    async def skill_read(context: ToolContext, name: str, file: str = MAIN) -> str:
        """Read a skill before you do what it is for; later also the files that it mentions, one by one."""
        await asyncio.to_thread(check)
        return await asyncio.to_thread(_read, directories, name, file)

    return skill_list, skill_read


def find_skills(directories: Sequence[Path]) -> list[Skill]:
    found: dict[str, Skill] = {}
    for directory in directories:
        for skill in _skills_in(Root(directory.absolute())):
            if len(found) < SKILLS:
                found.setdefault(skill.name, skill)
    return list(found.values())


def revealed(text: str) -> str:
    """The text with every character that one cannot see written out."""
    return written_out(text, plain="\n\r\t")


def _skills_in(directory: Root, above: str = "", level: int = 1) -> Iterator[Skill]:
    """The skills in a folder: first those right in it, then those below folders that are no skills, named by their
    path."""
    try:
        entries = directory.list()
    except (AgentWorkerError, OSError):
        return
    deeper: list[tuple[Root, str]] = []
    for entry in (entry for entry in entries if entry.is_directory):
        folder, name = directory.beneath(entry.name), f"{above}{entry.name}"
        try:
            if folder.exists(MAIN):
                yield Skill(name, _description(folder), folder)
            else:
                deeper.append((folder, f"{name}/"))
        except AgentWorkerError as error:
            yield Skill(name, f"(cannot be used: {error.message})", folder)
    for folder, name in deeper if level < LEVELS else ():
        yield from _skills_in(folder, name, level + 1)


def _description(folder: Root) -> str:
    front = _FRONT.match(text_of(folder, MAIN))
    written = _front_matter(front[1]).get("description") if front else None
    text = " ".join(revealed(written).split()) if isinstance(written, str) else ""
    return text[:DESCRIPTION_CAP] or "(no description)"


def _front_matter(text: str) -> dict[str, Any]:
    try:
        data = parse_source(text, file=MAIN).data
    except DefinitionError:
        # Many skills in the wild write `description: Use when: …`, which is not YAML but clear enough.
        found = re.search(r"^description:[ \t]*(.+)$", text, re.MULTILINE)
        return {"description": found[1]} if found else {}
    return data if isinstance(data, dict) else {}


def _read(directories: Sequence[Path], name: str, file: str) -> str:
    skill = next((skill for skill in find_skills(directories) if skill.name == name), None)
    if skill is None:
        raise NotFound(f"there is no skill {name!r}", hint="see skill_list")
    text = revealed(text_of(skill.root, file))
    if file != MAIN or not (others := [path for path in _files(skill.root) if path != MAIN]):
        return text
    return f"{text}\n\n[other files of this skill: {', '.join(others)}]"


def text_of(folder: Root, file: str) -> str:
    """A file of a skill. Raises Refused or BadInput when it is not text, or too long."""
    text = folder.read_text(file, limit=FILE_CAP)
    if "\0" in text:
        raise Refused(f"{file} is not a text file")
    return text


def _files(root: Root) -> list[str]:
    """What lies in the folder of a skill, the shallow ones first."""
    found: list[str] = []
    waiting = [""]
    for folder in waiting:
        for entry in root.list(folder):
            path = f"{folder}/{entry.name}" if folder else entry.name
            (waiting if entry.is_directory else found).append(path)
            if len(found) + len(waiting) > FILES:
                return found
    return found
