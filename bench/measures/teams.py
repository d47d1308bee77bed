"""Mock teams on a real file, for the measures that need a running engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent_worker.compose import Engine, Settings, open_engine
from agent_worker.definitions.project import load_project
from agent_worker.workflows import instance
from agent_worker.workflows.instance import Instance


def write_project(root: Path, agents: dict[str, str], *, workflow: str = "workspace: { provider: sqlite }\n") -> Path:
    """Name → the rest of its definition. One workflow, `review`, has them all."""
    (root / ".agents").mkdir(parents=True)
    (root / ".workflows").mkdir()
    for name, rest in agents.items():
        (root / ".agents" / f"{name}.yaml").write_text(f"backend: mock\n{rest}")
    members = "".join(f"  {name}: {{ ref: {name} }}\n" for name in agents)
    (root / ".workflows" / "review.yaml").write_text(f"agents:\n{members}{workflow}")
    return root


@asynccontextmanager
async def open_team(root: Path, agents: dict[str, str]) -> AsyncIterator[tuple[Engine, Instance]]:
    project = load_project(write_project(root, agents))
    assert not project.problems, project.problems
    async with open_engine(Settings(database=root / "state.db")) as engine:
        admitted = await engine.stage.roster.admit(project)
        yield engine, await instance.start(engine.stage, admitted, instance.Start(project.workflows["review"]))
