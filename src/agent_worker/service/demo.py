"""The bundled team, put to work in this daemon, in a project of its own."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from agent_worker.service.office import Office
from agent_worker.service.operation import operation
from agent_worker.service.workflows import begin

WORKFLOW = "review"


@dataclass(frozen=True, slots=True)
class Demo:
    project: str
    name: str  #: of the workflow that runs


@operation("POST", "/demo")
async def demo_start(office: Office) -> Demo:
    """Let three mock agents review a bundled change, in a new temporary project. Costs nothing."""
    root = await asyncio.to_thread(lambda: lay_out(Path(tempfile.mkdtemp(prefix="agent-worker-demo-"))))
    await begin(office, WORKFLOW, str(root), trust=True)
    return Demo(str(root), WORKFLOW)


def lay_out(root: Path) -> Path:
    """Write the bundled project."""
    bundle = resources.files("agent_worker.demo") / "project"
    with resources.as_file(bundle) as source:
        for file in sorted(source.rglob("*")):
            if file.is_file():
                target = root / file.relative_to(source)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_bytes())
    return root
