"""What is known so far of a command that is read: its variables, where it may be, the files it may run or change.

Filled by command_reach.py; whatever a command does that cannot be followed is noted as a cause why it can run anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from agent_worker.core.later import dataclass, pattern
from agent_worker.definitions.placeholders import is_powerful
from agent_worker.trust.command_files import Places
from agent_worker.trust.command_words import FILES, shown_words
from agent_worker.trust.shell_words import UNKNOWN, Scope, Word

DIRECTORIES = 64
CAUSE = 80  #: characters
ARGUMENTS = ("@", "*", *map(str, range(1, 10)))
ANY = ""  #: stands for a file or folder whose name is not known yet

_DEVICE = pattern(r"/dev/(?:null|zero|full|tty|stdin|stdout|stderr|fd/\d+)")  # what is written there is no file
_LEADS = pattern(r"PATH|PRELOAD|OPTIONS|RC$")  # variables that lead a program to more of its own


@dataclass(frozen=True, slots=True)
class Reach:
    files: tuple[str, ...]  #: relative to the root of the project, sorted; each is there
    anything: tuple[str, ...]  #: why it can run any file of the project; empty when all that it runs was seen


class Knowledge:
    def __init__(self, places: Places) -> None:
        self.places = places
        self.scope = Scope({"PWD": Word((".",))})
        self.files: dict[str, None] = {}
        self.anything: dict[str, None] = {}
        self.written: set[str] = set()
        self.awaited: set[str] = set()  # what would be run or entered if it were there
        self.writes_somewhere = False
        self.path_is_set = False

    def reach(self) -> Reach:
        runs = self.awaited | {os.path.realpath(os.path.join(self.places.root, file)) for file in self.files}
        if (self.writes_somewhere and runs) or runs & self.written or (ANY in runs and self.written):
            self.can_run_anything("it changes files and then runs some")
        if self.places.too_many:
            self.can_run_anything("a pattern that fits too many files")
        return Reach(tuple(sorted(self.files)), tuple(self.anything))

    def size(self) -> tuple[int, ...]:
        """How much is known: it grows whenever something new is found."""
        variables = (len(word.texts) + word.unknown for word in self.scope.variables.values())
        return (
            len(self.files),
            len(self.places.directories),
            len(self.anything),
            sum(variables),
            len(self.scope.functions),
        )

    def can_run_anything(self, cause: str) -> None:
        line = " ".join(cause.split())
        self.anything[line if len(line) <= CAUSE else f"{line[:CAUSE]}…"] = None

    def assigned(self, name: str, value: Word) -> None:
        """Note a variable that decides what programs run: PATH, BASH_ENV, GIT_…."""
        plain = name in ("LANG", "TZ", "TERM") or name.startswith("LC_")
        if not plain and (is_powerful(name) or _LEADS.search(name)):
            self.can_run_anything(f"{name}=…")
            places = [place for text in value.texts for place in text.split(":") if place]
            self.take(self.places.files(Word(tuple(places))))
            if name == "PATH":
                self.enter([Word(tuple(places))])
                self.path_is_set = True

    def writes(self, target: Word) -> None:
        if target.unknown or target.glob:
            self.writes_somewhere = True
        self.written |= {
            os.path.realpath(path) for path in self.places.files(target, missing=True) if not _DEVICE.fullmatch(path)
        }

    def awaits(self, word: Word) -> None:
        """Note what is run as soon as it is there: an earlier part of the command may make it."""
        self.awaited |= {os.path.realpath(path) for path in self.places.candidates(word)}
        self.awaited |= {ANY} if word.glob or word.unknown else set()

    def sets(self, name: str, rest: Sequence[Word]) -> None:
        """Note variables that get a value from elsewhere; a name with an index is an expression,
        which bash evaluates.
        """
        names = [text for word in rest for text in word.texts]
        if any(word.unknown for word in rest) or any("[" in text for text in names if text != "["):
            self.can_run_anything(shown_words((Word((name,)), *rest)))
        for variable in (*names, "REPLY", "OPTARG") if name not in ("test", "[") else ():
            self.scope.assign(variable, UNKNOWN)
            self.assigned(variable, UNKNOWN)

    def enter(self, rest: Sequence[Word]) -> None:
        """Note directories that a command changes into. Every earlier one stays possible: `cd` may fail, a subshell
        ends.
        """
        targets = [word for word in rest if word.texts != ("-",) and not (word.texts and word.texts[0][:1] == "-")]
        if any(word.unknown for word in targets):
            self.can_run_anything(f"cd {shown_words(targets)}")
        for path in (path for word in targets for path in self.places.candidates(word)):
            if not os.path.isdir(path):
                self.awaited.add(ANY)
            elif len(self.places.directories) < DIRECTORIES:
                self.places.directories |= dict.fromkeys((os.path.normpath(path), os.path.realpath(path)))
            elif os.path.normpath(path) not in self.places.directories:
                self.can_run_anything(f"more than {DIRECTORIES} directories")

    def with_arguments(self, name: Sequence[Word], arguments: Sequence[Word]) -> None:
        """What is known inside a script, or a function (which has no name here): then `$1` may be either's."""
        for number, word in enumerate(arguments, 1):
            self.scope.assign(str(number), word)
        if any(word.unknown or word.glob for word in arguments):
            for each in ARGUMENTS:
                self.scope.assign(each, UNKNOWN)
        texts = tuple(text for word in arguments for text in word.texts)
        for all_of_them in ("@", "*") if arguments else ():
            self.scope.assign(all_of_them, Word(texts, unknown=len(arguments) > 1))
        for variable in ("0", "BASH_SOURCE") if name else ():
            self.scope.assign(variable, name[0])

    def take(self, paths: Iterable[str]) -> None:
        for path in paths:
            if len(self.files) >= FILES:
                return self.can_run_anything(f"more than {FILES} files")
            self.files[os.path.relpath(path, self.places.root)] = None
