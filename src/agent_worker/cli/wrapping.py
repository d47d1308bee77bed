"""How wide a text is on a terminal, and a line that is too wide for one."""

from __future__ import annotations

import re
import unicodedata

_PAINT = re.compile(r"\x1b\[[\d;]*m")
_GAPS = re.compile(r"(\s*)(\S+)")
_COMMAND = re.compile(r"\s*(hint: |fix: |did you mean: )*(agent-worker|uv|pip|export|npm) (?!.*([(;]|  ))")
_MARKED = re.compile(r"\s*\S+(?: \S+)*? {2,}(?=\S)")  # a short beginning, a gap, and what is said about it
#: A command within a sentence, up to what cannot be a part of it.
_WITHIN = re.compile(r'(?:agent-worker|npm install|uv tool install|pip install)(?: (?:"[^"\n]*"|[^\s"();,]+))+')
_NO_BREAK = "\ue000"  # in the place of a space that stays in its line
_JOINER, _EMOJI_STYLE = "\u200d", "\ufe0f"


def cells(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    taken, before, flags = 0, 0, 0  # before: columns of the last character
    joined = False
    for character in text:
        if character == _EMOJI_STYLE:
            taken, before = taken + (before == 1), 2
        elif character == _JOINER:
            joined = True
            continue
        elif "\U0001f1e6" <= character <= "\U0001f1ff":  # two of these are one flag
            flags += 1
            taken, before = taken + 2 * (flags % 2), 2
        elif joined or ("\U0001f3fb" <= character <= "\U0001f3ff" and before == 2):  # a part of the picture before it
            before = 2
        elif unicodedata.category(character) not in ("Mn", "Me", "Cf"):
            before = 2 if unicodedata.east_asian_width(character) in "WF" else 1
            taken += before
        joined = False
    return taken


def held_together(text: str, columns: int) -> str:
    """The text with spaces inside a command made unbreakable, if the command fits into a line: whoever copies it gets
    all of it.
    """
    return _WITHIN.sub(lambda found: found[0].replace(" ", _NO_BREAK) if cells(found[0]) <= columns else found[0], text)


def let_go(line: str) -> str:
    """The line with the spaces that `held_together` made unbreakable turned into plain ones again."""
    return line.replace(_NO_BREAK, " ")


def hanging(line: str, columns: int) -> list[str]:
    """A line that is too wide, wrapped with its colours: words stay whole, and the rest is indented by two columns
    more.

    A word that no line can hold, and a line that is a command, are left to the terminal, which copies them whole.
    """
    indent = line[: len(line) - len(line.lstrip(" "))]
    if cells(_PAINT.sub("", line)) <= columns or _COMMAND.match(_PAINT.sub("", line)):
        return [line]
    mark = _MARKED.match(_PAINT.sub("", line))
    beyond = " " * (cells(mark[0]) if mark and cells(mark[0]) <= columns // 2 else len(indent) + 2)
    lines, room = [""], 0
    for gap, word in _GAPS.findall(held_together(line.rstrip(), columns - len(beyond))):
        size = cells(_PAINT.sub("", word))
        if lines[-1].strip() and len(gap) + size > room and size <= columns - len(beyond):
            lines.append(beyond)
            gap, room = "", columns - len(beyond)
        elif not lines[-1]:
            room = columns
        lines[-1] += gap + word
        room -= len(gap) + size
    return [let_go(each) for each in lines]
