"""What files hold goes along when a home is moved to PostgreSQL, where several hosts share it, and comes back to files.

With SQLite the files of agents and the documents of teams are the truth; with PostgreSQL rows are, and files are
copies. Both ways it is part of the one transaction that moves everything. Files that were written before a kill say
what the database says that is left.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from agent_worker.agents.personal_files import own_texts
from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.redaction import Redactor, secrets_in
from agent_worker.core.text import plural
from agent_worker.database.database import Row, Transaction, WholeTransaction
from agent_worker.definitions.project_files import AGENTS, load_project
from agent_worker.files.copies import LARGEST, CopyRecord, bring_home, texts_in
from agent_worker.files.root import Root
from agent_worker.memory import personal_rows
from agent_worker.work import agent_rows, project_rows
from agent_worker.workspaces import document_edits, document_rows, workspace_rows, workspace_state
from agent_worker.workspaces.documents import COPIED, FOLDER


def redactor() -> Redactor:
    redact = Redactor()
    redact.register(secrets_in(os.environ))
    return redact


def taken_along(tx: WholeTransaction, here: str, *, now: int) -> dict[str, int]:
    """Keep for all hosts what the checkouts of this one hold; how many rows were added, by table."""
    added: Counter[str] = Counter()
    for project in project_rows.ids(tx):
        of = tx.of(project)
        root = next((row["root"] for row in project_rows.checkouts(of) if row["host"] == here), "")
        if root and Path(root).is_dir():
            for agent, home in _folders(of, Path(root)):
                added["personal_file"] += sum(_keep(of, agent, path, home, now=now) for path in own_texts(home))
            for workspace in workspace_rows.of_project(of):
                added["document"] += _keep_documents(of, workspace, Path(root), now=now)
    return added


def _folders(tx: Transaction, root: Path) -> Iterator[tuple[str, Root]]:
    """The agents whose files are to be kept, by id, with their folders."""
    definitions = load_project(root).agents
    for me in agent_rows.at_home(tx):
        definition = definitions.get(me["name"])
        if definition is None or definition.context.store != "files":
            yield me["id"], Root(root).beneath(definition.personal_dir if definition else f"{AGENTS}/{me['name']}")


def _keep(tx: Transaction, agent: str, path: str, home: Root, *, now: int) -> int:
    text = _text(home, path)
    return int(text is not None and bool(personal_rows.put(tx, agent, path, text, seen="", now=now)))


def _keep_documents(tx: Transaction, workspace: Row, root: Path, *, now: int) -> int:
    """Keep what people wrote into documents since somebody last looked; returns how many revisions that made."""
    if workspace["documents"] != "file" or not workspace["directory"]:
        return 0
    id, files = workspace["id"], Root(root).beneath(workspace["directory"]).beneath(FOLDER)
    known, there = document_edits.hashes(tx, id), list(texts_in(files, deep=True))
    found = {name: text for name in there if (text := _text(files, name)) is not None}
    gone = [name for name, hash in known.items() if hash and name not in there] if there else []
    workspace_state.keep_documents(tx, id, COPIED)
    document_rows.file_all(tx, id)
    added = 0
    for name, text in (*found.items(), *((name, None) for name in gone)):
        seen = known.get(name, "")
        if text or seen:
            taken = document_edits.take_edit(tx, workspace | {"documents": COPIED}, name, text, seen=seen, at=now)
            added += taken not in (None, seen)
    return added


def _text(root: Root, path: str) -> str | None:
    try:
        text = root.read_text(path, limit=LARGEST)
    except AgentWorkerError:
        return None
    return None if "\0" in text else text


def written_to_files(tx: WholeTransaction, home: Root, told: list[str]) -> dict[str, int]:
    """Files are the truth again, and say what is kept. How many rows there are less; `told` is what is to be known."""
    removed: Counter[str] = Counter()
    for project in project_rows.ids(tx):
        of = tx.of(project)
        root, owners = project_rows.root_here(of), personal_rows.owners(of)
        if not root or not Path(root).is_dir():
            if owners:
                whose = f"the files of {plural(len(owners), 'agent')} of project {project_rows.name_of(of)}"
                told.append(f"{whose} are only in PostgreSQL: there is no checkout of it here")
            continue
        for agent, folder in _folders(of, Path(root)):
            kept = personal_rows.versions(of, agent)
            text, earlier = partial(personal_rows.text, of, agent), partial(personal_rows.earlier, of, agent)
            beside = bring_home(folder, kept, text, earlier, CopyRecord(home, agent).load())
            told += [_conflict(folder, name) for name in beside]
            personal_rows.forget(of, agent)
            removed["personal_file"] -= len(kept)
        for workspace in workspace_rows.of_project(of):
            told += _documents_home(of, workspace, Path(root), home)
    return removed


def _documents_home(tx: Transaction, workspace: Row, root: Path, home: Root) -> list[str]:
    if workspace["documents"] != COPIED:
        return []
    id, files = workspace["id"], Root(root).beneath(workspace["directory"]).beneath(FOLDER)
    text, earlier = partial(document_edits.last_text, tx, id), partial(document_edits.earlier, tx, id)
    beside = bring_home(files, document_edits.hashes(tx, id), text, earlier, CopyRecord(home, id).load())
    workspace_state.keep_documents(tx, id, "file")
    return [_conflict(files, name) for name in beside]


def _conflict(folder: Root, name: str) -> str:
    return f"a file was edited here and elsewhere; the other version is {folder.location(name)}"
