"""Which files of a project a command can be seen to run, and whether it can run others that cannot be seen.

Read, never run. What is not understood is never passed over: then the command can run any file of the project, and
says so. Shell scripts that it runs are read in turn, some levels deep; what other programs run is their own affair and
cannot be seen. A program that lies outside of the project is nobody's here to change. Above: powers.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice, product, takewhile
from math import prod
from pathlib import Path

from agent_worker.core.later import dataclass, pattern
from agent_worker.definitions.placeholders import PLACEHOLDER, is_powerful, variable_of
from agent_worker.trust.command_files import Places
from agent_worker.trust.command_words import (
    FILES,
    FOLLOWED,
    command_behind,
    has_option,
    holds,
    is_known_option,
    is_of_the_project,
    is_plain_setting,
    lines_of,
    may_be_option,
    operands,
    program_of,
    read_script,
    shown_words,
)
from agent_worker.trust.programs import (
    GIT_ENTERS,
    GIT_LOOKS,
    GIT_READS,
    HARMLESS,
    PACKAGES,
    PREFIXES,
    RUNS_WITH,
    SHELL_OPTIONS,
    SHELLS,
    WRITERS,
    WRITES_WITH,
    is_interpreter,
)
from agent_worker.trust.shell import UNKNOWN, Assigned, Command, Input, Scope, Unclear, Word, Written, statements

LEVELS = 4  #: of scripts that run scripts
DIRECTORIES = 64
_ARGUMENTS = ("@", "*", *map(str, range(1, 10)))
ROUNDS = 16  #: of one text, until nothing new is found: a loop may go where a later line leads
ALL_ROUNDS = 400  #: of all texts together
VARIANTS = 256  #: of one command, whose words may be this or that
_ANY = ""  # stands for a file or folder whose name is not known yet
CAUSE = 80  #: characters

_DEVICE = pattern(r"/dev/(?:null|zero|full|tty|stdin|stdout|stderr|fd/\d+)")  # what is written there is no file
_LEADS_BACK = pattern(r"/proc/|/dev/|~[-+]")  # absolute, and yet to where we are
_LEADS = pattern(r"PATH|PRELOAD|OPTIONS|RC$")  # variables that lead a program to more of its own
_PATHS = pattern(r"[\w./+@-]{2,200}")  # in a text of another language
_INCLUDE = pattern(r"^[ \t]*[-s]?include[ \t]+([^#\n]+)", re.MULTILINE)
_PLAIN_SED = pattern(r"(?:\d+|\$)?(?:,(?:\d+|\$))?[pdq]|s([/|#,:])(?:\\.|(?!\1|\\).)*\1(?:\\.|(?!\1|\\).)*\1[gpI\d]*")
_AWK_RUNS = pattern(r"system|getline|[|@]")


@dataclass(frozen=True, slots=True)
class Reach:
    files: tuple[str, ...]  #: relative to the root of the project, sorted; each is there
    anything: tuple[str, ...]  #: why it can run any file of the project; empty when all that it runs was seen


def reach_of_shell(text: str, root: Path) -> Reach:
    """The reach of a text for the shell, started in the root of the project."""
    search = _Search(root, [root])
    search.text(PLACEHOLDER.sub(_as_variable, text))
    return search.reach()


def reach_of_program(command: Sequence[str], root: Path, directory: Path) -> Reach:
    """Of a program of the user's that is started with these words. What it was told to read counts too."""
    search = _Search(root, [directory, root], strangers=True)
    search.program([Word((word,)) for word in command])
    return search.reach()


def _as_variable(placeholder: re.Match[str]) -> str:
    return f'"${variable_of(placeholder["name"])}"' if placeholder["name"] else "${{"


