"""Named texts a team shares. The file is the truth where there is one; the one writer of table `document`.

A write is first committed as a revision and then put into its file, so that a crash in between is made good at
the next start and a tool call made twice is one revision. Writing takes the revision that was read, and the transaction
that commits it looks again: a colleague's text is never reverted, whichever engine wrote it. Nor is a person's edit in
between: theirs stays in place, ours is kept beside it, and the conflict is told.
Where one member owns the documents, the others only suggest; a person always writes. Secrets are taken out of what is
written here; what a person puts into a file with an editor stays as it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakValueDictionary

from agent_worker.core.clock import Clock
from agent_worker.core.errors import BadInput, NotFound, Refused, Stale
from agent_worker.core.events import DocumentChanged
from agent_worker.core.failpoints import failpoint
from agent_worker.database.database import Database, Row, Transaction
from agent_worker.files.paths import is_text, same_document, text_names
from agent_worker.files.root import Root
from agent_worker.files.swap import Conflict, content_hash, kept_as
from agent_worker.work import inbox
from agent_worker.workspaces.workspace_rows import files_of

log = logging.getLogger(__name__)

LIMIT = 4 * 1024 * 1024
UNFILED, FILED, BESIDE = 0, 1, 2  #: of a revision: not yet in its file, there, or kept beside what a person wrote
TRIES = 20  #: to append while others do
SHORTEST = 6  #: characters of a revision that name it
DEFAULT = "notes.md"
FOLDER = "documents"


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
class _Current:
    """A document as it was looked at, to be changed."""

    name: str
    document: Document | None
    n: int  #: of its last revision that was committed then; 0 when there was none

    def is_at(self, base: str | None) -> bool:
        if base is None or self.document is None:
            return base is None and self.document is None
        return len(base) >= SHORTEST and self.document.revision.startswith(base)


class _Overtaken(Exception):
    """Raised when somebody else has committed a revision since we looked."""


@dataclass(frozen=True, slots=True)
class Undone:
    """Names of documents that were undone, and of those that could not be."""

    taken: list[str]
    stands: list[str]  #: others have written on what was to be taken back


def is_filed(workspace: Row) -> bool:
    """Whether the documents of a workspace are files."""
    return bool(workspace["documents"] == "file" and workspace["directory"])


class Documents:
    """The documents of one workspace."""

    _writing: ClassVar[WeakValueDictionary[tuple[int, str, str], asyncio.Lock]] = WeakValueDictionary()

    def __init__(self, database: Database, clock: Clock, workspace: Row) -> None:
        self._database = database
        self._clock = clock
        self._workspace = workspace
        self._root = files_of(workspace).beneath(FOLDER) if is_filed(workspace) else None

    async def read(self, name: str = DEFAULT) -> Document:
        name = checked_name(name)
        async with self._alone(name):
            name = await self._called(name)
            await self._catch_up_if_possible(name)
            found = await self._look(name)
        if found is None:
            names = ", ".join(sorted(await self.names())) or "none yet"
            raise NotFound(f"there is no document {name}", hint=f"documents: {names}")
        return found

    async def names(self) -> list[str]:
        if self._root is not None:
            return await asyncio.to_thread(_names_beneath, self._root)
        rows = await self._database.read(_latest, self._workspace["id"])
        return [row["name"] for row in rows]

    async def write(self, name: str, text: str, *, base: str | None, by: Author) -> Document:
        """Replace the text that had the revision `base`, or one that begins so; None is for one that is not there."""
        name = checked_name(name)
        async with self._alone(name):
            if done := await self._made_before(by):
                return done
            now = await self._current(name, by)
            if not now.is_at(base):
                raise _stale(now.name, now.document)
            try:
                return await self._put(now, text, by)
            except _Overtaken:
                raise _stale(now.name, (await self._current(name, by)).document) from None

    async def append(self, name: str, text: str, *, by: Author) -> Document:
        """Add to the end, whatever stands there; a missing document begins with this."""
        name = checked_name(name)
        async with self._alone(name):
            if done := await self._made_before(by):
                return done
            for _ in range(TRIES):
                now = await self._current(name, by)
                try:
                    return await self._put(now, _joined(now.document, text), by)
                except _Overtaken:
                    continue
        raise Stale(f"{name} is written by others all the time; this was not added", hint="try again")

    async def undo(self, keys: Collection[str]) -> Undone:
        """Take back what these tool calls wrote. Where others have gone on from it, it stands, and is named."""
        undone = Undone([], [])
        for name in await self._database.read(_written_by, self._workspace["id"], keys):
            async with self._alone(name):
                match await self._undo(name, keys):
                    case True:
                        undone.taken.append(name)
                    case False:
                        undone.stands.append(name)
        return undone

    async def _undo(self, name: str, keys: Collection[str]) -> bool | None:
        """Undo what these calls wrote; None when there is nothing any more, False when it stands."""
        for _ in range(TRIES):
            now = await self._current(name, Author("user"))
            if now.document is None:
                return None
            text = await self._database.read(_without, self._workspace["id"], now.document, keys)
            if text is None:
                return False
            try:
                await self._put(now, text, Author("user"))
            except _Overtaken:
                continue
            return True
        return False

    async def file_pending(self) -> None:
        """Bring to their files what a crash kept from them. A person's edit since then stands; the person is told."""
        for row in await self._database.read(_unfiled, self._workspace["id"]):
            async with self._alone(row["name"]):
                await self._catch_up_if_possible(row["name"])

    def _alone(self, name: str) -> asyncio.Lock:
        """Writers of one engine take turns, which spares them trying again. What guards the text is in `_revise`."""
        return self._writing.setdefault(
            (id(self._database), self._workspace["id"], same_document(name)), asyncio.Lock()
        )

    async def _called(self, name: str) -> str:
        return await self._database.read(_spelling, self._workspace["id"], name)

    async def _look(self, name: str) -> Document | None:
        if self._root is None:
            row = await self._database.read(_last, self._workspace["id"], name)
            return Document(name, row["text"], row["revision"]) if row else None
        try:
            text = await asyncio.to_thread(self._root.read_text, name, limit=LIMIT)
        except NotFound:
            return None
        return Document(name, text, content_hash(text))

    async def _made_before(self, by: Author) -> Document | None:
        row = await self._database.read(_by_key, self._workspace["id"], by.key) if by.key else None
        if row is None:
            return None
        await self._file(row)
        return Document(row["name"], row["text"], row["revision"])

    async def _current(self, name: str, by: Author) -> _Current:
        """What a change is made from. Whatever is committed after this look is noticed by `_revise`."""
        name = await self._called(name)
        if self._database.redact(name) != name:
            raise BadInput("the name of a document cannot hold a secret", hint="choose another name")
        await self._database.read(_let_write, self._workspace["id"], name, by)
        last = await self._database.read(_last, self._workspace["id"], name)
        if last is not None:
            await self._catch_up(last)
        return _Current(name, await self._look(name), last["n"] if last else 0)

    async def _put(self, now: _Current, text: str, by: Author) -> Document:
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise BadInput("the text holds half a character: it is not valid Unicode") from None
        if size > LIMIT:
            raise BadInput(f"a document holds at most {LIMIT // 1024 // 1024} MiB")
        if "\x00" in text:
            raise BadInput("a document holds text: there is a NUL byte in this")
        text = self._without_secrets(text, now.document)
        new = Document(now.name, text, content_hash(text))
        if now.document is not None and now.document.revision == new.revision:
            return now.document
        row = await self._database.write(_revise, self._workspace, new, now, by, at=self._clock.micros())
        failpoint("document.before_file")
        try:
            await self._file(row | {"text": text})  # which may hold what a person wrote, and the row may not
        except OSError:  # it is stored, and whoever needs the file next tries again
            log.exception("the file of document %s could not be written", now.name)
        return new

    def _without_secrets(self, text: str, now: Document | None) -> str:
        """As a whole, so that one in two halves is seen. But what a person wrote into the file stays theirs: there a
        secret is left standing, and only what the database keeps of it is without."""
        redact = self._database.redact
        if self._root is None or now is None or redact(now.text) == now.text or not text.startswith(now.text):
            return redact(text)
        return now.text + redact(text[len(now.text) :])

    async def _catch_up(self, row: Row) -> None:
        """Nothing is built on a file that lacks the last revision, unless a person's edit stands there instead."""
        with suppress(Stale):  # the inbox says so; whoever comes now did not write that text, and goes on from theirs
            await self._file(row)

    async def _catch_up_if_possible(self, name: str) -> None:
        row = await self._database.read(_last, self._workspace["id"], name)
        try:
            if row is not None:
                await self._catch_up(row)
        except OSError:
            log.exception("the file of document %s could not be written", name)

    async def _file(self, row: Row) -> None:
        """Bring a revision to its file. Raises Stale when a person's edit stands there, and it is kept beside it."""
        if self._root is None:
            return
        state = await self._database.read(_state, row)
        if state == UNFILED:
            outcome = await asyncio.to_thread(self._root.swap, row["name"], row["text"], expected=row["base"] or None)
            failpoint("document.after_file")
            kept = outcome.kept if isinstance(outcome, Conflict) else ""
            state = await self._database.write(_filed, self._workspace, row, kept, now=self._clock.micros())
            if kept and state == FILED:
                # Another engine brought it there, and it was rightly written over since: nobody's text is in danger.
                with suppress(NotFound):
                    await asyncio.to_thread(self._root.remove, kept)
        if state == BESIDE:
            kept = kept_as(row["name"], row["revision"])
            raise Stale(
                f"{row['name']} was changed by someone else at the same moment; your text is kept as {kept}",
                hint="read the document again and merge",
            )


