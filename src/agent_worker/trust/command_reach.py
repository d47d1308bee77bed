"""Which files of a project a command can be seen to run, and whether it can run others that cannot be seen.

Read, never run. What is not understood is never passed over: then the command can run any file of the project, and
says so. Shell scripts that it runs are read in turn, some levels deep; what other programs run is their own affair and
cannot be seen. A program that lies outside of the project is nobody's here to change. Above: powers.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice, product
from math import prod
from pathlib import Path

from agent_worker.core.later import pattern
from agent_worker.definitions.placeholders import PLACEHOLDER, variable_of
from agent_worker.trust.command_files import Places
from agent_worker.trust.command_knowledge import Knowledge, Reach
from agent_worker.trust.command_words import (
    FILES,
    FOLLOWED,
    command_behind,
    has_option,
    holds,
    is_known_option,
    is_of_the_project,
    lines_of,
    may_be_option,
    program_of,
    read_script,
    shown_words,
)
from agent_worker.trust.common_programs import (
    commands_of_find,
    is_plain_awk,
    is_plain_sed,
    letters_and_words,
    note_git,
    note_harmless,
    note_prefix_option,
)
from agent_worker.trust.programs import (
    HARMLESS,
    PACKAGES,
    PREFIXES,
    RUNS_WITH,
    SHELLS,
    WRITERS,
    is_interpreter,
)
from agent_worker.trust.shell import Assigned, Command, Input, Unclear, Written, statements
from agent_worker.trust.shell_words import UNKNOWN, Word

LEVELS = 4  #: of scripts that run scripts
ROUNDS = 16  #: of one text, until nothing new is found: a loop may go where a later line leads
ALL_ROUNDS = 400  #: of all texts together
VARIANTS = 256  #: of one command, whose words may be this or that

_LEADS_BACK = pattern(r"/proc/|/dev/|~[-+]")  # absolute, and yet to where we are
_PATHS = pattern(r"[\w./+@-]{2,200}")  # in a text of another language
_INCLUDE = pattern(r"^[ \t]*[-s]?include[ \t]+([^#\n]+)", re.MULTILINE)


def reach_of_shell(text: str, root: Path) -> Reach:
    """The reach of a text for the shell, started in the root of the project."""
    search = _Search(root, [root])
    search.text(PLACEHOLDER.sub(_as_variable, text))
    return search.reach()


def reach_of_program(command: Sequence[str], root: Path, directory: Path) -> Reach:
    """What a program of the user's reaches that is started with these words. What it is told to read counts too."""
    search = _Search(root, [directory, root], strangers=True)
    search.program([Word((word,)) for word in command])
    return search.reach()


def _as_variable(placeholder: re.Match[str]) -> str:
    return f'"${variable_of(placeholder["name"])}"' if placeholder["name"] else "${{"


