"""The doors that work by themselves while the daemon runs: notifications, traces, and the public listener.

What the person has not set up costs nothing.
"""

from __future__ import annotations

import logging
import os
from contextlib import AsyncExitStack

from agent_worker.core.errors import BadInput
from agent_worker.daemon.http.lazy_apps import LazyApp, public_app
from agent_worker.daemon.http.public import PublicListener
from agent_worker.doors.otel.settings import trace_settings
from agent_worker.doors.outbox.sender import OutboxSender
from agent_worker.service.service import Service

log = logging.getLogger(__name__)


def open_doors(service: Service, opening: AsyncExitStack) -> None:
    """Open these doors; they close with `opening`."""
    OutboxSender(service)
    _begin_traces(service)
    chosen = service.runtime.registry.settings
    if chosen.public_url:
        public = LazyApp(lambda: public_app(service))
        opening.push_async_callback(public.close)
        opening.push_async_callback(PublicListener(public, chosen.public_url, chosen.public_port).close)


def _begin_traces(service: Service) -> None:
    """Send traces, if the environment names a collector. A mistake in it keeps nobody from working."""
    try:
        settings = trace_settings(os.environ)
    except BadInput as error:
        return log.error("no traces are sent: %s (%s)", error.message, error.hint)
    if settings is not None:
        from agent_worker.doors.otel.exporter import TraceExporter

        TraceExporter(service, settings)
