"""Who has work and waits, and for what: told as a state with its reason, and as an event when it begins and ends.

In memory, because it is a matter of this process: after a start everybody looks anew. That work waits for a person is
stored (work/queue.py, work/inbox.py), and only told here. Who waits on another host is told by that host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from agent_worker.core.clock import Clock
from agent_worker.core.events import Bus, WaitChanged
from agent_worker.core.later import dataclass
from agent_worker.core.redaction import Redactor
from agent_worker.database.database import Row
from agent_worker.work.inbox import command_for

#: `model`: its provider asked all who use this key to come back later. `slot`: one of the runs that go on at once.
#: `key`: the key of its model, which is not set. `retry`: the moment of the next try, after a failure. `program`: the
#: one that has its functions, in the middle of a run.
WaitsFor = Literal["model", "key", "slot", "person", "disk", "retry", "program"]
_SAME = 1_000_000  # microseconds by which two ends of one wait may differ and still be told once


@dataclass(frozen=True, slots=True)
class Waiting:
    """What an agent waits for."""

    what: WaitsFor
    reason: str
    since: int
    until: int | None = None  #: None when nobody knows
    command: str = ""  #: what the person types to end it, where they can, unless the reason says it


@dataclass(frozen=True, slots=True)
class WaitingAgent:
    """An agent that waits, and the workspace of the work that waits."""

    project: str
    agent: str
    name: str
    workspace: str | None = None


class Waits:
    def __init__(self, bus: Bus, clock: Clock, redact: Redactor) -> None:
        self._bus = bus
        self._clock = clock
        self._redact = redact
        self._known: dict[str, tuple[WaitingAgent, Waiting]] = {}
        self._elsewhere: dict[str, tuple[WaitingAgent, Waiting]] = {}

    def begin(
        self,
        who: WaitingAgent,
        what: WaitsFor,
        reason: str,
        *,
        seconds: float | None = None,
        since: int | None = None,
    ) -> None:
        """Note that an agent waits, and for how many seconds (None: nobody knows). Noted again, it is the same wait.

        `since` is when the wait really began, if that was before a try in between, or in another process.
        """
        now = self._clock.micros()
        until = None if seconds is None else now + round(seconds * 1e6)
        wait = Waiting(what, self._redact(reason), since or now, until)
        before = self.here().get(who.agent)
        if before is not None and before.what == what:
            wait = replace(wait, since=since or before.since)
            if _is_same(before, wait):
                return
        self._known[who.agent] = who, wait
        self._tell(who, wait)

    def end(self, agent: str) -> None:
        """Note that an agent waits no longer: it works, or has nothing to do."""
        if known := self._known.pop(agent, None):
            self._tell(known[0], None)

    def hear(self, waits: Mapping[str, tuple[WaitingAgent, Waiting]]) -> None:
        """Take over who waits on other hosts, all of them; what is new is told here too."""
        before, self._elsewhere = self._elsewhere, dict(waits)
        for agent, (who, wait) in waits.items():
            if before.get(agent) != (who, wait):
                self._tell(who, wait)
        for agent, (who, _) in before.items():
            if agent not in waits and agent not in self._known:
                self._tell(who, None)

    def of(self, agent: str) -> Waiting | None:
        known = self._known.get(agent) or self._elsewhere.get(agent)
        return known[1] if known else None

    def here(self) -> dict[str, Waiting]:
        """The agents that wait on this host, by their ids."""
        return {agent: wait for agent, (_, wait) in self._known.items()}

    def shown(self, asked: Mapping[str, Row]) -> dict[str, Waiting]:
        """Who waits for what, by the agent's id: by what this process knows, and by what was asked of the person, given
        as the open item of each agent. Work that waits for a person does not keep its agent from other work."""
        shown = {agent: for_person(item) for agent, item in asked.items()}
        for agent, (_, wait) in (self._elsewhere | self._known).items():
            if wait.what != "person" or agent not in shown:
                shown[agent] = wait
        return shown

    def _tell(self, who: WaitingAgent, wait: Waiting | None) -> None:
        told = WaitChanged(project=who.project, workspace=who.workspace, agent=who.agent, name=who.name)
        if wait is not None:
            told = replace(told, what=wait.what, reason=wait.reason, since=wait.since, until=wait.until)
        self._bus.publish(told)


def for_person(item: Row) -> Waiting:
    """The wait of an agent for an open item of the inbox."""
    return Waiting("person", item["text"], item["at"], command=command_for(item))


def state_of(row: Row, wait: Waiting | None) -> tuple[str, Waiting | None]:
    """The state of an agent, as it is shown; and what it waits for, when that is its state."""
    if row["paused"]:
        return "paused", None
    if away := row.get("away"):  # of a member: a person paused its work there
        return str(away), None
    is_waiting = wait is not None and (row["state"] == "idle" or wait.what == "program")
    return ("waiting", wait) if is_waiting else (row["state"], None)


def _is_same(one: Waiting, other: Waiting) -> bool:
    if one.reason != other.reason or (one.until is None) != (other.until is None):
        return False
    return one.until is None or other.until is None or abs(one.until - other.until) < _SAME
