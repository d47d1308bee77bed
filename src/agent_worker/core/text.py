"""How texts are shown to people: what one cannot see in them is named, and counts are said in one way.

The one list of characters that one cannot see or that change how others are shown, for names of files (files/paths.py),
texts that a person approves (trust/preview.py), texts that a model reads (tools/skills.py) and a terminal
(cli/output.py).
"""

from __future__ import annotations

import unicodedata

from agent_worker.core.later import pattern

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # control, format (bidi marks, zero width), surrogates, breaks
_PRIVATE = "Co"  # looks as each font likes
_BLANK = frozenset("\u034f\u115f\u1160\u2800\u3164\uffa0")  # letters by name, nothing to see
_EMOJI_STYLE = "\ufe0f"  # everywhere in honest text, and a lone one says nothing

_EMOJI = "\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
_JOINER = "\u200d"  # makes one picture of two emoji; anywhere else it hides

#: Control characters, but for newline and tab; C1; the marks that reorder or hide what is shown; half characters.
_UNSAFE_ON_A_TERMINAL = pattern(
    f"(?<![{_EMOJI}{_EMOJI_STYLE}]){_JOINER}|{_JOINER}(?![{_EMOJI}])|"
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    "\ufff9-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)


def clean(text: str) -> str:
    """The text made safe for a terminal: what would move the cursor, change colours or hide is shown as an escape."""
    return _UNSAFE_ON_A_TERMINAL.sub(lambda found: f"\\x{ord(found.group()):02x}", text)


def is_invisible(character: str) -> bool:
    """A control or format character, half of one, or a line break of any kind."""
    return unicodedata.category(character) in _INVISIBLE


def written_out(text: str, *, plain: str = "\n\t") -> str:
    """The text with everything that one cannot see named: ⟦U+200B⟧. The breaks in `plain` stay what they are."""
    return "".join(f"⟦{_name(c)}⟧" if c not in plain and _is_hidden(c) else c for c in text)


def _is_hidden(character: str) -> bool:
    if character == _EMOJI_STYLE:
        return False
    variation = "\ufe00" <= character <= "\ufe0e" or "\U000e0100" <= character <= "\U000e01ef"
    return variation or character in _BLANK or is_invisible(character) or unicodedata.category(character) == _PRIVATE


def _name(character: str) -> str:
    code = ord(character)
    # Tag characters are a second, invisible alphabet: say which letter it is.
    return f"tag {chr(code - 0xE0000)}" if 0xE0020 <= code <= 0xE007E else f"U+{code:04X}"


def beginning_and_end(text: str, *, first: int = 8, last: int = 4) -> str:
    """The first lines of what a command printed, where it mostly says what is wrong, and the last ones."""
    lines = [line[:400] for line in text.strip("\n").splitlines()]
    left_out = len(lines) - first - last
    if left_out <= 1:
        return "\n".join(lines)
    return "\n".join([*lines[:first], f"[… {plural(left_out, 'more line')}]", *lines[-last:]])


def one(thing: str) -> str:
    """One of a thing, with its article: `an approval`, `a mention`."""
    return f"{'an' if thing[:1].lower() in 'aeiou' else 'a'} {thing}"


def plural(number: int, thing: str) -> str:
    """How many of a thing there are: `1 message`, `2,000 messages`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
