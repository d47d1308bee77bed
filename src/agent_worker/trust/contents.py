"""The exact content of what a definition names, a file or a folder: its hash, and its text for a person to read.

The hash covers every byte, and where the path really leads: a link that is turned elsewhere changes it. Links are
named, not followed, inside a folder. What is not there has a content too, so that its appearing is a change.
Raises Refused for what cannot be read or is too much. Above: powers.py. Below: files/folder.py opens.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_worker.core.errors import Refused
from agent_worker.core.later import dataclass
from agent_worker.core.text import plural
from agent_worker.definitions.paths import Outside, beneath
from agent_worker.files.folder import Folder, walked

FILES = 2000  #: in one folder
BYTES = 64 * 1024 * 1024  #: of one file
TEXT = 1024 * 1024  #: of a file that is shown
TOLD = 200  #: files of a folder that are told apart when one of them changes

_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Content:
    text: str  #: of what is not text, or too long: a line that names its hash
    digest: str
    files: tuple[tuple[str, str], ...] = ()  #: path and digest of each; of a large folder only the first ones


def digest_of(*parts: Any) -> str:
    """SHA-256 of values that JSON can tell apart."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def file_content(root: Path, path: str, *, start: Path | None = None) -> Content:
    """The content of the file that `path` leads to, read from `start` or the root of the project."""
    try:
        *parents, name = real = _real(root, path, start)
        with _explained(path), walked(Folder.at(root.resolve()), parents, Folder.enter) as folder:
            found = _read(folder, name, shown=path)
    except FileNotFoundError:
        return _nothing("is not there")
    digest = digest_of(real, found.digest)
    return Content(found.text, digest, ((os.path.normpath(path), digest),))


def leads_out(root: Path, path: str) -> Content | None:
    """Where a link leads that points to a file outside of the project, which nobody changes from here."""
    try:
        beneath(root, path)
    except Outside:
        return _nothing("is a link that points outside the project", os.path.realpath(root / path))
    return None


def folder_content(root: Path, path: str) -> Content:
    """The content of all files beneath the folder that `path` leads to."""
    try:
        real = _real(root, path)
        with _explained(path), walked(Folder.at(root.resolve()), real, Folder.enter) as folder:
            found = sorted(_beneath(folder, path), key=lambda pair: pair[0])
    except FileNotFoundError:
        return _nothing("is not there")
    text = "\n".join(f"== {name}\n{content.text}" for name, content in found)
    digest = digest_of(real, [(name, content.digest) for name, content in found])
    return Content(text, digest, tuple((f"{path}/{name}", content.digest) for name, content in found[:TOLD]))


def _real(root: Path, path: str, start: Path | None = None) -> tuple[str, ...]:
    """The names from the root to where the path really leads."""
    try:
        return beneath(root, path, start=start).relative_to(root.resolve()).parts
    except Outside:
        raise Refused(f"{path} points outside the project") from None


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Turn what cannot be read into Refused: it cannot be approved, as its content could change unnoticed."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from None


def _beneath(top: Folder, shown: str) -> Iterator[tuple[str, Content]]:
    """Each file and link with its path; the folders are gone through one after the other, however deep they are."""
    waiting: list[tuple[str, ...]] = [()]
    count = 0
    for names in waiting:
        with walked(Folder(os.dup(top.descriptor)), names, Folder.enter) as folder:
            for name in folder.names():
                count += 1
                if count > FILES:
                    raise Refused(f"{shown} holds more than {FILES:,} files: too many to be approved")
                if folder.is_directory(name):
                    waiting.append((*names, name))
                else:
                    yield "/".join((*names, name)), _entry(folder, name, shown)


def _entry(folder: Folder, name: str, shown: str) -> Content:
    status = folder.status(name)
    if status is not None and stat.S_ISLNK(status.st_mode):
        return _nothing("is a link, and not followed", os.readlink(name, dir_fd=folder.descriptor))
    if status is None or not stat.S_ISREG(status.st_mode):
        return _nothing("is not a regular file")
    return _read(folder, name, shown=f"{shown}/…/{name}")


def _read(folder: Folder, name: str, *, shown: str) -> Content:
    with os.fdopen(folder.open(name, os.O_RDONLY), "rb") as file:
        beginning = file.read(TEXT + 1)
        whole, size = hashlib.sha256(beginning), len(beginning)
        while piece := file.read(_CHUNK):
            whole.update(piece)
            size += len(piece)
            if size > BYTES:
                raise Refused(f"{shown} is larger than {BYTES:,} bytes: too much to be approved")
    text = _text(beginning) if size <= TEXT else None
    if text is None:
        text = f"({plural(size, 'byte')}, SHA-256 {whole.hexdigest()})"
    return Content(text, whole.hexdigest())


def _text(content: bytes) -> str | None:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _nothing(reason: str, where: str = "") -> Content:
    return Content(f"({reason}{f': {where}' if where else ''})", digest_of(reason, where))
