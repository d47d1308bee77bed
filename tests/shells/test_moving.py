"""`db migrate`: what a daemon keeps goes to PostgreSQL and back, whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import stored
from tests.patience import PATIENCE, eventually
from tests.postgresql import Cluster
from tests.shells.served import Served, daemon_command, served
from tests.shells.terminal import Terminal

from agent_worker.client.connection import connect
from agent_worker.client.discovery import DATABASE, DATABASE_VARIABLE
from agent_worker.core.failpoints import VARIABLE

#: It is the same on either engine.
pytestmark = pytest.mark.sqlite("begins with the file of a home, which is moved to a PostgreSQL of its own")
PASSWORD = "hunter2hunter2"


@pytest.fixture
def lived(tmp_path: Path) -> Iterator[Served]:
    """A daemon that was used and is stopped: talk, a team, a document, a memory with its audit."""
    with served(tmp_path) as daemon:
        terminal = Terminal(daemon)
        terminal.says("ask", "alice", "hello ␀ and ü")
        terminal.says("agent", "memory", "alice", "set", "colour", "green")
        terminal.says("start", "review", "-b")
        terminal.says("send", "@review", "@bob are you there?")
        terminal.says("doc", "write", "@review", "plan.md", "first this, then that")
        assert eventually(lambda: len(daemon.read(stored.runs, state="done")) >= 2)
        for name, command in (("told", "echo ready"), ("made", "make")):  # what is seen in full, and what is not
            flow = f"agents: {{ alice: {{ ref: alice }} }}\nsetup: [{{ shell: {command}, as: state }}]\n"
            (daemon.project / ".workflows" / f"{name}.yaml").write_text(flow)
        terminal.says("trust", "--yes")
        terminal.says("stop", "--all")
        yield daemon


def again(daemon: Served, **environ: str) -> Served:
    """The daemon of this home, started anew."""
    client = connect(home=daemon.home, command=daemon_command(**environ), patience=PATIENCE)
    return Served(client, daemon.home, daemon.project)


def seen(daemon: Served) -> dict[str, str]:
    """What a person sees of it."""
    terminal = Terminal(daemon)
    shown = {
        "talk": terminal.says("peek", "alice", "--json"),
        "channel": terminal.says("peek", "@review", "--json"),
        "document": terminal.says("doc", "read", "@review", "plan.md"),
        "runs": terminal.says("runs", "--json"),
        "audit": terminal.says("audit", "--json"),
        "approved": terminal.says("trust", "list", "--json"),
        "memory": terminal.says("agent", "memory", "alice", "--json"),
    }
    terminal.says("stop", "--all")
    return shown


def test_everything_goes_to_postgresql_and_back_and_looks_the_same(lived: Served, cluster: Cluster) -> None:
    terminal, url = Terminal(lived), cluster.new_database()
    before = seen(again(lived))
    told = terminal.says("db", "migrate", "--to", url)
    assert "moved 1 project" in told
    assert DATABASE_VARIABLE in told
    assert seen(again(lived, **{DATABASE_VARIABLE: url})) == before

    (lived.home / DATABASE).unlink()
    for beside in lived.home.glob(f"{DATABASE}*"):
        beside.unlink()
    moved = json.loads(terminal.says("db", "migrate", "--from", url, "--json"))
    assert moved["rows"]["project"] == 1
    assert moved["kept"] is None
    assert before["approved"].count('"what"') == 2
    assert seen(again(lived)) == before


def test_files_of_agents_and_documents_go_along_and_come_back(lived: Served, cluster: Cluster) -> None:
    terminal, url = Terminal(lived), cluster.new_database()
    memory = lived.project / ".agents/alice/memory/core.yaml"
    flow = "agents:\n  alice: { ref: alice }\nworkspace: { provider: file }\n"
    (lived.project / ".workflows/drafts.yaml").write_text(flow)
    here = Terminal(again(lived))
    here.says("start", "drafts", "-b")
    here.says("doc", "write", "@drafts", "draft.md", "first this")
    here.says("stop", "--all")
    draft = lived.project / ".workspace/drafts/main/documents/draft.md"
    draft.write_text("first this, by hand\n")
    moved = json.loads(terminal.says("db", "migrate", "--to", url, "--json"))
    assert moved["rows"]["personal_file"] == len(list(memory.parent.glob("*.yaml")))
    assert moved["rows"]["document"] == 3

    there = Terminal(again(lived, **{DATABASE_VARIABLE: url}))
    assert "first this, by hand" in there.says("doc", "read", "@drafts", "draft.md")
    there.says("doc", "append", "@drafts", "draft.md", "then that")
    there.says("agent", "memory", "alice", "set", "shape", "round")
    there.says("stop", "--all")
    known = memory.read_text()
    memory.write_text(known.replace("round", "square"))

    moved = json.loads(terminal.says("db", "migrate", "--from", url, "--json"))
    assert moved["rows"]["personal_file"] == 0
    assert moved["told"] == []
    assert "square" in memory.read_text()
    here = Terminal(again(lived))
    assert "square" in here.says("agent", "memory", "alice")
    assert "then that" in here.says("doc", "read", "@drafts", "draft.md")
    assert "then that" in draft.read_text()
    here.says("stop", "--all")


def test_what_the_home_kept_is_set_aside_when_something_comes_back(lived: Served, cluster: Cluster) -> None:
    terminal, url = Terminal(lived), cluster.new_database()
    terminal.says("db", "migrate", "--to", url)
    moved = json.loads(terminal.says("db", "migrate", "--from", url, "--json"))
    assert Path(moved["kept"]).is_file()
    assert (lived.home / DATABASE).stat().st_mode & 0o777 == 0o600


def test_a_database_that_holds_something_is_left_as_it_is(lived: Served, cluster: Cluster) -> None:
    terminal, url = Terminal(lived), cluster.new_database()
    terminal.says("db", "migrate", "--to", url)
    refused = terminal.run("db", "migrate", "--to", url)
    assert refused.returncode != 0
    assert "holds 1 project already" in refused.stderr


def test_killed_before_the_commit_nothing_has_arrived_and_it_can_be_done_again(lived: Served, cluster: Cluster) -> None:
    terminal, url = Terminal(lived), cluster.new_database()
    assert terminal.run("db", "migrate", "--to", url, **{VARIABLE: "transfer.commit=kill"}).returncode != 0
    assert "moved 1 project" in terminal.says("db", "migrate", "--to", url)


def test_killed_on_the_way_back_nothing_is_approved_that_was_not(lived: Served, cluster: Cluster) -> None:
    terminal, url = Terminal(lived), cluster.new_database()
    terminal.says("db", "migrate", "--to", url)
    approvals = lived.home / "trust.json"
    approvals.unlink()
    assert terminal.run("db", "migrate", "--from", url, **{VARIABLE: "restore.rename=kill"}).returncode != 0
    assert not approvals.exists()
    terminal.says("db", "migrate", "--from", url)
    assert approvals.exists()


def test_nothing_moves_while_a_daemon_works_on_either_side(lived: Served, cluster: Cluster) -> None:
    terminal, url = Terminal(lived), cluster.new_database()
    again(lived)
    refused = terminal.run("db", "migrate", "--to", url)
    assert "the daemon is running" in refused.stderr
    assert "agent-worker stop --all" in refused.stderr
    terminal.says("stop", "--all")
    with served(lived.home.parent / "other", {DATABASE_VARIABLE: url}):
        refused = terminal.run("db", "migrate", "--to", url)
        assert "is in use: agent-worker, process" in refused.stderr


#: What is typed after `db migrate`, and what is told.
MISTAKES = [
    ([], "say where to: --to URL, or --from URL"),
    (["--to", "a", "--from", "b"], "say where to: --to URL, or --from URL"),
    (["--to", f"mysql://me:{PASSWORD}@host/db"], "that is not the address of a PostgreSQL database"),
    (["--to", f"postgresql://me:{PASSWORD}@127.0.0.1:1/db"], "postgresql://127.0.0.1:1/db cannot be used"),
    (["--from", f"postgresql://me:{PASSWORD}@127.0.0.1:1/db"], "postgresql://127.0.0.1:1/db cannot be used"),
]


def test_an_address_that_leads_nowhere_is_told_without_its_password(lived: Served) -> None:
    for words, told in MISTAKES:
        refused = Terminal(lived).run("db", "migrate", *words)
        assert refused.returncode != 0
        assert told in refused.stderr
        assert PASSWORD not in refused.stderr
    assert not list(lived.home.glob("*.arriving*"))
