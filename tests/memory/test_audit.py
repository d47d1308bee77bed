"""The audit: each entry seals the one before it, and none of them keeps a secret."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent_worker.core.redaction import Redactor
from agent_worker.database.migrations import migrate
from agent_worker.database.sqlite import connect
from agent_worker.database.transaction import ProjectTransaction, SqliteTransaction
from agent_worker.memory import audit
from agent_worker.memory.audit import AuditEntry

SECRET = "correct-horse-battery-staple"


@pytest.fixture
def tx() -> Iterator[ProjectTransaction]:
    connection = connect(":memory:", write=True)
    migrate(connection, None)
    tx = SqliteTransaction(connection, Redactor([SECRET])).of("p")
    for n in range(3):
        audit.note(tx, AuditEntry("a", "alice", "learned", f"key {n} {SECRET}", before=f"was {SECRET}"), now=n)
    yield tx
    connection.close()


def test_N5_the_audit_keeps_no_secret_and_is_whole_without_it(tx: ProjectTransaction) -> None:
    assert audit.flaw(tx) == ""
    told = "".join(row["about"] + row["before"] for row in audit.entries(tx))
    assert SECRET not in told
    assert told.count("[redacted:secret]") == 6


@pytest.mark.parametrize(
    ("deed", "flaw"),
    [
        ("update audit set before = 'something else' where n = 2", "entry 2 of the audit was altered"),
        ("update audit set at = 7 where n = 1", "entry 1 of the audit was altered"),
        ("delete from audit where n = 2", "entry 2 of the audit is missing"),
        ("delete from audit where n = 3", "the audit ends with entry 2, and there were 3"),
        (
            "update audit set seal = (select seal from audit where n = 1) where n = 2",
            "entry 2 of the audit was altered",
        ),
    ],
)
def test_A13_whatever_is_done_to_an_entry_is_noticed_there(tx: ProjectTransaction, deed: str, flaw: str) -> None:
    tx.run(deed)
    assert audit.flaw(tx) == flaw


def test_A13_each_project_has_a_record_of_its_own(tx: ProjectTransaction) -> None:
    another = ProjectTransaction(tx._whole, "another")
    audit.note(another, AuditEntry("b", "bob", "learned", "key"), now=4)
    tx.run("delete from audit where project = 'p' and n = 2")
    assert audit.flaw(tx) == "entry 2 of the audit is missing"
    assert audit.flaw(another) == ""
    assert [row["n"] for row in audit.entries(another)] == [1]
