"""`demo`, `daemon run` and `export --format html`: the whole program at work in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any


def lay_out_demo() -> Path:
    """Write the demo's project into a new temporary directory. Light: it is named before the rest is loaded."""
    from agent_worker.demo.bundle import lay_out

    return lay_out()


def play(root: Path, workflow: str, show: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Run this workflow to its end, with its state inside the project, and show every event; its summary."""

    async def run() -> dict[str, Any]:
        from agent_worker.api.local import local

        summary: dict[str, Any] = {}
        async with local(root, home=root / ".state", trust=True) as workers:
            async for event in await workers.follow("run", workflow=workflow, project=workers.project):
                if event["event"] == "done":
                    summary = event
                elif event["event"] != "begun":
                    show(event)
        return summary

    return asyncio.run(run())


def run_daemon(port: int | None) -> int:
    """Be the daemon, until it is told to stop; the exit code."""
    from agent_worker.daemon.main import main

    return main(port=port)


def record_text(form: str, title: str, **parts: Any) -> str:
    """A workspace or a conversation as one text, made from answers of the daemon: `md`, `jsonl`, or a `html` page."""
    from agent_worker.daemon.web.export_page import Record, as_jsonl, as_markdown, as_page

    return {"md": as_markdown, "jsonl": as_jsonl, "html": as_page}[form](Record(title, **parts))