# --- transactions -------------------------------------------------------------------------------------


def _let_write(tx: Transaction, workspace: str, name: str, by: Author) -> None:
    """Refuse an agent that does not own the documents."""
    row = tx.one("select document_owner from workspace where id = :workspace", workspace=workspace)
    owner = row["document_owner"] if row else ""
    if owner and by.is_agent and by.name != owner:
        raise Refused(
            f"{owner} owns the documents of this workspace: only {owner} writes {name}",
            hint=f"tell {owner} what to write: team_doc_suggest",
        )


def append_stored(tx: Transaction, workspace: Row, name: str, text: str, by: Author, *, at: int) -> None:
    """Add to a document that is kept in the database, as part of a larger change."""
    last = _last(tx, workspace["id"], name)
    now = Document(name, last["text"], last["revision"]) if last else None
    whole = tx.redact(_joined(now, text))
    seen = _Current(name, now, last["n"] if last else 0)
    _revise(tx, workspace, Document(name, whole, content_hash(whole)), seen, by, at=at)


def _revise(tx: Transaction, workspace: Row, new: Document, seen: _Current, by: Author, *, at: int) -> Row:
    """Raises _Overtaken when somebody has committed since `seen`: their text would be gone with ours."""
    _let_write(tx, workspace["id"], new.name, by)  # looked at before; it may have changed since
    last, now = _last(tx, workspace["id"], new.name), seen.document
    if (last["n"] if last else 0) != seen.n or _spelling(tx, workspace["id"], new.name) != new.name:
        raise _Overtaken
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
    """What the next revision begins with is not stored twice: a line that is appended costs a line, not the text."""
    if following.startswith(last["text"]):
        tx.run(
            "update document set text = '', part = :part where workspace = :workspace and name = :name and n = :n",
            workspace=last["workspace"],
            name=last["name"],
            n=last["n"],
            part=len(last["text"]),
        )


