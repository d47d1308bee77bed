"""What an instance that is not bound leaves behind: set aside when the next one begins, removed after a day."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta
from pathlib import Path

from agent_worker.database import event_rows
from agent_worker.database.database import Transaction
from agent_worker.files.root import Root
from agent_worker.proposals import store
from agent_worker.work import inbox, queue, sent_texts, steps, threads
from agent_worker.workspaces import (
    channel,
    deliveries,
    document_rows,
    resources,
    suggestions,
    workspace_rows,
    workspace_state,
)

FOLDER = ".archive"
CHANNEL = "channel.jsonl"


def set_aside(directory: Path, *, now: datetime, kept: timedelta) -> Path | None:
    """Move the files of the last instance away; None when there are none. Blocks: call it in a thread."""
    if not (directory / CHANNEL).exists():
        return None  # nothing of ours
    shelf = directory.parent / FOLDER
    Root(directory.parent).make_dirs(FOLDER)  # refuses a link
    stem = f"{directory.name}-{now:%Y%m%dT%H%M%S}"
    target = next(t for n in range(1000) if not (t := shelf / (stem if not n else f"{stem}-{n}")).exists())
    directory.rename(target)
    _remove_old(shelf, before=now - kept)
    return target


def _remove_old(shelf: Path, *, before: datetime) -> None:
    for kept in shelf.iterdir():
        stamp = kept.name.rpartition("T")[0].rpartition("-")[2]
        try:
            day = datetime.strptime(stamp, "%Y%m%d").replace(tzinfo=before.tzinfo)
        except ValueError:
            continue  # not one of ours
        if day + timedelta(days=1) < before and not kept.is_symlink():
            shutil.rmtree(kept, ignore_errors=True)


def forget_old(tx: Transaction, *, now: int, kept: timedelta) -> None:
    """Erase instances that were replaced longer ago than they are kept."""
    before = now - round(kept.total_seconds() * 1e6)
    for row in workspace_rows.archived_before(tx, before):
        erase(tx, row["id"])


#: Whoever keeps something of a workspace, in the order in which it goes: what is found by other rows goes before them.
_KEEPERS = (
    *(steps, sent_texts, queue, deliveries, suggestions, channel),
    *(resources, document_rows, store, inbox, event_rows, threads),
)


def erase(tx: Transaction, workspace: str) -> None:
    """Erase a workspace whose provider is `memory`: whatever was said and done there goes with it.
    What it cost stays.
    """
    for keeper in _KEEPERS:
        keeper.forget_workspace(tx, workspace)
    workspace_state.erase(tx, workspace)
