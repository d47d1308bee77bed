"""A person at an editor, who saves a file at the very moment when we are about to."""

from __future__ import annotations

from agent_worker.files.root import Root
from agent_worker.files.swap import Conflict

SAVED = "saved: just now\n"


class EditedMeanwhile(Root):
    """A folder of an agent in which every file is saved by a person between our reading and our writing."""

    def swap(self, relative: str, text: str | bytes, *, expected: str | None) -> str | Conflict:
        self.location(relative).write_text(SAVED)
        return Root.swap(self, relative, text, expected=expected)
