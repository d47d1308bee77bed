"""What the daemon does by itself: schedules, webhooks, watching the disk and the database, nightly rounds."""

from __future__ import annotations

from agent_worker.service.backups import DiskWatch, look_at_database
from agent_worker.service.hook_starter import HookStarter
from agent_worker.service.rounds import NightRounds
from agent_worker.service.schedule_starter import ScheduleStarter
from agent_worker.service.service import Service
from agent_worker.service.shared_work import SharedWork


def share(service: Service) -> None:
    """Hear of the work of other hosts that share the database, before anything is opened here."""
    if service.runtime.supervisor.hosting:
        SharedWork(service)


def begin(service: Service) -> None:
    """Begin the chores that nobody asks for; they end with the service."""
    if service.runtime.supervisor.hosting:
        service.background(service.open_known())
    ScheduleStarter(service)
    HookStarter(service)
    DiskWatch(service)
    NightRounds(service)
    service.background(look_at_database(service))
