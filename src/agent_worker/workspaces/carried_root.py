"""What an agent asks through a door, as a person would, goes on from the request that it works on.

Which request that is, is found in service/carried_limits.py; here is what it is for the messages that carry it.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_worker.core.errors import Refused
from agent_worker.core.later import dataclass
from agent_worker.database.database import Transaction
from agent_worker.work import agent_rows


@dataclass(frozen=True, slots=True)
class CarriedRoot:
    """What a message comes from that an agent sent through a door: its limits go on."""

    root: str  #: '' where that is another project's
    hop: int

    def __str__(self) -> str:
        """As an instance keeps it, which may be gone on with after a crash."""
        return f"{self.hop} {self.root}"

    @classmethod
    def kept(cls, text: str) -> CarriedRoot | None:
        hop, _, root = text.partition(" ")
        return cls(root, int(hop)) if hop else None


def check_waits_for_itself(tx: Transaction, cause: CarriedRoot, agents: Sequence[str]) -> None:
    """Refuse a message to an agent that is at work on this very request: an agent does one thing at a time.

    Who is as far away from the request as whoever is asked, or farther, waits for none of this.
    """
    for agent in agents if cause.root else ():
        at_work = tx.one(
            """select 1 as one from run r join instruction i on i.project = :project and i.id = r.instruction
                where r.project = :project and r.agent = :agent and r.state = 'running' and r.root = :root
                  and i.hop < :hop""",
            agent=agent,
            root=cause.root,
            hop=cause.hop,
        )
        if at_work:
            name = agent_rows.identity(tx, agent)["name"]
            told = f"{name} is at work on this very request, and would wait for itself"
            raise Refused(told, hint="let it start another agent or team")
