"""What the daemon does by itself, without being asked: schedules, webhooks, the disk, the database, rounds by night."""

from __future__ import annotations

from agent_worker.service.backups import DiskWatch, look_at_database
from agent_worker.service.hook_starter import HookStarter
from agent_worker.service.rounds import NightRounds
from agent_worker.service.schedule_starter import Timekeeper
from agent_worker.service.service import Service


def begin(service: Service) -> None:
    """All of it ends with the service."""
    Timekeeper(service)
    HookStarter(service)
    DiskWatch(service)
    NightRounds(service)
    service.background(look_at_database(service))
