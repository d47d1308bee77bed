"""What a word of a shell text may be: a literal, the values of a variable, what a substitution prints.

A word is all that it may be as far as the text itself shows: variables that the text sets are followed, and those from
elsewhere make a word unknown. Above: shell.py, which knows commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from itertools import product
from typing import TYPE_CHECKING

from agent_worker.core.later import dataclass, pattern

if TYPE_CHECKING:
    from tree_sitter import Node

ALTERNATIVES = 64  #: values of one word
_MAGIC = pattern(r"[*?[]")
_ESCAPED = pattern(r"\\(\n|.)?", re.DOTALL)
_BRACES = pattern(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
_PLAIN_VARIABLE = pattern(r"\$\{(\w+)(?:\[0\])?\}")


@dataclass(frozen=True, slots=True)
class Word:
    """All that one word of a command may be."""

    texts: tuple[str, ...] = ()  #: of one that is unknown: the pieces that can be seen
    unknown: bool = False  #: a part of it comes from elsewhere
    glob: bool = False  #: the shell takes it for a pattern of file names


UNKNOWN = Word((), unknown=True)


@dataclass(slots=True)
class Scope:
    """What the names in a text stand for; the same one may serve several texts, one after the other."""

    variables: dict[str, Word] = field(default_factory=dict)
    functions: set[str] = field(default_factory=set)

    def assign(self, name: str, value: Word) -> None:
        """Give a variable one more value. One it had before stays possible: which came last depends on what happens."""
        old = self.variables.get(name, Word())
        texts = tuple(dict.fromkeys((*old.texts, *value.texts)))
        too_many = len(texts) > ALTERNATIVES
        self.variables[name] = Word(
            texts[:ALTERNATIVES], old.unknown or value.unknown or too_many, old.glob or value.glob
        )


class WordReader:
    """Reads words by what is known of variables so far."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def word(self, node: Node) -> Word:
        match node.type:
            case "word" | "number" | "string_content" | "extglob_pattern" | "regex":
                return _literal(text_of(node))
            case "raw_string":
                return Word((text_of(node)[1:-1],))
            case "ansi_c_string":
                text = text_of(node)[2:-1]
                return UNKNOWN if "\\" in text else Word((text,))
            case "string" | "translated_string":
                return self._string(node)
            case "concatenation":
                return self._joined([self.word(child) for child in node.named_children], text_of(node))
            case "array":
                each = [self.word(child) for child in node.named_children]
                texts = tuple(text for word in each for text in word.texts)
                return Word(texts[:ALTERNATIVES], len(each) != 1 or each[0].unknown, any(word.glob for word in each))
            case "simple_expansion" | "expansion":
                return _split(self._expanded(node))
            case "command_substitution":
                return self._substituted(node)
            case "process_substitution":
                return self._printed(node)
            case "arithmetic_expansion":
                return Word(("0",))
        return Word(self._pieces(node), unknown=True)

    def _string(self, node: Node) -> Word:
        """The gaps between the parts are text too: the grammar leaves out blanks there."""
        source, start, end = text_of(node), node.start_byte, node.end_byte - 1
        raw, at = source.encode(), node.start_byte + 1
        parts: list[Word] = []
        for child in node.named_children:
            parts.append(Word((_unquoted(raw[at - start : child.start_byte - start].decode()),)))
            is_text = child.type == "string_content"
            parts.append(Word((_unquoted(text_of(child)),)) if is_text else self._kept_whole(child))
            at = child.end_byte
        parts.append(Word((_unquoted(raw[at - start : max(at, end) - start].decode()),)))
        joined = self._joined(parts, "")
        return Word(joined.texts, joined.unknown)

    def _expanded(self, node: Node) -> Word:
        if node.type == "simple_expansion":
            return self.variable(text_of(node)[1:])
        plain = _PLAIN_VARIABLE.fullmatch(text_of(node))
        return self.variable(plain[1]) if plain else Word(self._pieces(node), unknown=True)

    def _kept_whole(self, node: Node) -> Word:
        found = self._expanded(node) if node.type.endswith("expansion") else self.word(node)
        return Word(found.texts, found.unknown)

    def _joined(self, parts: list[Word], source: str) -> Word:
        if any(part.unknown for part in parts) or _BRACES.search(source):
            pieces = [text for part in parts for text in part.texts if text]
            return Word(tuple(dict.fromkeys(pieces))[:ALTERNATIVES], unknown=True)
        texts = ["".join(each) for each in _first(product(*(part.texts for part in parts)))]
        return Word(tuple(dict.fromkeys(texts)), len(texts) > ALTERNATIVES, any(part.glob for part in parts))

    def variable(self, name: str) -> Word:
        if name in ("?", "#", "$", "!", "-"):
            return Word(("0",))
        return self._scope.variables.get(name, UNKNOWN)

    def _pieces(self, node: Node) -> tuple[str, ...]:
        found = [text_of(child) for child in node.named_children if child.type in ("word", "string_content")]
        return tuple(found[:ALTERNATIVES])

    def _substituted(self, node: Node) -> Word:
        """What it prints. `$(dirname "$0")` and `$(cd x && pwd)` are how scripts find what lies beside them."""
        commands = [self._words_of(command) for command in _commands_of(node)]
        match [[word.texts for word in words] for words in commands if not any(word.unknown for word in words)]:
            case [[("pwd",)]]:
                return Word((".",))
            case [[("dirname",), paths]] if len(commands) == 1:
                return Word(tuple(path.rpartition("/")[0] or "." for path in paths))
            case [[("cd",), paths], [("pwd",), *_]] if len(commands) == 2:
                return Word(paths)
        return self._printed(node)

    def _printed(self, node: Node) -> Word:
        """The output of a command, which is unknown; the words of the command may name a file."""
        texts = [text for word in self.words_within(node) for text in word.texts]
        return Word(tuple(texts[:ALTERNATIVES]), unknown=True)

    def _words_of(self, command: Node) -> list[Word]:
        parts = [child for child in command.named_children if child.type == "command_name" or _is_word(child)]
        return [self.word(part.named_children[0] if part.type == "command_name" else part) for part in parts]

    def words_within(self, node: Node) -> tuple[Word, ...]:
        """The words of every command inside."""
        if node.type == "command":
            return tuple(self._words_of(node))
        return tuple(word for child in node.named_children for word in self.words_within(child))