class _Search:
    def __init__(self, root: Path, directories: Sequence[Path], *, strangers: bool = False) -> None:
        self._places = Places(root, directories, strangers=strangers)
        self._strangers = strangers  # programs that nobody knows are the user's, and run nothing of the project
        self._files: dict[str, None] = {}
        self._anything: dict[str, None] = {}
        self._written: set[str] = set()
        self._awaited: set[str] = set()  # what would be run or entered if it were there
        self._writes_somewhere = False
        self._path_is_set = False
        self._scope = Scope({"PWD": Word((".",))})
        self._level = 0
        self._rounds = 0
        self._inside: list[str] = []
        self._followed: set[object] = set()  # scripts, with all that was known when they were read

    def reach(self) -> Reach:
        runs = self._awaited | {os.path.realpath(os.path.join(self._places.root, file)) for file in self._files}
        if (self._writes_somewhere and runs) or runs & self._written or (_ANY in runs and self._written):
            self._can_run_anything("it changes files and then runs some")
        if self._places.too_many:
            self._can_run_anything("a pattern that fits too many files")
        return Reach(tuple(sorted(self._files)), tuple(self._anything))

    def text(self, text: str) -> None:
        for _ in range(min(ROUNDS, ALL_ROUNDS - self._rounds)):
            self._rounds += 1
            before = self._known()
            try:
                for statement in statements(text, self._scope):
                    self._statement(statement)
            except RecursionError:
                return self._can_run_anything("not understood: too many things inside each other")
            if self._known() == before:
                return
        self._can_run_anything("not understood: it goes round too often")

    def program(self, words: Sequence[Word]) -> None:
        self._take(self._places.named(words))
        self._run(words, None)

    def _known(self) -> tuple[int, ...]:
        variables = (len(word.texts) + word.unknown for word in self._scope.variables.values())
        return (
            len(self._files),
            len(self._places.directories),
            len(self._anything),
            sum(variables),
            len(self._scope.functions),
        )

    def _can_run_anything(self, cause: str) -> None:
        line = " ".join(cause.split())
        self._anything[line if len(line) <= CAUSE else f"{line[:CAUSE]}…"] = None

    def _statement(self, statement: object) -> None:
        match statement:
            case Command(words, assigned, stdin):
                for name, value in assigned:
                    self._assigned(name, value)
                self._run(words, stdin)
            case Assigned(name, value):
                self._assigned(name, value)
            case Written(target):
                self._writes(target)
            case Unclear(text):
                self._can_run_anything(f"not understood: {text}")

    def _assigned(self, name: str, value: Word) -> None:
        """Note a variable that decides what programs run: PATH, BASH_ENV, GIT_…."""
        plain = name in ("LANG", "TZ", "TERM") or name.startswith("LC_")
        if not plain and (is_powerful(name) or _LEADS.search(name)):
            self._can_run_anything(f"{name}=…")
            places = [place for text in value.texts for place in text.split(":") if place]
            self._take(self._places.files(Word(tuple(places))))
            if name == "PATH":
                self._enter([Word(tuple(places))])
                self._path_is_set = True

    def _writes(self, target: Word) -> None:
        if target.unknown or target.glob:
            self._writes_somewhere = True
        self._written |= {
            os.path.realpath(path) for path in self._places.files(target, missing=True) if not _DEVICE.fullmatch(path)
        }

    # --- one command ----------------------------------------------------------------------------------

    def _run(self, words: Sequence[Word], stdin: Input | None) -> None:
        """In all its variants: what an option means, and which word is the program, depends on all of the others."""
        choices = [
            [word] if word.unknown or not word.texts else [Word((text,), glob=word.glob) for text in word.texts]
            for word in words
        ]
        if prod(map(len, choices)) > VARIANTS:
            self._can_run_anything(shown_words(words))
        for variant in islice(product(*choices), VARIANTS):
            self._run_variant(variant, stdin)

    def _run_variant(self, words: Sequence[Word], stdin: Input | None) -> None:
        if not words:
            return
        first, rest = words[0], words[1:]
        if first.unknown or not first.texts:
            self._can_run_anything(shown_words(words))
            self._take(self._places.files(first))
            self._take(self._places.named(rest, scripts=True))
            return
        text = first.texts[0]
        found = self._places.files(first) if "/" in text or first.glob else self._places.in_path(text)
        for path in found:
            self._file(path, rest)
        if re.search(r"\s", text):  # for a program that hands it to a shell
            self._nested(text)
        elif "/" not in text or (not found and self._is_outside(text)):
            self._named_program(os.path.basename(text), rest, stdin)
        else:
            self._await(first)
        if _LEADS_BACK.match(text):
            self._can_run_anything(shown_words(words))

    def _is_outside(self, text: str) -> bool:
        return os.path.isabs(text) or text.startswith("~")

    def _await(self, word: Word) -> None:
        """Note what is run as soon as it is there: an earlier part of the command may make it."""
        self._awaited |= {os.path.realpath(path) for path in self._places.candidates(word)}
        self._awaited |= {_ANY} if word.glob or word.unknown else set()

    def _named_program(self, name: str, rest: Sequence[Word], stdin: Input | None) -> None:
        if name in self._scope.functions:
            self._with_arguments((), rest)
        if name in (".", "source"):
            self._sourced(rest)
        elif name in ("cd", "pushd", "chdir"):
            self._enter(rest)
        elif name in ("eval", "trap"):
            self._evaluated(name, rest)
        elif re.sub(r"[-.\d]+$", "", name) in SHELLS:
            self._shell(name, rest, stdin)
        elif name in PREFIXES:
            self._prefixed(name, rest, stdin)
        elif name == "git":
            self._git(name, rest)
        elif name == "find":
            self._find(name, rest)
        elif name == "sed":
            self._sed(name, rest)
        elif name in ("awk", "gawk", "mawk"):
            self._awk(name, rest)
        elif name in HARMLESS | WRITERS and not has_option(rest, RUNS_WITH.get(name, ())):
            self._harmless(name, rest)
        elif name not in self._scope.functions:
            self._opaque(name, rest, stdin)

    def _harmless(self, name: str, rest: Sequence[Word]) -> None:
        is_unknown = any(map(may_be_option, rest))
        if name in RUNS_WITH and is_unknown:
            self._can_run_anything(shown_words((Word((name,)), *rest)))
        if name in WRITES_WITH and (
            is_unknown or any(WRITES_WITH[name].match(text) for word in rest for text in word.texts)
        ):
            self._writes_somewhere = True
        if name in ("read", "getopts") or (name == "printf" and has_option(rest[:1], ("-v",))):
            self._sets(name, rest if name != "printf" else rest[:2])
        elif name in ("test", "[") and has_option(rest, ("-v",)):
            self._sets(name, rest)
        elif name in ("set", "shift"):
            for number in _ARGUMENTS:
                self._scope.assign(number, UNKNOWN)
        elif name == "tee":
            for word in rest:
                self._writes(word)
        elif name in WRITERS and (name not in ("uniq", "xxd") or len(operands(rest)) > 1):
            self._writes_somewhere = True

    def _sets(self, name: str, rest: Sequence[Word]) -> None:
        """Variables that get a value from elsewhere; a name with an index is an expression, which bash evaluates."""
        names = [text for word in rest for text in word.texts]
        if any(word.unknown for word in rest) or any("[" in text for text in names if text != "["):
            self._can_run_anything(shown_words((Word((name,)), *rest)))
        for variable in (*names, "REPLY", "OPTARG") if name not in ("test", "[") else ():
            self._scope.assign(variable, UNKNOWN)
            self._assigned(variable, UNKNOWN)

    def _enter(self, rest: Sequence[Word]) -> None:
        """Every directory that it was in stays possible: `cd` may fail, a subshell ends."""
        targets = [word for word in rest if word.texts != ("-",) and not (word.texts and word.texts[0][:1] == "-")]
        if any(word.unknown for word in targets):
            self._can_run_anything(f"cd {shown_words(targets)}")
        for path in (path for word in targets for path in self._places.candidates(word)):
            if not os.path.isdir(path):
                self._awaited.add(_ANY)
            elif len(self._places.directories) < DIRECTORIES:
                self._places.directories |= dict.fromkeys((os.path.normpath(path), os.path.realpath(path)))
            elif os.path.normpath(path) not in self._places.directories:
                self._can_run_anything(f"more than {DIRECTORIES} directories")

    def _sourced(self, rest: Sequence[Word]) -> None:
        if rest:
            self._script_named(".", rest[0], rest[1:])

    def _script_named(self, name: str, word: Word, arguments: Sequence[Word]) -> None:
        """One that lies outside of the project, or is found in PATH, is not read, and may come back here."""
        found = self._places.files(word)
        if word.unknown or (not found and any("/" not in text or self._is_outside(text) for text in word.texts)):
            self._can_run_anything(f"{name} {shown_words([word])}")
        self._await(word)
        for path in found:
            self._script(path, arguments)

    def _evaluated(self, name: str, rest: Sequence[Word]) -> None:
        """A trap's text is as plain as any; what `eval` gets is put together while it runs."""
        if name == "eval" or any(word.unknown for word in rest):
            self._can_run_anything(f"{name} {shown_words(rest)}")
        self._take(path for word in rest if word.unknown for path in self._places.files(word))
        rest = rest[1:] if rest and rest[0].texts == ("--",) else rest
        for text in rest[0].texts if name == "trap" and rest else [shown_words(rest)]:
            self._nested(text)

    def _nested(self, text: str) -> None:
        if self._level >= LEVELS:
            return self._can_run_anything("scripts that run scripts, too deep to be followed")
        self._level += 1
        self.text(text)
        self._level -= 1

    def _shell(self, name: str, rest: Sequence[Word], stdin: Input | None) -> None:
        letters, words = self._shell_options(rest)
        is_text = "c" in letters
        if not words or ("s" in letters and not is_text):
            self._with_arguments([Word((name,))], words)
            return self._from_input(name, stdin)
        if words[0].glob and may_be_option(words[0]):
            self._can_run_anything(shown_words((Word((name,)), *rest)))
        if not is_text:
            return self._script_named(name, words[0], words[1:])
        if words[0].unknown:
            self._can_run_anything(shown_words((Word((name,)), *rest)))
            self._take(self._places.files(words[0]))
        self._with_arguments(words[1:2], words[2:])
        for text in words[0].texts:
            self._nested(text)

    def _shell_options(self, rest: Sequence[Word]) -> tuple[str, list[Word]]:
        """The letters among the options, and what is left of the words: `-euo pipefail` takes one of them."""
        letters, words = "", list(rest)
        while words and not words[0].unknown and words[0].texts and words[0].texts[0][:1] in ("-", "+"):
            option = words.pop(0).texts[0]
            if option in ("-", "--"):
                break
            given = "" if option.startswith("--") else option[1:]
            letters += given if option[0] == "-" else ""
            if (option in SHELL_OPTIONS or set(given) & set("oO")) and words:
                self._take(self._places.files(words.pop(0)))
        return letters, words

    def _from_input(self, name: str, stdin: Input | None) -> None:
        match stdin:
            case Input(file=Word() as file):
                if file.unknown:
                    self._can_run_anything(f"{name} < {shown_words([file])}")
                self._await(file)
                for path in self._places.files(file):
                    self._script(path, ())
            case Input(text=str(text)):
                self._nested(text)
            case Input(said_by=words):
                self._can_run_anything(f"{shown_words(words)} | {name}")
                self._take(path for word in words for path in self._places.files(word))
                self._texts_among(words)
            case None:
                self._can_run_anything(f"{name} reads what it is given")

    def _prefixed(self, name: str, rest: Sequence[Word], stdin: Input | None) -> None:
        options, flags, before = PREFIXES[name]
        words = list(rest)
        placed = {"{}"}
        while words and (words[0].texts or before):
            text = words[0].texts[0] if words[0].texts else ""
            if may_be_option(words[0]):
                self._can_run_anything(shown_words((Word((name,)), *rest)))
                self._take(self._places.files(words[0]))
                if not before:
                    break
                before -= 1
                words.pop(0)
            elif name in ("env", "sudo", "doas") and re.match(r"\w+=", text):
                self._assigned(text.partition("=")[0], Word((text.partition("=")[2],)))
                words.pop(0)
            elif text == "--":
                words.pop(0)
            elif text.startswith("-"):
                words.pop(0)
                if not is_known_option(text, options, flags):  # the next word may be its value, or the program
                    self._can_run_anything(shown_words((Word((name,)), *rest)))
                value = words.pop(0) if text in options and words else Word((text.partition("=")[2] or text[2:],))
                self._option_of_prefix(name, text, value)
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

    def _option_of_prefix(self, name: str, option: str, value: Word) -> None:
        if option.startswith(("-C", "--chdir", "-D")) and name in ("env", "sudo"):
            self._enter([value])
        elif (name == "env" and option.startswith(("-S", "--split"))) or (name == "flock" and option.startswith("-c")):
            self._can_run_anything(f"{name} {option} {shown_words([value])}")
            self._take(self._places.files(value))

    def _find(self, name: str, rest: Sequence[Word]) -> None:
        words = list(rest)
        while words:
            text = words.pop(0).texts[:1]
            if text and text[0] in ("-execdir", "-okdir"):
                self._can_run_anything(shown_words((Word((name,)), *rest)))
            self._writes_somewhere |= bool(text) and text[0].startswith(("-fp", "-fl"))
            if text and text[0] in ("-exec", "-execdir", "-ok", "-okdir"):
                end = next((n for n, word in enumerate(words) if word.texts in ((";",), ("+",))), len(words))
                self._run([UNKNOWN if "{}" in "".join(word.texts) else word for word in words[:end]], None)
                words = words[end + 1 :]
        if any(map(may_be_option, rest)):
            self._can_run_anything(shown_words((Word((name,)), *rest)))

    def _sed(self, name: str, rest: Sequence[Word]) -> None:
        """Harmless with one script of the plainest kind, and none of the options that bring others."""
        given = [word for word in rest if not (word.texts and re.fullmatch(r"-[nErs]+", word.texts[0]))]
        script = given[0] if given else UNKNOWN
        others = has_option(given, ("-",)) or any(map(may_be_option, (*given, script)))
        if others or not all(_PLAIN_SED.fullmatch(text) for text in script.texts):
            self._opaque(name, rest, None)

    def _awk(self, name: str, rest: Sequence[Word]) -> None:
        options = [text for word in rest for text in word.texts if text.startswith("-")]
        others = any(not option.startswith(("-F", "-v")) for option in options)
        others = others or any(word.glob for word in operands(rest)[:1])
        if others or any(word.unknown for word in rest) or _AWK_RUNS.search(shown_words(rest)):
            self._opaque(name, rest, None)
        self._writes_somewhere |= ">" in shown_words(rest)

    def _git(self, name: str, rest: Sequence[Word]) -> None:
        """Elsewhere than in the root an agent may have made a repository with settings of its own."""
        words = list(rest)
        harmless = set(self._places.directories) == {self._places.root}
        while words and words[0].texts and words[0].texts[0].startswith("-"):
            option = words.pop(0).texts[0]
            if option == "-c" and words:
                harmless = harmless and is_plain_setting(words.pop(0))
            elif option == "-C" and words:
                self._enter([words.pop(0)])
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
        self._writes_somewhere |= has_option(words, ("--output",))
        if enters or not (harmless and (command in GIT_READS or looks)):
            self._can_run_anything(shown_words((Word((name,)), *rest)))

    def _opaque(self, name: str, rest: Sequence[Word], stdin: Input | None) -> None:
        """A program that decides by itself what it runs: take what it is told, and the files it is known to obey."""
        runs = is_interpreter(name)
        named = self._places.named(rest, scripts=not runs)
        if runs:
            named |= dict.fromkeys(self._places.entries(rest))
            if stdin is not None and not named:
                named |= self._places.files(stdin.file or Word()) | dict.fromkeys(
                    chain(*map(self._places.files, stdin.said_by))
                )
        named |= dict.fromkeys(self._places.modules(rest))
        if self._path_is_set:
            named |= self._places.files(Word((name,)))
        if name in PACKAGES and self._strangers:
            named |= dict.fromkeys(self._places.installed(rest))
        else:
            named |= dict.fromkeys(self._obeyed(name, rest))
        if not self._strangers or (named if runs or name in PACKAGES else is_of_the_project(name, rest)):
            self._can_run_anything(shown_words((Word((name,)), *rest)))
        self._take(named)
        self._follow_build(rest)
        self._texts_among(rest)
        if behind := command_behind(name, rest):
            self._run(behind, stdin)

    def _obeyed(self, name: str, rest: Sequence[Word]) -> Iterator[str]:
        """The files of a build tool, where we are and in every folder that it is told of."""
        if self._strangers and name in ("docker", "podman", "node", "deno", "bun", "ruby", "swift"):
            return
        for place in dict(self._places.directories) | dict.fromkeys(self._places.folders(rest)):
            yield from self._places.configured(name, place)

    def _texts_among(self, words: Sequence[Word]) -> None:
        """`su -c 'cd x && ./y'`: a word of several may be for a shell. Whatever it is, the cause is known already."""
        causes = dict(self._anything)
        for text in (text for word in words for text in word.texts if re.search(r"[\s()]", text)):
            self._nested(text)
            pieces = tuple(dict.fromkeys(_PATHS.findall(text)))[:FILES]
            self._take(self._places.named([Word((piece,)) for piece in pieces], scripts=True))
        self._anything = causes or self._anything

    # --- files ----------------------------------------------------------------------------------------

    def _file(self, path: str, arguments: Sequence[Word]) -> None:
        """One that is run by its path: by its first line, a shell script or a program of another kind."""
        program = program_of(path)
        if program in SHELLS:
            return self._script(path, arguments)
        self._take([path])
        self._can_run_anything(f"{self._shown_path(path)} is a program")
        self._take(self._places.named(arguments, scripts=True))
        self._take(
            found
            for place in self._places.directories
            for found in self._places.configured(os.path.basename(path), place)
        )

    def _script(self, path: str, arguments: Sequence[Word]) -> None:
        self._take([path])
        seen = (path, tuple(arguments), self._known())
        if path in self._inside or seen in self._followed:
            return
        self._followed.add(seen)
        text = read_script(path)
        if text is None:
            return self._can_run_anything(f"{self._shown_path(path)} is not text, or too long")
        self._inside.append(path)
        self._with_arguments([Word((path,))], arguments)
        self._nested(text)
        self._inside.pop()

    def _with_arguments(self, name: Sequence[Word], arguments: Sequence[Word]) -> None:
        """Of a script, or of a function (which has no name here): then `$1` may be either's."""
        for number, word in enumerate(arguments, 1):
            self._scope.assign(str(number), word)
        if any(word.unknown or word.glob for word in arguments):
            for each in _ARGUMENTS:
                self._scope.assign(each, UNKNOWN)
        texts = tuple(text for word in arguments for text in word.texts)
        for all_of_them in ("@", "*") if arguments else ():
            self._scope.assign(all_of_them, Word(texts, unknown=len(arguments) > 1))
        for variable in ("0", "BASH_SOURCE") if name else ():
            self._scope.assign(variable, name[0])

    def _take(self, paths: object) -> None:
        for path in paths:  # type: ignore[attr-defined]
            if len(self._files) >= FILES:
                return self._can_run_anything(f"more than {FILES} files")
            self._files[os.path.relpath(path, self._places.root)] = None

    def _follow_build(self, words: Sequence[Word]) -> None:
        """What the files of make and npm say in shell is read like any other."""
        for file in [path for path in self._files if os.path.basename(path) in FOLLOWED or path.endswith(".mk")]:
            path = os.path.join(self._places.root, file)
            if path in self._inside or (text := read_script(path)) is None:
                continue
            self._inside.append(path)
            self._places.directories.setdefault(os.path.dirname(path))
            causes = dict(self._anything)
            for line in lines_of(os.path.basename(path), text, words):
                self._nested(line)
            self._anything = causes or self._anything
            for included in _INCLUDE.findall(text) if not path.endswith(".json") else ():
                self._take(self._places.files(Word(tuple(included.split()), glob="*" in included)))
            self._inside.pop()

    def _shown_path(self, path: str) -> str:
        return os.path.relpath(path, self._places.root)
