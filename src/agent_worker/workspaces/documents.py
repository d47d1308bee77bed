"""Named texts a team shares. The file is the truth where there is one.

A write is first committed as a revision and then put into its file, so that a crash in between is made good at
the next start and a tool call made twice is one revision. Writing takes the revision that was read, and the transaction
that commits it looks again: a colleague's text is never reverted, whichever runtime wrote it. Nor is a person's edit in
between: theirs stays in place, ours is kept beside it, and the conflict is told.
Where one member owns the documents, the others only suggest; a person always writes. Secrets are taken out of what is
written here; what a person puts into a file with an editor stays as it is.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import ClassVar
from weakref import WeakValueDictionary

from agent_worker.core.address import check_no_secret
from agent_worker.core.clock import Clock
from agent_worker.core.errors import BadInput, NotFound, Stale
from agent_worker.core.failpoints import failpoint
from agent_worker.core.later import dataclass
from agent_worker.database.database import ProjectDatabase, Row
from agent_worker.files.paths import is_text, same_document, text_names
from agent_worker.files.root import Root
from agent_worker.files.swap import Conflict, content_hash, kept_as
from agent_worker.workspaces import document_rows
from agent_worker.workspaces.document_rows import BESIDE, FILED, UNFILED, Author, CurrentDocument, Document, Overtaken
from agent_worker.workspaces.workspace_rows import files_of

log = logging.getLogger(__name__)

LIMIT = 4 * 1024 * 1024
TRIES = 200  #: to append while others do
EMPTY = content_hash("")
DEFAULT = "notes.md"
DOCUMENT = "context.document"  #: among the values of an instance: the document that is meant when none is named
FOLDER = "documents"
COPIED = "copied"  #: where documents are: in the database, with copies in files (document_copies.py)


#: Brings the files on this host together with what several hosts share; None where there is one host.
LookAtCopies = Callable[[Row], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Undone:
    """Names of documents that were undone, and of those that could not be."""

    taken: list[str]
    stands: list[str]  #: others have written on what was to be taken back


def is_filed(workspace: Row) -> bool:
    """Whether the documents of a workspace are files."""
    return bool(workspace["documents"] == "file" and workspace["directory"])


def first_document(workspace: Row) -> str:
    """The document that is meant in a workspace where none is named."""
    return str(json.loads(workspace["given"]).get(DOCUMENT) or DEFAULT)


class Documents:
    """The documents of one workspace."""

    _writing: ClassVar[WeakValueDictionary[tuple[int, str, str], asyncio.Lock]] = WeakValueDictionary()

    def __init__(
        self, database: ProjectDatabase, clock: Clock, workspace: Row, copies: LookAtCopies | None = None
    ) -> None:
        self._database = database
        self._clock = clock
        self._workspace = workspace
        self._copies = copies
        self._root = files_of(workspace).beneath(FOLDER) if is_filed(workspace) else None
        self.first = first_document(workspace)  #: the one that is meant where none is named

    async def read(self, name: str) -> Document:
        name = checked_name(name)
        await self._see_copies()
        async with self._alone(name):
            name = await self._called(name)
            await self._catch_up_if_possible(name)
            found = await self._look(name)
        if found is None:
            names = ", ".join(sorted(await self.names())) or "none yet"
            raise NotFound(f"there is no document {name}", hint=f"documents: {names}")
        return found

    async def names(self) -> list[str]:
        """The documents that say something: of one that was taken back not even the name is left."""
        return list(await self.stamps())

    async def stamps(self) -> dict[str, str]:
        """For each document, a stamp that changes when its text does. The texts are not read."""
        if self._root is not None:
            return await asyncio.to_thread(_stamps_beneath, self._root)
        await self._see_copies()
        rows = await self._database.read(document_rows.latest, self._workspace["id"])
        return {row["name"]: row["revision"] for row in rows if row["revision"] != EMPTY}

    async def write(self, name: str, text: str, *, base: str | None, by: Author) -> Document:
        """Replace the text that had the revision `base`, or one that begins so; None is for one that is not there."""
        name = checked_name(name)
        await self._see_copies()
        async with self._alone(name):
            if done := await self._made_before(by):
                return done
            now = await self._current(name, by)
            if not now.is_at(base):
                raise document_rows.stale(now.name, now.document)
            try:
                return await self._put(now, text, by)
            except Overtaken:
                if done := await self._made_before(by):
                    return done
                raise document_rows.stale(now.name, (await self._current(name, by)).document) from None

    async def append(self, name: str, text: str, *, by: Author) -> Document:
        """Add to the end, whatever stands there; a missing document begins with this."""
        name = checked_name(name)
        await self._see_copies()
        async with self._alone(name):
            for _ in range(TRIES):
                if done := await self._made_before(by):  # now, or by another host that was faster
                    return done
                now = await self._current(name, by)
                try:
                    return await self._put(now, document_rows.joined(now.document, text), by)
                except Overtaken:
                    continue
        raise Stale(f"others keep changing {name}; this was not added", hint="try again")

    async def undo(self, keys: Collection[str]) -> Undone:
        """Take back what these tool calls wrote. Where others have gone on from it, it stands, and is named."""
        undone = Undone([], [])
        await self._see_copies()
        for name in await self._database.read(document_rows.written_by, self._workspace["id"], keys):
            async with self._alone(name):
                match await self._undo(name, keys):
                    case True:
                        undone.taken.append(name)
                    case False:
                        undone.stands.append(name)
        return undone

    async def _undo(self, name: str, keys: Collection[str]) -> bool | None:
        """Undo what these calls wrote; None if the document is gone, False if what they wrote cannot be taken out."""
        for _ in range(TRIES):
            now = await self._current(name, Author("user"))
            if now.document is None:
                return None
            text = await self._database.read(document_rows.without, self._workspace["id"], now.document, keys)
            if text is None:
                return False
            try:
                await self._put(now, text, Author("user"))
            except Overtaken:
                continue
            return True
        return False

    async def file_pending(self) -> None:
        """Bring to their files what a crash kept from them. A person's edit since then stands; the person is told."""
        for row in await self._database.read(document_rows.unfiled, self._workspace["id"]):
            async with self._alone(row["name"]):
                await self._catch_up_if_possible(row["name"])

    async def _see_copies(self) -> None:
        """Bring the copies on this host, which people edit, and the revisions together."""
        if self._copies:
            await self._copies(self._workspace)

    def _alone(self, name: str) -> asyncio.Lock:
        """The lock under which writers of one runtime take turns, which spares them trying again. `revise` guards the
        text.
        """
        return self._writing.setdefault(
            (id(self._database), self._workspace["id"], same_document(name)), asyncio.Lock()
        )

    async def _called(self, name: str) -> str:
        return await self._database.read(document_rows.spelling, self._workspace["id"], name)

    async def _look(self, name: str) -> Document | None:
        if self._root is None:
            row = await self._database.read(document_rows.last_revision, self._workspace["id"], name)
            # Where there are copies, a person removes a document with its file: what says nothing is not there.
            gone = row is None or (self._workspace["documents"] == COPIED and row["revision"] == EMPTY)
            return None if gone or row is None else Document(name, row["text"], row["revision"])
        try:
            text = await asyncio.to_thread(self._root.read_text, name, limit=LIMIT)
        except NotFound:
            return None
        return Document(name, text, content_hash(text))

    async def _made_before(self, by: Author) -> Document | None:
        row = await self._database.read(document_rows.by_key, self._workspace["id"], by.key) if by.key else None
        if row is None:
            return None
        await self._file(row)
        return Document(row["name"], row["text"], row["revision"])

    async def _current(self, name: str, by: Author) -> CurrentDocument:
        """The document that a change is made from. Whatever is committed after this look is noticed by `revise`."""
        name = await self._called(name)
        check_no_secret(name, self._database.redact, of="a document")
        await self._database.read(document_rows.let_write, self._workspace["id"], name, by)
        last = await self._database.read(document_rows.last_revision, self._workspace["id"], name)
        if last is not None:
            await self._catch_up(last)
        return CurrentDocument(name, await self._look(name), last["n"] if last else 0)

    async def _put(self, now: CurrentDocument, text: str, by: Author) -> Document:
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
        row = await self._database.write(document_rows.revise, self._workspace, new, now, by, at=self._clock.micros())
        failpoint("document.before_file")
        await self._see_copies()
        try:
            await self._file(row | {"text": text})  # which may hold what a person wrote, and the row may not
        except OSError:  # it is stored, and whoever needs the file next tries again
            log.exception("the file of document %s could not be written", now.name)
        return new

    def _without_secrets(self, text: str, now: Document | None) -> str:
        """Take the secrets out of a text as a whole, so that one in two halves is seen.

        But what a person wrote into the file stays theirs: there a secret is left standing, and only what the
        database keeps of it is without.
        """
        redact = self._database.redact
        if self._root is None or now is None or redact(now.text) == now.text or not text.startswith(now.text):
            return redact(text)
        return now.text + redact(text[len(now.text) :])

    async def _catch_up(self, row: Row) -> None:
        """Bring the last revision to its file, before anything is built on that file; a person's edit there stands."""
        with suppress(Stale):  # the inbox says so; whoever comes now did not write that text, and goes on from theirs
            await self._file(row)

    async def _catch_up_if_possible(self, name: str) -> None:
        row = await self._database.read(document_rows.last_revision, self._workspace["id"], name)
        try:
            if row is not None:
                await self._catch_up(row)
        except OSError:
            log.exception("the file of document %s could not be written", name)

    async def _file(self, row: Row) -> None:
        """Bring a revision to its file. Raises Stale when a person's edit stands there, and it is kept beside it."""
        if self._root is None:
            return
        state = await self._database.read(document_rows.state_of, row)
        if state == UNFILED:
            outcome = await asyncio.to_thread(self._root.swap, row["name"], row["text"], expected=row["base"] or None)
            failpoint("document.after_file")
            kept = outcome.kept if isinstance(outcome, Conflict) else ""
            state = await self._database.write(
                document_rows.filed, self._workspace, row, kept, now=self._clock.micros()
            )
            if kept and state == FILED:
                # Another runtime brought it there, and it was rightly written over since: nobody's text is in danger.
                with suppress(NotFound):
                    await asyncio.to_thread(self._root.remove, kept)
        if state == BESIDE:
            kept = kept_as(row["name"], row["revision"])
            raise Stale(
                f"{row['name']} was changed by someone else at the same moment; your text is kept as {kept}",
                hint="read the document again and merge",
            )


# --- names --------------------------------------------------------------------------------------------


def checked_name(name: str) -> str:
    if not name:
        raise BadInput("a document needs a name", hint=f"such as {DEFAULT} or plans/release.md")
    return "/".join(text_names(name))


def _stamps_beneath(root: Root, folder: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    try:
        entries = root.list(folder)
    except NotFound:
        return found
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if entry.is_directory and not entry.name.startswith("."):
            found |= _stamps_beneath(root, path)
        elif entry.size and is_text(path):
            found[path] = f"{entry.modified}-{entry.size}"
    return found
