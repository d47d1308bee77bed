"""What a team did, as a trace: read from the record, each span once whatever dies, without a word of what was said."""

from __future__ import annotations

import gzip
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from tests.patience import until
from tests.teams import Team, open_team

from agent_worker.backends.mock import calls, fails, says
from agent_worker.core.clock import TestClock
from agent_worker.core.errors import BadInput
from agent_worker.doors.otel.exporter import NAME, TraceExporter
from agent_worker.doors.otel.settings import CONTENT, trace_settings
from agent_worker.service.service import Service
from agent_worker.work import export_cursor

E = "OTEL_EXPORTER_OTLP_ENDPOINT"


@dataclass
class Collector:
    """An OTLP receiver: keeps what it is sent, answers as it is told to."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def named(self, name: str) -> Span:
        (found,) = (span for span in self.spans if span.name == name)
        return found


@contextmanager
def collector(*answers: int) -> Iterator[Collector]:
    kept = Collector(answers=list(answers))

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            status = kept.answers.pop(0) if kept.answers else 200
            if status == 200 and self.path == "/v1/traces":
                kept.headers.append({name.lower(): value for name, value in self.headers.items()})
                kept.requests.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        kept.url = f"http://127.0.0.1:{server.server_port}"
        yield kept
        server.shutdown()


@asynccontextmanager
async def traced(root: Path, to: Collector, *agents: str, **environ: str) -> AsyncIterator[Team]:
    settings = trace_settings({E: to.url} | environ)
    assert settings is not None
    async with open_team(root, *agents, clock=TestClock(), database=root / "state.db") as team:
        service = Service(team.runtime)
        TraceExporter(service, settings)
        while await team.runtime.database.read(export_cursor.reached, NAME) is None:
            await team.still()
        yield team
        await service.close()


def about(span: Span) -> dict[str, Any]:
    values = ((each.key, each.value) for each in span.attributes)
    return {key: getattr(value, value.WhichOneof("value") or "") for key, value in values}


async def test_a_trace_shows_who_called_on_whom(tmp_path: Path) -> None:
    with collector() as got:
        async with traced(tmp_path, got, "alice", "bob", OTEL_SERVICE_NAME="my-team") as team:
            team.backends["alice"].then(calls("todo_add", text="look again"), says("@bob the build is red"))
            team.backends["bob"].then(says("on it"))
            await team.post("user", "@alice status?")
            await team.meanwhile(team.quiet())
            await team.workspace.stop(reason="")
            await until(lambda: any(span.name.startswith("invoke_workflow") for span in got.spans))
        whole, alice, bob = (got.named(f"invoke_{each}") for each in ("workflow review", "agent alice", "agent bob"))
        tool = got.named("execute_tool todo_add")
        assert len({span.trace_id for span in got.spans}) == 1, "all of one request"
        assert (whole.parent_span_id, alice.parent_span_id) == (b"", whole.span_id)
        assert bob.parent_span_id == alice.span_id, "whose message called on it"
        assert tool.parent_span_id == alice.span_id
        chats = [span for span in got.spans if about(span)["gen_ai.operation.name"] == "chat"]
        assert [span.parent_span_id for span in chats] == [alice.span_id, alice.span_id, bob.span_id]
        assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in got.spans)
        assert len({span.span_id for span in got.spans}) == len(got.spans)
        assert about(alice)["gen_ai.agent.name"] == "alice"
        (resource,) = {each.resource.SerializeToString() for one in got.requests for each in one.resource_spans}
        assert b"my-team" in resource
        assert got.requests[0].resource_spans[0].schema_url == "https://opentelemetry.io/schemas/1.41.0"


async def test_what_was_sent_and_not_noted_when_we_died_is_sent_again_as_the_same(tmp_path: Path) -> None:
    with collector() as got:
        async with traced(tmp_path, got, "alice") as team:
            await team.dm("alice", "hello")
            await until(lambda: got.spans)
        first = {span.span_id: span.SerializeToString() for span in got.spans}
        got.requests.clear()
        async with open_team(tmp_path, "alice", clock=TestClock(), database=tmp_path / "state.db") as team:
            await team.runtime.database.write(export_cursor.move, NAME, 0)
        async with traced(tmp_path, got, "alice"):
            await until(lambda: len(got.spans) >= len(first))
        again = {span.span_id: span.SerializeToString() for span in got.spans}
        assert {id: again[id] for id in first} == first


async def test_the_past_is_not_sent_when_somebody_begins_to_watch(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock(), database=tmp_path / "state.db") as team:
        await team.dm("alice", "before")
        await team.meanwhile(team.idle())
    with collector() as got:
        async with traced(tmp_path, got, "alice") as team:
            await team.dm("alice", "after")
            await until(lambda: got.spans)
            assert len([span for span in got.spans if span.name == "invoke_agent alice"]) == 1


@pytest.mark.parametrize("wanted", [False, True])
async def test_what_was_said_goes_along_only_where_that_is_wanted_and_without_secrets(
    tmp_path: Path, wanted: bool
) -> None:
    key = "sk-ant-api03-" + "Ab1" * 31 + "AA"
    with collector() as got:
        async with traced(tmp_path, got, "alice", **{CONTENT: "true"} if wanted else {}) as team:
            team.backends["alice"].then(calls("todo_add", text=f"use {key}"), says("it is done now"))
            await team.dm("alice", "hello there")
            await until(lambda: got.spans)
        sent = b"".join(request.SerializeToString() for request in got.requests)
        assert (b"it is done now" in sent, b"use " in sent) == (wanted, wanted)
        assert key.encode() not in sent
        assert b"hello there" not in sent


async def test_who_is_away_gets_it_later_and_what_is_never_taken_is_left_out(tmp_path: Path) -> None:
    with collector(503, 400) as got:
        async with traced(tmp_path, got, "alice") as team:
            await team.dm("alice", "first")
            while got.answers:
                await team.elapse(1.0)
            await team.dm("alice", "second")
            await until(lambda: got.spans)
        assert len([span for span in got.spans if span.name == "invoke_agent alice"]) == 1


async def test_a_failure_is_marked(tmp_path: Path) -> None:
    more = {"OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b,x=y", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}
    with collector() as got:
        async with traced(tmp_path, got, "alice", **more) as team:
            team.backends["alice"].then(fails("permanent"))
            await team.dm("alice", "hello")
            await until(lambda: got.spans)
        span = got.named("invoke_agent alice")
        assert (span.status.code, about(span)["error.type"]) == (Status.STATUS_CODE_ERROR, "failed")
        assert (got.headers[0]["api-key"], got.headers[0]["x"]) == ("a b", "y")


def test_the_variables_are_those_of_opentelemetry() -> None:
    assert trace_settings({}) is None
    assert trace_settings({E: "http://x:4318", "OTEL_SDK_DISABLED": "true"}) is None
    assert trace_settings({E: "http://x:4318", "OTEL_TRACES_EXPORTER": "none"}) is None
    both = {E: "http://x:4318/", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://y/own"}
    found = [trace_settings({E: "http://x:4318/"}), trace_settings(both)]
    assert [each and each.endpoint for each in found] == ["http://x:4318/v1/traces", "http://y/own"]
    for wrong in ({E: "x:4318"}, {E: "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}):
        with pytest.raises(BadInput):
            trace_settings(wrong)
