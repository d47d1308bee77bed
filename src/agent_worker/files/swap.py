"""Compare-and-swap of one file, because people edit the files we write: nobody's version is lost.

The new version is exchanged with the old one in one step, and only then is the old one looked at, as nobody
can change any more what we hold. If it is not what was expected, it is exchanged back and ours is kept as
`<name>.conflict-<hash>`. Below: folder.py. Above: `Root.swap` in root.py, which says what is promised.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from contextlib import suppress

from agent_worker.core.errors import NotFound, Refused
from agent_worker.core.failpoints import failpoint
from agent_worker.core.later import dataclass
from agent_worker.files.folder import Folder, exchange
from agent_worker.files.makers import is_alive, maker
from agent_worker.files.paths import SWAPPING, TEMPORARY, beside


@dataclass(frozen=True, slots=True)
class Conflict:
    """Somebody else changed the file. Theirs stands where it was; ours is kept beside it."""

    kept: str  #: where our version is now
    ours: str  #: content hash
    theirs: str | None  #: content hash; None when they deleted the file


def content_hash(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def swap(folder: Folder, name: str, content: bytes, *, expected: str | None) -> Conflict | None:
    """Put the content in place of what is expected there, or keep it beside; the caller syncs the folder."""
    ours = content_hash(content)
    with folder.aside(content) as temporary, folder.alone():
        name = folder.actual(name)  # another spelling may have appeared while we wrote
        folder.check(name, os.O_WRONLY)
        theirs = folder.digest(name)
        if theirs == expected:
            failpoint("replace.rename")
            theirs = _put(folder, temporary, name, expected=expected, ours=ours)
        if theirs in {expected, ours}:
            return None
        if folder.status(temporary) is not None:
            return Conflict(_keep(folder, temporary, name), ours, theirs)
    with folder.aside(content) as again:  # the first copy went down in `_judge`
        return Conflict(_keep(folder, again, name), ours, theirs)


def sweep(folder: Folder) -> list[str]:
    """Tidy what dead processes left in this folder; the names of conflicts that this brought to light.

    What a living one made is left alone, our own threads' too: it is in use, however much it looks like rubbish.
    """
    kept = []
    for name in folder.names():
        if name.startswith(TEMPORARY) and not is_alive(name.split("-")[1]):
            with suppress(OSError, Refused):  # it harms nobody, and must not keep us from starting
                folder.discard(name)
        elif name.startswith(SWAPPING) and name.count("-") >= 4 and _is_file(folder, name):
            _, mark, expected, _, document = name.split("-", 4)
            if is_alive(mark):
                continue
            if (folder.digest(name) or "").startswith(expected):
                folder.unlink(name)  # the old version, rightly replaced
            else:
                kept.append(_keep(folder, name, document))
    return kept


def _put(folder: Folder, temporary: str, name: str, *, expected: str | None, ours: str) -> str | None:
    """Put the temporary file in place if `expected` stands there; returns the hash of what was found."""
    if expected is None:
        try:
            folder.rename_if_free(temporary, name)
        except FileExistsError:
            return folder.digest(name)
        return None
    # From here on the file beside may hold somebody's text: under this name a crash does not make it rubbish.
    held = _held(name, expected)
    folder.rename(temporary, held)
    try:
        exchange(folder.descriptor, held, name)
    except NotImplementedError:
        folder.rename(held, name)
        return expected
    except FileNotFoundError:
        folder.rename(held, temporary)
        return None
    return _judge(folder, held, name, temporary, expected=expected, ours=ours)


def _judge(folder: Folder, held: str, name: str, temporary: str, *, expected: str, ours: str) -> str | None:
    """Keep the exchange that was made if the old version is the expected one, else undo it; returns the hash of the old
    version.
    """
    try:
        found = folder.digest(held)
    except BaseException:  # a link or a pipe in the last moment, or the disk failed
        exchange(folder.descriptor, held, name)
        raise
    if found == expected:
        folder.unlink(held)
        return found
    with suppress(FileNotFoundError):  # deleted in the meantime: then theirs is kept beside, see below
        exchange(folder.descriptor, held, name)
    if folder.digest(held) == ours:
        folder.rename(held, temporary)
    else:
        # They saved once more while ours stood there. Whatever we hold is theirs.
        _keep(folder, held, name)
    return found


def _keep(folder: Folder, source: str, name: str) -> str:
    digest = folder.digest(source)
    if digest is None:
        raise NotFound(f"{source!r} was deleted while we worked with it")
    kept = kept_as(name, digest)
    try:
        folder.rename_if_free(source, kept)
    except FileExistsError:
        if folder.digest(kept) == digest:
            folder.unlink(source)
            return kept
        kept = beside(name, f".conflict-{digest[:8]}-{secrets.token_hex(4)}")
        folder.rename_if_free(source, kept)
    return kept


def kept_as(name: str, digest: str) -> str:
    """Where the version with this content hash is kept, when somebody else's stands under the name."""
    return beside(name, f".conflict-{digest[:8]}")


def _held(name: str, expected: str) -> str:
    return beside(f"{SWAPPING}{maker()}-{expected[:16]}-{secrets.token_hex(4)}-{name}", "")


def _is_file(folder: Folder, name: str) -> bool:
    status = folder.status(name)
    return status is not None and stat.S_ISREG(status.st_mode)
