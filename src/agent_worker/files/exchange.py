"""The two renames that Python lacks: swap two files in one step, and rename only onto a free name.

Linux calls it renameat2, macOS renameatx_np; the arguments are the same. Where the C library or the file
system has neither (some network disks), both functions raise NotImplementedError and the caller does what is
second best.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from functools import cache

_EXCHANGE = 2
_ONLY_IF_FREE = 4 if sys.platform == "darwin" else 1
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}


def exchange(directory: int, one: str, other: str) -> None:
    """Both exist before and after; nobody ever sees one of the two names missing."""
    _rename(directory, one, other, how=_EXCHANGE)


def rename_if_free(directory: int, old: str, new: str) -> None:
    """Rename a file. Raises FileExistsError when `new` is taken, by whatever."""
    _rename(directory, old, new, how=_ONLY_IF_FREE)


def _rename(directory: int, old: str, new: str, *, how: int) -> None:
    call = _system_call()
    if call is None:
        raise NotImplementedError
    if call(directory, os.fsencode(old), directory, os.fsencode(new), how) == 0:
        return
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        raise NotImplementedError
    raise OSError(code, os.strerror(code), old, None, new)


@cache
def _system_call() -> Callable[..., int] | None:
    library = ctypes.CDLL(None, use_errno=True)
    call = getattr(library, "renameat2", None) or getattr(library, "renameatx_np", None)
    if call is None:
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    call.restype = ctypes.c_int
    found: Callable[..., int] = call
    return found