def _unfolded(tx: Transaction, row: Row) -> Row:
    """A revision with its text; the last one is always whole."""
    if row["part"] is None:
        return row
    whole = tx.one(
        """select text from document where workspace = :workspace and name = :name and n > :n and part is null
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
        """insert into document(workspace, name, n, revision, base, author, text, key, filed, at)
           values (:workspace, :name, :n, :revision, :base, :author, :body, :key, :filed, :at) returning *""",
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


def _filed(tx: Transaction, workspace: Row, row: Row, kept: str, *, now: int) -> int:
    """Note where it is, unless another engine has: then that stands. What is noted now."""
    if (state := _state(tx, row)) != UNFILED:
        return state
    tx.run(
        "update document set filed = :state where workspace = :workspace and name = :name and n = :n",
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
        project=workspace["project"],
        workspace=workspace["id"],
        ref=f"{row['name']}@{row['revision'][:12]}",
        text=f"{row['name']} was edited while {row['author']} wrote it; the other version is {kept}",
        now=now,
    )
    return BESIDE


def _state(tx: Transaction, row: Row) -> int:
    found = tx.one(
        "select filed from document where workspace = :workspace and name = :name and n = :n",
        workspace=row["workspace"],
        name=row["name"],
        n=row["n"],
    )
    return int(found["filed"]) if found else FILED


def _spelling(tx: Transaction, workspace: str, name: str) -> str:
    """The name that a document has already, however its letters are cased."""
    if _last(tx, workspace, name):
        return name
    wanted = same_document(name)
    return next((row["name"] for row in _latest(tx, workspace) if same_document(row["name"]) == wanted), name)


def _last(tx: Transaction, workspace: str, name: str) -> Row | None:
    return tx.one(
        "select * from document where workspace = :workspace and name = :name order by n desc limit 1",
        workspace=workspace,
        name=name,
    )


def _by_key(tx: Transaction, workspace: str, key: str) -> Row | None:
    row = tx.one(
        "select * from document where workspace = :workspace and key = :key and key <> ''", workspace=workspace, key=key
    )
    return _unfolded(tx, row) if row else None


def _unfiled(tx: Transaction, workspace: str) -> list[Row]:
    return tx.all(
        "select * from document where workspace = :workspace and filed = 0 order by name, n", workspace=workspace
    )


def _latest(tx: Transaction, workspace: str) -> list[Row]:
    """From one name to the next: with `distinct`, every revision would be looked at."""
    return tx.all(
        """with recursive known(name) as (
             select min(name) from document where workspace = :workspace
             union all
             select (select min(d.name) from document d where d.workspace = :workspace and d.name > known.name)
               from known where known.name is not null)
           select name from known where name is not null order by name""",
        workspace=workspace,
    )


def _written_by(tx: Transaction, workspace: str, keys: Collection[str]) -> list[str]:
    """Names of the documents that these tool calls wrote."""
    found = [
        tx.one("select name from document where workspace = :workspace and key = :key", workspace=workspace, key=k)
        for k in keys
    ]
    return sorted({row["name"] for row in found if row})


def _without(tx: Transaction, workspace: str, now: Document, keys: Collection[str]) -> str | None:
    """A document without what these tool calls wrote; None when others have written on it in a way we cannot undo."""
    rows = tx.all(
        "select n, revision, key from document where workspace = :workspace and name = :name order by n desc",
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
    """Without lines that were added at an end and stand there word for word, once; None when they do not."""
    lines, gone = text.splitlines(keepends=True), [line.rstrip("\n") for line in added.strip("\n").splitlines()]
    plain = [line.rstrip("\n") for line in lines]
    places = [n for n in range(len(plain)) if plain[n : n + len(gone)] == gone]
    if not any(gone) or len(places) != 1:
        return None
    return "".join(lines[: places[0]] + lines[places[0] + len(gone) :])


def revisions(tx: Transaction, workspace: str, name: str) -> list[Row]:
    """The history of a document, oldest first."""
    return tx.all(
        "select n, revision, base, author, at from document where workspace = :workspace and name = :name order by n",
        workspace=workspace,
        name=name,
    )


def revised(tx: Transaction, workspace: str, name: str, n: int) -> tuple[str, str]:
    """The texts before and after one revision."""
    after = tx.one(_REVISION, workspace=workspace, name=name, n=n)
    if after is None:
        raise NotFound(f"{name} has no revision {n}", hint=f"agent-worker doc read {name}")
    before = tx.one(_REVISION, workspace=workspace, name=name, n=n - 1)
    return (_unfolded(tx, before)["text"] if before else ""), _unfolded(tx, after)["text"]


_REVISION = "select * from document where workspace = :workspace and name = :name and n = :n"


def changed_since(tx: Transaction, workspace: str, at: int) -> list[str]:
    rows = tx.all(
        "select distinct name from document where workspace = :workspace and at >= :at order by name",
        workspace=workspace,
        at=at,
    )
    return [row["name"] for row in rows]


# --- names --------------------------------------------------------------------------------------------


def checked_name(name: str) -> str:
    if not name:
        raise BadInput("a document needs a name", hint=f"such as {DEFAULT} or plans/release.md")
    return "/".join(text_names(name))


def _names_beneath(root: Root, folder: str = "") -> list[str]:
    found: list[str] = []
    try:
        entries = root.list(folder)
    except NotFound:
        return found
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if entry.is_directory and not entry.name.startswith("."):
            found += _names_beneath(root, path)
        elif is_text(path):
            found.append(path)
    return found


def _joined(now: Document | None, text: str) -> str:
    before = now.text if now else ""
    gap = "" if not before or before.endswith("\n") else "\n"
    return f"{before}{gap}{text}"


def _stale(name: str, now: Document | None) -> Stale:
    if now is None:
        return Stale(f"there is no document {name} any more", hint="create it, or read the list")
    return Stale(
        f"{name} has changed since you read it; it is at revision {now.revision[:12]} now",
        hint=f"read {name} again, then write with that revision",
    )


def forget_workspace(tx: Transaction, workspace: str) -> None:
    tx.run("delete from document where workspace = :workspace", workspace=workspace)
