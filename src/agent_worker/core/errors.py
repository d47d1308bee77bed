"""Every error we raise on purpose, as one tree. The class tells who must act, and how.

AgentWorkerError                  a sentence, and a hint: what to type next
├── BadInput                      the caller must send something else
│   ├── DefinitionError           a file people write is wrong; lists every problem in it
│   └── NotFound                  the named thing does not exist
├── Refused                       well-formed, but not allowed here and now
│   ├── Stale                     the thing changed since it was read
│   ├── NotRunning                the workflow instance is not running
│   ├── InUse                     another runtime works on it
│   └── Untrusted                 the user has not approved what it would do
├── Fenced                        the writer is no longer the one; it must stop, silently
├── StorageFault                  the database cannot be trusted to write: stop accepting
│   ├── Closed                    it was closed, as everything here is: whoever asked is told NotRunning
│   └── NotNow                    nothing was stored; it goes on by itself
│       ├── DiskFull              … when there is space again
│       ├── Locked                … when another program lets go of the database
│       ├── Unreachable           … when the server of the database answers again
│       └── NotStored             … unless what was to be stored is why the database said no
└── BackendFailure                a step did not succeed; the subclass is its failure class
    ├── Transient                 may pass by itself
    │   ├── Overloaded            the backend asked us to come back later
    │   └── EmptyAnswer           it said nothing, and had done nothing
    ├── Permanent                 will fail the same way again
    │   ├── NoKey                 … until the person sets a key: where there is one to ask, the work waits for it
    │   └── WrongOutput           the answer is not of the type that was asked for, however often it was said
    ├── Exhausted                 ran into a limit; what was done so far is kept
    └── Crashed                   the worker died
"""

from __future__ import annotations

import errno
from typing import ClassVar

from agent_worker.core.later import dataclass


@dataclass(frozen=True, slots=True)
class Slip:
    """A name that somebody typed, and the one that is probably meant: a command line types the line again with it."""

    typed: str
    meant: str


class AgentWorkerError(Exception):
    """The base of all our errors. `hint` is the next command or edit that helps; `remedy` is the same as data, where a
    page can offer it: `approve`, `start`, `key NAME`, `install PROGRAM`, `edit FILE:LINE`."""

    code: ClassVar[str] = "error"
    remedy: str = ""

    def __init__(self, message: str, *, hint: str = "", slip: Slip | None = None, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.slip = slip
        if remedy:
            self.remedy = remedy
        if hint:
            self.add_note(hint)  # a traceback shows it too


class BadInput(AgentWorkerError):
    code = "bad_input"


class NotFound(BadInput):
    code = "not_found"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in one place of a file people write."""

    file: str
    line: int  #: from 1
    column: int  #: from 1
    field: str  #: dotted path, empty for the whole file
    message: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}: "
        field = f"{self.field}: " if self.field else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{where}{field}{self.message}{hint}"


class DefinitionError(BadInput):
    """All problems of one or more files, in file order."""

    code = "bad_definition"

    def __init__(self, problems: list[Problem]) -> None:
        at = f"edit {problems[0].file}:{problems[0].line}" if problems else ""
        super().__init__("\n".join(map(str, problems)), hint="agent-worker validate", remedy=at)
        self.problems = problems


class Refused(AgentWorkerError):
    code = "refused"


class Stale(Refused):
    code = "stale"


class NotRunning(Refused):
    code = "not_running"
    remedy = "start"


class InUse(Refused):
    code = "in_use"


class Untrusted(Refused):
    code = "untrusted"
    remedy = "approve"


class Fenced(AgentWorkerError):
    code = "fenced"


class StorageFault(AgentWorkerError):
    code = "storage_fault"


class UnknownSchema(StorageFault):
    """The database is whole, but a version of this program made it that stores things differently."""


class Closed(NotRunning, StorageFault):
    """The database was closed. A caller is told that the daemon is not running; for our own tasks there is nothing left
    to do.
    """


class NotNow(StorageFault):
    pass


class DiskFull(NotNow):
    code = "disk_full"


class Locked(NotNow):
    code = "locked"


class Unreachable(NotNow):
    code = "unreachable"


class NotStored(NotNow):
    """The database said no, and nobody knows whether it will say so again."""


class Unwritable(AgentWorkerError):
    code = "unwritable"


class TooBusy(AgentWorkerError):
    code = "too_busy"


class BackendFailure(AgentWorkerError):
    """Raised by a backend, born classified. The loop decides what follows (agents/retries.py)."""

    code = "backend_failure"
    kind: ClassVar[str] = "crash"
    retries: ClassVar[int] = 0


class Transient(BackendFailure):
    code = "transient"
    kind = "transient"
    retries = 3


class Overloaded(Transient):
    """The backend asked us to come back later. Waiting for that does not use up tries: all users of the credential wait
    together.
    """

    code = "overloaded"

    def __init__(self, message: str, *, retry_after: float | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class EmptyAnswer(Transient):
    """The model said nothing, and had done nothing. It is asked once more, with a word about it in the prompt."""

    code = "empty_answer"
    retries = 2


class Permanent(BackendFailure):
    code = "permanent"
    kind = "permanent"


class NoKey(Permanent):
    """The key that a model needs is not there. `subject` is what `agent-worker key set` takes: a provider, or a
    variable.
    """

    code = "no_key"

    def __init__(self, message: str, *, subject: str) -> None:
        super().__init__(message, hint=f"agent-worker key set {subject}", remedy=f"key {subject}")
        self.subject = subject


class WrongOutput(Permanent):
    """An answer that is not what `output=` asks for, after the model was told what is wrong with it."""

    code = "wrong_output"


class Exhausted(BackendFailure):
    code = "exhausted"
    kind = "resource"


class Crashed(BackendFailure):
    code = "crashed"
    kind = "crash"
    retries = 1


_FULL = {errno.ENOSPC, errno.EDQUOT}
_CLOSED = {errno.EROFS, errno.EACCES, errno.EPERM}
_NO_MORE = {errno.EMFILE, errno.ENFILE}


def trouble_of(error: OSError) -> Unwritable | TooBusy | None:
    """The error for a disk that did not take what was written. None: it is not the disk, so it may be our mistake."""
    named = isinstance(error.filename, str) and error.filename.startswith("/")  # else a name of ours that says nothing
    where = f" ({error.filename})" if named else ""
    if error.errno in _FULL:
        return Unwritable(f"the disk is full: nothing was written{where}", hint="free some space and try again")
    if error.errno in _CLOSED:
        return Unwritable(f"this cannot be written{where}: {error.strerror}", hint="check its owner and its disk")
    if error.errno == errno.EIO:
        return Unwritable(f"the disk failed: nothing was written{where}", hint="agent-worker doctor")
    if error.errno in _NO_MORE:
        return TooBusy("too many files are open: nothing was written", hint="try again in a moment")
    return None
