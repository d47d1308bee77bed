"""Rewriting a file that a person may be editing too: read, change, put back only if nobody else was faster."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from agent_worker.core.errors import NotFound, Stale
from agent_worker.files.root import Root
from agent_worker.files.swap import Conflict, content_hash
from agent_worker.memory.own_files import OwnFiles

_TURNS = [Lock() for _ in range(64)]  # an agent makes several calls at once: those are no conflict


def text_of(root: Root, path: str) -> str | None:
    """The text of a file; None when there is no such file."""
    try:
        return root.read_text(path)
    except NotFound:
        return None


def rewrite(root: Root, path: str, change: Callable[[str], str]) -> bool:
    """Change the text of a file. False when there was nothing to change. Raises Stale when a person saved the file at
    the same moment.
    """
    with _TURNS[hash(root.location(path)) % len(_TURNS)]:
        return _rewrite(root, path, change)


def _rewrite(root: Root, path: str, change: Callable[[str], str]) -> bool:
    OwnFiles.settle_in(root)  # a program's words must not be taken over with ours
    before = text_of(root, path)
    after = change(before or "")
    if after == (before or ""):
        return False
    outcome = root.swap(path, after, expected=None if before is None else content_hash(before))
    if isinstance(outcome, Conflict):
        raise Stale(
            f"{path} was edited by someone else at the same moment; your version is kept as {outcome.kept}",
            hint="look at both, then try again",
        )
    return True
