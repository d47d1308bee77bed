"""N7: SQL in what is asked for. What somebody writes is a parameter; a statement is made of our own words only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests import stored
from tests.shells.served import Answer, Served, served

import agent_worker
from agent_worker.service.catalogue import OPERATIONS
from agent_worker.service.operation import Operation

SOURCE = Path(agent_worker.__file__).parent
PAYLOADS = [
    "' or '1'='1",
    "x'; delete from message; --",
    '"; drop table message; --',
    "x' union select id, token from agent --",
    "alice' --",
    "%",
    "_",
    "id desc",
    "1; pragma writable_schema = 1",
    ":agent",
    "?1",
    "alice\\'",
    "rowid",
    "(select text from message limit 1)",
    "/* x */",
]
CANARY = "what nobody asked for"
CHANGING = {"POST", "PUT", "PATCH", "DELETE"}
#: They act on the whole daemon, or wait for work to be done.
LEFT_OUT = {"run", "serve", "agent_ask", "workflow_run", "events", "backend_test", "demo"}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("sql")) as made:
        made.do("POST", "/workflows", workflow="review")
        made.do("POST", "/documents/secret.md", at="@review", text=CANARY)
        made.do("POST", "/send", to="@review", message=CANARY)
        yield made


def asked(daemon: Served, operation: Operation, payload: str) -> Iterator[tuple[str, Answer]]:
    """The payload in place of each text that an operation takes, one after the other."""
    properties: dict[str, Any] = operation.signature.arguments.model_json_schema().get("properties", {})
    texts = [name for name, about in properties.items() if "string" in str(about) and name != "project"]
    for attacked in texts:
        given = {name: payload if name == attacked else "alice" for name in texts}
        given |= {name: "@review" for name in ("at", "to", "address") if name in texts and name != attacked}
        given |= {name: 1 for name, about in properties.items() if about.get("type") == "integer"}
        path = operation.path
        for whole, name in re.findall(r"(\{(\w+)(?::\w+)?\})", path):
            path = path.replace(whole, quote(str(given.pop(name, "x")), safe=""))
        body = {"project": str(daemon.project)} | given
        if operation.method in ("GET", "DELETE"):
            query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in body.items())
            yield attacked, daemon.ask(operation.method, f"{path}?{query}")
        else:
            yield attacked, daemon.ask(operation.method, path, body=body)


READING = [each for name, each in OPERATIONS.items() if each.method == "GET" and name not in LEFT_OUT]
WRITING = [each for name, each in OPERATIONS.items() if each.method in CHANGING and name not in LEFT_OUT]


@pytest.mark.parametrize("operation", READING, ids=lambda each: each.name)
def test_N7_a_filter_is_a_value_and_never_a_part_of_a_query(daemon: Served, operation: Operation) -> None:
    before = daemon.state()
    for payload in PAYLOADS:
        for attacked, answer in asked(daemon, operation, payload):
            assert answer.status < 500, (attacked, payload, answer)
            assert CANARY not in answer.body.decode(), (attacked, payload)
    assert daemon.state() == before


@pytest.mark.parametrize("operation", WRITING, ids=lambda each: each.name)
def test_N7_what_is_written_is_stored_as_it_is_or_refused(daemon: Served, operation: Operation) -> None:
    tables = daemon.read(stored.schema)
    for payload in PAYLOADS:
        for attacked, answer in asked(daemon, operation, payload):
            assert answer.status < 500, (attacked, payload, answer)
    assert daemon.read(stored.schema) == tables
    assert len(daemon.read(stored.messages, text=CANARY)) == 1


def test_N7_there_is_no_field_to_sort_by_and_no_key_to_filter_on(daemon: Served) -> None:
    for name in ("sort", "order", "order_by", "where", "filter", "fields", "columns"):
        answer = daemon.ask("GET", daemon.query(f"/runs?{name}=id"))
        assert answer.status == 422
        assert f"no argument {name}" in answer.json["error"]["message"]


# --- by reading the source


STATEMENT = re.compile(r"\s*(select|insert|update|delete|with|create|drop|alter|pragma)\s", re.IGNORECASE)
#: Goes through all tables and columns there are, by the names in our schema.
OF_THE_SCHEMA = {SOURCE / "database" / name for name in ("recovery.py", "transfer.py")}
#: What a statement is put together from besides constants: in each place, one of two or three words beside it.
OUR_WORDS = {
    ("agents/commands.py", "column"),
    ("database/postgres.py", "listed"),  # ids of ours, as literals: several statements in one trip take no arguments
    ("service/run.py", "whose"),
    ("work/run_rows.py", "ids"),  # names of parameters, counted by us
    ("service/events.py", "table"),
    ("workspaces/workspace_state.py", "chosen"),
    ("workspaces/workspace_state.py", "role"),
}


def statements() -> Iterator[tuple[str, ast.JoinedStr]]:
    """Every SQL text in the source that is put together when it is used."""
    for path in sorted(set(SOURCE.rglob("*.py")) - OF_THE_SCHEMA):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                fixed = "".join(str(p.value) for p in node.values if isinstance(p, ast.Constant))
                first = node.values[0]
                begins = STATEMENT.match(fixed) or (isinstance(first, ast.FormattedValue) and " where " in fixed)
                if begins and re.search(r"\b(from|into|set|table|where)\b", fixed):
                    yield str(path.relative_to(SOURCE)), node


def test_N7_a_statement_is_made_of_our_own_words_only() -> None:
    found = list(statements())
    assert len(found) > 8
    for path, node in found:
        pasted = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
        for name in (each.id for value in pasted for each in ast.walk(value) if isinstance(each, ast.Name)):
            assert name.isupper() or (path, name) in OUR_WORDS, f"{path}:{node.lineno}: {name} is pasted into SQL"
