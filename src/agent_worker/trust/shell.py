"""What a text for the shell says: its simple commands in order, each with what its words may be.

Nothing is run and no file is opened here. Over-estimates where it must (both ways of an `if`, every round of a loop):
who asks wants to know what could happen. Below: shell_words.py, shell_parser.py. Above:
command_reach.py, which knows programs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from agent_worker.core.later import dataclass, pattern
from agent_worker.trust.shell_parser import parsed
from agent_worker.trust.shell_words import UNKNOWN, Scope, Word, WordReader, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

LONGEST = 256 * 1024  #: bytes of a text that is read
_SETTING = pattern(r"(\w+)=(.*)", re.DOTALL)
_SET_IF_EMPTY = pattern(r"\$\{(\w+):?=")
_PART_OF = pattern(r"\$\{(?:\w+|[@*])(?:\[[@*]\])?:([^-=+?].*)\}", re.DOTALL)
_INDIRECT = pattern(r"\$\{!(?!\w+(?:\[[@*]\]|[@*])\}).*|.*@P\}", re.DOTALL)
_NUMBER = pattern(r"[-+]?\d*")
_COMPARES_NUMBERS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"})
_COUNTED_BY_THE_SHELL = frozenset({"RANDOM", "SECONDS", "LINENO", "UID", "EUID", "PPID", "BASHPID", "EPOCHSECONDS"})
_CUT_WORD = pattern(rb"\S\\\n\S")  # a word that goes on in the next line: the grammar makes two of it


@dataclass(frozen=True, slots=True)
class Input:
    """What a command reads: a file, a text that stands in the command, or what another one says into a pipe."""

    file: Word | None = None
    text: str | None = None
    said_by: tuple[Word, ...] = ()  #: the words of the command before the pipe


@dataclass(frozen=True, slots=True)
class Command:
    words: tuple[Word, ...]
    assigned: tuple[tuple[str, Word], ...] = ()  #: variables for this command only
    stdin: Input | None = None


@dataclass(frozen=True, slots=True)
class Assigned:
    """A variable is set for what follows."""

    name: str
    value: Word


@dataclass(frozen=True, slots=True)
class Written:
    """A file that the shell itself writes."""

    target: Word


@dataclass(frozen=True, slots=True)
class Unclear:
    """A part of the text that is not understood."""

    text: str


Statement = Command | Assigned | Written | Unclear


def statements(text: str, scope: Scope) -> Iterator[Statement]:
    """The statements in their order, with those inside of substitutions and functions. Assignments change the scope."""
    source = text.encode(errors="replace")
    if len(source) > LONGEST or "\0" in text:
        yield Unclear("(a text too long to be read)")
        return
    if (tree := parsed(source)) is None:
        yield Unclear("(a text too hard to be read)")
        return
    reader = _Reader(scope)
    if tree.root_node.has_error:
        yield Unclear(text)
    if _CUT_WORD.search(source):
        yield Unclear("(a word in two lines)")
    yield from reader.read(tree.root_node, None)
    yield from reader.evaluated(tree.root_node)


class _Reader:
    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._words = WordReader(scope)
        self._descriptors: set[int] = set()  # numbers that the grammar takes for arguments: `bash 0< x`

    def read(self, node: Node, stdin: Input | None) -> Iterator[Statement]:
        match node.type:
            case "command":
                yield from self._command(node, stdin)
            case "variable_assignment":
                yield from self._assignment(node)
            case "declaration_command":
                yield from self._declared(node)
            case "unset_command":
                yield from self._unset(node)
            case "for_statement":
                yield from self._loop(node, stdin)
            case "function_definition":
                self._scope.functions.add(text_of(node.child_by_field_name("name")))
                yield from self._children(node, stdin)
            case "redirected_statement":
                yield from self._redirected(node, stdin)
            case "pipeline":
                yield from self._pipeline(node, stdin)
            case "heredoc_redirect" | "herestring_redirect" | "file_redirect":
                yield from self._redirect(node)
            case "ERROR":
                yield Unclear(text_of(node))
                yield from self._children(node, stdin)
            case _:
                yield from self._children(node, stdin)

    def _children(self, node: Node, stdin: Input | None) -> Iterator[Statement]:
        for child in node.named_children:
            yield from self.read(child, stdin)

    def _command(self, node: Node, stdin: Input | None, more: Iterable[Node] = ()) -> Iterator[Statement]:
        """One simple command. `more` are words of it that stand behind a redirection."""
        words: list[Word] = []
        assigned: list[tuple[str, Word]] = []
        for child in (*node.named_children, *_behind(node.named_children), *more):
            if child.type == "variable_assignment":
                assigned.append((_name_of(child), self._value_of(child)))
            elif child.type.endswith("_redirect"):
                stdin = self._input(child) or stdin
            elif child.type != "number" or child.start_byte not in self._descriptors:
                words.append(self._words.word(child.named_children[0] if child.type == "command_name" else child))
            yield from self._within(child)
        yield Command(tuple(words), tuple(assigned), stdin)

    def _within(self, node: Node) -> Iterator[Statement]:
        """The commands inside of a word, and the files that a redirection writes."""
        if node.type.endswith("_redirect"):
            yield from self._redirect(node)
        elif node.type in ("command_substitution", "process_substitution"):
            yield from self._children(node, Input() if node.type == "process_substitution" else None)
        else:
            for child in node.named_children:
                yield from self._within(child)

    def _assignment(self, node: Node) -> Iterator[Statement]:
        yield from self._within(node)
        name, value = _name_of(node), self._value_of(node)
        self._scope.assign(name, value)
        yield Assigned(name, value)

    def _declared(self, node: Node) -> Iterator[Statement]:
        """`export A=1`, and `export "A=1"`, whose words are put together first."""
        for child in node.named_children:
            if child.type == "variable_assignment":
                yield from self._assignment(child)
            elif child.type != "variable_name":
                yield from self._within(child)
                word = self._words.word(child)
                if word.unknown or any(re.match(r"[-+]\w*n", text) for text in word.texts):  # -n: by another name
                    yield Unclear(text_of(node))
                for name, value in (found.groups() for found in map(_SETTING.fullmatch, word.texts) if found):
                    self._scope.assign(name, Word((value,)))
                    yield Assigned(name, Word((value,)))

    def _unset(self, node: Node) -> Iterator[Statement]:
        """An `unset`. Without PATH a shell looks in the directory it is in."""
        yield from self._children(node, None)
        names = [self._words.word(child) for child in node.named_children if child.type != "variable_name"]
        if any(word.unknown or any("[" in text for text in word.texts) for word in names):
            yield Unclear(text_of(node))
        if "PATH" in (text_of(child) for child in node.named_children) or any("PATH" in word.texts for word in names):
            yield Assigned("PATH", Word((".",)))

    # --- what the shell evaluates once more

    def evaluated(self, root: Node) -> Iterator[Statement]:
        """The places where a value is read as an expression: bash runs the `$(…)` of a number that says `a[$(…)]`."""
        waiting = [root]
        while waiting:
            node = waiting.pop()
            waiting += node.named_children
            if node.type == "expansion":
                yield from self._of_expansion(node)
            elif node.type == "command_substitution" and text_of(node)[:1] == "`" and "\\" in text_of(node):
                yield Unclear(text_of(node))  # what is escaped in there is read only when the rest is
            elif not all(map(self._is_number, _numbers_in(node))):
                yield Unclear(text_of(node))

    def _of_expansion(self, node: Node) -> Iterator[Statement]:
        text = text_of(node)
        if found := _SET_IF_EMPTY.match(text):
            self._scope.assign(found[1], UNKNOWN)
            yield Assigned(found[1], UNKNOWN)
        part = _PART_OF.fullmatch(text)
        counted = re.findall(r"[A-Za-z_]\w*|\$", part[1]) if part else ()
        if _INDIRECT.fullmatch(text) or not all(map(self._is_counted, counted)):
            yield Unclear(text)

    def _is_number(self, node: Node) -> bool:
        match node.type:
            case "variable_name":
                return self._is_counted(text_of(node))
            case "word":
                return _NUMBER.fullmatch(text_of(node)) is not None or self._is_counted(text_of(node))
            case "expansion" if text_of(node).startswith("${#"):
                return True
            case "simple_expansion" if text_of(node)[1:] in _COUNTED_BY_THE_SHELL - self._scope.variables.keys():
                return True
        found = self._words.word(node)
        return not found.unknown and all(map(_NUMBER.fullmatch, found.texts))

    def _is_counted(self, name: str) -> bool:
        if name in _COUNTED_BY_THE_SHELL - self._scope.variables.keys():
            return True
        value = self._words.variable(name)
        return not value.unknown and all(map(_NUMBER.fullmatch, value.texts))

    def _value_of(self, assignment: Node) -> Word:
        value = assignment.child_by_field_name("value")
        if value is None:
            return Word(("",))
        found = self._words.word(value)
        added = "+=" in text_of(assignment).partition("=")[0] + "="
        return Word(found.texts, unknown=True) if added else found

    def _loop(self, node: Node, stdin: Input | None) -> Iterator[Statement]:
        name = text_of(node.child_by_field_name("variable"))
        values = node.children_by_field_name("value")
        for value in values:
            yield from self._within(value)
        for word in [self._words.word(value) for value in values] or [UNKNOWN]:  # none: it goes through the arguments
            self._scope.assign(name, word)
            yield Assigned(name, word)
        body = node.child_by_field_name("body")
        if body is not None:
            yield from self.read(body, stdin)

    def _redirected(self, node: Node, stdin: Input | None) -> Iterator[Statement]:
        body = node.child_by_field_name("body")
        redirects = [child for child in node.named_children if child != body]
        for redirect in redirects:
            for each in (redirect, *redirect.children_by_field_name("redirect")):  # `<<E <x`: the last one counts
                stdin = self._input(each) or stdin
            if body is not None and body.named_children and body.named_children[-1].end_byte == redirect.start_byte:
                self._descriptors.add(body.named_children[-1].start_byte)
        more = _behind(redirects)
        if body is not None and body.type == "command":
            yield from self._command(body, stdin, more)
        elif body is not None:
            yield from self.read(body, stdin)
        if more and (body is None or body.type != "command"):
            yield Unclear(text_of(node))
        for redirect in redirects:
            yield from self._redirect(redirect)

    def _pipeline(self, node: Node, stdin: Input | None) -> Iterator[Statement]:
        inside_heredoc = node.parent is not None and node.parent.type == "heredoc_redirect"
        said_by: tuple[Word, ...] = (Word((text_of(node.parent),)),) if inside_heredoc else ()
        for number, child in enumerate(node.named_children):
            yield from self.read(child, Input(said_by=said_by) if number or inside_heredoc else stdin)
            said_by += self._words.words_within(child)

    def _input(self, redirect: Node) -> Input | None:
        match redirect.type:
            case "heredoc_redirect":
                body = next((child for child in redirect.named_children if child.type == "heredoc_body"), None)
                return Input(
                    text=text_of(body) if _is_quoted(redirect) else re.sub(r"\\([$`\\])", r"\1", text_of(body))
                )
            case "herestring_redirect":
                word = self._words.word(redirect.named_children[-1])
                return Input() if word.unknown or len(word.texts) != 1 else Input(text=word.texts[0])
            case "file_redirect" if _operator(redirect) in ("<", "<>"):
                destination = redirect.child_by_field_name("destination")
                return Input(file=self._words.word(destination) if destination is not None else UNKNOWN)
        return None

    def _redirect(self, node: Node) -> Iterator[Statement]:
        destination = node.child_by_field_name("destination")
        is_file = destination is not None and destination.type != "number"  # which is another descriptor
        if node.type == "file_redirect" and destination is not None and is_file and ">" in _operator(node):
            yield Written(self._words.word(destination))
        if node.type == "heredoc_redirect" and not _is_quoted(node) and "`" in text_of(node):
            yield Unclear(text_of(node))  # the grammar does not look into it
        for child in node.named_children:
            # A here-document may be followed by the rest of its line: `cat <<E | sh`, `cat <<E && ./x`.
            follows = node.type == "heredoc_redirect" and not child.type.startswith("heredoc")
            yield from self.read(child, None) if follows else self._within(child)


def _behind(nodes: Iterable[Node]) -> list[Node]:
    """The words behind redirections, which the grammar takes for more targets: `env > log ./x`."""
    found: list[Node] = []
    for node in nodes:
        if node.type == "file_redirect":
            found += node.children_by_field_name("destination")[1:]
        elif node.type == "heredoc_redirect":
            found += [*node.children_by_field_name("argument"), *_behind(node.named_children)]
    return found


def _numbers_in(node: Node) -> list[Node]:
    """The parts of a node that are read as numbers, if it is one of those that have such parts."""
    text = text_of(node)
    match node.type:
        case "arithmetic_expansion":
            return _leaves(node)
        case "compound_statement" if text.startswith("(("):
            return _leaves(node)
        case "c_style_for_statement":
            body = node.child_by_field_name("body")
            return [leaf for child in node.named_children if child != body for leaf in _leaves(child)]
        case "subscript":
            index = node.child_by_field_name("index")
            return _leaves(index) if index is not None and text_of(index) not in ("@", "*") else []
        case "binary_expression" | "unary_expression":
            operators = {text_of(child) for child in node.named_children if child.type == "test_operator"}
            others = [child for child in node.named_children if child.type != "test_operator"]
            is_name = operators == {"-v"} and re.fullmatch(r"\w+", text_of(others[-1]) if others else "")
            return others if operators & _COMPARES_NUMBERS and not is_name else []
    return []


def _leaves(node: Node) -> list[Node]:
    """The variables, words and substitutions of an expression."""
    if node.type in ("variable_name", "simple_expansion", "expansion", "command_substitution", "word", "string"):
        return [node]
    return [leaf for child in node.named_children for leaf in _leaves(child)]


def _is_quoted(heredoc: Node) -> bool:
    return any(sign in text_of(heredoc.named_children[0]) for sign in "'\"\\")


def _operator(redirect: Node) -> str:
    return next((child.type for child in redirect.children if not child.is_named), "")


def _name_of(assignment: Node) -> str:
    return re.split(r"\[|\+?=", text_of(assignment), maxsplit=1)[0]
