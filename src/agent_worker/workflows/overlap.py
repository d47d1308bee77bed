"""Two members who have changed the same paths, each in its own copy: said once, with the outcome of a trial merge.

Said again only when there is something new: another path, or a conflict where there was none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agent_worker.workflows.working_copy import CopyChanges, TrialMerge, WorkingCopy, listed

_State = tuple[WorkingCopy, CopyChanges]


class Overlaps:
    """What was said of the copies of one instance."""

    def __init__(self) -> None:
        self._said: dict[frozenset[str], set[tuple[str, str]]] = {}
        self._now: dict[frozenset[str], str] = {}  # those who overlap at present, as it was last tried
        self._turn = asyncio.Lock()  # two runs that end at once see each other once

    def now(self) -> list[str]:
        """A sentence for each two who overlap at present."""
        return list(self._now.values())

    async def between(self, one: _State, other: _State) -> str:
        """A sentence for the channel; '' when the two have nothing in common that was not said already."""
        (copy, changes), (other_copy, other_changes) = sorted((one, other), key=lambda state: state[0].agent)
        shared = sorted({*changes.files} & {*other_changes.files})
        pair = frozenset((copy.agent, other_copy.agent))
        if not shared:
            self._now.pop(pair, None)
            return ""
        async with self._turn:
            trial = await copy.try_merge(changes.commit, other_changes.commit)
            conflicts = trial.conflicts if trial else ()
            told = self._now[pair] = _sentence(f"{copy.agent} and {other_copy.agent}", shared, trial)
            known = self._said.setdefault(pair, set())
            found = {*(("path", path) for path in shared), *(("conflict", path) for path in conflicts)}
            if found <= known:
                return ""
            known |= found
            return told


def _sentence(who: str, shared: Sequence[str], trial: TrialMerge | None) -> str:
    both = f"{who} have both changed {listed(shared)}, each in its own copy."
    if trial is None:
        return f"{both} We could not try whether that fits together."
    if trial.conflicts:
        return f"{both} A trial merge conflicts in {listed(trial.conflicts)}: agree on one before you merge both."
    return f"{both} A trial merge had no conflicts."
