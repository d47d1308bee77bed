"""Text drawn for a terminal: Markdown as it is meant, words wrapped, wide characters and joined emoji counted right.

Only for terminals: what goes into a pipe stays as it was written. Line by line, so that an answer can be drawn while it
is written; a line break in the text is one on the screen. Made for answers of models, not for all of Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

import click

from agent_worker.cli.output import terminal_columns, wants_colour
from agent_worker.cli.wrapping import cells, held_together, let_go
from agent_worker.core.text import clean

Style: TypeAlias = Literal["", "bold", "italic", "code", "title", "less"]
Span: TypeAlias = tuple[Style, str]

_WIDE = "\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60\U00020000-\U0003fffd"
_PIECE = re.compile(rf"\s+|[{_WIDE}]|[^\s{_WIDE}]+")
_LONGEST_RULE = 40

_FENCE = re.compile(r"\s*(```+|~~~+)")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s++(.*)$")
_RULE = re.compile(r"\s{0,3}([-*_])(\s*\1){2,}\s*$")
_ITEM = re.compile(r"(\s*)([-*+]|\d{1,4}[.)])\s+(.*)$")
_QUOTE = re.compile(r"\s{0,3}>\s?(.*)$")
_ROW = re.compile(r"\s*\|.*\|\s*$")
_DIFF = re.compile(r"diff --git ")
_OF_DIFF = re.compile(r"[ +\-@\\]|diff |index |new |deleted |old |similarity |rename |Binary |$")
_DIVIDER = re.compile(r"\s*+\|?(?:\s*+:?-++:?\s*+\|)++\s*+:?-*+:?\s*+$")
_INLINE = re.compile(
    r"(?P<code>`{1,4})(?P<literal>.+?)(?P=code)"
    r"|(?P<strong>\*\*|(?<!\w)__)(?=\S)(?P<strongly>.{1,600}?)(?<=\S)(?P=strong)(?![\w.(])"
    r"|(?P<em>\*|(?<!\w)_)(?=[^\s*_])(?P<emphasised>[^*_]+?)(?<=\S)(?P=em)(?!\w)"
    r"|\[(?P<label>[^\]]{1,300})\]\((?P<url>[^)\s]{1,2000})\)"
    r"|(?P<mention>(?<![\w@])@[\w-]+)"
)


def cut(text: str, columns: int) -> str:
    """The beginning that fits into so many columns, with a mark where something is left out."""
    if cells(text) <= columns:
        return text
    kept = text[:columns]
    while kept and cells(kept) > columns - 1:
        kept = kept[:-1]
    return f"{kept}…"


def wrapped(text: str, columns: int) -> list[str]:
    """Plain lines of at most so many columns. A command is kept in one."""
    held = held_together(text, columns)
    return [let_go(_plain(line)) for each in held.splitlines() or [""] for line in _flow([("", each)], columns)]


def drawn(text: str, columns: int, *, first: int = 0) -> list[str]:
    """A whole text as lines of at most so many columns, with what makes it readable on a terminal.

    So many columns of the first line are taken already.
    """
    page = Page(columns, first=first)
    return [*(line for each in clean(text).splitlines() for line in page.add(each)), *page.end()]


def tell_text(text: str) -> None:
    """Print a text that somebody wrote: on a terminal drawn for reading, else as it is."""
    if (columns := terminal_columns()) is None:
        return click.echo(clean(text), nl=False)
    for line in drawn(text, columns):
        click.echo(line)


class Page:
    """Draws a text that comes line by line."""

    def __init__(self, columns: int, *, first: int = 0) -> None:
        self._columns = max(columns, 20)
        self._first = first  # columns of the next line that are taken
        self._fence = ""  # what closes the code we are in
        self._is_diff = False  # are we in the output of git diff?
        self._rows: list[str] = []  # of a table that has not ended

    def add(self, line: str) -> list[str]:
        """What can be drawn now that this line is whole. A table waits for its end."""
        line = line.expandtabs(4).rstrip()
        if self._fence:
            return self._code(line)
        self._is_diff = bool(_DIFF.match(line) or (self._is_diff and _OF_DIFF.match(line)))
        if self._is_diff:
            return [*self.end(), *self._literal(line)]
        if _ROW.match(line) or (self._rows and _DIVIDER.match(line)):
            self._rows.append(line)
            return []
        return [*self.end(), *self._block(line)]

    def end(self) -> list[str]:
        rows, self._rows = self._rows, []
        if len(rows) < 2 or not _DIVIDER.match(rows[1]):
            return [line for row in rows for line in self._text(row)]
        return list(_table([_cells_of(row) for row in (rows[0], *rows[2:])], self._columns))

    def _code(self, line: str) -> list[str]:
        if line.strip().startswith(self._fence) and not line.strip().strip(self._fence[0]):
            self._fence = ""
            return []
        return self._literal(line)

    def _literal(self, line: str) -> list[str]:
        return [f"  {_styled('code', part)}" for part in _hard(line, self._columns - 2)]

    def _block(self, line: str) -> list[str]:
        if fence := _FENCE.match(line):
            self._fence = fence[1]
            return []
        if heading := _HEADING.match(line):
            return self._text(_without_closing(heading[1]), base="title")
        if _RULE.match(line):
            return [_styled("less", "─" * min(self._columns, _LONGEST_RULE))]
        if item := _ITEM.match(line):
            mark = item[2] if item[2][0].isdigit() else "•"
            return self._text(item[3], first=f"{item[1]}{mark} ")
        if quote := _QUOTE.match(line):
            return self._text(quote[1], first="│ ", again="│ ")
        indent = line[: len(line) - len(line.lstrip())]
        return self._text(line.lstrip(), first=indent, again=indent)

    def _text(self, text: str, *, first: str = "", again: str | None = None, base: Style = "") -> list[str]:
        """Draw words after a mark such as a bullet: further lines stand beneath the words."""
        again = " " * cells(first) if again is None else again
        lines = _flow(_spans(text, base), max(self._columns - cells(first), 10), taken=self._first)
        self._first = 0
        return [f"{first if n == 0 else again}{_shown(line)}".rstrip() for n, line in enumerate(lines)]


def _without_closing(heading: str) -> str:
    """A heading without the marks that may close it: `## Title ##`."""
    words = heading.rstrip("#")
    return (words if words.endswith(" ") or not words else heading).strip()


def _spans(text: str, base: Style = "") -> list[Span]:
    found: list[Span] = []
    at = 0
    for match in _INLINE.finditer(text):
        found.append((base, text[at : match.start()]))
        at = match.end()
        if match["code"]:
            found.append(("code", match["literal"].strip() or match["literal"]))
        elif match["strong"]:
            found += _spans(match["strongly"], "bold")
        elif match["em"]:
            found.append((base or "italic", match["emphasised"]))
        elif match["label"]:
            url = match["url"]
            found += [(base, match["label"]), ("less", "" if url == match["label"] else f" ({url})")]
        else:
            found.append(("bold", match["mention"]))
    return [span for span in (*found, (base, text[at:])) if span[1]]


def _flow(spans: Iterable[Span], columns: int, *, taken: int = 0) -> list[list[Span]]:
    """Break words into lines. A word is kept whole where a line can hold it; wide characters may be parted."""
    lines: list[list[Span]] = [[]]
    room = max(columns - taken, 0)
    for word, gap in _words(spans):
        size = sum(cells(text) for _, text in word)
        if gap and size + 1 > room and lines[-1]:
            lines.append([])
            room, gap = columns, False
        elif not gap and size > room and lines[-1]:
            lines.append([])
            room = columns
        if gap and lines[-1]:
            lines[-1].append((word[0][0] if lines[-1][-1][0] == word[0][0] else "", " "))
            room -= 1
        for style, text in word:
            first, *rest = _hard(text, columns, first=room)
            lines[-1].append((style, first))
            room -= cells(first)
            for part in rest:
                lines.append([(style, part)])
                room = columns - cells(part)
    return lines


def _words(spans: Iterable[Span]) -> Iterator[tuple[list[Span], bool]]:
    """Each word, which may change its style inside, and whether there is a space before it."""
    word: list[Span] = []
    gap = False
    for style, text in spans:
        for piece in _PIECE.findall(text):
            if piece.isspace() or (word and cells(piece) == 2 and len(piece) == 1):
                if word:
                    yield word, gap
                    word, gap = [], False
                gap = gap or piece.isspace()
            if not piece.isspace():
                word.append((style, piece))
    if word:
        yield word, gap


def _hard(text: str, columns: int, *, first: int | None = None) -> list[str]:
    """Cut a text into pieces that fit, anywhere but inside one character."""
    if cells(text) <= (columns if first is None else first):
        return [text]
    parts, part, room = list[str](), "", columns if first is None else first
    for character in text:
        if part and cells(part + character) > room:
            parts.append(part)
            part, room = "", columns
        part += character
    return [*parts, part]


def _cells_of(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def _table(rows: Sequence[Sequence[str]], columns: int) -> Iterator[str]:
    """Aligned, or, where it is too wide, each row as a list of its cells with their titles."""
    titles, body = rows[0], rows[1:]
    texts = [[_spans(cell) for cell in row] for row in rows]
    widths = [max((_width(row[n]) for row in texts if n < len(row)), default=0) for n in range(len(titles))]
    if sum(widths) + 2 * (len(widths) - 1) <= columns:
        yield _row([_spans(title, "title") for title in titles], widths)
        yield _styled("less", "  ".join("─" * width for width in widths))
        yield from (_row(row[: len(widths)], widths) for row in texts[1:])
        return
    for row in body:
        for n, (title, cell) in enumerate(zip(titles, row, strict=False)):
            said = [("less", f"{title}: ") if title else ("", ""), *_spans(cell)]
            for m, line in enumerate(_flow([span for span in said if span[1]], columns - 2)):
                yield f"{'• ' if n == m == 0 else '  '}{_shown(line)}"


def _row(row: Sequence[Sequence[Span]], widths: Sequence[int]) -> str:
    padded = (f"{_shown(cell)}{' ' * (width - _width(cell))}" for cell, width in zip(row, widths, strict=False))
    return "  ".join(padded).rstrip()


def _width(spans: Sequence[Span]) -> int:
    return cells(_plain(spans))


def _plain(spans: Sequence[Span]) -> str:
    return "".join(text for _, text in spans)


def _shown(spans: Sequence[Span]) -> str:
    return "".join(_styled(style, text) for style, text in spans)


def _styled(style: Style, text: str) -> str:
    if not style or not wants_colour():
        return text
    match style:
        case "bold":
            return click.style(text, bold=True)
        case "italic":
            return click.style(text, italic=True)
        case "code":
            return click.style(text, fg="cyan")
        case "title":
            return click.style(text, bold=True, underline=True)
        case "less":
            return click.style(text, fg="bright_black")
