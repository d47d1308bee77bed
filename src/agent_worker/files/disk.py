"""Bytes to the disk, through a descriptor: write all of them, sync, and take back what did not arrive.

Below: the operating system. Above: folder.py and files.py.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from agent_worker.core.errors import trouble_of

_locks = tuple(threading.RLock() for _ in range(64))


def write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def alone_with(descriptor: int) -> threading.RLock:
    """The lock that our threads hold while they add to a file. Take it before a folder's, never after."""
    return _locks[os.fstat(descriptor).st_ino % len(_locks)]


@contextmanager
def taken_back(descriptor: int) -> Iterator[None]:
    """An append that fails, also in its sync, leaves nothing behind that somebody could take for stored."""
    before = os.fstat(descriptor).st_size
    try:
        yield
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, before)
        raise


def sync(descriptor: int) -> None:
    """Write a file through to the disk itself. A sync that failed is never tried again: the second one would lie."""
    if sys.platform == "darwin":  # fsync there only reaches the disk's own cache
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
        except OSError as error:
            if error.errno not in {errno.ENOTSUP, errno.EINVAL}:
                raise
    os.fsync(descriptor)


@contextmanager
def disk_explained() -> Iterator[None]:
    """For those who speak with people and models: what a disk refused, as a sentence."""
    try:
        yield
    except OSError as error:
        if (told := trouble_of(error)) is None:
            raise
        raise told from error
