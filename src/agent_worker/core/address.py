"""Names, and the three ways to say where a message goes.

    alice                  a direct message to alice
    @review[:tag]          the channel of a workspace
    alice@review[:tag]     alice, inside that workspace

An address says nothing about whether the agent or the workspace exists.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from agent_worker.core.errors import BadInput, Slip
from agent_worker.core.later import dataclass, pattern

NAME = pattern(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
TAG = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
MAIN = "main"
ACP_TAG = "acp-"  #: what the tag of a session begins with that an editor has begun

#: `admin` is what the owner's token is called; a participant of that name could pass for the owner.
RESERVED = frozenset({"all", "user", "system", "guard", "admin"})

#: A name becomes a file and a folder, and these cannot be either on Windows, whatever their ending.
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))})

_FORMS = "write alice (a direct message), @review or @review:tag (a channel), or alice@review (alice, there)"


@dataclass(frozen=True, slots=True)
class WorkspaceName:
    """A workflow and which instance of it: `review`, or `review:tag`. The tag `main` is not written."""

    workflow: str
    tag: str = MAIN

    @classmethod
    def parse(cls, text: str) -> WorkspaceName:
        """The name that a text stands for, with or without the `@` of a channel. Whether there can be such a workflow
        is not checked: it is not found later."""
        workflow, tag = as_written(text.removeprefix("@"))
        return cls(workflow, tag or MAIN)

    @property
    def full(self) -> str:
        """The name with its tag, also if that is `main`: one name has one such form."""
        return f"{self.workflow}:{self.tag}"

    def __str__(self) -> str:
        return self.workflow if self.tag == MAIN else self.full


def as_written(text: str) -> tuple[str, str | None]:
    """Workflow and tag as they stand in `workflow:tag`; the tag is None where none is written, which need not mean
    `main`.
    """
    workflow, colon, tag = text.partition(":")
    return workflow, tag if colon else None


@dataclass(frozen=True, slots=True)
class Address:
    """Where a message goes: an agent, a workspace, or an agent inside a workspace."""

    agent: str | None = None
    workflow: str | None = None  #: None is a direct message
    tag: str = MAIN  #: which instance of the workflow; without meaning in a direct message

    def __post_init__(self) -> None:
        if self.agent is None and self.workflow is None:
            raise ValueError("an address names an agent, a workflow or both")
        if self.workflow is None and self.tag != MAIN:
            raise ValueError("a direct message has no tag")

    @property
    def workspace(self) -> WorkspaceName | None:
        """The workspace that a message goes to; None for a direct message."""
        return None if self.workflow is None else WorkspaceName(self.workflow, self.tag)

    def __str__(self) -> str:
        workspace = "" if self.workspace is None else f"@{self.workspace}"
        return f"{self.agent or ''}{workspace}"


def parse_address(text: str) -> Address:
    agent, at, place = text.partition("@")
    workflow, tag = as_written(place)
    well_formed = (
        (not agent or NAME.fullmatch(agent))
        and bool(NAME.fullmatch(workflow)) == bool(at)
        and (tag is None or TAG.fullmatch(tag))
        and (agent or workflow)
    )
    if not well_formed:
        is_instance = not at and ":" in text and all(map(NAME.fullmatch, text.split(":", 1)))
        slip = Slip(text, f"@{text}") if is_instance else None
        raise BadInput(f"{_shown(text)} is not an address", hint=_FORMS, slip=slip)
    for name in filter(None, (agent, workflow)):
        if (reason := _why_refused(name)) is not None:
            raise BadInput(f"{_shown(text)} is not an address: {reason}", hint=_FORMS)
    return Address(agent or None, workflow or None, tag or MAIN)


def check_name(text: str) -> str:
    """The name itself, if an agent or a workflow may be called so."""
    if not NAME.fullmatch(text):
        raise BadInput(
            f"{_shown(text)} is not a name",
            hint="a letter first (a to z), then letters, digits, _ or -, at most 63 in all",
        )
    if (reason := _why_refused(text)) is not None:
        raise BadInput(reason, hint="choose another name")
    return text


def check_tag(text: str) -> str:
    if not TAG.fullmatch(text):
        raise BadInput(
            f"{_shown(text)} is not a tag",
            hint="a letter or digit first, then letters, digits, ., _ or -, at most 63 in all",
        )
    return text


def check_no_secret(name: str, redact: Callable[[str], str], *, of: str) -> str:
    """The name itself, if it holds no secret: names are stored, shown and opened as they are."""
    if redact(name) != name:
        raise BadInput(f"the name of {of} cannot hold a secret", hint="choose another name")
    return name


def canonical(text: str, names: Collection[str]) -> str | None:
    """The one of `names` that is meant by `text`; names are unique ignoring case."""
    if not NAME.fullmatch(text):  # outside ASCII, lower() can turn a look-alike into a real name
        return None
    if text in names:  # as nearly always: there may be thousands
        return text
    return next((name for name in names if name.lower() == text.lower()), None)


def _why_refused(name: str) -> str | None:
    if name.lower() in RESERVED:
        return f'the name "{name}" is reserved'
    if name.lower() in _DEVICES:
        return f'the name "{name}" cannot be a file on every system'
    return None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
