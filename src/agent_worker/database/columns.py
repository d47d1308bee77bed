"""Which parameters of a statement end in a column where a secret may not stand.

Every text column is redacted when it is written, whatever its parameter is called, unless it is in `PLAIN` with its
reason. A statement is read once, and what is not understood is redacted wherever it can be: whoever writes a new
statement, or a new column, need not think of it. Knows only SQL; what a secret is says core/redaction.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from agent_worker.core.later import dataclass, pattern

ID = "made by us, or by SHA-256"
ONE_OF = "one of a few words that we choose"
NAME = "the name of an agent, a workflow or a tag: checked, and what it is known by"
PLACE = "a path or an address that is opened again: changed, it would lead elsewhere"
OURS = "names, numbers and sentences of our own: no word that somebody else wrote"
BYTES = "bytes of a picture: changed, it would be none"
KEY = "compared with what comes later: whoever makes it takes secrets out before"

#: Text columns that are stored as they are given, by table; each with its reason.
PLAIN: Mapping[str, Mapping[str, str]] = {
    "project": {"id": ID, "identity": PLACE},
    "checkout": {"project": ID, "host": ID, "node": OURS, "root": PLACE},
    "approval": {"project": ID, "field": ONE_OF, "key": KEY},
    "host": {"id": ID, "node": OURS, "home": OURS, "place": ID, "labels": NAME, "version": OURS},
    "closed_gate": {"key": ID, "host": ID},
    "watch": {"project": ID, "host": ID},
    "waiting_agent": {"project": ID, "agent": ID, "host": ID, "workspace": ID, "name": NAME, "what": ONE_OF},
    "agent": {
        **{"id": ID, "project": ID, "name": NAME, "home": ID, "kind": ONE_OF, "owner": ID, "host": ID, "state": ONE_OF},
    },
    "workspace": {
        **{"id": ID, "project": ID, "workflow": NAME, "tag": NAME, "provider": ONE_OF, "documents": ONE_OF},
        **{"directory": PLACE, "file": PLACE, "ends": ONE_OF, "state": ONE_OF, "owner": ID},
        **{"document_owner": NAME, "coordinator": NAME, "desk": NAME},
    },
    "member": {"project": ID, "workspace": ID, "agent": ID, "name": NAME},
    "message": {
        **{"project": ID, "workspace": ID, "id": ID, "sender": NAME, "kind": ONE_OF, "mentions": NAME},
        **{"resource": ID, "root": ID, "run": ID},
    },
    "delivery": {"project": ID, "message": ID, "agent": ID, "workspace": ID, "state": ONE_OF, "run": ID},
    "instruction": {
        **{"project": ID, "id": ID, "work": ID, "agent": ID, "workspace": ID, "source": ONE_OF},
        **{"sender": NAME, "message": ID, "root": ID, "state": ONE_OF, "run": ID},
    },
    "run": {
        **{"project": ID, "id": ID, "instruction": ID, "agent": ID, "workspace": ID, "root": ID, "backend": ONE_OF},
        **{"state": ONE_OF, "manifest": OURS, "sent": ID},
    },
    "step": {"project": ID, "work": ID, "run": ID},
    "call": {"project": ID, "work": ID, "id": KEY, "run": ID, "state": ONE_OF, "images": BYTES},
    "program_call": {"project": ID, "work": ID, "run": ID},
    "sent_text": {"project": ID, "id": ID},
    "sent_use": {"project": ID, "workspace": ID, "agent": ID, "text": ID},
    "tally": {"project": ID, "scope": ONE_OF, "key": ID, "day": ONE_OF},
    "ledger": {"project": ID, "run": ID, "id": ID, "agent": ID, "root": ID},
    "thread": {"project": ID, "agent": ID, "context": ID},
    "talk": {"project": ID, "agent": ID, "context": ID, "who": NAME, "kind": ONE_OF, "run": ID},
    "resource": {"project": ID, "workspace": ID, "id": ID},
    "document": {"project": ID, "workspace": ID, "name": KEY, "revision": ID, "base": ID, "author": NAME, "key": KEY},
    "personal_file": {"project": ID, "agent": ID, "path": KEY, "hash": ID, "earlier": ID},
    "suggestion": {"project": ID, "workspace": ID, "document": KEY, "state": ONE_OF},
    "proposal": {
        **{"project": ID, "id": ID, "workspace": ID, "kind": ONE_OF, "electorate": NAME},
        **{"resolution": ONE_OF, "tie_break": ONE_OF, "creator": NAME, "message": ID, "root": ID, "state": ONE_OF},
    },
    "vote": {"project": ID, "proposal": ID, "workspace": ID, "voter": NAME},
    "inbox_item": {
        **{"id": ID, "project": ID, "workspace": ID, "agent": ID, "kind": ONE_OF, "ref": KEY, "state": ONE_OF},
        **{"digest": ID},
    },
    "audit": {
        **{"project": ID, "agent": ID, "who": NAME, "deed": ONE_OF, "salt": ID, "words": ID, "run": ID, "seal": ID},
    },
    "examination": {"project": ID, "judge": ID, "task": ONE_OF},
    "outside_words": {"project": ID, "mark": ID, "run": ID},
    "sealed": {"project": ID, "seal": ID},
    "event": {"project": ID, "workspace": ID},
    "accepted": {"project": ID, "key": KEY, "ref": ID},
    "schedule": {
        **{"id": ID, "project": ID, "agent": ID, "workflow": NAME, "workspace": NAME, "instance": ID, "set_by": ONE_OF},
        **{"member": NAME, "state": ONE_OF, "host": ID},
    },
    "outbox": {"project": ID, "item": ID, "sink": NAME},
    "hook_delivery": {
        **{"project": ID, "id": ID, "workflow": NAME, "name": NAME, "delivery": ID, "body": ID, "tag": NAME},
        **{"state": ONE_OF, "host": ID},
    },
    "export_cursor": {"name": ONE_OF},
    "answer_link": {"project": ID, "digest": ID, "item": ID, "content": ID},
    "door_token": {"project": ID, "id": ID, "door": ONE_OF, "opens": NAME, "digest": ID},
}

#: Columns that hold JSON: secrets are taken out of each string in it, so that it stays JSON.
JSON: Mapping[str, frozenset[str]] = {
    "workspace": frozenset({"given", "granted"}),
    "step": frozenset({"reply"}),
    "call": frozenset({"arguments"}),
    "proposal": frozenset({"options", "effect"}),
    "inbox_item": frozenset({"details"}),
    "audit": frozenset({"before"}),
    "schedule": frozenset({"spec"}),
    "hook_delivery": frozenset({"params"}),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """Parameters of a statement out of which secrets are taken."""

    texts: tuple[str, ...] = ()
    json: tuple[str, ...] = ()


_TOKEN = pattern(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"[^\"]*\"|:\w+|\w+|\S", re.DOTALL)
_WRITES = pattern(r"(?is)\s*(?:with\b.*\b)?(?:insert|update|replace)\b")
_ENDS = frozenset({"where", "returning", "from", "on", "order", "limit"})


@cache
def plan_of(sql: str) -> Plan:
    if not _WRITES.match(sql):
        return Plan()
    tokens = [token for token in _TOKEN.findall(sql) if not token.startswith(("--", "/*"))]
    try:
        table, written = _written(tokens)
    except (ValueError, IndexError):  # of a shape that is not known here
        return Plan(tuple(dict.fromkeys(token[1:] for token in tokens if token.startswith(":"))))
    plain, json = PLAIN.get(table, {}), JSON.get(table, frozenset())
    open_ones = [(column, name) for column, names in written for name in names if column not in plain]
    texts = dict.fromkeys(name for column, name in open_ones if column not in json)
    structured = dict.fromkeys(name for column, name in open_ones if column in json and name not in texts)
    return Plan(tuple(texts), tuple(structured))


Written = list[tuple[str, list[str]]]  # column, and the parameters that end in it


def _written(tokens: Sequence[str]) -> tuple[str, Written]:
    words = [token.lower() for token in tokens]
    if words[0] == "update":
        return words[1], _assigned(tokens, words, words.index("set") + 1)
    if words[0] not in ("insert", "replace"):
        raise ValueError("a statement that begins with something else")
    at = words.index("into") + 1
    table = words[at]
    columns, at = _list(tokens, at + 1)
    if words[at] != "values":
        raise ValueError("not a list of values")
    values, at = _list(tokens, at + 1)
    written = [(column[0].lower(), _parameters(value)) for column, value in zip(columns, values, strict=True)]
    if "do" in words[at:] and "set" in words[at:]:
        written += _assigned(tokens, words, words.index("set", at) + 1)
    return table, written


def _list(tokens: Sequence[str], at: int) -> tuple[list[list[str]], int]:
    """The items between parentheses, divided at their commas, and where the list ends."""
    if tokens[at] != "(":
        raise ValueError("no list")
    depth, items = 0, [[]]  # type: tuple[int, list[list[str]]]
    for place in range(at, len(tokens)):
        token = tokens[place]
        depth += (token == "(") - (token == ")")
        if not depth:
            return items, place + 1
        if depth == 1 and token == ",":
            items.append([])
        elif place > at:
            items[-1].append(token)
    raise ValueError("no end")


def _assigned(tokens: Sequence[str], words: Sequence[str], at: int) -> Written:
    items: list[list[str]] = [[]]
    depth = 0
    for token, word in zip(tokens[at:], words[at:], strict=True):
        depth += (token == "(") - (token == ")")
        if not depth and word in _ENDS:
            break
        if not depth and token == ",":
            items.append([])
        else:
            items[-1].append(token)
    if any(len(item) < 3 or item[1] != "=" for item in items):
        raise ValueError("not a list of assignments")
    return [(item[0].lower(), _parameters(item[2:])) for item in items]


def _parameters(tokens: Sequence[str]) -> list[str]:
    return list(_named(tokens))


def _named(tokens: Sequence[str]) -> Iterator[str]:
    return (token[1:] for token in tokens if token.startswith(":"))
