"""How far events were published here, whoever told them: ours, and those of other hosts in between, in their order.

Numbers are taken one after another and kept until the commit: so when one of ours is committed, all that have a smaller
number are too. Used by the writer's thread, but for `hint`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from agent_worker.core.events import Event
from agent_worker.database import event_rows
from agent_worker.database.database import Row

LOOK = 2.0  # seconds after which whoever writes looks for what others told, hint or none: our ear may be deaf
AT_ONCE = 500  #: events of other hosts that are read at once

#: The rows between two numbers, at most so many; None when the server cannot be reached.
Read = Callable[[int, int], list[Row] | None]


class EventFeed:
    def __init__(self) -> None:
        self.told = 0  #: number of the last event that was published here
        self._ahead: set[int] = set()  # numbers of ours that were told before those of others could be read
        self._looked = 0.0  # when we looked last for what others told
        self._hinted = 0  # number that events go to, as others said last

    def hint(self, number: int) -> bool:
        """Events go as far as this, says somebody. True: there is something to read."""
        if number <= self.told:
            return False
        self._hinted = number
        return True

    def missing(self, own: Sequence[int], read: Read) -> Iterator[Event]:
        """What happened elsewhere before events of ours with these numbers, or by now if there are none."""
        began = time.monotonic()
        if not own and self._hinted <= self.told and began - self._looked < LOOK:
            return  # nothing is missing, as far as we know
        self._looked = began
        before = own[0] if own else 2**62
        while self.told + 1 < before:
            if (rows := read(self.told, before)) is None:
                self._ahead.update(own)  # they are told now, and what others told before them later
                return
            for row in rows:
                if row["number"] not in self._ahead and (event := event_rows.of_another_host(row)):
                    yield event
            self.told = rows[-1]["number"] if rows else self.told
            if len(rows) < AT_ONCE:
                break
        self.told = max(self.told, own[-1]) if own else self.told
        self._ahead = {number for number in self._ahead if number > self.told}
