"""What goes on as numbers: in the format Prometheus reads, for one project, from the record."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.shells.served import ROUTES, Served, served

from agent_worker.doors.metrics import as_text
from agent_worker.service.metrics import Metric

ASKS = "backend: mock\nscript: [{ call: [{ tool: ask_user, with: { question: which colour? } }] }]\n"
SAMPLE = re.compile(
    r'(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)\{(?P<labels>(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\} '
    r"(?P<value>[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|Inf|NaN))"
)


def checked(text: str) -> dict[str, float]:
    """The samples; asserts what `promtool check metrics` asks for."""
    assert text.endswith("\n")
    kinds: dict[str, str] = {}
    helped: set[str] = set()
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, help = line.split(" ", 3)
            assert help
            assert name not in helped
            helped.add(name)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert kind in ("gauge", "counter")
            assert name not in kinds
            assert name.endswith("_total") == (kind == "counter"), name
            kinds[name] = kind
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            assert sample["name"] in kinds, "its type stands before it"
            key = f"{sample['name']}{{{sample['labels']}}}"
            assert key not in found, "no series twice"
            found[key] = float(sample["value"])
    assert helped == set(kinds)
    return found


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("metrics"), bob=ASKS) as made:
        yield made


def metrics(daemon: Served, token: str) -> dict[str, float]:
    answer = daemon.ask("GET", "/metrics", token=token)
    assert (answer.status, dict(answer.headers)["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return checked(answer.body.decode())


def test_the_numbers_are_those_of_the_record(daemon: Served) -> None:
    token = daemon.do("POST", "/tokens", name="prometheus", door="metrics")["token"]
    before = metrics(daemon, token)
    daemon.do("POST", "/serve", agent="alice", message="hello")
    daemon.do("POST", "/serve", agent="bob", message="paint it")
    after = metrics(daemon, token)
    of = '{project="project"}'
    assert after[f"agent_worker_runs_total{of}"] - before[f"agent_worker_runs_total{of}"] == 2
    assert after[f"agent_worker_commits_total{of}"] > before[f"agent_worker_commits_total{of}"]
    assert after['agent_worker_inbox_open{project="project",kind="question"}'] == 1
    assert after['agent_worker_queue_depth{project="project",lane="immediate"}'] == 0
    assert after[f"agent_worker_runs_running{of}"] == 0


def test_a_token_of_one_door_does_not_open_the_other(daemon: Served) -> None:
    numbers = daemon.do("POST", "/tokens", name="numbers", door="metrics")["token"]
    talks = daemon.do("POST", "/tokens", name="talks")["token"]
    assert daemon.ask("GET", "/metrics", token=talks).status == 403
    assert daemon.ask("GET", "/v1/models", token=numbers).status == 403
    assert daemon.ask("GET", "/metrics", token=None).status == 401
    assert daemon.ask("GET", "/metrics").status == 403, "the daemon's own token is for no project"
    assert {daemon.ask(method, path, token=numbers).status for method, path in ROUTES} == {403}


def test_the_numbers_are_of_the_project_that_the_token_is_for(daemon: Served, tmp_path: Path) -> None:
    other = daemon.beside(tmp_path / "other")
    token = other.do("POST", "/tokens", name="theirs", door="metrics")["token"]
    found = metrics(other, token)
    assert found['agent_worker_runs_total{project="other"}'] == 0


def test_whatever_a_project_is_called_the_text_can_be_read() -> None:
    name = 'a "b"\\\n{c}'
    found = checked(as_text([Metric("runs_total", "Runs.", "counter", {(): 123456789})], name))
    assert list(found.values()) == [123456789]
