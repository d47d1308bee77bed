"""What all loops of a host share: how to record, who is there, whom to wait for. Made in compose.py."""

from __future__ import annotations

from dataclasses import field

from agent_worker.agents.hosting import Hosting
from agent_worker.agents.limiter import Limiter
from agent_worker.agents.personal_files import PersonalFiles
from agent_worker.agents.publishing import PublicMemory
from agent_worker.agents.recorder import RecorderContext
from agent_worker.agents.registry import Registry
from agent_worker.agents.slots import Slots
from agent_worker.agents.waiting import Waits
from agent_worker.core.clock import Clock
from agent_worker.core.disk_space import Space
from agent_worker.core.later import dataclass
from agent_worker.workspaces.documents import LookAtCopies
from agent_worker.workspaces.log_files import LogFiles, Target


@dataclass(frozen=True, slots=True)
class LoopContext:
    """What all loops of a host share."""

    recording: RecorderContext
    registry: Registry
    limiter: Limiter
    slots: Slots
    waits: Waits
    public: PublicMemory
    log_files: LogFiles
    space: Space = field(default_factory=Space)  #: on the disk
    hosting: Hosting | None = None  #: our place among the hosts that share the database; None: we are alone
    copies: LookAtCopies | None = None  #: of documents, where several hosts share them
    personal: PersonalFiles | None = None  #: of agents, kept for all of them; None: files are the truth

    @property
    def clock(self) -> Clock:
        return self.recording.clock

    async def write_talk(self, project: str, agent: str) -> None:
        """Have the files of an agent hold all that was said to it directly: they are what is searched."""
        await self.log_files.bring_up([Target(project, None, agent)])

    def now(self) -> int:
        return self.recording.clock.micros()
