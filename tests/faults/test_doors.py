"""The daemon dies between two steps of a door: what came in is done once, what goes out is told again as the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_worker.client.connection import connect
from agent_worker.core.failpoints import VARIABLE
from tests import stored
from tests.doors.public import HOST, port_of, public, reach
from tests.doors.test_hooks import SECRET, github, pull
from tests.doors.test_otel import E, collector
from tests.patience import PATIENCE, eventually
from tests.shells.served import Served, daemon_command, is_running, served

CHECK = """
agents: { tess: { backend: mock, script: [{ say: checked }] } }
workspace: { provider: sqlite }
params: [{ name: number }]
kickoff: "@tess please check ${{ params.number }}"
triggers:
  github: { secret: $HOOK_SECRET, params: { number: pull_request.number }, group: "pr-${{ params.number }}" }
"""


def again(daemon: Served, **environ: str) -> None:
    """It has died; another begins in its home."""
    assert eventually(lambda: not is_running(daemon.client.found))
    connect(home=daemon.home, command=daemon_command(**environ), patience=PATIENCE)


@pytest.mark.parametrize("place", ["hook.claimed", "hook.started"])
def test_D1_a_webhook_starts_its_workflow_once_though_the_daemon_was_killed_at(tmp_path: Path, place: str) -> None:
    knows = {"HOOK_SECRET": SECRET}
    public(tmp_path / "home")
    with served(tmp_path, knows | {VARIABLE: f"{place}=kill"}, fresh=True) as daemon:
        (daemon.project / ".workflows" / "check.yaml").write_text(CHECK)
        daemon.do("POST", "/trust")
        body = json.dumps(pull(7)).encode()
        headers = {name.replace("-", "_"): value for name, value in github(body).items()}
        reach(port_of(daemon), "POST", "/hooks/project/github", body, kind="application/json", host=HOST, **headers)
        again(daemon, **knows)
        assert eventually(lambda: daemon.read(stored.workspaces, tag="pr-7", state="stopped"))
        assert eventually(lambda: [row["state"] for row in daemon.read(stored.hook_deliveries)] == ["started"])
        (made,) = daemon.read(stored.workspaces, tag="pr-7")
        said = [row["text"] for row in daemon.read(stored.messages, workspace=made["id"])]
        assert said == ["@tess please check 7", "checked"]


def test_D1_what_was_exported_when_the_daemon_was_killed_is_exported_again_as_the_same(tmp_path: Path) -> None:
    with collector() as got:
        knows = {E: got.url}
        with served(tmp_path, knows | {VARIABLE: "otel.sent=kill"}, fresh=True) as daemon:
            daemon.client.request("POST", "/send", {"to": "alice", "message": "hello", "project": str(daemon.project)})
            assert eventually(lambda: got.spans)
            first = {span.span_id: span.SerializeToString() for span in got.spans}
            got.requests.clear()
            again(daemon, **knows)
            assert eventually(lambda: {span.span_id for span in got.spans} >= first.keys())
            told = {span.span_id: span.SerializeToString() for span in got.spans}
            assert {id: told[id] for id in first} == first
