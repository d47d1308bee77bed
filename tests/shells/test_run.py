"""`POST /run` and `/serve`: give work, follow it to its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE, eventually
from tests.shells.served import Answer, Served, daemon_command, frames, kinds, served

from agent_worker.client.connection import connect
from agent_worker.core.errors import Permanent

SLOW = "backend: mock\nscript: [" + "{ say: at last, slow: 30s }, " * 5 + "]\n"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("run")) as made:
        agents = made.project / ".agents"
        for name in ("sloth", "paused"):
            (agents / f"{name}.yaml").write_text(SLOW)
        (agents / "broken.yaml").write_text("backend: mock\nscript: [{ fail: permanent }, { fail: permanent }]\n")
        (agents / "asker.yaml").write_text(
            "backend: mock\nscript: [{ call: { tool: ask_user, with: { question: Which one? } } }, { say: thanks }]\n"
        )
        (made.project / ".workflows" / "wait.yaml").write_text(
            "agents: { sloth: { ref: sloth } }\nworkspace: { provider: sqlite }\nkickoff: '@sloth go'\n"
        )
        (made.project / ".workflows" / "pair.yaml").write_text(
            "agents: { alice: { ref: alice }, bob: { ref: bob } }\nworkspace: { provider: sqlite }\n"
            "kickoff: '@alice look at this, then ask @bob'\n"
        )
        yield made


def run(daemon: Served, **wanted: Any) -> list[dict[str, Any]]:
    events = daemon.client.stream("POST", "/run", {"project": str(daemon.project)} | wanted)
    return [json.loads(event.data) for event in events]


def instance(daemon: Served, name: str) -> dict[str, Any]:
    found: dict[str, Any] = daemon.client.request("GET", daemon.query(f"/workflows/{name}"))[1]
    return found


def test_an_agent_is_run_and_followed(daemon: Served) -> None:
    events = run(daemon, agent="alice", message="hello")
    assert kinds(events) == ["begun", "started", "step", "ended", "done"]
    assert events[-1]["text"] == "I have looked at this: hello"
    assert events[-1]["state"] == "done"
    assert set(events[-1]["usage"]) == {"input", "output", "usd", "estimated"}


def test_what_is_written_is_shown_as_it_is_written(daemon: Served) -> None:
    (daemon.project / ".agents" / "talker.yaml").write_text("backend: mock\nscript: [{ say: word by word }]\n")
    events = run(daemon, agent="talker", message="talk")
    assert "".join(event["text"] for event in events if event["event"] == "chunk") == "word by word"


def test_each_follows_its_own_work_only(daemon: Served) -> None:
    with ThreadPoolExecutor(5) as pool:
        asked = [f"question {number}" for number in range(5)]
        answers = list(pool.map(lambda text: run(daemon, agent="bob", message=text), asked))
    for text, events in zip(asked, answers, strict=True):
        assert events[-1]["text"] == f"I have looked at this: {text}"
        assert len({event["run"] for event in events if "run" in event}) == 1


def test_a_failure_is_the_last_event_and_an_error_of_serve(daemon: Served) -> None:
    last = run(daemon, agent="broken", message="try")[-1]
    assert (last["event"], last["message"]) == ("error", "a failure (permanent), as the script says")
    with pytest.raises(Permanent, match="as the script says"):
        daemon.do("POST", "/serve", agent="broken", message="try")


def test_a_workflow_is_run_until_it_is_quiet(daemon: Served) -> None:
    events = run(daemon, workflow="pair", message="and be quick")
    assert {"message", "started", "tool_call", "tool_result", "step", "ended", "done"} <= set(kinds(events))
    said = [event["sender"] for event in events if event["event"] == "message"]
    assert said[:2] == ["user", "user"]
    assert {"alice", "bob"} <= set(said)
    last = events[-1]
    assert (last["event"], last["outcome"], last["exit_code"]) == ("done", "done", 0)
    assert last["messages"] == len(said)
    numbers = [event["number"] for event in events if event.get("number")]
    assert numbers == sorted(set(numbers))


def test_serve_returns_what_came_of_it(daemon: Served) -> None:
    served = daemon.do("POST", "/serve", agent="alice", message="hello")
    assert served["content"] == "I have looked at this: hello"
    served = daemon.do("POST", "/serve", workflow="pair", tag="served")
    assert {call["tool"] for call in served["tool_calls"]} == {"my_status_set"}
    assert served["summary"]["outcome"] == served["state"] == "done"


def test_agents_defined_in_the_request_work_together_and_leave_nothing(daemon: Served) -> None:
    team = {"writer": {"backend": "mock"}, "reader": {"backend": "mock"}}
    events = run(daemon, agents=team, message="write it, then ask @reader")
    said = [(event["sender"], event["text"]) for event in events if event["event"] == "message"]
    assert {sender for sender, _ in said} == {"user", "reader"}  # whom the message calls on
    events = run(daemon, agents=team, message="write it")
    assert ("user", "@writer write it") in [(e["sender"], e["text"]) for e in events if e["event"] == "message"]
    assert events[-1]["outcome"] == "done"
    names = {agent["name"] for agent in daemon.client.request("GET", daemon.query("/agents"))[1]}
    assert not names & set(team)
    assert not (daemon.project / ".agents" / "writer").exists()


@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        ({}, 422),
        ({"agent": "alice"}, 422),
        ({"message": "hi"}, 422),
        ({"agent": "alice", "workflow": "pair", "message": "hi"}, 422),
        ({"agent": "@pair", "message": "hi"}, 409),
        ({"agent": "carol", "message": "hi"}, 404),
        ({"agent": "alice", "message": ""}, 422),
        ({"agent": "alice@pair:gone", "message": "hi"}, 409),
        ({"workflow": "nothing"}, 404),
        ({"workflow": "pair", "params": {"x": "1"}}, 422),
        ({"agents": {}, "message": "hi"}, 422),
        ({"agents": {"x": {"backend": "nope"}}, "message": "hi"}, 422),
        ({"agents": {"x": {"ref": "alice"}}, "message": "hi"}, 422),
        ({"agents": {"x": {"backend": "mock", "prompt": {"system_file": "/etc/passwd"}}}, "message": "hi"}, 422),
        ({"agents": {"x": {"backend": "mock", "cwd": "../.."}}, "message": "hi"}, 422),
        ({"agents": {"../x": {"backend": "mock"}}, "message": "hi"}, 422),
        ({"agents": {"x": None}, "message": "hi"}, 422),
    ],
)
def test_a_request_that_cannot_be_granted_is_refused_before_anything_happens(
    daemon: Served, wanted: dict[str, Any], status: int
) -> None:
    def changes_nothing() -> bool:
        before = daemon.state()
        for path in ("/run", "/serve"):
            answer: Answer = daemon.ask("POST", path, body=wanted | {"project": str(daemon.project)})
            assert answer.status == status, answer
        return daemon.state() == before

    assert eventually(changes_nothing)  # what earlier tests asked for may still be tidied up the first time


def begin(daemon: Served, **wanted: Any) -> Any:
    """Asked for, and seen to have begun."""
    connection = daemon.connect()
    body = json.dumps({"project": str(daemon.project)} | wanted).encode()
    connection.sendall(daemon.head("POST", "/run", f"Content-Length: {len(body)}") + b"\r\n" + body)
    events = frames(connection)
    while next(events)["event"] != "started":
        pass
    return connection, events


def test_a_workflow_whose_client_leaves_is_stopped(daemon: Served) -> None:
    connection, _ = begin(daemon, workflow="wait", tag="left")
    assert instance(daemon, "wait:left")["state"] == "running"
    connection.close()
    assert eventually(lambda: instance(daemon, "wait:left")["state"] == "stopped")
    assert eventually(lambda: _agent(daemon, "sloth")["queue"] == [])


def test_a_workflow_that_is_stopped_tells_whoever_ran_it(daemon: Served) -> None:
    connection, events = begin(daemon, workflow="wait", tag="told")
    assert (
        daemon.ask("POST", "/run", body={"workflow": "wait", "tag": "told", "project": str(daemon.project)}).status
        == 409
    )
    daemon.client.request("DELETE", daemon.query("/workflows/wait:told"))
    with connection:
        last = json.loads(list(events)[-1]["data"])
    assert (last["event"], last["outcome"], last["exit_code"]) == ("done", "stopped", 130)


def test_an_accepted_message_is_worked_on_whoever_listens(daemon: Served) -> None:
    connection, _ = begin(daemon, agent="paused", message="take your time")
    connection.close()
    assert [work["state"] for work in _agent(daemon, "paused")["queue"]] == ["running"]
    assert daemon.do("POST", "/agents/paused/pause")["state"] == "paused"
    refused = daemon.ask("POST", "/run", body={"agent": "paused", "message": "hi", "project": str(daemon.project)})
    assert refused.status == 409
    assert "paused" in refused.json["error"]["message"]


def test_a_question_to_the_person_is_shown_to_whoever_waits(daemon: Served) -> None:
    connection = daemon.connect()
    body = json.dumps({"agent": "asker", "message": "choose", "project": str(daemon.project)}).encode()
    connection.sendall(daemon.head("POST", "/run", f"Content-Length: {len(body)}") + b"\r\n" + body)
    events = frames(connection)
    item = next(json.loads(event["data"]) for event in events if event["event"] == "inbox")
    assert "Which one?" in item["text"]
    daemon.client.request("POST", f"/inbox/{item['id']}", {"action": "answer", "text": "the red one"})
    with connection:
        assert json.loads(list(events)[-1]["data"])["text"] == "thanks"


def test_R6_a_stopping_daemon_says_so_and_the_next_one_goes_on(tmp_path: Path) -> None:
    with served(tmp_path) as daemon:
        (daemon.project / ".agents" / "alice.yaml").write_text(
            "backend: mock\nscript: [{ say: one, slow: 1s }, { say: two }, { say: three }]\n"
        )
        connection, events = begin(daemon, workflow="review", message="@alice go")
        daemon.client.request("POST", "/shutdown", {})
        with connection:
            last = json.loads(list(events)[-1]["data"])
        assert (last["event"], last["message"]) == ("error", "the daemon is stopping")
        daemon.process.wait(timeout=PATIENCE)
        client = connect(home=daemon.home, command=daemon_command(), patience=PATIENCE)
        again = Served(client, daemon.home, daemon.project)
        try:
            assert eventually(lambda: instance(again, "review")["state"] == "stopped")
            lines = client.request("GET", again.query("/messages?at=@review"))[1]
            assert [line["sender"] for line in lines] == ["user", "alice"]
        finally:
            again.process.kill()


def _agent(daemon: Served, name: str) -> dict[str, Any]:
    found: dict[str, Any] = daemon.client.request("GET", daemon.query(f"/agents/{name}"))[1]
    return found
