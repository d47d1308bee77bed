"""D8p at the MCP door: arguments made from each tool's own schema, fitting and not. By HTTP: tests/shells/test_http.py.

D9p, fuzzing of the parsers by coverage, is in tests/fuzz.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from tests.attacks.insider import AGENT, Insider, environ_with_insider, holding
from tests.faults.report import LONG, report
from tests.shells.served import Served, served

from agent_worker.service.catalogue import OPERATIONS
from agent_worker.tools import person, soul
from agent_worker.tools.recall import HISTORY, OWN
from agent_worker.tools.toolbox import TASK, TEAM

EXAMPLES = 400 if LONG else 5
LONGEST = 1800 if LONG else 300  # seconds
TEXT = "a text that is kept"
#: What is there, so that what is made up reaches further than the first look-up.
KNOWN: dict[str, Any] = {"name": "notes.md", "id": hashlib.sha256(TEXT.encode()).hexdigest(), "proposal": 1}
KNOWN |= {"path": "notes.md", "key": "known", "number": 1, "document": "notes.md"}
WAITING = {"agent_ask", "workflow_run", "team_start"}  # for work to be done

_OF_AGENTS = {
    tool.name: tool.spec.schema for tool in (*TEAM, *OWN, *HISTORY, person.feedback_submit, *soul.SOUL, *TASK.values())
}
_OF_PEOPLE = {each.tool: each.signature.arguments.model_json_schema() for each in OPERATIONS.values() if each.tool}


def page(tools: dict[str, Any]) -> Any:
    """Tools as an OpenAPI page, which is what schemathesis reads."""
    paths = {
        f"/{name}": {
            "post": {
                "operationId": name,
                "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
                "responses": {"200": {"description": "said"}},
            }
        }
        for name, schema in tools.items()
    }
    described = {"openapi": "3.1.0", "info": {"title": "tools", "version": "0"}, "paths": paths}
    schema = schemathesis.openapi.from_dict(described)
    schema.config.phases.coverage.enabled = LONG  # dozens of calls for each tool, however few examples we want
    return schema


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    tmp = tmp_path_factory.mktemp("fuzz")
    tools = f"tools: [{', '.join(TASK)}]\ncwd: work\n"
    with served(tmp, environ_with_insider(tmp), alice=AGENT + tools) as made:
        (made.project / "work").mkdir()
        (made.project / "work" / "notes.md").write_text(TEXT)
        workspace = "agents: { alice: { ref: alice } }\nworkspace: { dir: room }\n"
        (made.project / ".workflows" / "review.yaml").write_text(workspace)
        made.do("POST", "/trust")
        made.do("POST", "/workflows", workflow="review")
        yield made


@pytest.fixture(scope="module")
def alice(daemon: Served) -> Iterator[Insider]:
    with holding(daemon, "alice@review", "alice") as insider:
        insider.call("team_doc_create", name="notes.md", text=TEXT)
        insider.call("resource_create", text=TEXT)
        insider.call("memory_write", key="known", value=TEXT)
        insider.call("team_proposal_create", question="Is it?", voters=["user"])
        yield insider


def test_every_tool_of_an_agent_is_tried(alice: Insider) -> None:
    assert alice.tools() - set(_OF_AGENTS) <= {"ask_user"}  # which would end the run


def put(caller: Insider, case: schemathesis.Case) -> None:
    """The call is made; whatever it is, it is no mistake of ours."""
    arguments = json.loads(json.dumps(case.body, default=repr))  # a body may also be bytes, or missing
    if isinstance(arguments, dict) and len(repr(arguments)) % 2:
        arguments = {name: KNOWN.get(name, value) for name, value in arguments.items()}
    answer = caller.ask("tools/call", name=case.path.strip("/"), arguments=arguments)
    assert answer.status < 500, answer
    report.count("D8p calls")
    assert b"Traceback" not in answer.body
    said = answer.json
    assert said.get("error", {}).get("code") != -32603, said  # internal error
    if "result" in said:
        assert " broke: " not in said["result"]["content"][0]["text"]


@page(_OF_AGENTS).parametrize()
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@pytest.mark.timeout(LONGEST)
def test_D8p_whatever_an_agent_calls_it_is_answered_with_a_sentence(alice: Insider, case: schemathesis.Case) -> None:
    put(alice, case)


@page({name: schema for name, schema in _OF_PEOPLE.items() if name not in WAITING}).parametrize()
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@pytest.mark.timeout(LONGEST)
def test_D8p_whatever_a_persons_ai_calls_it_is_answered_with_a_sentence(
    daemon: Served, case: schemathesis.Case
) -> None:
    if isinstance(case.body, dict) and "project" in case.body:
        case.body["project"] = str(daemon.project)
    put(Insider(daemon, daemon.client.found.token), case)


def test_the_daemon_is_alive_and_has_made_no_mistake(daemon: Served) -> None:
    assert daemon.alive()
    assert "Traceback" not in daemon.log()
