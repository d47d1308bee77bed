"""Files on this host that are copies of texts kept elsewhere, for several hosts: brought together by content hash.

People edit the copies, here and on other hosts. For each path three things are compared: the file, what is kept, and
what both were when they last agreed. Whoever has changed is followed. If both have, what is kept stands, the other text
is kept beside it under a name of its own, on every host, and the person is told. A folder that is gone altogether was
not emptied by a person: it is written anew. Below: root.py. Above: who keeps the texts, as a `Keeper`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Literal, Protocol

from agent_worker.core.errors import AgentWorkerError, BadInput, NotFound, Refused, StorageFault
from agent_worker.core.later import dataclass
from agent_worker.files.paths import is_text
from agent_worker.files.root import Root
from agent_worker.files.swap import Conflict, content_hash, kept_as

log = logging.getLogger(__name__)

LARGEST = 4 * 1024 * 1024  #: bytes of a text that is kept for all hosts; what is larger stays on its host
ROUNDS = 5  # in which others may be faster than we
SHORT = 16  #: characters of a hash by which earlier texts are known

Verdict = Literal["same", "write", "take", "both"]


@dataclass(frozen=True, slots=True)
class Agreed:
    """The hashes of file and text when they last were one. They differ when the file holds a secret."""

    file: str
    kept: str


class Keeper(Protocol):
    async def versions(self) -> Mapping[str, str]:
        """The hashes of all texts, by path; '' for those that are gone, as far as they are known."""
        ...

    async def earlier(self, path: str) -> Sequence[str]:
        """How the hashes of earlier texts begin, the oldest first, as far as they are known."""
        ...

    async def text(self, path: str) -> tuple[str, str]:
        """A text and its hash; '' twice when it is gone."""
        ...

    async def put(self, path: str, text: str | None, *, seen: str) -> str | None:
        """Keep a text, or that it is gone, if what is kept still is `seen`; its hash. None: somebody was faster."""
        ...

    async def put_beside(self, path: str, text: str, *, beside: str) -> str:
        """Keep a text that was written while `beside` was changed elsewhere, and tell the person; its hash."""
        ...


def verdict(agreed: Agreed | None, file: str, kept: str, earlier: Sequence[str] = ()) -> Verdict:
    """What is to be done for a path: write the file, take its text over, or keep both. '' stands for no file."""
    if file == kept or (agreed and (file, kept) == (agreed.file, agreed.kept)):
        return "same"
    if agreed and kept == agreed.kept:
        return "take"
    if not file:
        return "write"
    if agreed and file == agreed.file:
        return "write" if agreed.file == agreed.kept else "both"
    if _is_older(file, earlier, than=agreed):
        return "write"
    return "both" if kept else "take"


def _is_older(file: str, earlier: Sequence[str], *, than: Agreed | None) -> bool:
    """Whether a file holds an earlier text: of a checkout that is behind, or of another host that writes the same
    folder.

    One from before we last agreed does not count: a person has put it back since.
    """
    if file[:SHORT] not in earlier:
        return False
    since = than.kept[:SHORT] if than else ""
    return since not in earlier or earlier.index(file[:SHORT]) > earlier.index(since)


class CopyRecord:
    """What file and text were when they last agreed, of one folder on this host; kept in the host's home."""

    def __init__(self, home: Root | None, name: str) -> None:
        self._home = home
        self._path = f"copies/{name}.json"
        self._stored: dict[str, Agreed] | None = None

    def load(self) -> dict[str, Agreed]:
        if self._stored is None:
            self._stored = self._read()
        return dict(self._stored)

    def _read(self) -> dict[str, Agreed]:
        with suppress(AgentWorkerError, ValueError, TypeError):  # without it, less is known: nothing is lost
            found = json.loads(self._home.read_text(self._path)) if self._home else {}
            return {str(path): Agreed(str(file), str(kept)) for path, (file, kept) in found.items()}
        return {}

    def save(self, agreed: dict[str, Agreed]) -> None:
        if agreed == self._stored:
            return
        if self._home is not None:
            texts = {path: [each.file, each.kept] for path, each in agreed.items()}
            self._home.replace(self._path, json.dumps(texts, ensure_ascii=False))
        self._stored = dict(agreed)

    def forget(self) -> None:
        self._stored = {}
        with suppress(NotFound):
            if self._home is not None:
                self._home.remove(self._path)


Stamps = dict[str, str]  #: by path: what changes when a file does


