"""What the daemon has to do with the world outside of this machine: whom it tells, and what is reached from there."""

from __future__ import annotations

from contextlib import AsyncExitStack

from agent_worker.daemon.http.lazy_apps import LazyApp, public_app
from agent_worker.daemon.http.public import PublicListener
from agent_worker.doors.outbox.sender import OutboxSender
from agent_worker.service.service import Service


def open_outside(service: Service, opening: AsyncExitStack) -> None:
    """All of it ends with `opening`; what the person has not asked for costs nothing."""
    OutboxSender(service)
    chosen = service.runtime.registry.settings
    if chosen.public_url:
        public = LazyApp(lambda: public_app(service))
        opening.push_async_callback(public.close)
        opening.push_async_callback(PublicListener(public, chosen.public_url, chosen.public_port).close)
