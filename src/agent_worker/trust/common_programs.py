"""Programs that most commands are made of, by what their options make them do: git, find, sed, awk, and harmless ones.

Each function notes what the program may change or run. What it may run beside itself is for its caller to follow:
command_reach.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from agent_worker.core.later import pattern
from agent_worker.trust.command_knowledge import ARGUMENTS, Knowledge
from agent_worker.trust.command_words import has_option, is_plain_setting, may_be_option, operands, shown_words
from agent_worker.trust.programs import GIT_ENTERS, GIT_LOOKS, GIT_READS, RUNS_WITH, SHELL_OPTIONS, WRITERS, WRITES_WITH
from agent_worker.trust.shell_words import UNKNOWN, Word

_PLAIN_SED = pattern(r"(?:\d+|\$)?(?:,(?:\d+|\$))?[pdq]|s([/|#,:])(?:\\.|(?!\1|\\).)*\1(?:\\.|(?!\1|\\).)*\1[gpI\d]*")
_AWK_RUNS = pattern(r"system|getline|[|@]")


def note_harmless(known: Knowledge, name: str, rest: Sequence[Word]) -> None:
    is_unknown = any(map(may_be_option, rest))
    if name in RUNS_WITH and is_unknown:
        known.can_run_anything(shown_words((Word((name,)), *rest)))
    if name in WRITES_WITH and (
        is_unknown or any(WRITES_WITH[name].match(text) for word in rest for text in word.texts)
    ):
        known.writes_somewhere = True
    if name in ("read", "getopts") or (name == "printf" and has_option(rest[:1], ("-v",))):
        known.sets(name, rest if name != "printf" else rest[:2])
    elif name in ("test", "[") and has_option(rest, ("-v",)):
        known.sets(name, rest)
    elif name in ("set", "shift"):
        for number in ARGUMENTS:
            known.scope.assign(number, UNKNOWN)
    elif name == "tee":
        for word in rest:
            known.writes(word)
    elif name in WRITERS and (name not in ("uniq", "xxd") or len(operands(rest)) > 1):
        known.writes_somewhere = True


def commands_of_find(known: Knowledge, name: str, rest: Sequence[Word]) -> Iterator[list[Word]]:
    words = list(rest)
    while words:
        text = words.pop(0).texts[:1]
        if text and text[0] in ("-execdir", "-okdir"):
            known.can_run_anything(shown_words((Word((name,)), *rest)))
        known.writes_somewhere |= bool(text) and text[0].startswith(("-fp", "-fl"))
        if text and text[0] in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((n for n, word in enumerate(words) if word.texts in ((";",), ("+",))), len(words))
            yield [UNKNOWN if "{}" in "".join(word.texts) else word for word in words[:end]]
            words = words[end + 1 :]
    if any(map(may_be_option, rest)):
        known.can_run_anything(shown_words((Word((name,)), *rest)))


def is_plain_sed(rest: Sequence[Word]) -> bool:
    """Whether this sed is harmless: one script of the plainest kind, and no option that brings another."""
    given = [word for word in rest if not (word.texts and re.fullmatch(r"-[nErs]+", word.texts[0]))]
    script = given[0] if given else UNKNOWN
    others = has_option(given, ("-",)) or any(map(may_be_option, (*given, script)))
    return not others and all(_PLAIN_SED.fullmatch(text) for text in script.texts)


def is_plain_awk(rest: Sequence[Word]) -> bool:
    options = [text for word in rest for text in word.texts if text.startswith("-")]
    others = any(not option.startswith(("-F", "-v")) for option in options)
    others = others or any(word.glob for word in operands(rest)[:1])
    return not (others or any(word.unknown for word in rest) or _AWK_RUNS.search(shown_words(rest)))


def note_git(known: Knowledge, name: str, rest: Sequence[Word]) -> None:
    """Note what a git command may do. Outside of the root an agent may have made a repository with
    settings of its own.
    """
    words = list(rest)
    harmless = set(known.places.directories) == {known.places.root}
    while words and words[0].texts and words[0].texts[0].startswith("-"):
        option = words.pop(0).texts[0]
        if option == "-c" and words:
            harmless = harmless and is_plain_setting(words.pop(0))
        elif option == "-C" and words:
            known.enter([words.pop(0)])
            harmless = False
        else:
            harmless = harmless and option in ("--no-pager", "-P", "--no-optional-locks", "--version")
    command = words[0].texts[0] if words and words[0].texts and not words[0].unknown else ""
    said = list(takewhile(lambda text: text != "--", (text for word in words[1:] for text in word.texts)))
    looks = command in GIT_LOOKS and (
        any(text in ("--ignore-submodules", "--ignore-submodules=all", "--cached", "--staged") for text in said)
        or any((".." in text and not text.startswith((".", "/", "-"))) or text.startswith("...") for text in said)
    )
    enters = has_option(words, GIT_ENTERS) or any(word.glob and may_be_option(word) for word in words)
    known.writes_somewhere |= has_option(words, ("--output",))
    if enters or not (harmless and (command in GIT_READS or looks)):
        known.can_run_anything(shown_words((Word((name,)), *rest)))


def letters_and_words(known: Knowledge, rest: Sequence[Word]) -> tuple[str, list[Word]]:
    """The letters among the options of a shell, and what is left of the words: `-euo pipefail` takes one of them."""
    letters, words = "", list(rest)
    while words and not words[0].unknown and words[0].texts and words[0].texts[0][:1] in ("-", "+"):
        option = words.pop(0).texts[0]
        if option in ("-", "--"):
            break
        given = "" if option.startswith("--") else option[1:]
        letters += given if option[0] == "-" else ""
        if (option in SHELL_OPTIONS or set(given) & set("oO")) and words:
            known.take(known.places.files(words.pop(0)))
    return letters, words


def note_prefix_option(known: Knowledge, name: str, option: str, value: Word) -> None:
    if option.startswith(("-C", "--chdir", "-D")) and name in ("env", "sudo"):
        known.enter([value])
    elif (name == "env" and option.startswith(("-S", "--split"))) or (name == "flock" and option.startswith("-c")):
        known.can_run_anything(f"{name} {option} {shown_words([value])}")
        known.take(known.places.files(value))
