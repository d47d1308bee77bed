"""What the words of a command and the text of a file say about what is run.

Looks at one command or file; command_reach.py follows what they lead to.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence

from agent_worker.core.later import pattern
from agent_worker.trust.programs import (
    BUILD,
    GIT_PLAIN_VALUE,
    PACKAGES,
    RUNNERS,
    SHELLS,
    is_interpreter,
)
from agent_worker.trust.shell_words import Word

FILES = 200  #: of one command
TEXT = 256 * 1024  #: bytes of a script that is read
_SHEBANG = pattern(
    rb"#![ \t]*/(?:usr/(?:local/)?)?bin/(?:env[ \t]+(?:-S[ \t]+)?)?([\w.+-]+)[ \t]*"
    rb"(?:-[abefhmnptuvxBCEHPT]+[ \t]*)?\r?(?:\n|\Z)"  # more than flags could be another script
)
_RECIPE = pattern(r"^\t[@+-]*(.+(?:\\\n.+)*)", re.MULTILINE)
_LIFECYCLE = ("preinstall", "install", "postinstall", "prepare", "prepublish", "pretest", "test", "posttest", "start")
FOLLOWED = frozenset({"package.json", "Makefile", "makefile", "GNUmakefile"})


def lines_of(name: str, text: str, words: Sequence[Word]) -> Iterator[str]:
    if name != "package.json":
        for line in _RECIPE.findall(text)[:FILES]:
            yield line.replace("$$", "$") if "$$" in line or "$" not in line else re.sub(r"\$[({]\w+[)}]", "", line)
        return
    try:
        scripts = json.loads(text).get("scripts", {})
    except (ValueError, AttributeError, RecursionError):
        return
    said = {text for word in words for text in word.texts}
    for script, line in scripts.items() if isinstance(scripts, dict) else ():
        wanted = script in _LIFECYCLE or script.removeprefix("pre").removeprefix("post") in said or script in said
        if wanted and isinstance(line, str):
            yield line


def command_behind(name: str, words: Sequence[Word]) -> Sequence[Word]:
    """The command that a program runs for somebody: `uv run x`, `npx x`, `taskset 1 bash x`."""
    rest = list(words)
    verbs = RUNNERS.get(name)
    if verbs is None or name in PACKAGES:
        at = next((n for n, word in enumerate(rest) if any(map(_runs_others, word.texts))), len(rest))
        return rest[at:]
    if verbs:
        at = next((n for n, word in enumerate(rest) if set(word.texts) & set(verbs)), len(rest))
        rest = rest[at + 1 :]
    while rest and rest[0].texts and rest[0].texts[0].startswith("-"):
        option = rest.pop(0).texts[0]
        if option in ("-c", "--call", "--package", "-p", "--with", "--from", "--python", "--directory") and rest:
            rest.pop(0)
    return rest


def _runs_others(text: str) -> bool:
    name = os.path.basename(text)
    return name in SHELLS or name in BUILD or is_interpreter(name)


def is_of_the_project(name: str, words: Sequence[Word]) -> bool:
    """Does this tool, as a server, run what the project says? An image is something else."""
    if name in ("docker", "podman"):
        return not any(word.texts == ("run",) for word in words[:1])
    return name in BUILD or name in RUNNERS


def holds(word: Word, marks: set[str]) -> bool:
    return any(mark in text for text in word.texts for mark in marks if mark)


def operands(words: Sequence[Word]) -> list[Word]:
    return [word for word in words if not (word.texts and word.texts[0].startswith("-"))]


def has_option(words: Sequence[Word], beginnings: tuple[str, ...]) -> bool:
    return bool(beginnings) and any(text.startswith(beginnings) for word in words for text in word.texts)


def may_be_option(word: Word) -> bool:
    """Whether a word may turn out to be an option: it is unknown, or a pattern that matches a name with a dash."""
    return word.unknown or (word.glob and any(text[:1] in ("*", "?", "[") for text in word.texts))


def is_known_option(text: str, with_value: frozenset[str], flags: frozenset[str]) -> bool:
    """Is this one of these options: `-n 5`, `-n5`, `--adjustment=5`, several flags in one, or a number?"""
    if text.partition("=")[0] in with_value | flags or re.fullmatch(r"-\d+", text):
        return True
    return not text.startswith("--") and (text[:2] in with_value or all(f"-{sign}" in flags for sign in text[1:]))


def is_plain_setting(word: Word) -> bool:
    return not word.unknown and all(
        GIT_PLAIN_VALUE.fullmatch(text.partition("=")[2]) and not text.startswith("alias.") for text in word.texts
    )


def program_of(path: str) -> str:
    """What runs this file: the program of its first line, the shell where it has none, or itself ('')."""
    try:
        with open(path, "rb") as file:
            beginning = file.read(256)
    except OSError:
        return ""
    if beginning.startswith(b"#!"):
        found = _SHEBANG.match(beginning)
        return found[1].decode(errors="replace") if found else ""
    return "" if b"\0" in beginning else "sh"


def read_script(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            content = file.read(TEXT + 1)
        return None if len(content) > TEXT or b"\0" in content else content.decode()
    except (OSError, UnicodeDecodeError):
        return None


def shown_words(words: Sequence[Word]) -> str:
    return " ".join("|".join(word.texts) + ("…" if word.unknown else "") for word in words)
