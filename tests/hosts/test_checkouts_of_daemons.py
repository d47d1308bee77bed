"""Real daemons, each with a checkout of its own: what one of them knew when it was killed, the other one knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.hosts.test_daemons import Daemons, end_daemon
from tests.patience import PATIENCE, eventually
from tests.postgresql import Cluster
from tests.shells.served import Served, daemon_command, kill_daemon
from tests.shells.terminal import Terminal
from tests.teams import write_project

from agent_worker.client.connection import connect
from agent_worker.client.discovery import DATABASE_VARIABLE

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
    url = cluster.new_database()
    with ExitStack() as stopping:
        found = []
        for name in ("one", "two"):
            home, project = tmp_path / name, tmp_path / f"checkout-{name}"
            write_project(project, ["alice"], extra={"alice": LEARNS}, workflow="workspace: { provider: file }\n")
            (project / "moniro.yaml").write_text("id: shop\n")
            client = connect(home=home, command=daemon_command(**{DATABASE_VARIABLE: url}), patience=PATIENCE)
            found.append(Served(client, home, project))
            stopping.callback(end_daemon, found[-1])
            Terminal(found[-1]).says("ls")
        yield Daemons(url, found)


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
    client = connect(home=one.home, command=daemon_command(**{DATABASE_VARIABLE: daemons.url}), patience=PATIENCE)
    back = Served(client, one.home, one.project)
    try:
        Terminal(back).says("ls")
        assert eventually(lambda: "blue as ink" in (two.project / CORE).read_text())
        assert eventually(lambda: "then that" in (one.project / PLAN).read_text())
    finally:
        end_daemon(back)
