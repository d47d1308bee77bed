"""What must hold when all is quiet, read from the database and the files directly, not through our own code."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from tests import engine, stored
from tests.faults.driver import Scene

TERMINAL = {"done", "failed", "incomplete", "cancelled", "dead"}


def rows(scene: Scene, sql: str, **values: object) -> list[dict[str, Any]]:
    with stored.opened(scene.home / "state.db") as tx:
        found: list[dict[str, Any]] = tx.all(sql, **values)
        return found


def check(scene: Scene) -> None:
    """Everything we promise about stored state."""
    if not engine.is_postgresql():  # which looks after its own pages
        assert rows(scene, "pragma integrity_check") == [{"integrity_check": "ok"}]
        assert rows(scene, "pragma foreign_key_check") == []
    check_accepted(scene)
    check_ends(scene)
    check_once(scene)
    check_documents(scene)
    check_logs(scene)
    check_tidy(scene)


def check_accepted(scene: Scene) -> None:
    """D1, Q4: each accepted send is there, once, as the one it was answered with."""
    assert not scene.books.unanswered
    known = {r["key"]: r["ref"] for r in rows(scene, "select * from accepted")}
    said = {r["id"]: r["text"] for r in rows(scene, "select id, text from message")}
    told = {r["id"]: r["text"] for r in rows(scene, "select id, text from instruction where source = 'dm'")}
    for key, (to, text) in scene.books.sent.items():
        id = scene.books.accepted[key]
        assert known.get(key) == id, f"{key} is not known as {id}"
        kept = said if "@" in to else told
        assert kept.get(id) == text, f"{key} ({id}) is lost"
        assert list(kept.values()).count(text) == 1, f"{key} is there twice"


def check_ends(scene: Scene) -> None:
    """Q1: everything came to an end, and nothing hangs in between."""
    states = Counter(r["state"] for r in rows(scene, "select state from instruction"))
    assert set(states) <= TERMINAL, states
    assert not rows(scene, "select * from run where state = 'running'")
    assert not rows(scene, "select * from delivery where state not in ('acked', 'failed', 'dead')")
    assert not rows(scene, "select * from agent where state not in ('idle', 'stopped')")


def check_once(scene: Scene) -> None:
    """Q2: our effects once. Every text that a puppet produces is one of a kind."""
    _no_twins(scene, "select workspace, sender, text from message where kind = 'message'")
    _no_twins(scene, "select agent, context, who, text from talk where kind = 'message'")
    _no_twins(scene, "select message, agent from instruction where message is not null and id = work")
    _no_twins(scene, "select message, agent from delivery")
    _no_twins(scene, "select instruction from run where state = 'done'")
    _no_twins(scene, "select r.instruction, l.step from ledger l join run r on r.id = l.run")
    _no_twins(scene, "select key from document where key <> ''")
    _no_twins(scene, "select ref, kind from inbox_item")
    # A mention, its delivery and its instruction are one.
    assert not rows(
        scene,
        """select m.id from message m left join instruction i on i.message = m.id
            where m.mentions <> '[]' and (i.id is null or not exists (
                  select 1 from delivery d where d.message = m.id and d.agent = i.agent))""",
    )
    # Each step was paid for once: the last one of done work too.
    unpaid = """select s.work, s.n from step s left join ledger l on l.run = s.run and l.step = s.n
                 where l.id is null"""
    assert not rows(scene, unpaid)
    assert not rows(
        scene,
        """select c.* from call c join instruction i on i.work = c.work
            where i.state = 'done' and i.id = c.work and c.state <> 'done'
              and exists (select 1 from step s where s.work = c.work)""",
    )


def _no_twins(scene: Scene, sql: str) -> None:
    twins = {key: n for key, n in Counter(tuple(r.values()) for r in rows(scene, sql)).items() if n > 1}
    assert not twins, f"{sql}: {twins}"


def check_documents(scene: Scene) -> None:
    """Each append once, and the file is its last revision."""
    assert not rows(scene, "select * from document where filed = 0")
    last = rows(
        scene,
        """select d.name, d.text from document d join workspace w on w.id = d.workspace
            where w.state <> 'archived' and d.n = (select max(n) from document e
                          where e.workspace = d.workspace and e.name = d.name)""",
    )
    for document in last:
        assert (scene.workspace / "documents" / document["name"]).read_text() == document["text"]
    marks = Counter(re.findall(r"<(.*?)>", "".join(d["text"] for d in last)))
    made = Counter(
        re.findall(r"<(.*?)>", json.loads(r["arguments"])["text"])[0]
        for r in rows(
            scene,
            """select c.arguments from call c join instruction i on i.id = c.work
                 join workspace w on w.id = i.workspace
                where c.tool = 'team_doc_append' and c.state = 'done' and c.ok = 1 and w.state <> 'archived'""",
        )
    )
    assert all(n == 1 for n in marks.values()), marks
    assert set(made) <= set(marks), f"lost: {set(made) - set(marks)}"


def check_logs(scene: Scene) -> None:
    """Files that people read hold what the tables hold, in order, each line once."""
    workspaces = rows(scene, "select * from workspace where state <> 'archived' and provider = 'file'")
    for workspace in workspaces:
        kept = rows(scene, "select * from message where workspace = :w order by seq", w=workspace["id"])
        wanted = [[m["seq"], m["id"], m["sender"], m["text"]] for m in kept]
        assert records(scene.workspace / "channel.jsonl", "seq", "id", "sender", "text") == wanted
        for member in rows(scene, "select * from member where workspace = :w", w=workspace["id"]):
            path = scene.workspace / "history" / f"{member['name']}.jsonl"
            assert records(path, "seq", "sender", "text") == talk(scene, member["agent"], workspace["id"])
        for resource in rows(scene, "select * from resource where workspace = :w", w=workspace["id"]):
            assert (scene.workspace / "resources" / resource["id"]).read_text() == resource["text"]
    for agent in rows(scene, "select * from agent where home = ''"):
        folder = scene.project / ".agents" / agent["name"] / "conversations"
        found = [line for path in sorted(folder.glob("*.jsonl")) for line in records(path, "seq", "sender", "text")]
        assert found == talk(scene, agent["id"], "")


def talk(scene: Scene, agent: str, context: str) -> list[list[Any]]:
    sql = "select seq, who, text from talk where agent = :agent and context = :context order by seq"
    return [list(r.values()) for r in rows(scene, sql, agent=agent, context=context)]


def records(path: Path, *wanted: str) -> list[list[Any]]:
    """Strict: a line that is no record is a failure."""
    if not path.exists():
        return []
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [[record[name] for name in wanted] for record in found]


def check_tidy(scene: Scene) -> None:
    """No half-written file is left lying about."""
    assert not [str(p) for p in scene.project.rglob(".*") if p.name.startswith((".tmp-", ".swap-"))]