class _Search:
    def __init__(self, root: Path, directories: Sequence[Path], *, strangers: bool = False) -> None:
        self._known = Knowledge(Places(root, directories, strangers=strangers))
        self._strangers = strangers  # programs that nobody knows are the user's, and run nothing of the project
        self._level = 0
        self._rounds = 0
        self._inside: list[str] = []
        self._followed: set[object] = set()  # scripts, with all that was known when they were read

    def reach(self) -> Reach:
        return self._known.reach()

    def text(self, text: str) -> None:
        for _ in range(min(ROUNDS, ALL_ROUNDS - self._rounds)):
            self._rounds += 1
            before = self._known.size()
            try:
                for statement in statements(text, self._known.scope):
                    self._statement(statement)
            except RecursionError:
                return self._known.can_run_anything("not understood: too many things inside each other")
            if self._known.size() == before:
                return
        self._known.can_run_anything("not understood: it goes round too often")

    def program(self, words: Sequence[Word]) -> None:
        self._known.take(self._known.places.named(words))
        self._run(words, None)

    def _statement(self, statement: object) -> None:
        match statement:
            case Command(words, assigned, stdin):
                for name, value in assigned:
                    self._known.assigned(name, value)
                self._run(words, stdin)
            case Assigned(name, value):
                self._known.assigned(name, value)
            case Written(target):
                self._known.writes(target)
            case Unclear(text):
                self._known.can_run_anything(f"not understood: {text}")

    # --- one command ----------------------------------------------------------------------------------

    def _run(self, words: Sequence[Word], stdin: Input | None) -> None:
        """Look at a command in all its variants: what an option means, and which word is the program, depends on the
        others."""
        choices = [
            [word] if word.unknown or not word.texts else [Word((text,), glob=word.glob) for text in word.texts]
            for word in words
        ]
        if prod(map(len, choices)) > VARIANTS:
            self._known.can_run_anything(shown_words(words))
        for variant in islice(product(*choices), VARIANTS):
            self._run_variant(variant, stdin)

    def _run_variant(self, words: Sequence[Word], stdin: Input | None) -> None:
        if not words:
            return
        first, rest = words[0], words[1:]
        if first.unknown or not first.texts:
            self._known.can_run_anything(shown_words(words))
            self._known.take(self._known.places.files(first))
            self._known.take(self._known.places.named(rest, scripts=True))
            return
        text = first.texts[0]
        found = self._known.places.files(first) if "/" in text or first.glob else self._known.places.in_path(text)
        for path in found:
            self._file(path, rest)
        if re.search(r"\s", text):  # for a program that hands it to a shell
            self._nested(text)
        elif "/" not in text or (not found and self._is_outside(text)):
            self._named_program(os.path.basename(text), rest, stdin)
        else:
            self._known.awaits(first)
        if _LEADS_BACK.match(text):
            self._known.can_run_anything(shown_words(words))

    def _is_outside(self, text: str) -> bool:
        return os.path.isabs(text) or text.startswith("~")

    def _named_program(self, name: str, rest: Sequence[Word], stdin: Input | None) -> None:
        if name in self._known.scope.functions:
            self._known.with_arguments((), rest)
        if name in (".", "source"):
            self._sourced(rest)
        elif name in ("cd", "pushd", "chdir"):
            self._known.enter(rest)
        elif name in ("eval", "trap"):
            self._evaluated(name, rest)
        elif name.rstrip("-.0123456789") in SHELLS:
            self._shell(name, rest, stdin)
        elif name in PREFIXES:
            self._prefixed(name, rest, stdin)
        elif name == "git":
            note_git(self._known, name, rest)
        elif name == "find":
            for words in commands_of_find(self._known, name, rest):
                self._run(words, None)
        elif name == "sed":
            self._sed(name, rest)
        elif name in ("awk", "gawk", "mawk"):
            self._awk(name, rest)
        elif name in HARMLESS | WRITERS and not has_option(rest, RUNS_WITH.get(name, ())):
            note_harmless(self._known, name, rest)
        elif name not in self._known.scope.functions:
            self._opaque(name, rest, stdin)

    def _sourced(self, rest: Sequence[Word]) -> None:
        if rest:
            self._script_named(".", rest[0], rest[1:])

    def _script_named(self, name: str, word: Word, arguments: Sequence[Word]) -> None:
        """Look at a script by its name. One outside of the project, or found in PATH, is not read, and may come back
        here."""
        found = self._known.places.files(word)
        if word.unknown or (not found and any("/" not in text or self._is_outside(text) for text in word.texts)):
            self._known.can_run_anything(f"{name} {shown_words([word])}")
        self._known.awaits(word)
        for path in found:
            self._script(path, arguments)

    def _evaluated(self, name: str, rest: Sequence[Word]) -> None:
        """A trap's text is as plain as any; what `eval` gets is put together while it runs."""
        if name == "eval" or any(word.unknown for word in rest):
            self._known.can_run_anything(f"{name} {shown_words(rest)}")
        self._known.take(path for word in rest if word.unknown for path in self._known.places.files(word))
        rest = rest[1:] if rest and rest[0].texts == ("--",) else rest
        for text in rest[0].texts if name == "trap" and rest else [shown_words(rest)]:
            self._nested(text)

    def _nested(self, text: str) -> None:
        if self._level >= LEVELS:
            return self._known.can_run_anything("scripts that run scripts, too deep to be followed")
        self._level += 1
        self.text(text)
        self._level -= 1

    def _shell(self, name: str, rest: Sequence[Word], stdin: Input | None) -> None:
        letters, words = letters_and_words(self._known, rest)
        is_text = "c" in letters
        if not words or ("s" in letters and not is_text):
            self._known.with_arguments([Word((name,))], words)
            return self._from_input(name, stdin)
        if words[0].glob and may_be_option(words[0]):
            self._known.can_run_anything(shown_words((Word((name,)), *rest)))
        if not is_text:
            return self._script_named(name, words[0], words[1:])
        if words[0].unknown:
            self._known.can_run_anything(shown_words((Word((name,)), *rest)))
            self._known.take(self._known.places.files(words[0]))
        self._known.with_arguments(words[1:2], words[2:])
        for text in words[0].texts:
            self._nested(text)

    def _from_input(self, name: str, stdin: Input | None) -> None:
        match stdin:
            case Input(file=Word() as file):
                if file.unknown:
                    self._known.can_run_anything(f"{name} < {shown_words([file])}")
                self._known.awaits(file)
                for path in self._known.places.files(file):
                    self._script(path, ())
            case Input(text=str(text)):
                self._nested(text)
            case Input(said_by=words):
                self._known.can_run_anything(f"{shown_words(words)} | {name}")
                self._known.take(path for word in words for path in self._known.places.files(word))
                self._texts_among(words)
            case None:
                self._known.can_run_anything(f"{name} reads what it is given")

    def _prefixed(self, name: str, rest: Sequence[Word], stdin: Input | None) -> None:
        options, flags, before = PREFIXES[name]
        words = list(rest)
        placed = {"{}"}
        while words and (words[0].texts or before):
            text = words[0].texts[0] if words[0].texts else ""
            if may_be_option(words[0]):
                self._known.can_run_anything(shown_words((Word((name,)), *rest)))
                self._known.take(self._known.places.files(words[0]))
                if not before:
                    break
                before -= 1
                words.pop(0)
            elif name in ("env", "sudo", "doas") and re.match(r"\w+=", text):
                self._known.assigned(text.partition("=")[0], Word((text.partition("=")[2],)))
                words.pop(0)
            elif text == "--":
                words.pop(0)
            elif text.startswith("-"):
                words.pop(0)
                if not is_known_option(text, options, flags):  # the next word may be its value, or the program
                    self._known.can_run_anything(shown_words((Word((name,)), *rest)))
                value = words.pop(0) if text in options and words else Word((text.partition("=")[2] or text[2:],))
                note_prefix_option(self._known, name, text, value)
                placed |= set(value.texts) if name == "xargs" and text.startswith(("-I", "-i", "--replace")) else set()
                if name == "command" and text in ("-v", "-V"):
                    return
            elif before:
                before -= 1
                words.pop(0)
            else:
                break
        if name in ("xargs", "parallel"):
            words = [UNKNOWN if holds(word, placed) else word for word in words] + [UNKNOWN]
            stdin = None
        if words:
            self._run(words, stdin)

    def _sed(self, name: str, rest: Sequence[Word]) -> None:
        if not is_plain_sed(rest):
            self._opaque(name, rest, None)

    def _awk(self, name: str, rest: Sequence[Word]) -> None:
        if not is_plain_awk(rest):
            self._opaque(name, rest, None)
        self._known.writes_somewhere |= ">" in shown_words(rest)

    def _opaque(self, name: str, rest: Sequence[Word], stdin: Input | None) -> None:
        """A program that decides by itself what it runs: take what it is told, and the files it is known to obey."""
        runs = is_interpreter(name)
        named = self._known.places.named(rest, scripts=not runs)
        if runs:
            named |= dict.fromkeys(self._known.places.entries(rest))
            if stdin is not None and not named:
                named |= self._known.places.files(stdin.file or Word()) | dict.fromkeys(
                    chain(*map(self._known.places.files, stdin.said_by))
                )
        named |= dict.fromkeys(self._known.places.modules(rest))
        if self._known.path_is_set:
            named |= self._known.places.files(Word((name,)))
        if name in PACKAGES and self._strangers:
            named |= dict.fromkeys(self._known.places.installed(rest))
        else:
            named |= dict.fromkeys(self._obeyed(name, rest))
        if not self._strangers or (named if runs or name in PACKAGES else is_of_the_project(name, rest)):
            self._known.can_run_anything(shown_words((Word((name,)), *rest)))
        self._known.take(named)
        self._follow_build(rest)
        self._texts_among(rest)
        if behind := command_behind(name, rest):
            self._run(behind, stdin)

    def _obeyed(self, name: str, rest: Sequence[Word]) -> Iterator[str]:
        """The files of a build tool, where we are and in every folder that it is told of."""
        if self._strangers and name in ("docker", "podman", "node", "deno", "bun", "ruby", "swift"):
            return
        for place in dict(self._known.places.directories) | dict.fromkeys(self._known.places.folders(rest)):
            yield from self._known.places.configured(name, place)

    def _texts_among(self, words: Sequence[Word]) -> None:
        """`su -c 'cd x && ./y'`: a word of several may be for a shell. Whatever it is, the cause is known already."""
        causes = dict(self._known.anything)
        for text in (text for word in words for text in word.texts if re.search(r"[\s()]", text)):
            self._nested(text)
            pieces = tuple(dict.fromkeys(_PATHS.findall(text)))[:FILES]
            self._known.take(self._known.places.named([Word((piece,)) for piece in pieces], scripts=True))
        self._known.anything = causes or self._known.anything

    # --- files ----------------------------------------------------------------------------------------

    def _file(self, path: str, arguments: Sequence[Word]) -> None:
        """Look at a file that is run by its path: by its first line, a shell script or a program of another kind."""
        program = program_of(path)
        if program in SHELLS:
            return self._script(path, arguments)
        self._known.take([path])
        self._known.can_run_anything(f"{self._shown_path(path)} is a program")
        self._known.take(self._known.places.named(arguments, scripts=True))
        self._known.take(
            found
            for place in self._known.places.directories
            for found in self._known.places.configured(os.path.basename(path), place)
        )

    def _script(self, path: str, arguments: Sequence[Word]) -> None:
        self._known.take([path])
        seen = (path, tuple(arguments), self._known.size())
        if path in self._inside or seen in self._followed:
            return
        self._followed.add(seen)
        text = read_script(path)
        if text is None:
            return self._known.can_run_anything(f"{self._shown_path(path)} is not text, or too long")
        self._inside.append(path)
        self._known.with_arguments([Word((path,))], arguments)
        self._nested(text)
        self._inside.pop()

    def _follow_build(self, words: Sequence[Word]) -> None:
        """What the files of make and npm say in shell is read like any other."""
        for file in [path for path in self._known.files if os.path.basename(path) in FOLLOWED or path.endswith(".mk")]:
            path = os.path.join(self._known.places.root, file)
            if path in self._inside or (text := read_script(path)) is None:
                continue
            self._inside.append(path)
            self._known.places.directories.setdefault(os.path.dirname(path))
            causes = dict(self._known.anything)
            for line in lines_of(os.path.basename(path), text, words):
                self._nested(line)
            self._known.anything = causes or self._known.anything
            for included in _INCLUDE.findall(text) if not path.endswith(".json") else ():
                self._known.take(self._known.places.files(Word(tuple(included.split()), glob=True)))
            self._inside.pop()

    def _shown_path(self, path: str) -> str:
        return os.path.relpath(path, self._known.places.root)
