"""The files of a project that the words of a command may lead to, seen from every directory that it enters.

Looks, and reads nothing. What lies outside of the project is nobody's here to change, and left out. Above:
command_reach.py.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from agent_worker.core.later import pattern
from agent_worker.processes.environment import search_path
from agent_worker.trust.programs import BUILD, SCRIPTS
from agent_worker.trust.shell_words import Word

MATCHES = 200  #: of one pattern
LONGEST_PATTERN = 1000  #: characters: one that is longer is made to keep us busy
#: Sets of characters (`[^a]`, `[[:alpha:]]`) that shells read each in its way; in quotes they are part of a name.
_SET = pattern(r"\[(?:[^/]*\])?")
#: Options behind which a file stands that is obeyed.
_TOLD = frozenset(
    """
    -f -c -r -P --file --config --makefile --require --import --manifest-path --rcfile --settings --build-file
    --justfile --taskfile --rakefile --gemfile --noxfile
    """.split()  # noqa: SIM905
)


class Places:
    def __init__(self, root: Path, directories: Sequence[Path], *, strangers: bool) -> None:
        """`strangers`: every file that is named counts, also one that is only read."""
        self.root = os.path.realpath(root)
        self.directories = dict.fromkeys(os.path.realpath(each) for each in directories)
        self.too_many = False  # a pattern fits more files than are looked at
        self._strangers = strangers

    def candidates(self, word: Word) -> Iterator[str]:
        """All that the word may lead to, seen from every directory that was entered. A pattern that fits nothing is
        the name of a file to a shell.
        """
        for text in word.texts:
            if not text or "\0" in text or len(text) > 4096:
                continue
            text = os.path.expanduser(text)
            text = text.lstrip("/") if word.unknown and not text.startswith(self.root) else text
            for directory in tuple(self.directories):
                yield os.path.join(directory, text)
                if word.glob:
                    yield from self._matching(directory, text)

    def in_path(self, name: str) -> dict[str, None]:
        """Files of the project that a plain name may mean, where PATH leads into the project (`.venv/bin`)."""
        return self.files(Word(tuple(os.path.join(folder, name) for folder in self._path)))

    @cached_property
    def _path(self) -> list[str]:
        return [folder for folder in search_path() if self._lies_in(os.path.realpath(folder))]

    def files(self, word: Word, *, missing: bool = False) -> dict[str, None]:
        """Those candidates that are files of the project."""
        found: dict[str, None] = {}
        for path in (way for candidate in self.candidates(word) for way in _ways(candidate)):
            if self._is_ours(path) and (missing or os.path.isfile(path)):
                found[path if self._lies_in(path) else os.path.realpath(path)] = None
        return found

    def _lies_in(self, path: str) -> bool:
        return path == self.root or path.startswith(f"{self.root}/")

    def _is_ours(self, path: str) -> bool:
        return self._lies_in(os.path.realpath(path)) or self._lies_in(path)

    def named(self, words: Sequence[Word], *, scripts: bool = False) -> dict[str, None]:
        """Files among the words of a command; `scripts`: those that one would run, and those it is told to obey."""
        found: dict[str, None] = {}
        after = ""
        first = True
        for word in words:
            for part in _parts(word):
                told = after in _TOLD or part is not word or (not scripts and (first or self._strangers))
                found |= {path: None for path in self.files(part) if told or _looks_run(path)}
            after = word.texts[0] if word.texts else ""
            first = first and (after.startswith("-") or word.unknown)
        return found

    def folders(self, words: Sequence[Word]) -> Iterator[str]:
        for word in words:
            for part in _parts(word):
                for path in self.candidates(part):
                    if os.path.isdir(path) and self._is_ours(path):
                        yield os.path.normpath(path)

    def configured(self, name: str, place: str) -> Iterator[str]:
        for files in BUILD.get(re.sub(r"(?<=[a-z])[0-9.]+$", "", name), ()):
            for path in self._matching(place, files):
                if os.path.isfile(path) and self._is_ours(path):
                    yield os.path.normpath(path)

    def modules(self, words: Sequence[Word]) -> Iterator[str]:
        """The file of a module that is run: `-m package.module`."""
        for option, word in pairwise(words):
            if option.texts and re.fullmatch(r"-\w*m", option.texts[0]):
                for module in word.texts:
                    path = module.replace(".", "/")
                    beside = (f"{path}.py", f"{path}/__main__.py", f"{path}/__init__.py", f"src/{path}/__main__.py")
                    yield from self.files(Word(beside))
                    yield from (found for place in self.directories for found in self.configured(module, place))

    def entries(self, words: Sequence[Word]) -> Iterator[str]:
        """The files by which an interpreter runs a folder that it is given."""
        for folder in self.folders(words):
            for name in ("__main__.py", "index.js", "index.mjs", "index.ts", "package.json", "main.lua", "init.lua"):
                yield from self.files(Word((os.path.join(folder, name),)))

    def _matching(self, directory: str, pattern: str) -> list[str]:
        if not glob.has_magic(pattern):
            return [os.path.join(directory, pattern)]
        pattern = os.path.join(glob.escape(directory), _SET.sub("*", pattern))
        if len(pattern) > LONGEST_PATTERN:
            self.too_many = True
            return []
        found = sorted(glob.glob(pattern, recursive=False, include_hidden=True))
        self.too_many |= len(found) > MATCHES
        return found[:MATCHES]

    def installed(self, words: Sequence[Word]) -> Iterator[str]:
        """Where a runner of packages would find this one in the project itself."""
        for text in (text for word in words for text in word.texts if not text.startswith("-")):
            package = re.sub(r"(?<=.)@[^/]*$", "", text)
            name = package.rpartition("/")[2]
            places = (f"node_modules/.bin/{name}", f"node_modules/{package}/package.json", f".venv/bin/{name}")
            yield from self.files(Word(places))
        yield from self.files(Word((".npmrc", "uv.toml", "bunfig.toml")))


def _ways(path: str) -> tuple[str, ...]:
    """The paths that a path with `..` may mean: behind a link the system goes elsewhere than a
    reader, and `cd`, would.
    """
    return (os.path.normpath(path), os.path.realpath(path)) if ".." in path else (os.path.normpath(path),)


def _parts(word: Word) -> Iterator[Word]:
    """The word, and what an option carries: `--config=x`, `-fx`, `@x`."""
    yield word
    carried = [text.rpartition("=")[2] for text in word.texts if "=" in text]
    carried += [text[2:] for text in word.texts if re.match(r"-\w[^-=]", text)]
    carried += [text[1:] for text in word.texts if text.startswith("@")]
    if carried:
        yield Word(tuple(carried), word.unknown, word.glob)


def _looks_run(path: str) -> bool:
    return os.path.splitext(path)[1] in SCRIPTS or os.access(path, os.X_OK)
