"""The HTTP door: a route for every operation, arguments as one, errors that say what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from starlette.requests import Request
from starlette.responses import Response
from tests.faults import report
from tests.patience import PATIENCE
from tests.shells.served import Served, served

from agent_worker.core import errors
from agent_worker.daemon.http.openapi import describe
from agent_worker.daemon.http.routes import explained
from agent_worker.doors.errors import STATUS, status_of
from agent_worker.service.catalogue import OPERATIONS
from agent_worker.trust.store import Untrusted


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("http")) as made:
        made.do("POST", "/workflows", workflow="review")
        yield made


def test_a_message_is_sent_and_answered(daemon: Served, tmp_path: Path) -> None:
    daemon = daemon.beside(tmp_path / "project")
    receipt = daemon.do("POST", "/send", to="alice", message="hello")
    assert receipt["id"].startswith("i_")
    answer = daemon.do("POST", "/ask", agent="alice", message="what is left to do?")
    assert (answer["state"], answer["text"]) == ("done", "I have looked at this: what is left to do?")
    lines = daemon.client.request("GET", daemon.query("/messages?at=alice"))[1]
    assert [line["sender"] for line in lines] == ["user", "alice", "user", "alice"]


def test_a_workflow_is_started_talked_to_and_stopped(daemon: Served, tmp_path: Path) -> None:
    daemon = daemon.beside(tmp_path / "project")
    daemon.do("POST", "/workflows", workflow="review")
    running = daemon.do("POST", "/workflows", workflow="review", tag="talk")
    assert (running["name"], running["state"]) == ("review:talk", "running")
    receipt = daemon.do("POST", "/channels/review:talk", message="@bob hi, @nobody too")
    assert (receipt["woke"], receipt["unknown"]) == (["bob"], ["nobody"])
    assert daemon.client.request("GET", daemon.query("/workflows/review:talk"))[1]["members"][0]["name"] == "alice"
    summary = daemon.client.request("DELETE", daemon.query("/workflows/review:talk"))[1]
    assert summary["outcome"] == "stopped"
    assert {each["name"]: each["state"] for each in daemon.client.request("GET", daemon.query("/instances"))[1]} == {
        "review": "running",
        "review:talk": "stopped",
    }


def test_what_is_written_out_is_tried_before_what_is_an_argument(daemon: Served) -> None:
    """`/workflows/run` is not an instance called run, `/agents/x/todos` no action called todos."""
    assert daemon.do("POST", "/workflows/run", workflow="review", tag="static")["outcome"] == "done"
    assert daemon.do("POST", "/agents/alice/todos", text="look")[0]["text"] == "look"
    assert daemon.do("POST", "/agents/alice/pause")["state"] == "paused"
    assert daemon.do("POST", "/agents/alice/resume")["state"] == "idle"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code", "said"),
    [
        ("POST", "/send", {"to": "alice"}, 422, "bad_input", "message is missing"),
        ("POST", "/send", {"to": "alice", "message": "hi", "sender": "bob"}, 422, "bad_input", "no argument sender"),
        ("POST", "/send", {"to": "alice", "message": "hi", "priority": 0}, 422, "bad_input", "no argument priority"),
        ("POST", "/send", {"to": "alice", "message": 5}, 422, "bad_input", "message"),
        ("POST", "/send", {"to": "alice", "message": "  "}, 422, "bad_input", "empty"),
        ("POST", "/send", {"to": "a b c", "message": "hi"}, 422, "bad_input", ""),
        ("POST", "/send", {"to": "carol", "message": "hi"}, 404, "not_found", "no agent carol"),
        ("POST", "/send", {"to": "@review:gone", "message": "hi"}, 409, "not_running", "is not running"),
        ("POST", "/workflows", {"workflow": "nothing"}, 404, "not_found", "no workflow nothing"),
        ("POST", "/agents", {"name": "alice"}, 409, "refused", "already"),
        ("POST", "/agents", {"name": "../x"}, 422, "bad_input", ""),
        ("POST", "/agents/alice/explode", {}, 422, "bad_input", "action"),
        ("GET", "/agents/carol?project=PROJECT", None, 404, "not_found", "carol"),
        ("GET", "/runs/r_1", None, 404, "not_found", "no run"),
        ("GET", "/events?after=-1", None, 422, "bad_input", "not the id of an event"),
        ("GET", "/events?after=x", None, 422, "bad_input", "after"),
        ("GET", "/nowhere", None, 404, "not_found", "no GET /nowhere"),
        ("DELETE", "/projects", None, 405, "bad_method", "no DELETE /projects"),
        ("PATCH", "/send", {}, 405, "bad_method", ""),
    ],
)
def test_errors_have_a_status_a_code_and_a_sentence(
    daemon: Served, method: str, path: str, body: dict[str, Any] | None, status: int, code: str, said: str
) -> None:
    if body is not None and method == "POST":
        body = {"project": str(daemon.project)} | body
    answer = daemon.ask(method, path.replace("PROJECT", str(daemon.project)), body=body)
    error = answer.json["error"]
    assert (answer.status, error["code"]) == (status, code), error
    assert said in error["message"]
    assert set(error) == {"code", "message", "hint"}


@pytest.mark.parametrize("project", ["relative", ".", "", "/no/such/place", "/etc/passwd", "/" + "x" * 5000])
def test_a_project_is_a_directory_by_its_full_path(daemon: Served, project: str) -> None:
    answer = daemon.ask("POST", "/send", body={"to": "alice", "message": "hi", "project": project})
    assert answer.status in {404, 422}, answer


def test_every_error_has_its_status() -> None:
    expected = {
        errors.BadInput: 422,
        errors.NotFound: 404,
        errors.Refused: 409,
        errors.Stale: 409,
        errors.NotRunning: 409,
        errors.Fenced: 409,
        errors.StorageFault: 507,
        errors.Overloaded: 502,
        errors.AgentWorkerError: 500,
    }
    for kind, status in expected.items():
        assert status_of(kind("x")) == status, kind
    assert status_of(errors.DefinitionError([])) == 422
    assert STATUS[Untrusted.code] == 403


async def test_a_mistake_of_ours_is_told_by_its_number_only(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(request: Request) -> Response:
        raise ZeroDivisionError("the secret")

    response = await explained(broken)(Request({"type": "http", "method": "GET", "path": "/x", "headers": []}))
    error = json.loads(bytes(response.body))["error"]
    assert response.status_code == 500
    assert "secret" not in error["message"]
    assert error["message"].rpartition(" ")[2] in caplog.text


# --- OpenAPI


def test_the_page_lists_every_operation_with_its_arguments(daemon: Served) -> None:
    page = daemon.client.request("GET", "/openapi.json")[1]
    listed = {each["operationId"]: each for path in page["paths"].values() for each in path.values()}
    assert set(OPERATIONS) <= set(listed)
    for operation in OPERATIONS.values():
        described = listed[operation.name]
        names = {each["name"] for each in described.get("parameters", ())}
        if body := described.get("requestBody"):
            names |= set(body["content"]["application/json"]["schema"]["properties"])
        assert names == set(operation.signature.arguments.model_fields), operation.name
        assert described["summary"]
    assert "text/event-stream" in listed["run"]["responses"]["200"]["content"]


def test_the_tools_of_the_persons_own_ai_have_the_names_of_the_specification() -> None:
    assert {operation.tool for operation in OPERATIONS.values() if operation.tool} == {
        *("agents_list", "agent_send", "agent_ask", "workflow_run", "workflow_status", "team_start", "work_wait"),
        "work_stop",
        *("channel_read", "channel_send", "inbox_list", "inbox_answer", "doc_list", "doc_read", "run_explain"),
    }


#: What waits for work to be done, what never ends, and what looks through the machine, whatever it is asked.
LONG = {"/run", "/serve", "/ask", "/workflows/run", "/events", "/leftovers", "/values/{program}"}
LONG |= {"/workflows/{instance}/wait", "/workflows/{instance}/finish"}
LONG |= {"/tickets/ask", "/tickets/run", "/tickets/team", "/tickets/{id}"}
#: The page without what would end the daemon we test, or take long.
PAGE = describe(OPERATIONS.values(), version="0")
PAGE["paths"] = {path: described for path, described in PAGE["paths"].items() if path not in {*LONG, "/shutdown"}}
schema = schemathesis.openapi.from_dict(PAGE)
schema.config.phases.coverage.enabled = report.LONG  # dozens of calls for each route, however few examples we want


#: Names that exist. What is made up reaches no further than the first look-up.
KNOWN = {"name": "alice", "agent": "alice", "to": "alice", "at": "@review", "workspace": "review", "instance": "review"}


def steer(case: schemathesis.Case, project: str) -> None:
    """Into our project always, and mostly to what is there."""
    query: dict[str, Any] = dict(case.query or {})
    places = [query, case.path_parameters or {}, case.body if isinstance(case.body, dict) else {}]
    for place in places:
        for name in place:
            is_file = name == "name" and ("documents" in case.path or "revisions" in case.path)
            if name in KNOWN and case.method != "DELETE" and not is_file and len(repr(place)) % 4:
                place[name] = KNOWN[name]
    if case.method in ("GET", "DELETE") and any(each.name == "project" for each in case.operation.query):
        query["project"] = project
    elif isinstance(case.body, dict) and "project" in case.operation.body[0].definition["schema"]["properties"]:
        case.body["project"] = project
    case.query = query


@schema.parametrize()
@settings(max_examples=900 if report.LONG else 5, suppress_health_check=list(HealthCheck))
@pytest.mark.timeout(1800 if report.LONG else 300)
def test_D8p_whatever_is_asked_it_is_no_mistake_of_ours(daemon: Served, case: schemathesis.Case) -> None:
    steer(case, str(daemon.project))
    headers = {"Authorization": f"Bearer {daemon.client.found.token}"}
    answer = case.call(base_url=f"http://{daemon.here}", headers=headers, timeout=PATIENCE)
    case.validate_response(answer, checks=[not_a_server_error])
    report.report.count("D8p calls")


# --- editing an agent ---------------------------------------------------------------------------------


ALICE = """\
# who alice is
model: openai/gpt-6   # a note
backend: mock
prompt: { system: You are Alice. }
env: [GITHUB_TOKEN]
"""


@pytest.fixture
def alice_file(daemon: Served) -> Iterator[Path]:
    path = daemon.project / ".agents" / "ann.yaml"
    path.write_text(ALICE)
    yield path
    path.unlink(missing_ok=True)


def test_an_edit_changes_its_keys_and_nothing_else(daemon: Served, alice_file: Path) -> None:
    edited = daemon.do("PATCH", "/agents/ann", changes={"model": "openai/gpt-6-mini", "max_steps": 7, "env": None})
    assert edited["model"] == "openai/gpt-6-mini"
    assert alice_file.read_text() == (
        "# who alice is\nmodel: openai/gpt-6-mini   # a note\nbackend: mock\n"
        "prompt: { system: You are Alice. }\nmax_steps: 7\n"
    )


def test_a_key_within_another_is_set_and_removed_beside_its_neighbours(daemon: Served, alice_file: Path) -> None:
    daemon.do("PATCH", "/agents/ann", changes={"soul.role": "judge", "soul.style": "short", "limits.usd_per_day": 3})
    assert alice_file.read_text().endswith("soul:\n  role: judge\n  style: short\nlimits:\n  usd_per_day: 3\n")
    daemon.do("PATCH", "/agents/ann", changes={"soul.style": None, "limits.usd_per_day": None})
    assert "judge" in alice_file.read_text()
    assert "short" not in alice_file.read_text()
    assert "limits" not in alice_file.read_text()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"modle": "x"}, "modle"),
        ({"model.name": "x"}, "set all of it: model=…"),
        ({"max_steps": "many"}, "max_steps"),
        ({"prompt": {"system_file": "../../secret.md"}}, "system_file"),
        ({"name": "bob"}, "cannot be changed"),
    ],
)
def test_an_edit_that_would_break_the_file_is_refused(
    daemon: Served, alice_file: Path, changes: dict[str, Any], told: str
) -> None:
    answer = daemon.ask("PATCH", "/agents/ann", body={"changes": changes, "project": str(daemon.project)})
    assert answer.status in (409, 422)
    assert told in answer.json["error"]["message"] + answer.json["error"]["hint"]
    assert alice_file.read_text() == ALICE


def test_what_an_edit_adds_is_approved_and_what_was_there_is_not(daemon: Served, alice_file: Path) -> None:
    daemon.do("PATCH", "/agents/ann", changes={"tools": ["bash"], "mcp_servers": {"x": {"command": ["true"]}}})
    (pending,) = daemon.client.request("GET", daemon.query("/trust"))[1]
    assert "GITHUB_TOKEN" in pending["what"]


def test_an_agent_of_the_project_file_is_edited_and_deleted_there(daemon: Served) -> None:
    file = daemon.project / "moniro.yaml"
    file.write_text("agents: [{ name: zoe, backend: mock, prompt: { system: You are Zoe. } }]\n")
    try:
        for method, body in (("PATCH", {"changes": {"max_steps": 3}}), ("DELETE", {})):
            path = "/agents/zoe" if method == "PATCH" else daemon.query("/agents/zoe")
            given = {"project": str(daemon.project)} if method == "PATCH" else {}
            answer = daemon.ask(method, path, body={**body, **given} or None)
            assert (answer.status, "moniro.yaml" in answer.json["error"]["message"]) == (409, True), answer
        assert file.exists()
    finally:
        file.unlink()
