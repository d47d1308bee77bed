"""What one process runs agents with: the database, the bus, the clock, and those that load, wake and record."""

from __future__ import annotations

import asyncio
from dataclasses import field
from datetime import timedelta
from pathlib import Path

from agent_worker.agents.backend_factory import BackendFactory
from agent_worker.agents.host_signals import HostSignals
from agent_worker.agents.loader import Loader
from agent_worker.agents.personal_files import PersonalFiles
from agent_worker.agents.prompt_texts import KEPT
from agent_worker.agents.publishing import PublicMemory
from agent_worker.agents.registry import Registry
from agent_worker.agents.supervisor import Supervisor
from agent_worker.core.clock import Clock
from agent_worker.core.disk_space import Space
from agent_worker.core.events import Bus
from agent_worker.core.later import dataclass
from agent_worker.database.database import Database
from agent_worker.files.root import Root
from agent_worker.trust.gate import Gate
from agent_worker.workflows.remote import Remotes
from agent_worker.workflows.undoings import Undoings
from agent_worker.workspaces.document_copies import DocumentCopies
from agent_worker.workspaces.documents import LookAtCopies
from agent_worker.workspaces.log_files import LogFiles


@dataclass(frozen=True, slots=True)
class Runtime:
    """Everything one process needs to run agents; made in `compose`."""

    database: Database
    bus: Bus
    clock: Clock
    registry: Registry
    loader: Loader
    supervisor: Supervisor
    log_files: LogFiles
    gate: Gate
    backends: BackendFactory
    public: PublicMemory  #: brings what agents make public into documents
    personal: PersonalFiles | None = None  #: the files of agents, kept for several hosts; None: we are alone
    documents: DocumentCopies | None = None  #: copies of documents, the same
    remotes: Remotes | None = None  #: fetches workflows and skills; None: nothing is fetched
    programs: Path | None = None  #: where coding programs keep what lasts
    home: Root | None = None  #: what belongs to the host, and to no project; None: it keeps nothing
    space: Space = field(default_factory=Space)  #: on the disk
    prompts_kept: timedelta = KEPT  #: how long one can see what models were sent
    signals: HostSignals | None = None  #: between hosts that share the database; None: we are alone
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)  #: one instance at a time: two may want the same files
    undoings: Undoings = field(default_factory=Undoings)  #: of instances that could not be opened

    @property
    def look_at_copies(self) -> LookAtCopies | None:
        return self.documents.look if self.documents else None
