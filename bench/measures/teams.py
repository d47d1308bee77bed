"""Mock teams on a real file, for the measures that need a running engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent_worker.backends.providers import NOTHING_APPROVED, Approval
from agent_worker.compose import Engine, Settings, open_engine
from agent_worker.definitions.project import load_project
from agent_worker.workflows import instance
from agent_worker.workflows.instance import Instance

IN_DATABASE = "workspace: { provider: sqlite }\n"


def write_project(root: Path, agents: dict[str, str], *, workflow: str = IN_DATABASE) -> Path:
    """Name → the rest of its definition. One workflow, `review`, has them all."""
    (root / ".agents").mkdir(parents=True)
    (root / ".workflows").mkdir()
    for name, rest in agents.items():
        backend = "" if rest.startswith("backend:") else "backend: mock\n"
        (root / ".agents" / f"{name}.yaml").write_text(backend + rest)
    members = "".join(f"  {name}: {{ ref: {name} }}\n" for name in agents)
    (root / ".workflows" / "review.yaml").write_text(f"agents:\n{members}{workflow}")
    return root


@asynccontextmanager
async def open_team(
    root: Path, agents: dict[str, str], *, workflow: str = IN_DATABASE, approval: Approval = NOTHING_APPROVED
) -> AsyncIterator[tuple[Engine, Instance]]:
    project = load_project(write_project(root, agents, workflow=workflow))
    assert not project.problems, project.problems
    async with open_engine(Settings(database=root / "state.db", approval=approval)) as engine:
        admitted = await engine.stage.roster.admit(project)
        yield engine, await instance.start(engine.stage, admitted, instance.Start(project.workflows["review"]))
