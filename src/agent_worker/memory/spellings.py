"""A text as somebody would write it who wants to say a code without writing it: spelled, in words, turned, encoded.

Used to look whether one text holds a token of another; in English, German, French and Spanish digits may be words.
"""

from __future__ import annotations

import base64
import binascii
import codecs
from functools import lru_cache

from agent_worker.core.later import pattern

_WORDS = (
    "zero one two three four five six seven eight nine",
    "null eins zwei drei vier fünf sechs sieben acht neun",
    "zéro un deux trois quatre cinq six sept huit neuf",
    "cero uno dos tres cuatro cinco seis siete ocho nueve",
)
_DIGITS = {word: str(digit) for line in _WORDS for digit, word in enumerate(line.split())} | {"oh": "0", "nought": "0"}
_LETTERS = (
    "alpha alfa bravo charlie delta echo foxtrot golf hotel india juliett juliet kilo lima mike november oscar papa "
    "quebec romeo sierra tango uniform victor whiskey whisky xray x-ray yankee zulu"
)
_SPELLED = _DIGITS | {word: word[0] for word in _LETTERS.split()} | {"dash": "", "hyphen": "", "minus": "", "dot": ""}
_SPELLED_WORD = pattern(rf"(?<!\w)(?:{'|'.join(sorted(_SPELLED, key=len, reverse=True))})(?!\w)")
_ENCODED = pattern(r"[A-Za-z0-9+/_=-]{8,}")
_HEX = pattern(r"(?:[0-9a-fA-F]{2}[\s:]?){6,}")
MOST = 20  # encoded pieces of one text that are looked at


@lru_cache(5_000)
def spellings(text: str) -> str:
    """All spellings of a text, one after the other: letters and digits only."""
    plain = squeezed(text)
    turned = squeezed(codecs.encode(text, "rot13"))
    spelled = squeezed(_SPELLED_WORD.sub(lambda word: _SPELLED[word.group()], text.casefold()))
    ways = [plain, plain[::-1], turned, spelled, spelled[::-1], *map(squeezed, _decoded(text))]
    return "\n".join(dict.fromkeys(ways))


def squeezed(text: str) -> str:
    """Letters and digits only, digits in words too: whoever spells a code in pieces has told it."""
    spelled = _DIGIT_WORD.sub(lambda word: _DIGITS[word.group()], text.casefold())
    return "".join(filter(str.isalnum, spelled))


_DIGIT_WORD = pattern(rf"(?<!\w)(?:{'|'.join(_WORDS[0].split())})(?!\w)")


def _decoded(text: str) -> list[str]:
    found = []
    for piece in _ENCODED.findall(text)[:MOST]:
        padded = piece.replace("-", "+").replace("_", "/").rstrip("=")
        try:
            found.append(base64.b64decode(padded + "=" * (-len(padded) % 4)).decode())
        except (binascii.Error, ValueError):
            continue
    for piece in _HEX.findall(text)[:MOST]:
        try:
            found.append(bytes.fromhex(piece.replace(":", " ")).decode())
        except ValueError:
            continue
    return found
