"""Revisions of documents as the database keeps them. The one writer of table `document`.

The transaction that commits a revision looks again at what it is made from. Who brings a revision to its file:
documents.py.
"""

from __future__ import annotations

from collections.abc import Collection

from agent_worker.core.errors import NotFound, Refused, Stale
from agent_worker.core.events import DocumentChanged
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction
from agent_worker.files.paths import same_document
from agent_worker.files.swap import content_hash
from agent_worker.work import inbox

UNFILED, FILED, BESIDE = 0, 1, 2  #: of a revision: not yet in its file, there, or kept beside what a person wrote
SHORTEST = 6  #: characters of a revision that name it


@dataclass(frozen=True, slots=True)
class Document:
    name: str
    text: str
    revision: str  #: SHA-256 of the text


@dataclass(frozen=True, slots=True)
class Author:
    """Who writes, and by which tool call; a call made again with the same key changes nothing."""

    name: str
    key: str = ""

    @property
    def is_agent(self) -> bool:
        return self.name not in ("user", "system")


@dataclass(frozen=True, slots=True)
class CurrentDocument:
    """A document as it was looked at, to be changed."""

    name: str
    document: Document | None
    n: int  #: of its last revision that was committed then; 0 when there was none

    def is_at(self, base: str | None) -> bool:
        if base is None or self.document is None:
            return base is None and self.document is None
        return len(base) >= SHORTEST and self.document.revision.startswith(base)


class Overtaken(Exception):
    """Raised when somebody else has committed a revision since we looked."""


PUBLISHER = Author("system", "")  #: who writes what agents make public
_PUBLIC = "memory/"


def public_name(agent: str) -> str:
    """The document of what an agent makes public."""
    return f"{_PUBLIC}{agent}.md"


def is_public(name: str) -> bool:
    folder, _, file = name.casefold().partition("/")
    return f"{folder}/" == _PUBLIC and file.endswith(".md") and "/" not in file


def _agent_of(name: str) -> str:
    return name.partition("/")[2].removesuffix(".md")


def let_write(tx: Transaction, workspace: str, name: str, by: Author) -> None:
    """Refuse an agent that does not own the documents, and everybody where the text is made from memory."""
    if is_public(name) and by != PUBLISHER:
        hint = (
            f"the agent itself changes it with memory_write, a person with agent-worker agent memory {_agent_of(name)}"
        )
        raise Refused(f"{name} is generated from what that agent remembers and makes public", hint=hint)
    row = tx.one(
        "select document_owner from workspace where project = :project and id = :workspace", workspace=workspace
    )
    owner = row["document_owner"] if row else ""
    if owner and by.is_agent and by.name != owner:
        raise Refused(
            f"{owner} owns the documents of this workspace: only {owner} writes {name}",
            hint=f"tell {owner} what to write: team_doc_suggest",
        )


def append_stored(tx: Transaction, workspace: Row, name: str, text: str, by: Author, *, at: int) -> None:
    """Add to a document that is kept in the database, as part of a larger change."""
    last = last_revision(tx, workspace["id"], name)
    now = Document(name, last["text"], last["revision"]) if last else None
    whole = tx.redact(joined(now, text))
    seen = CurrentDocument(name, now, last["n"] if last else 0)
    revise(tx, workspace, Document(name, whole, content_hash(whole)), seen, by, at=at)


def revise(tx: Transaction, workspace: Row, new: Document, seen: CurrentDocument, by: Author, *, at: int) -> Row:
    """Store a revision. Raises Overtaken when somebody has committed one since `seen`, or this very call has."""
    let_write(tx, workspace["id"], new.name, by)  # looked at before; it may have changed since
    last, now = last_revision(tx, workspace["id"], new.name), seen.document
    if (last["n"] if last else 0) != seen.n or spelling(tx, workspace["id"], new.name) != new.name:
        raise Overtaken
    if by.key and by_key(tx, workspace["id"], by.key):  # another host was faster, and is seen already
        raise Overtaken
    number = seen.n + 1
    if now is not None and (last is None or last["revision"] != now.revision):
        _insert(tx, workspace["id"], now, number, last["revision"] if last else "", Author("user"), at, filed=1)
        number += 1  # a person's edit is a revision too
    row = _insert(
        tx,
        workspace["id"],
        new,
        number,
        now.revision if now else "",
        by,
        at,
        filed=int(workspace["documents"] != "file"),
    )
    if last and last["filed"] and last["n"] == row["n"] - 1:
        _fold(tx, last, row["text"])
    tx.tell(DocumentChanged(workspace=workspace["id"], name=new.name, revision=new.revision, author=by.name))
    return row


