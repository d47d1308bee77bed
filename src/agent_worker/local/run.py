"""`demo`, `daemon run` and `export --format html`: the whole program at work in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_worker.core.events import Subscription
    from agent_worker.workflows.summary import Summary


def lay_out_demo() -> Path:
    """Write the demo's project into a new temporary directory. Light: it is named before the rest is loaded."""
    from agent_worker.demo.bundle import lay_out

    return lay_out()


def play(root: Path, workflow: str, show: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Run this workflow to its end, with its state inside the project, and show every event; its summary."""

    async def watch(events: Subscription) -> None:
        async for event in events:
            show(event.as_record())

    async def run() -> Summary:
        from agent_worker.api import open_project

        async with open_project(root, home=root / ".state") as project:
            with project.events() as events:
                watching = asyncio.create_task(watch(events))
                team = await project.start(workflow)
                summary = await team.run()
                watching.cancel()
        return summary

    summary = asyncio.run(run())
    return asdict(summary) | {"exit_code": summary.exit_code}


def run_daemon(port: int | None) -> int:
    """Be the daemon, until it is told to stop; the exit code."""
    from agent_worker.daemon.main import main

    return main(port=port)


def record_page(title: str, **parts: Any) -> str:
    """One HTML page that needs nothing else, made from answers of the daemon."""
    from agent_worker.daemon.web.record import Record, as_page

    return as_page(Record(title, **parts))
