"""No statement walks through a table that grows for ever: what was said and done long ago slows nothing down.

Every SQL text of the source is shown to SQLite, which tells how it would be answered. A statement that reads all of
a large table needs a reason here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import apsw
import pytest

pytestmark = pytest.mark.sqlite("asks SQLite for its plans")

SOURCE = Path(__file__).parents[2] / "src" / "agent_worker"
SCHEMA = SOURCE / "database" / "schema" / "0001_ring.sql"
LARGE = {"message", "delivery", "instruction", "run", "step", "call", "ledger", "talk", "document", "inbox_item"}
LARGE |= {"event", "accepted", "program_call", "sent_text", "sent_use", "outside_words"}

#: A statement → why it may walk through everything.
ALLOWED = {
    "delete from accepted where project = :project and at < .*": "once, when the host starts",
    "select (id|1 as one) from message where project = :project and id (= :id|>= .*)": "traced, and nobody got it",
    "delete from inbox_item where project = :project and workspace = :workspace": "when a workspace is erased",
    "select n from inbox_item where project = :project order by n desc limit 1": "one row, from the end of its index",
    "delete from inbox_item where project = :project and agent = :agent returning id": "when an agent is deleted",
    "delete from instruction where project = :project and agent = :agent": "when an agent is deleted",
    "delete from (step|call|program_call) where .* and work in \\(.* agent = :agent\\)": "when an agent is deleted",
    "select work from instruction where project = :project and agent = :agent": "a part of the same",
    "delete from sent_use where project = :project and agent = :agent returning text": "when an agent is deleted",
    "update run set text = '', .* where project = :project and agent = :agent": "when an agent is deleted",
    "delete from delivery where project = :project and agent = :agent": "when an agent is deleted",
    "delete from event where project = :project and record like :about": "when an agent is deleted; few are kept",
    "delete from event where project = :project and workspace = :workspace": "when a workspace is erased; the same",
    "select r.id from run r (join agent|where r.project) .* order by .*r.id": "when a person takes something back",
    "select count\\(\\*\\) as n from run r join agent a .*": "the number of all runs ever, shown on request",
    "select r.* where r.project = :project and \\(cast.* order by r.id desc limit :limit": "it ends at the limit",
    "select r.manifest, r.started_at from run r where .* order by r.id desc limit :limit": "the newest, once a night",
    "select count\\(\\*\\) as n from run where project = :project": "the same, for who watches",
    "select 1 from outside_words where project = :project limit 1": "one row, whichever",
    "select r.*left join workspace w .* where r.project = :project": "a part: what it is for decides which rows",
}

#: Here a whole database is looked through on purpose: it was damaged, or is put in the place of another.
REPAIRS = {"database/recovery.py", "database/restore.py"}

Place = tuple[str, str]  # file, statement


@cache
def statements() -> tuple[Place, ...]:
    return tuple(_statements())


def _statements() -> Iterator[Place]:
    for file in sorted(SOURCE.rglob("*.py")):
        named, strings = read(file)
        for node in strings:
            text = _text(node, named)
            if text and re.match(r"\s*(select|update|delete|insert|with)\s", text):
                yield str(file.relative_to(SOURCE)), " ".join(text.split())


@cache
def read(file: Path) -> tuple[dict[str, str], tuple[ast.Constant | ast.JoinedStr, ...]]:
    """The texts that a module gives a name, or has from another of ours; and every string in it that is or has text.

    Of an f-string also each of its parts. The tree itself is not kept: whoever looks for garbage would walk through it.
    """
    source = file.read_text("utf-8")
    tree = ast.parse(source)
    named: dict[str, str] = {}
    for node in tree.body:
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("agent_worker."):
                path = SOURCE.parent.joinpath(*module.split(".")).with_suffix(".py")
                theirs = read(path)[0] if path.exists() else {}
                named |= {each.name: theirs[each.name] for each in names if each.name in theirs}
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if text := _text(value, named):
                named[name] = text
    if not re.search(r"(select|update|delete|insert|with)\s", source):
        return named, ()
    return named, tuple(node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) or _is_text(node))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _text(node: ast.AST, named: dict[str, str]) -> str | None:
    """A string, or an f-string made of constants of its module; None for any other."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            known = [named.get(p.value.id) if _is_name(p) else _text(p, named) for p in parts]  # type: ignore[attr-defined]
            return "".join(filter(None, known)) if None not in known else None
    return None


def _is_name(part: ast.expr) -> bool:
    return isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name)


@pytest.fixture(scope="module")
def database() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    connection.execute(SCHEMA.read_text())
    yield connection
    connection.close()


def walks(database: apsw.Connection, sql: str) -> set[str]:
    """The large tables of which it reads every row of a project, not by an index that holds only the open ones."""
    values = dict.fromkeys(re.findall(r":(\w+)", sql))
    try:
        plan = [row[3] for row in database.execute(f"explain query plan {sql}".replace("?", "null"), values)]
    except apsw.SQLError:
        return set()  # only a part of a statement
    names = {alias: table for table, alias in re.findall(rf"\b({'|'.join(LARGE)})(?: as)? (\w+)\b", sql)}
    few = {name for name, text in database.execute("select name, sql from sqlite_schema") if text and " where " in text}
    steps = [match for step in plan if (match := _READ.match(step)) and match["index"] not in few]
    read = {match["table"] or match["made"] or match["project"] for match in steps}
    return {names.get(name, name) for name in read} & LARGE


_READ = re.compile(
    r"SCAN (?P<table>\w+)$|SEARCH (?P<made>\w+) USING AUTOMATIC"
    r"|SEARCH (?P<project>\w+) USING (?:COVERING )?INDEX (?P<index>\w+) \(project=\?\)$"
)


def test_no_statement_walks_through_a_table_that_grows(database: apsw.Connection) -> None:
    found = [
        (place, sql, tables) for place, sql in statements() if place not in REPAIRS and (tables := walks(database, sql))
    ]
    unexplained = [
        f"{place}: {sql} — walks through {', '.join(sorted(tables))}"
        for place, sql, tables in found
        if not any(re.fullmatch(known, sql) for known in ALLOWED)
    ]
    assert not unexplained, "\n".join(unexplained)
    for known in ALLOWED:
        assert any(re.fullmatch(known, sql) for _, sql, _ in found), f"needs no exception any more: {known}"


def test_the_statements_are_found(database: apsw.Connection) -> None:
    known = [sql for _, sql in statements()]
    assert len(known) > 200
    assert walks(database, "select * from message where text = :text") == {"message"}
    assert walks(database, "select * from message where project = :project and text = :text") == {"message"}
    assert not walks(database, "select * from message where project = :project and workspace = :workspace and seq > 1")
    assert not walks(database, "select * from instruction where project = :project and state = 'queued'")