class Copies:
    """The files of one folder."""

    def __init__(self, root: Root, list_in: Callable[[Root], Stamps], keeper: Keeper, record: CopyRecord) -> None:
        self.root = root
        self.seen: Stamps | None = None  #: of the files when they last agreed with what is kept
        self._list = list_in
        self._keeper = keeper
        self._record = record
        self._hashes: dict[str, tuple[str, str]] = {}  # by path: stamp and hash
        self._left: set[str] = set()  # files that stay on this host, of which it was said
        self._blocked: set[str] = set()  # and those that something here is in the way of
        self._alone = asyncio.Lock()

    def stamps(self) -> Stamps:
        """A stamp of each file, which changes when the file does. Looks at files: call it in a thread."""
        try:
            return self._list(self.root) if self.root.is_there else {}  # most of many have never worked
        except AgentWorkerError as error:
            log.warning("%s cannot be looked at: %s", self.root.location(), error.message)
            return {}

    async def agree(self) -> None:
        """Bring files and texts together. Raises OSError and StorageFault; done again, it goes on where it was."""
        async with self._alone:
            agreed = await asyncio.to_thread(self._record.load)
            try:
                for _ in range(ROUNDS):
                    if await self._round(agreed):
                        break
            finally:
                await asyncio.to_thread(self._record.save, agreed)

    async def _round(self, agreed: dict[str, Agreed]) -> bool:
        """Bring files and texts together once. True: nothing was left to do."""
        kept = await self._keeper.versions()
        stamps = await asyncio.to_thread(self.stamps)
        files, odd = await asyncio.to_thread(self._look, stamps)
        if not stamps and not self.root.is_there:
            agreed.clear()
        done, blocked = True, set[str]()
        for path in sorted({*kept, *files, *agreed} - odd):
            # What this database never knew, it did not remove: it is another one, or was put back to an earlier day.
            both = agreed.get(path) if path in kept else None
            file, text = files.get(path, ""), kept.get(path, "")
            what = verdict(both, file, text)
            if what != "same" and file and path in kept and not (both and (both.file == file or both.kept == text)):
                what = verdict(both, file, text, await self._keeper.earlier(path))
            if what == "same" and not file and path not in kept:
                agreed.pop(path, None)
            elif what == "same":
                agreed[path] = Agreed(file, text)  # also that both are gone: who puts it back, has written it anew
            elif await self._could_make(what, path, file, text, agreed):
                done = False
            else:
                blocked.add(path)
        self._blocked = blocked
        if done:  # what is in the way is no text, and no stamp tells when it is gone: then it is looked at again
            self.seen = None if blocked else stamps
        return done

    async def _could_make(self, what: Verdict, path: str, file: str, kept: str, agreed: dict[str, Agreed]) -> bool:
        """What is in the way of one file, such as a link, keeps no other from its turn."""
        try:
            await self._make(what, path, file, kept, agreed)
        except (BadInput, Refused) as error:
            if isinstance(error, StorageFault):
                raise
            if path not in self._blocked:
                log.warning("%s is not what other hosts have: %s", self.root.location(path), error.message)
            return False
        return True

    async def _make(self, what: Verdict, path: str, file: str, kept: str, agreed: dict[str, Agreed]) -> None:
        if what == "write":
            return await self._write(path, file, agreed)
        text = await asyncio.to_thread(self._text, path, file)
        if text is None and file:
            return  # it was changed since we looked: the next round sees it
        if what == "take":
            now = await self._keeper.put(path, text, seen=kept)
            if now is not None:
                agreed[path] = Agreed(file, now)
            return
        assert text is not None
        beside = kept_as(path, file)
        log.warning("%s was changed here and elsewhere; what stood here is kept as %s", path, beside)
        now = await self._keeper.put_beside(beside, text, beside=path)
        await asyncio.to_thread(self.root.replace, beside, text)
        agreed[beside] = Agreed(file, now)
        await self._write(path, file, agreed)

    async def _write(self, path: str, file: str, agreed: dict[str, Agreed]) -> None:
        """Put what is kept in place of the file that was seen, and of no other."""
        text, now = await self._keeper.text(path)
        if not now:
            if await asyncio.to_thread(self._text, path, file) is not None:
                await asyncio.to_thread(self.root.remove, path)
            agreed[path] = Agreed("", "")
            return
        outcome = await asyncio.to_thread(self.root.swap, path, text, expected=file or None)
        if isinstance(outcome, Conflict):  # a person saved it in this moment: the next round sees it
            with suppress(NotFound):
                await asyncio.to_thread(self.root.remove, outcome.kept)
        else:
            agreed[path] = Agreed(outcome, now)

    def _look(self, stamps: Stamps) -> tuple[dict[str, str], set[str]]:
        """The hash of each file, and those that are no texts we could keep."""
        files, odd = dict[str, str](), set[str]()
        for path, stamp in stamps.items():
            known = self._hashes.get(path)
            if known is None or known[0] != stamp:
                text = self._read(path)
                if text is None:
                    odd.add(path)
                    continue
                known = self._hashes[path] = (stamp, content_hash(text))
            files[path] = known[1]
        for path in odd - self._left:
            log.warning("%s stays on this host: it is no text of at most 4 MiB, or a link", self.root.location(path))
        self._left = odd
        return files, odd

    def _read(self, path: str) -> str | None:
        try:
            text = self.root.read_text(path, limit=LARGEST, shared=False)
        except AgentWorkerError:
            return None
        return None if "\0" in text else text

    def _text(self, path: str, expected: str) -> str | None:
        """The text of a file that still is the one that was seen."""
        self._hashes.pop(path, None)
        text = self._read(path) if expected else None
        return text if text is not None and content_hash(text) == expected else None


def bring_home(
    root: Root,
    kept: Mapping[str, str],
    text: Callable[[str], tuple[str, str]],
    earlier: Callable[[str], Sequence[str]],
    agreed: Mapping[str, Agreed],
) -> list[str]:
    """Files are the truth from now on: write what is kept into them. What a person has edited stands.

    Where both have changed, what is kept is put beside it; the names of those. Blocks.
    """
    beside = []
    for path, hash in kept.items():
        try:
            file = content_hash(root.read_text(path, limit=LARGEST))
        except NotFound:
            file = ""
        except AgentWorkerError:
            file = "?"  # no text: somebody else's
        match verdict(agreed.get(path), file, hash, earlier(path)):
            case "write" if hash:
                root.replace(path, text(path)[0])
            case "write":
                root.remove(path)
            case "both":
                beside.append(kept_as(path, hash))
                root.replace(beside[-1], text(path)[0])
    return beside


def texts_in(root: Root, folder: str = "", *, deep: bool = False) -> Stamps:
    """The files with names of texts in a folder, and with `deep` in those beneath it."""
    found: Stamps = {}
    try:
        entries = root.list(folder)
    except NotFound:
        return found
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if entry.is_directory:
            if deep and not entry.name.startswith("."):
                found |= texts_in(root, path, deep=True)
        elif is_text(path):
            found[path] = f"{entry.modified}-{entry.size}"
    return found
