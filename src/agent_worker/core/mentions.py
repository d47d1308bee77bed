"""Whom does a message call on? The one answer, asked once, when the message is written.

A mention is `@name` in the writer's own running words: not in back-ticks, fenced code, a quoted line or a URL.
The text is blanked layer by layer until only such words are left, each layer in one pass, so that
the time grows with the length of the text whatever is in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from agent_worker.core.later import dataclass, pattern

Span = tuple[int, int]

_LINE = pattern(r"[^\n]*\n|[^\n]+")
_NAME = pattern(r"[\w-]+")  # letters of every alphabet continue a name: @alicé is not a call on ali
_FENCE = pattern(r"[ \t]*(`{3,}|~{3,})")
_QUOTE = pattern(r"[ \t]*>")
_TICKS = pattern(r"`+")
_URL = pattern(r"(?:://|\bwww\.)[^\s<>\"`]*")  # the scheme before it holds no @, so it need not be found
_LONGEST = 63
NAMED = 20  #: members that a notice names; there may be thousands


@dataclass(frozen=True, slots=True)
class Mentions:
    """Whom a message calls on, in the order of appearance, each once and spelled as the member is."""

    names: tuple[str, ...] = ()
    user: bool = False  #: @user, the person
    unknown: tuple[str, ...] = ()  #: called, but no members: to be told to the sender


def find_mentions(text: str, members: Collection[str], *, sender: str, quoted: Sequence[Span] = ()) -> Mentions:
    """Whom a text calls on. `quoted` are the parts of it that are not the writer's own words, such as filled-in values.

    They can neither call on anyone nor, by a stray back-tick, hide a call that the writer made. An `@` that the writer
    put before such a part is the writer's call.
    """
    if "@" not in text:
        return Mentions()
    spelling = {member.lower(): member for member in members}
    called: dict[str, str] = {}
    unknown: dict[str, str] = {}
    to_all = to_user = False
    for word in _words_after_at(text, _own_words(text, quoted)):
        lower = word.lower() if word.isascii() else word
        if lower in spelling:
            called.setdefault(lower, spelling[lower])
        elif lower == "all":
            if not to_all:
                called = called | {name: member for name, member in spelling.items() if name not in called}
            to_all = True
        elif lower == "user":
            to_user = True
        else:
            unknown.setdefault(lower, word)
    return Mentions(
        names=tuple(name for lower, name in called.items() if lower != sender.lower()),
        user=to_user and sender.lower() != "user",
        unknown=tuple(name for lower, name in unknown.items() if lower != sender.lower()),
    )


def nobody_named(unknown: Iterable[str], members: Iterable[str]) -> str:
    """The notice for a sender who called on somebody that is no member."""
    return f"nobody here is called {', '.join(unknown)}; the members are: {', '.join(_listed(members))}"


def nobody_called(members: Iterable[str]) -> str:
    """The notice for a sender whose message woke nobody."""
    *others, last = _listed(members)
    here = f"{', '.join(others)} and {last} are here" if others else f"{last} is here"
    return f"nobody was called on; {here}"


def _listed(members: Iterable[str]) -> list[str]:
    first = [f"@{name}" for name in islice(members, NAMED + 1)]
    return first if len(first) <= NAMED else [*first[:NAMED], "others"]


def _words_after_at(text: str, own: str) -> Iterator[str]:
    """Each run of name characters after an `@` of the writer's own that does not follow a word."""
    at = own.find("@")
    while at >= 0:
        follows_word = at > 0 and (text[at - 1].isalnum() or text[at - 1] == "_")
        match = None if follows_word else _NAME.match(text, at + 1)
        if match and match.group()[0].isalpha():
            yield match.group()[: _LONGEST + 1]  # one more than a name can have, so that no prefix passes for it
        at = own.find("@", at + 1)


def _own_words(text: str, quoted: Sequence[Span]) -> str:
    """The text, equally long, with everything blanked in which `@` does not count."""
    # A letter, not a space: what is filled in must not end a URL or a quoted line either.
    own = _blank(text, _merged(quoted), "x")
    blocks, paragraphs = _blocks(own)
    own = _blank(own, blocks, " ")
    own = _blank(own, _code_spans(own, paragraphs), " ")
    return _blank(own, (match.span() for match in _URL.finditer(own)), " ")


def _blank(text: str, spans: Iterable[Span], filler: str) -> str:
    """Blank out spans, given in order and without overlap."""
    parts: list[str] = []
    done = 0
    for start, end in spans:
        parts += text[done:start], filler * (end - start)
        done = end
    return "".join((*parts, text[done:])) if parts else text


def _merged(spans: Sequence[Span]) -> Iterator[Span]:
    reached = 0
    for start, end in sorted(spans):
        if end > max(start, reached):
            yield max(start, reached), end
            reached = end


def _blocks(text: str) -> tuple[list[Span], list[Span]]:
    """The spans of fenced code and quoted lines; and those of the paragraphs between them."""
    blocks: list[Span] = []
    paragraphs: list[Span] = []
    fence = ""  # the marks that opened the fence we are in
    paragraph = 0
    for match in _LINE.finditer(text):
        line, (start, end) = match.group(), match.span()
        opened = _FENCE.match(line)
        if fence:
            inside = True
            closes = opened and opened[1].startswith(fence) and not line[opened.end() :].strip()
            fence = "" if closes else fence
        elif opened and not (opened[1][0] == "`" and "`" in line[opened.end() :]):
            inside, fence = True, opened[1]
        else:
            inside = _QUOTE.match(line) is not None
        if inside:
            blocks.append((start, end))
        if inside or not line.strip():
            if paragraph < start:
                paragraphs.append((paragraph, start))
            paragraph = end
    return blocks, [*paragraphs, (paragraph, len(text))]


def _code_spans(text: str, paragraphs: Iterable[Span]) -> Iterator[Span]:
    """A run of back-ticks up to the next run of the same length in the paragraph, as Markdown has it."""
    for start, end in paragraphs:
        runs = [match.span() for match in _TICKS.finditer(text, start, end)]
        closer = _next_of_same_length(runs)
        index = 0
        while index < len(runs):
            closing = closer[index]
            if closing is not None:
                yield runs[index][0], runs[closing][1]
                index = closing
            index += 1


def _next_of_same_length(runs: Sequence[Span]) -> list[int | None]:
    following: list[int | None] = [None] * len(runs)
    seen: dict[int, int] = {}
    for index in range(len(runs) - 1, -1, -1):
        length = runs[index][1] - runs[index][0]
        following[index] = seen.get(length)
        seen[length] = index
    return following