def _fold(tx: Transaction, last: Row, following: str) -> None:
    """Store an earlier revision as a part of the next one, if that begins with it: an appended line costs a line, not
    the text.
    """
    if following.startswith(last["text"]):
        tx.run(
            """update document set text = '', part = :part
                where project = :project and workspace = :workspace and name = :name and n = :n""",
            workspace=last["workspace"],
            name=last["name"],
            n=last["n"],
            part=len(last["text"]),
        )


def _unfolded(tx: Transaction, row: Row) -> Row:
    """A revision with its text, taken from the next whole one if it is stored as a part."""
    if row["part"] is None:
        return row
    whole = tx.one(
        """select text from document
            where project = :project and workspace = :workspace and name = :name and n > :n and part is null
            order by n limit 1""",
        workspace=row["workspace"],
        name=row["name"],
        n=row["n"],
    )
    if whole is None:  # only in a database that was damaged
        raise NotFound(f"the text of revision {row['n']} of {row['name']} is lost")
    return row | {"text": whole["text"][: row["part"]]}


def _insert(
    tx: Transaction, workspace: str, document: Document, n: int, base: str, by: Author, at: int, *, filed: int
) -> Row:
    row = tx.one(
        """insert into document(project, workspace, name, n, revision, base, author, text, key, filed, at)
           values (:project, :workspace, :name, :n, :revision, :base, :author, :body, :key, :filed, :at) returning *""",
        workspace=workspace,
        name=document.name,
        n=n,
        revision=document.revision,
        base=base,
        author=by.name,
        body=document.text,
        key=by.key,
        filed=filed,
        at=at,
    )
    assert row is not None
    return row


def filed(tx: Transaction, workspace: Row, row: Row, kept: str, *, now: int) -> int:
    """Note where the file of a revision is, unless another runtime has noted it; returns what is noted now."""
    if (state := state_of(tx, row)) != UNFILED:
        return state
    tx.run(
        """update document set filed = :state
            where project = :project and workspace = :workspace and name = :name and n = :n""",
        state=BESIDE if kept else FILED,
        workspace=workspace["id"],
        name=row["name"],
        n=row["n"],
    )
    if not kept:
        return FILED
    inbox.ask(
        tx,
        "conflict",
        workspace=workspace["id"],
        ref=f"{row['name']}@{row['revision'][:12]}",
        text=f"{row['name']} was edited while {row['author']} wrote it; the other version is {kept}",
        now=now,
    )
    return BESIDE


def file_all(tx: Transaction, workspace: str) -> None:
    """Note that every revision is in its file."""
    tx.run(
        "update document set filed = 1 where project = :project and workspace = :workspace and filed = 0",
        workspace=workspace,
    )


def state_of(tx: Transaction, row: Row) -> int:
    found = tx.one(
        "select filed from document where project = :project and workspace = :workspace and name = :name and n = :n",
        workspace=row["workspace"],
        name=row["name"],
        n=row["n"],
    )
    return int(found["filed"]) if found else FILED


def spelling(tx: Transaction, workspace: str, name: str) -> str:
    """The name that a document has already, however its letters are cased."""
    if last_revision(tx, workspace, name):
        return name
    wanted = same_document(name)
    return next((row["name"] for row in latest(tx, workspace) if same_document(row["name"]) == wanted), name)


def last_revision(tx: Transaction, workspace: str, name: str) -> Row | None:
    return tx.one(
        """select * from document
            where project = :project and workspace = :workspace and name = :name order by n desc limit 1""",
        workspace=workspace,
        name=name,
    )


def by_key(tx: Transaction, workspace: str, key: str) -> Row | None:
    row = tx.one(
        "select * from document where project = :project and workspace = :workspace and key = :key and key <> ''",
        workspace=workspace,
        key=key,
    )
    return _unfolded(tx, row) if row else None


def unfiled(tx: Transaction, workspace: str) -> list[Row]:
    return tx.all(
        "select * from document where project = :project and workspace = :workspace and filed = 0 order by name, n",
        workspace=workspace,
    )


