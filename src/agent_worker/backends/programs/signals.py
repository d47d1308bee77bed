"""What a coding program tells while it works, in one set of words whatever its own stream looks like.

A parser turns lines into signals and knows nothing else. Only `Over` ends a run: exit codes are not believed.
"""

from __future__ import annotations

from agent_worker.backends.backend import Usage
from agent_worker.core.errors import BackendFailure
from agent_worker.core.later import dataclass


@dataclass(frozen=True, slots=True)
class ProgramStarted:
    session: str  #: by which the program goes on with this conversation


@dataclass(frozen=True, slots=True)
class Said:
    text: str
    partial: bool = False  #: a piece of a text that will come again as a whole


@dataclass(frozen=True, slots=True)
class Calling:
    """A tool of the program's own; calls of our tools are seen where they arrive."""

    id: str
    tool: str
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class ProgramReturned:
    id: str
    text: str = ""
    ok: bool = True


@dataclass(frozen=True, slots=True)
class ProgramRetries:
    """The program tries again by itself."""

    reason: str


@dataclass(frozen=True, slots=True)
class ProgramSpent:
    """What the run has used so far, in total: a later signal replaces this one."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Over:
    """The run has ended: this is its last signal."""

    text: str = ""
    failure: BackendFailure | None = None  #: None: it did what it was asked


Signal = ProgramStarted | Said | Calling | ProgramReturned | ProgramRetries | ProgramSpent | Over
