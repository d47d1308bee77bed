"""Real daemons, each with a checkout of its own: what one of them knew when it was killed, the other one knows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hosts.test_daemons import Daemons
from tests.patience import eventually
from tests.postgresql import Cluster
from tests.shells.served import kill_daemon
from tests.shells.terminal import Terminal
from tests.teams import write_project

LEARNS = """backend: mock
script:
  - call: { tool: memory_write, with: { key: colour, value: green as moss, tier: core } }
  - say: noted
  - again: true
"""
CORE = ".agents/alice/memory/core.yaml"
PLAN = ".workspace/review/main/documents/plan.md"


@pytest.fixture
def daemons(cluster: Cluster, tmp_path: Path) -> Iterator[Daemons]:
    daemons = Daemons(cluster.new_database())
    try:
        for name in ("one", "two"):
            project = tmp_path / f"checkout-{name}"
            write_project(project, ["alice"], extra={"alice": LEARNS}, workflow="workspace: { provider: file }\n")
            (project / "moniro.yaml").write_text("id: shop\n")
            Terminal(daemons.begin(tmp_path / name, project)).says("ls")
        yield daemons
    finally:
        daemons.end()


def test_what_was_learned_and_written_on_a_host_that_is_killed_is_known_on_the_other(daemons: Daemons) -> None:
    one, two = daemons.all
    first, second = Terminal(one), Terminal(two)
    first.says("ask", "alice", "my colour is green as moss")
    first.says("agent", "memory", "alice", "set", "shape", "round")
    first.says("start", "review", "-b")
    first.says("doc", "write", "@review", "plan.md", "first this")
    kill_daemon(one.home, one.client.found)

    remembered = second.says("agent", "memory", "alice")
    assert "green as moss" in remembered
    assert "round" in remembered
    assert "green as moss" in (two.project / CORE).read_text()
    assert "first this" in second.says("doc", "read", "@review", "plan.md")
    second.says("doc", "append", "@review", "plan.md", "then that")
    assert eventually(lambda: (two.project / PLAN).exists() and "then that" in (two.project / PLAN).read_text())

    (one.project / CORE).write_text("colour: blue as ink\n")  # while its daemon is dead
    Terminal(daemons.begin(one.home, one.project)).says("ls")
    assert eventually(lambda: "blue as ink" in (two.project / CORE).read_text())
    assert eventually(lambda: "then that" in (one.project / PLAN).read_text())