def latest(tx: Transaction, workspace: str) -> list[Row]:
    """The name of every document, with its newest revision. From one name to the next: with `distinct`, every
    revision would be looked at.
    """
    return tx.all(
        """with recursive known(name) as (
             select min(name) from document where project = :project and workspace = :workspace
             union all
             select (select min(d.name) from document d
                      where d.project = :project and d.workspace = :workspace and d.name > known.name)
               from known where known.name is not null)
           select name, (select d.revision from document d
                          where d.project = :project and d.workspace = :workspace and d.name = known.name
                          order by d.n desc limit 1) as revision
             from known where name is not null order by name""",
        workspace=workspace,
    )


def written_by(tx: Transaction, workspace: str, keys: Collection[str]) -> list[str]:
    """Names of the documents that these tool calls wrote."""
    found = [
        tx.one(
            "select name from document where project = :project and workspace = :workspace and key = :key",
            workspace=workspace,
            key=k,
        )
        for k in keys
    ]
    return sorted({row["name"] for row in found if row})


def without(tx: Transaction, workspace: str, now: Document, keys: Collection[str]) -> str | None:
    """A document without what these tool calls wrote; None when others have written on it in a way we cannot undo."""
    rows = tx.all(
        """select n, revision, key from document
            where project = :project and workspace = :workspace and name = :name order by n desc""",
        workspace=workspace,
        name=now.name,
    )
    if rows and rows[0]["key"] in keys and rows[0]["revision"] == now.revision:
        stays = next((row["n"] for row in rows if row["key"] not in keys), 0)
        return revised(tx, workspace, now.name, stays)[1] if stays else ""
    text: str | None = now.text
    for row in [row for row in rows if row["key"] in keys]:
        before, after = revised(tx, workspace, now.name, row["n"])
        added = after[len(before) :] if after.startswith(before) else ""
        text = _cut(text, added) if text is not None else None
    return text


def _cut(text: str, added: str) -> str | None:
    """A text without lines that were added at its end, if they stand there word for word, once; else None."""
    lines, gone = text.splitlines(keepends=True), [line.rstrip("\n") for line in added.strip("\n").splitlines()]
    plain = [line.rstrip("\n") for line in lines]
    places = [n for n in range(len(plain)) if plain[n : n + len(gone)] == gone]
    if not any(gone) or len(places) != 1:
        return None
    return "".join(lines[: places[0]] + lines[places[0] + len(gone) :])


def newest(tx: Transaction, workspace: str) -> list[Row]:
    """The newest revision of each document, without its text."""
    found = [
        tx.one(
            """select name, n, revision, author, at from document
                where project = :project and workspace = :workspace and name = :name order by n desc limit 1""",
            workspace=workspace,
            name=each["name"],
        )
        for each in latest(tx, workspace)
    ]
    return [row for row in found if row]


def revisions(tx: Transaction, workspace: str, name: str) -> list[Row]:
    """The history of a document, oldest first."""
    return tx.all(
        """select n, revision, base, author, at from document
            where project = :project and workspace = :workspace and name = :name order by n""",
        workspace=workspace,
        name=name,
    )


def revised(tx: Transaction, workspace: str, name: str, n: int) -> tuple[str, str]:
    """The texts before and after one revision."""
    after = tx.one(_REVISION, workspace=workspace, name=name, n=n)
    if after is None:
        last = len(revisions(tx, workspace, name))
        raise NotFound(f"{name} has no revision {n}", hint=f"they are numbered from 1 to {last}")
    before = tx.one(_REVISION, workspace=workspace, name=name, n=n - 1)
    return (_unfolded(tx, before)["text"] if before else ""), _unfolded(tx, after)["text"]


_REVISION = "select * from document where project = :project and workspace = :workspace and name = :name and n = :n"


def changed_since(tx: Transaction, workspace: str, at: int) -> list[str]:
    """The documents that the team has written since a time; those made from members' memory do not count."""
    rows = tx.all(
        """select distinct name from document
            where project = :project and workspace = :workspace and at >= :at order by name""",
        workspace=workspace,
        at=at,
    )
    return [row["name"] for row in rows if not is_public(row["name"])]


def joined(now: Document | None, text: str) -> str:
    before = now.text if now else ""
    gap = "" if not before or before.endswith("\n") else "\n"
    return f"{before}{gap}{text}"


def stale(name: str, now: Document | None) -> Stale:
    if now is None:
        return Stale(f"the document {name} no longer exists", hint="create it, or read the list")
    return Stale(
        f"{name} has changed since you read it; it is at revision {now.revision[:12]} now",
        hint=f"read {name} again, then write with that revision",
    )


def forget_workspace(tx: Transaction, workspace: str) -> None:
    tx.run("delete from document where project = :project and workspace = :workspace", workspace=workspace)
