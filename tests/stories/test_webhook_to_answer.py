"""A webhook starts a review, a member asks the person, the daemon dies, and the answer comes back through a link."""

from __future__ import annotations

import json
from pathlib import Path

from tests import stored
from tests.doors.public import HOST, answer, port_of, public, reach
from tests.doors.test_hooks import SECRET, github, pull
from tests.doors.test_outbox import receiver, wants
from tests.patience import PATIENCE, eventually
from tests.shells.served import daemon_command, kill_daemon, served

from agent_worker.client.connection import connect

REVIEW = """
agents:
  tess:
    backend: mock
    script:
      - call: [{ tool: ask_user, with: { question: merge it?, options: ["yes", "not yet"] } }]
      - say: merged
workspace: { provider: sqlite }
params: [{ name: number }]
kickoff: "@tess please review ${{ params.number }}"
triggers:
  github:
    secret: $HOOK_SECRET
    params: { number: pull_request.number }
    group: pr-${{ params.number }}
"""


def test_a_webhook_starts_a_review_and_the_person_answers_by_a_link_after_a_kill(tmp_path: Path) -> None:
    home = tmp_path / "home"
    public(home)
    with receiver(*[503] * 50) as (url, told):
        wants(home, phone={"to": "webhook", "url": url, "kinds": ["question"]})
        sooner = {"agent_worker.doors.outbox.timing._FIRST": 1.0}
        with served(tmp_path, {"HOOK_SECRET": SECRET}, shorter=sooner) as daemon:
            (daemon.project / ".workflows" / "check.yaml").write_text(REVIEW)
            daemon.do("POST", "/trust")
            body = json.dumps(pull(7)).encode()
            headers = {name.replace("-", "_"): value for name, value in github(body).items()}
            came = reach(
                port_of(daemon), "POST", "/hooks/project/github", body, kind="application/json", host=HOST, **headers
            )
            assert came.json == {"accepted": [{"workflow": "check:pr-7", "does": "starts", "why": ""}]}
            assert eventually(lambda: told), "the phone was called, and refused"
            assert eventually(lambda: daemon.read(stored.instructions, state="waiting"))
            kill_daemon(home, daemon.client.found)
            before = len(told)
            connect(home=home, command=daemon_command(HOOK_SECRET=SECRET), patience=PATIENCE)
            assert eventually(lambda: len(told) > before)
            (item,) = json.loads(told[-1][1])["items"]
            secret = item["link"].partition("#")[2]
            assert b"merge it?" in answer(port_of(daemon), secret).body
            assert answer(port_of(daemon), secret, action="answer", text="yes").status == 200
            ended = eventually(lambda: daemon.read(stored.workspaces, tag="pr-7", state="stopped"))
            said = [row["text"] for row in daemon.read(stored.messages, workspace=ended[0]["id"])]
            assert said == ["@tess please review 7", "merged"]
            assert [row["state"] for row in daemon.read(stored.hook_deliveries)] == ["started"]
