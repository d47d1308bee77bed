"""Secrets are taken out of text before it is written anywhere: database, files, logs, events, errors.

Two things are known: the values of this machine's own secrets, and what keys look like (key_families.py). What is
found becomes `[redacted:kind]`; redacting twice changes nothing more. The time grows with the length of the text.
Give it whole texts, and cut them afterwards: of a secret that is cut in two, neither half is recognised. A text that
arrives in pieces is a `Passage`, which holds back what may yet become a secret.
Not here: what the process itself uses, which stays as it is.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from html import escape
from typing import Any
from urllib.parse import quote

from agent_worker.core.key_families import ENDED, FAMILIES, GIVEN, HEADERS, NAMES, SCHEMES, SEPARATED, SOLID
from agent_worker.core.later import pattern

SHORTEST = 8  #: characters; a shorter value would be found in honest words
_FEWEST = len("://:p@")  # characters in which anything is recognised; fewer than SHORTEST
LINE = 24  #: characters of a line in a value that has several; a shorter one may be anybody's
LONGEST_HELD = 16 * 1024  #: characters of a text in pieces that may wait for what comes next

_SECRET_NAME = pattern(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY"
    r"|(?:^|_)(?:KEY|PASS|PW|PAT|JWT|AUTH|BEARER|COOKIE|DSN|WEBHOOK|CONNECTION_STRING)$",
    re.IGNORECASE,
)
_ABOUT_A_SECRET = pattern(r"_(?:ID|NAME|TYPE|FILE|PATH|DIR|SOCK|HOST|PORT|URL|URI|HELPER|TTL|MODE)$", re.IGNORECASE)


#: At the end of a text, what stands before a secret and belongs to it.
_BEFORE_ONE = pattern(
    rf"(?i:{HEADERS}|{NAMES}){GIVEN.replace(':=]', ':=]?')}(?:(?i:{SCHEMES})\s{{0,3}})?\Z",
    re.ASCII,
)
_IN_AN_ADDRESS = pattern(r"://\S*\Z")
_OF_A_WORD = "".join(map(chr, range(ord("!"), ord("~") + 1)))
_FOR_ADDRESSES = str.maketrans("+/", "-_")
_FOR_SCRIPTS = str.maketrans({each: f"\\u{ord(each):04x}" for each in "<>&"})  # as in a page, and by Go
_is_word = pattern(r"[!-~]+").fullmatch

_HINTS = tuple(hint for family in FAMILIES if not family.sign for hint in family.hints)
#: Looked for only where the character is: most of what people write has none of them.
_RARE = "_-=/:"
_HINTS_BY_CHARACTER = tuple((c, tuple(hint for hint in _HINTS if c in hint)) for c in _RARE)
_OTHER_HINTS = tuple(hint for hint in _HINTS if not any(c in hint for c in _RARE))
#: Hints that stand in honest words too, or are many. They count only beside what could be the rest of a key.
_SEPARATED_HINTS = tuple(hint for family in FAMILIES if family.sign == SEPARATED for hint in family.hints)
_SOLID = tuple((family.hints[0], family) for family in FAMILIES if family.sign == SOLID)
_DIGITS = tuple("0123456789")
_is_mixed = pattern("[a-z][A-Z]").search  # by chance a key has no digit
_is_separated = pattern(r"[_.-][A-Za-z0-9_+/=-]{16}").search
_is_dotted = pattern(r"\.[\w-]{6}\.[\w-]{27}").search
_MARKER = pattern(rf"(\[redacted:(?:secret|{'|'.join(sorted({family.kind for family in FAMILIES}))})\])")


class Redactor:
    """Takes the secrets it knows, and those anybody would recognise, out of a text."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: tuple[str, ...] = ()
        self.register(values)

    def register(self, values: Iterable[str]) -> None:
        """Hide these values from now on, in each way they are written in JSON, URLs, HTML and base64."""
        known = {spelling for value in values for spelling in _spellings(value.strip())}
        # The longest first: one secret may be a part of another.
        self._values = tuple(sorted(known.union(self._values), key=lambda value: (-len(value), value)))

    def begun(self, text: str) -> int:
        """Where a secret may have begun at the end of a text; the length of the text when none has."""
        start = _begun(text)
        for value in self._values:
            if not _is_word(value):
                start = min(start, _begun_with(value, text, start))
        return start

    def __call__(self, text: str) -> str:
        """The text without secrets; the very same text when there is nothing to hide."""
        if len(text) < _FEWEST:
            return text
        for value in self._values:
            if value in text:
                text = _between_markers(text, partial(_without, value))
        return _without_families(text) if _is_suspect(text) else text


def _is_suspect(text: str) -> bool:
    """Whether a text has a hint of any family. Asked of everything that is stored, so it is kept fast."""
    for character, hints in _HINTS_BY_CHARACTER:
        if character in text and _has_one(hints, text):
            return True
    if _has_one(_OTHER_HINTS, text):
        return True
    if not _has_one(_DIGITS, text) and not _is_mixed(text):
        return False
    if _is_separated(text) and _has_one(_SEPARATED_HINTS, text):
        return True
    for hint, family in _SOLID:
        if hint in text and family.pattern.search(text):
            return True
    return _is_dotted(text) is not None


