"""What was approved of a project, where several hosts share the database. The one writer of table `approval`.

A row says one thing of what `Approvals` knows, under the name of its field. It counts for its project and for no other.
"""

from __future__ import annotations

from agent_worker.core.events import ApprovalsChanged
from agent_worker.database.database import Transaction
from agent_worker.trust.approvals import FIELDS

ApprovalRecord = dict[str, dict[str, str]]  #: as `Approvals` writes itself down


def stored(tx: Transaction) -> ApprovalRecord:
    record: ApprovalRecord = {field: {} for field in FIELDS}
    for row in tx.all("select field, key, value from approval where project = :project"):
        record.setdefault(row["field"], {})[row["key"]] = row["value"]
    return record


def store(tx: Transaction, after: ApprovalRecord, host: str) -> ApprovalRecord:
    """Keep what is different now, and say so to all hosts; `host` has done it. What is stored."""
    before = stored(tx)
    for field in FIELDS:
        for key in before[field].keys() - after[field].keys():
            tx.run(
                "delete from approval where project = :project and field = :field and key = :key", field=field, key=key
            )
        for key, value in after[field].items():
            if before[field].get(key) != value:
                tx.run(
                    """insert into approval(project, field, key, value) values (:project, :field, :key, :value)
                       on conflict (project, field, key) do update set value = excluded.value""",
                    field=field,
                    key=key,
                    value=value,
                )
    if before != after:
        tx.tell(ApprovalsChanged(host=host, answered=before["approved"].keys() != after["approved"].keys()))
    return stored(tx)
