"""`python -m agent_worker.daemon.main`: be the daemon. All of it is in process/process.py and http/app.py."""

from __future__ import annotations

import asyncio
import os
import sys

from agent_worker.client.discovery import home_directory
from agent_worker.daemon.http.asgi import App
from agent_worker.daemon.process.front import Identity
from agent_worker.daemon.process.process import MakeApp, serve
from agent_worker.daemon.process.settings import DaemonSettings

PORT_VARIABLE = "AGENT_WORKER_PORT"


def main(*, host: str = "127.0.0.1", port: int | None = None, exposed: bool = False) -> int:
    """Run the daemon until it is told to stop; the exit code."""
    given = os.environ.get(PORT_VARIABLE, "")
    if port is None and given:
        port = int(given) if given.isascii() and given.isdecimal() else -1  # which is refused, with a sentence
    return serve(_make_app, DaemonSettings(home=home_directory(), host=host, port=port, exposed=exposed))


async def _make_app(identity: Identity) -> App:
    make_app = await asyncio.to_thread(_load)
    return await make_app(identity)


def _load() -> MakeApp:
    """Import the application in a thread: meanwhile the process already says who it is."""
    from agent_worker.daemon.http.app import make_app

    return make_app


if __name__ == "__main__":
    sys.exit(main())