def _has_one(hints: tuple[str, ...], text: str) -> bool:
    for hint in hints:  # noqa: SIM110 - any() takes twice the time
        if hint in text:
            return True
    return False


def _without_families(text: str) -> str:
    for family in FAMILIES:
        if _has_one(family.hints, text):
            text = _between_markers(text, family.hidden_in)
    return text


class Passage:
    """A text that is shown while it is being written: no piece that is given out holds a secret or a part of one."""

    def __init__(self, redact: Redactor) -> None:
        self._redact = redact
        self._held = ""

    def add(self, piece: str) -> str:
        """Take the next piece; what can be shown now is all but what may yet turn out to be secret."""
        self._held += piece
        begun = self._redact.begun(self._held)
        if len(self._held) - begun > LONGEST_HELD:  # no key, and no word, is that long
            begun = len(self._held)
        ready, self._held = self._held[:begun], self._held[begun:]
        return self._redact(ready)

    def end(self) -> str:
        """The rest of the text, which is whole now."""
        ready, self._held = self._held, ""
        return self._redact(ready)


def _begun(text: str) -> int:
    """Where a secret with a shape of its own may have begun: in the last word, a header, an address, a block."""
    start = len(text.rstrip(_OF_A_WORD))
    if before := _BEFORE_ONE.search(text, max(0, start - 80), start):
        start = before.start()
    if address := _IN_AN_ADDRESS.search(text, max(0, len(text) - 800)):
        start = min(start, address.start())
    if (block := text.rfind("-----BEGIN")) >= 0:
        ended = ENDED.search(text, block)
        if ended is None or start < ended.end():
            start = min(start, block)
    return start


def _begun_with(value: str, text: str, start: int) -> int:
    """Where the value stands across `start`, or where the text ends with its beginning; else the end of the text."""
    whole = text.rfind(value)
    if whole >= 0 and whole < start < whole + len(value):
        return whole
    longest = min(len(text), len(value) - 1)
    return len(text) - next((size for size in range(longest, 0, -1) if text.endswith(value[:size])), 0)


def secrets_in(environment: Mapping[str, str], *, named: Collection[str] = ()) -> Iterator[str]:
    """The values to register: of variables that look like it by their name, and of those that definitions name."""
    for name, value in environment.items():
        if name in named or (_looks_secret(name) and not os.path.lexists(value)):
            yield value


def _looks_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None and _ABOUT_A_SECRET.search(name) is None


def _spellings(value: str) -> Iterator[str]:
    """Each way in which a value is written by programs that pass it on; of one in lines, each long line too."""
    if len(value) < SHORTEST:
        return
    lines = value.splitlines()
    for each in {value, "\n".join(lines), "\r\n".join(lines)}:
        yield each
        for ascii in (True, False):
            once = _in_json(each, ascii=ascii)
            yield from (once, _in_json(once, ascii=ascii), once.replace("/", "\\/"), once.translate(_FOR_SCRIPTS))
        yield from _in_addresses(each)
        yield escape(each)
        yield from _in_base64(each.encode(errors="replace"))
    if len(lines) > 1:
        yield from (line.strip() for line in lines if len(line.strip()) >= LINE)


def _in_json(value: str, *, ascii: bool) -> str:
    return json.dumps(value, ensure_ascii=ascii)[1:-1]


def _in_addresses(value: str) -> Iterator[str]:
    for written in (quote(value, safe="", errors="replace"), quote(value, errors="replace")):
        for each in (written, written.replace("%20", "+")):
            yield each
            yield re.sub("%..", lambda found: found[0].lower(), each)


def _in_base64(value: bytes) -> Iterator[str]:
    """The base64 of a value, without the characters that depend on what is encoded before and after it."""
    for before in range(3):
        whole = b64encode(bytes(before) + value).decode()
        changed_by_what_follows = 0 if (before + len(value)) % 3 == 0 else 4
        inner = whole[(0, 2, 3)[before] : len(whole) - changed_by_what_follows]
        if len(inner) >= SHORTEST:
            yield inner
            yield inner.translate(_FOR_ADDRESSES)


def redacted(value: Any, redact: Callable[[str], str]) -> Any:
    """Something that was JSON, without secrets in any of its strings, names included."""
    match value:
        case str():
            return redact(value)
        case list():
            return [redacted(each, redact) for each in value]
        case dict():
            return {redact(name): redacted(each, redact) for name, each in value.items()}
    return value


def _between_markers(text: str, change: Callable[[str], str]) -> str:
    """Change a text between its redaction markers: a secret may read like a part of a marker."""
    if "[redacted:" not in text:
        return change(text)
    pieces = _MARKER.split(text)
    return "".join(piece if number % 2 else change(piece) for number, piece in enumerate(pieces))


def _without(value: str, text: str) -> str:
    return text.replace(value, "[redacted:secret]")
