"""What must hold when all is quiet: the books of those who sent against what is stored, read without our own code."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from soaking.house import House
from soaking.load import Books

ENDS = ("done", "failed", "incomplete", "cancelled", "dead")


@dataclass
class Verdict:
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    unended: int = 0
    orphans: list[str] = field(default_factory=list)
    server_errors: int = 0
    complaints: dict[str, int] = field(default_factory=dict)  #: what the log calls an error
    refusals: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)  #: instructions by how they ended
    counts: dict[str, int] = field(default_factory=dict)
    integrity: str = ""
    inbox: dict[str, int] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        bad = (self.lost, self.doubled, self.unended, self.orphans, self.server_errors, self.complaints)
        return not any(bad) and self.integrity == "ok"


def judge(house: House, books: Books) -> Verdict:
    rows = _Rows(house.home / "state.db")
    verdict = Verdict(orphans=house.orphans, server_errors=books.server_errors)
    _kept(verdict, books, rows)
    _once(verdict, rows)
    verdict.ends = dict(rows.all("select state, count(*) from instruction group by state"))
    verdict.unended = sum(n for state, n in verdict.ends.items() if state not in ENDS)
    verdict.unended += rows.all("select count(*) from delivery where state in ('queued', 'given')")[0][0]
    verdict.inbox = dict(rows.all("select kind, count(*) from inbox_item group by kind"))
    verdict.integrity = rows.all("pragma integrity_check")[0][0]
    verdict.complaints = dict(Counter(house.complaints()))
    verdict.refusals = dict(books.refusals)
    verdict.counts = dict(books.counts) | {
        "sent by people": books.sent,
        "messages": rows.all("select count(*) from message")[0][0],
        "instructions": sum(verdict.ends.values()),
        "runs": rows.all("select count(*) from run")[0][0],
        "runs tried again": rows.all("select count(*) from instruction where failures > 0")[0][0],
        "woken by schedules": rows.all("select count(*) from instruction where source = 'schedule'")[0][0],
        "resources": rows.all("select count(*) from resource")[0][0],
        "revisions of documents": rows.all("select count(*) from document")[0][0],
        "cut, and nobody knows": len(books.unknown),
    }
    return verdict


class _Rows:
    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)

    def all(self, sql: str) -> list[Any]:
        return list(self._connection.execute(sql))


def _kept(verdict: Verdict, books: Books, rows: _Rows) -> None:
    """Everything that was accepted is there, once, as the one it was answered with."""
    said = _by_mark(rows.all("select text, id from message where sender = 'user'"))
    told = _by_mark(rows.all("select text, id from instruction where source = 'dm' and id = work"))
    for wanted, found in ((books.channel, said), (books.direct, told)):
        for mark, id in wanted.items():
            _compare(verdict, mark, found.get(mark, []), id)
    for mark in books.asked | books.unknown:
        there = len(told.get(mark, []))
        if there > 1:
            verdict.doubled.append(mark)
        elif not there and mark in books.asked:
            verdict.lost.append(mark)
    latest = """select d.text, '' from document d where d.name = 'people.md' and d.n =
                 (select max(n) from document e where e.project = d.project and e.workspace = d.workspace
                     and e.name = d.name)"""
    lines = Counter(line for text, _ in rows.all(latest) for line in text.splitlines())
    verdict.lost += [mark for mark in books.lines if not lines[mark]]
    verdict.doubled += [line for line, count in lines.items() if count > 1]


def _compare(verdict: Verdict, mark: str, found: list[str], id: str) -> None:
    if id not in found:
        verdict.lost.append(mark)
    if len(found) > 1:
        verdict.doubled.append(mark)


def _by_mark(rows: list[Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for text, id in rows:
        found.setdefault(text[:8], []).append(id)
    return found


def _once(verdict: Verdict, rows: _Rows) -> None:
    """Our own effects: a mention causes one piece of work, work has one end, a run one answer, a step one charge."""
    for sql in (
        "select message, agent from instruction where message is not null and id = work",
        "select instruction, 'done' from run where state = 'done'",
        "select work, step || '/' || id from call",
        "select run, step from ledger",
    ):
        twins = [key for key, count in Counter(rows.all(sql)).items() if count > 1]
        verdict.doubled += [f"{sql}: {key}" for key in twins[:5]]
