"""Text from a project as a person is shown it before saying yes: nothing in it hides, and changes stand out.

What cannot be seen is written out as ⟦U+200B⟧, and so are the long blanks behind which the rest of a line is pushed
out of sight. Every function takes time in proportion to the text. Not here: colours and widths (cli/output.py).
"""

from __future__ import annotations

import re

from agent_worker.core.difference import changed_lines
from agent_worker.core.later import pattern
from agent_worker.core.redaction import Redactor
from agent_worker.core.text import plural, written_out

LINE = 500  #: characters of a line; the whole is in the content
masked = Redactor()  #: a key that somebody wrote into a file is neither shown nor kept with what was approved

_LONG_BLANK = pattern(r"[^\S\n]{40,}|\n{20,}")


def revealed(text: str) -> str:
    """The text with everything that one cannot see written out."""
    text = _LONG_BLANK.sub(_counted, text)
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return written_out(text)


def in_ascii(text: str) -> str:
    """An address, in which a letter of another alphabet may pass for one of ours."""
    return "".join(c if c.isascii() else f"⟦U+{ord(c):04X}⟧" for c in revealed(text))


def one_line(text: str) -> str:
    """The text revealed but for keys, its line breaks marked; says so when it is cut."""
    line = " ⏎ ".join(revealed(masked(text)).strip("\n").split("\n"))
    return line if len(line) <= LINE else f"{line[:LINE]} … ({plural(len(line) - LINE, 'more character')})"


def difference(before: str, after: str) -> str:
    """What changed, as lines that begin with - and +."""
    return "\n".join(changed_lines(revealed(before).split("\n"), revealed(after).split("\n")))


def _counted(blank: re.Match[str]) -> str:
    kind = "line breaks" if "\n" in blank[0] else "blanks"
    return f"⟦{len(blank[0]):,} {kind}⟧"