def _commands_of(node: Node) -> Iterator[Node]:
    """The commands that a substitution consists of, not those inside of them."""
    for child in node.named_children:
        if child.type == "command":
            yield child
        elif child.type in ("list", "redirected_statement", "pipeline"):
            yield from _commands_of(child)


def _is_word(node: Node) -> bool:
    return node.type != "variable_assignment" and not node.type.endswith("_redirect")


def _first(values: Iterator[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    for number, value in enumerate(values):
        if number > ALTERNATIVES:
            return
        yield value


def _split(word: Word) -> Word:
    """A word without quotes around it: a value with blanks becomes several words, and which stands where is unknown. A
    value that looks like a pattern is one here.
    """
    if not any(re.search(r"\s", text) for text in word.texts):
        return Word(word.texts, word.unknown, any(map(_MAGIC.search, word.texts)))
    return Word(tuple(part for text in word.texts for part in text.split())[:ALTERNATIVES], unknown=True)


def _literal(text: str) -> Word:
    if _BRACES.search(text):
        return Word((), unknown=True)
    plain = _ESCAPED.sub(lambda found: (found[1] or "").strip("\n"), text)
    return Word((plain,), glob=_MAGIC.search(_ESCAPED.sub("", text)) is not None)


def _unquoted(text: str) -> str:
    return re.sub(r'\\([$`"\\])', r"\1", text.replace("\\\n", "")) if "\\" in text else text


def text_of(node: Node | None) -> str:
    return (node.text or b"").decode(errors="replace") if node is not None else ""
