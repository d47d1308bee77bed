"""What is different in a folder since a commit, and a commit of it. Ids are computed here, bytes are taken as they are.

The commit is written by `git fast-import` from a stream that we make: it neither sees the folder nor asks for
attributes. Submodules stay as they are in the base; what `walk` leaves out does too.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO

from agent_worker.core.errors import Refused
from agent_worker.core.later import dataclass
from agent_worker.processes.git import Repository, quoted
from agent_worker.workflows.walk import LINK, Beneath, FileSeen, IgnoreRules, KnownPaths, walk

LARGEST = 256 * 1024 * 1024  #: bytes of all changed files together; what goes beyond is left out
_MODULE = "160000"
_KEPT = "refs/heads/kept"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a commit."""

    mode: str
    id: str


@dataclass(frozen=True, slots=True)
class Difference:
    changed: tuple[FileSeen, ...]
    gone: tuple[bytes, ...]
    left_out: Mapping[bytes, str]  #: path → why; as in the base
    filtered: Mapping[bytes, str]  #: of the changed: path → the filter that was not applied

    @property
    def paths(self) -> list[bytes]:
        return sorted((*(each.path for each in self.changed), *self.gone))


async def files_of(repository: Repository, commit: str) -> dict[bytes, Entry]:
    done = await repository.run("ls-tree", "-r", "-z", "--full-tree", commit)
    if done.exit_code:
        raise Refused(f"the commit where it began is missing: {commit}", hint="git fsck, in the project")
    return dict(map(_entry, filter(None, done.output.split(b"\0"))))


async def difference(
    git: Repository, folder: Path, base: Mapping[bytes, Entry], *, without: re.Pattern[bytes], ids: dict[FileSeen, str]
) -> Difference:
    """What is different in a folder since `base`. `without` matches paths that are not looked at; `ids` keeps computed
    ids for the next time.
    """
    rules = IgnoreRules(git, git.folder / "rules")
    (git.folder / "rules").mkdir()
    modules = {path for path, entry in base.items() if entry.mode == _MODULE}
    walked = await walk(folder, KnownPaths.of(base.keys() - modules, modules), rules, without=without)
    left_out = dict(walked.left_out)
    large = await _sizes(
        git, {base[seen.path].id for seen in walked.files if seen.size > LARGEST and seen.path in base}
    )
    compare = partial(_is, base=base, large=large, hash=git.hash, ids=ids)
    changed = await asyncio.to_thread(_changed, folder, walked.files, compare, left_out)
    for outdated in ids.keys() - set(walked.files):
        del ids[outdated]
    there = {seen.path for seen in walked.files}
    gone = (path for path in base.keys() - there - modules if not without.match(path) and not _lies_in(path, left_out))
    filtered = await rules.filters(seen.path for seen in changed)
    return Difference(tuple(changed), tuple(sorted(gone)), left_out, filtered)


async def commit(
    repository: Repository, folder: Path, what: Difference, *, base: str, message: str, objects: Path
) -> str:
    """Make a commit and return its id. What is new goes to `objects`; without a base it is a first commit."""
    stream = repository.folder / "stream"
    await asyncio.to_thread(_write_stream, stream, folder, what, base, message)
    with stream.open("rb") as file:
        imported = await repository.run(
            "fast-import", "--quiet", "--date-format=now", stdin=file.fileno(), objects=objects
        )
    if imported.exit_code:
        raise Refused(f"git could not keep the changes: {imported.complaint.strip()}")
    return (repository.folder / _KEPT).read_text().strip()


def _entry(line: bytes) -> tuple[bytes, Entry]:
    about, _, path = line.partition(b"\t")
    mode, _, id = about.decode().split()
    return path, Entry(mode, id)


async def _sizes(git: Repository, ids: Iterable[str]) -> dict[str, int]:
    """The sizes of objects: a file is only read where it is as large as one of them, and so may be the same."""
    asked = "".join(f"{id}\n" for id in ids).encode()
    done = await git.run("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=asked) if asked else None
    lines = done.output.decode().splitlines() if done else []
    return {id: int(size) for id, _, size in (line.partition(" ") for line in lines) if size.isdigit()}


def _lies_in(path: bytes, folders: Mapping[bytes, str]) -> bool:
    while path and path not in folders:
        path = path.rpartition(b"/")[0]
    return path in folders


def _changed(
    folder: Path,
    files: Iterable[FileSeen],
    is_as_before: Callable[[Beneath, FileSeen], bool],
    left_out: dict[bytes, str],
) -> list[FileSeen]:
    changed, left = [], LARGEST
    with Beneath(folder) as beneath:
        for seen in sorted(files, key=lambda each: each.path.rpartition(b"/")[::2]):
            try:
                if is_as_before(beneath, seen):
                    continue
            except OSError as error:
                left_out[seen.path] = f"cannot be read: {error.strerror}"
                continue
            if seen.size > left:
                left_out[seen.path] = f"too large: more than {LARGEST // 1024**2} MiB with the others"
                continue
            left -= seen.size
            changed.append(seen)
    return changed


def _is(
    beneath: Beneath,
    seen: FileSeen,
    *,
    base: Mapping[bytes, Entry],
    large: Mapping[str, int],
    hash: str,
    ids: dict[FileSeen, str],
) -> bool:
    entry = base.get(seen.path)
    if entry is None or seen.mode != entry.mode or large.get(entry.id, seen.size) != seen.size:
        if seen.mode != LINK:
            beneath.file(seen.path).close()  # can it be read at all?
        return False
    if seen not in ids:
        ids[seen] = _id(beneath, seen, hash)
    return ids[seen] == entry.id


def _id(beneath: Beneath, seen: FileSeen, hash: str) -> str:
    summed = hashlib.new(hash, b"blob %d\0" % seen.size, usedforsecurity=False)
    for piece in _content(beneath, seen):
        summed.update(piece)
    return summed.hexdigest()


def _content(beneath: Beneath, seen: FileSeen) -> Iterator[bytes]:
    if seen.mode == LINK:
        yield beneath.link(seen.path)
        return
    with beneath.file(seen.path) as file:
        while piece := file.read(1024 * 1024):
            yield piece


def _write_stream(stream: Path, folder: Path, what: Difference, base: str, message: str) -> None:
    """Write changes, removals first: a folder may stand where there was a file."""
    with stream.open("xb") as out, Beneath(folder) as beneath:
        out.write(b"commit %s\ncommitter agent-worker <agent-worker@localhost> now\n" % _KEPT.encode())
        out.write(b"data %d\n%s\n" % (len(message.encode()), message.encode()))
        out.write(b"from %s\n" % base.encode() if base else b"")
        for path in what.gone:
            out.write(b"D %s\n" % quoted(path))
        for seen in what.changed:
            out.write(b"M %s inline %s\n" % (seen.mode.encode(), quoted(seen.path)))
            _write_data(out, beneath, seen)


def _write_data(out: BinaryIO, beneath: Beneath, seen: FileSeen) -> None:
    out.write(b"data %d\n" % seen.size)
    left = seen.size
    try:
        for piece in _content(beneath, seen):
            left -= out.write(piece)
            if left < 0:
                break
    except OSError:
        left = -1
    if left:
        raise Refused(f"{os.fsdecode(seen.path)!r} was changed while it was read")
    out.write(b"\n")
