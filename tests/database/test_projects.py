"""Rows belong to a project: its id stands first in their keys, and every statement says which project it is about.

So a project's rows can be divided from all others', and nobody reads or changes another project's by mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import apsw
import pytest
from tests.database.test_plans import REPAIRS, SCHEMA, statements

from agent_worker.database.transaction import SqliteTransaction

#: Tables whose rows belong to no project, or are counted over all of them.
OF_ALL = {
    "project": "the projects themselves",
    "checkout": "a host has many projects, and finds one by its directory",
    "host": "a host has many projects",
    "closed_gate": "a key is used in many projects",
    "event": "counted in the order of commits, for streams over all projects; each says its project",
    "event_count": "how many of these there were",
    "last_commit": "a writer commits for many projects",
    "progress": "how many commits there were",
    "export_cursor": "how far those streams were handed on",
}

#: Indexes of those who look after all projects at once.
FOR_ALL = {
    "answer_link_digest": "whoever follows a link has its secret, and nothing that says the project",
    "hook_delivery_open": "one starter for the webhooks of all projects",
    "outbox_due": "one sender for the notifications of all projects",
    "proposal_due": "one timer for the proposals of all projects",
    "schedule_due": "one timer for the schedules of all projects",
}

#: Statements about the rows of all projects.
ABOUT_ALL = {
    "select project from answer_link where digest = :digest": "by the secret of a link; what follows says the project",
    "select * from schedule where state = 'active' and due_at": "the timer; each row is then seen to in its project",
    "select min(due_at) as due from schedule": "the timer",
    "select s.*, c.root, a.name, a.kind from schedule s join checkout c": "the starter of workflows, as above",
    "select p.* from proposal p join workspace w on w.project = p.project": "the timer of proposals, as above",
    "select min(p.expires_at) as at from proposal p": "the timer of proposals",
    "select id from workspace where state <> 'archived'": "after a start: which indexes have a workspace",
    "select * from workspace where state = 'left'": "after a start: what a dead host left",
    "select w.workflow, w.tag, w.directory, c.root from workspace w": "no two may write the same files",
    "select a.name, a.kind, c.root, w.workflow from agent a": "what is on the disk of agents that are gone",
    "select t.*, c.root from door_token t join checkout c": "after a start: the tokens that hold",
    "select o.project, o.item, o.sink, o.tries": "the sender of notifications; each row says its project",
    "select min(due_at) as at from outbox": "the sender of notifications",
    "select h.*, c.root from hook_delivery h join checkout c": "the starter of webhooks; each row says its project",
    "select * from hook_delivery where state = 'starting'": "after a start: the same",
    "select id, project, workspace, seq, record from": "the stream of events; each says its project",
    "select e.id as number, e.project, e.workspace, e.record": "what other hosts tell; the same",
    "select 'watch', to_jsonb(w) from watch w": "what other hosts signal; each row says its project",
    "delete from watch where": "of hosts that are gone",
    "delete from waiting_agent where": "of hosts that are gone",
}

KEYS = re.compile(r"(?:primary key|unique|references \w+|foreign key) \(([^)]*)\)")
NAMED = re.compile(r"\b(?:from|join|update|into) ([a-z_]+)\b", re.IGNORECASE)


@pytest.fixture(scope="module")
def database() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    connection.execute(SCHEMA.read_text())
    yield connection
    connection.close()


def tables(database: apsw.Connection) -> set[str]:
    return {name for (name,) in database.execute("select name from sqlite_schema where type = 'table'")}


def unscoped(sql: str, divided: set[str]) -> bool:
    """Whether it names more tables of projects than it says the project of."""
    named = [table for table in NAMED.findall(sql) if table in divided]
    said = len(re.findall(r"\bproject = :project\b|\(project, [^)]*\) (?:values|select)", sql))
    return len(named) > said


def test_the_id_of_the_project_comes_first_in_every_table_and_key(database: apsw.Connection) -> None:
    for table in tables(database) - set(OF_ALL):
        columns = list(database.execute(f"pragma table_info({table})"))
        assert columns[0][1] == "project", table
        key = sorted((column[5], column[1]) for column in columns if column[5])
        assert key[0] == (1, "project"), table
        for _, name, *_ in list(database.execute(f"pragma index_list({table})")):
            first = next(iter(database.execute(f"pragma index_info({name})")))[2]
            assert (first == "project") != (name in FOR_ALL), f"{table}: {name}"
        for _, _, other, column, *_ in database.execute(f"pragma foreign_key_list({table})"):
            assert column in ("project", other), f"{table} refers to {other} by {column} alone"
    assert tables(database) >= set(OF_ALL)


def test_every_statement_says_which_project_it_is_about(database: apsw.Connection) -> None:
    divided = tables(database) - set(OF_ALL)
    whole = [(place, sql) for place, sql in statements() if place not in REPAIRS and not sql.endswith(" set")]
    found = {sql: place for place, sql in whole if unscoped(sql, divided)}
    others = [f"{place}: {sql}" for sql, place in found.items() if not any(map(sql.startswith, ABOUT_ALL))]
    assert not others, "\n".join(others)
    for known in ABOUT_ALL:
        assert any(sql.startswith(known) for sql in found), f"needs no exception any more: {known}"


def test_a_statement_that_forgets_the_project_is_noticed(database: apsw.Connection) -> None:
    divided = tables(database) - set(OF_ALL)
    for forgets in (
        "select * from message where workspace = :workspace",
        "update run set held = 1 where id = :id",
        "delete from call where work in (select work from instruction where project = :project and agent = :agent)",
        "select 1 from run r join agent a on a.id = r.agent where r.project = :project",
        "insert into vote(proposal, voter) values (:proposal, :voter)",
    ):
        assert unscoped(forgets, divided), forgets


def test_the_same_ids_in_two_projects_are_two_rows(database: apsw.Connection) -> None:
    whole = SqliteTransaction(database)
    for project in ("one", "two"):
        tx = whole.of(project)
        tx.run("insert into accepted(project, key, ref, at) values (:project, 'k', :ref, 0)", ref=f"of {project}")
    assert whole.of("two").all("select ref from accepted where project = :project") == [{"ref": "of two"}]
    whole.of("two").run("delete from accepted where project = :project")
    assert whole.all("select ref from accepted") == [{"ref": "of one"}]


def test_whoever_is_about_all_projects_cannot_speak_of_one_by_mistake(database: apsw.Connection) -> None:
    with pytest.raises(KeyError, match="project"):
        SqliteTransaction(database).all("select * from accepted where project = :project")
