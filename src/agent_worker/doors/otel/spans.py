"""What ended, as spans of OpenTelemetry: the GenAI conventions, version 1.41.0, in protobuf.

A trace is all that came of one request. Ids are hashes of ours: sent twice, a span is the same span. What models and
tools said is left out unless the person asks for it; secrets were taken out when it was stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from importlib.metadata import version

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from agent_worker.doors.otel.settings import TraceSettings
from agent_worker.service.traces import Traced, TracedCall, TracedRun, TracedStep, TracedWorkflow

CONVENTIONS = "https://opentelemetry.io/schemas/1.41.0"
_FAILED = ("failed", "lost", "incomplete", "cancelled")

Value = str | int | float | bool


def request_of(traced: Traced, settings: TraceSettings) -> ExportTraceServiceRequest:
    spans = [_workflow(each) for each in traced.workflows]
    for run in traced.runs:
        spans += [_run(run), *_steps(run, settings), *_calls(run, settings)]
    scope = InstrumentationScope(name="agent_worker", version=version("agent-worker"))
    return ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(
                resource=Resource(attributes=_attributes(settings.resource)),
                scope_spans=[ScopeSpans(scope=scope, spans=spans, schema_url=CONVENTIONS)],
                schema_url=CONVENTIONS,
            )
        ]
    )


def trace_id(root: str) -> bytes:
    return _hash(16, "root", root)


def span_id(kind: str, id: str) -> bytes:
    return _hash(8, kind, id)


def _hash(size: int, *parts: str) -> bytes:
    return hashlib.sha256("/".join(parts).encode()).digest()[:size]


def _workflow(each: TracedWorkflow) -> Span:
    about = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": each.name}
    return _span(each.root, span_id("workflow", each.id), b"", f"invoke_workflow {each.name}", each, about)


def _run(run: TracedRun) -> Span:
    about: dict[str, Value] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.id": run.agent,
        "gen_ai.agent.name": run.name,
        "gen_ai.conversation.id": run.context,
        "gen_ai.provider.name": _provider(run.model, run.backend),
        "gen_ai.request.model": run.model,
        **_usage(run.steps),
        "agent_worker.run": run.id,
        "agent_worker.state": run.state,
        "agent_worker.workspace": run.workspace,
    }
    parent = b""
    if run.said_by:
        parent = span_id("run", run.said_by)
    elif run.workflow:
        parent = span_id("workflow", run.workflow)
    made = _span(run.root, span_id("run", run.id), parent, f"invoke_agent {run.name}", run, about)
    if run.state in _FAILED:
        _mark(made, run.state, run.reason)
    return made


def _steps(run: TracedRun, settings: TraceSettings) -> Iterator[Span]:
    for step in run.steps:
        about: dict[str, Value] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _provider(step.model, run.backend),
            "gen_ai.request.model": step.model,
            "gen_ai.agent.name": run.name,
            **_usage((step,)),
        }
        if settings.content:
            about["gen_ai.output.messages"] = step.reply
        id, name = span_id("step", f"{run.id}/{step.n}"), f"chat {step.model}".rstrip()
        yield _span(run.root, id, span_id("run", run.id), name, step, about, kind=Span.SPAN_KIND_CLIENT)


def _calls(run: TracedRun, settings: TraceSettings) -> Iterator[Span]:
    for call in run.calls:
        about: dict[str, Value] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.tool,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.type": "extension" if call.own else "function",
            "gen_ai.agent.name": run.name,
        }
        if settings.content:
            about |= {"gen_ai.tool.call.arguments": call.arguments, "gen_ai.tool.call.result": call.result}
        id = span_id("call", f"{run.id}/{call.step}/{call.id}")
        made = _span(run.root, id, span_id("run", run.id), f"execute_tool {call.tool}", call, about)
        if not call.ok:
            _mark(made, "tool_error", "")
        yield made


def _span(
    root: str,
    id: bytes,
    parent: bytes,
    name: str,
    timed: TracedRun | TracedStep | TracedCall | TracedWorkflow,
    about: Mapping[str, Value],
    *,
    kind: Span.SpanKind.ValueType = Span.SPAN_KIND_INTERNAL,
) -> Span:
    return Span(
        trace_id=trace_id(root),
        span_id=id,
        parent_span_id=parent,
        name=name,
        kind=kind,
        start_time_unix_nano=timed.begin * 1000,
        end_time_unix_nano=max(timed.begin, timed.end) * 1000,
        attributes=_attributes({name: value for name, value in about.items() if value != ""}),
    )


def _mark(span: Span, kind: str, reason: str) -> None:
    span.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message=reason[:500]))
    span.attributes.extend(_attributes({"error.type": kind}))


def _usage(steps: tuple[TracedStep, ...]) -> dict[str, Value]:
    if not any(step.input or step.output for step in steps):
        return {}
    return {
        "gen_ai.usage.input_tokens": sum(step.input for step in steps),
        "gen_ai.usage.cache_read.input_tokens": sum(step.cached for step in steps),
        "gen_ai.usage.output_tokens": sum(step.output for step in steps),
        "agent_worker.cost_usd": sum(step.micros for step in steps) / 1e6,
    }


def _provider(model: str, backend: str) -> str:
    return model.partition("/")[0] if "/" in model else backend


def _attributes(values: Mapping[str, Value]) -> list[KeyValue]:
    return [KeyValue(key=name, value=_value(value)) for name, value in values.items()]


def _value(value: Value) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
    return AnyValue(string_value=value)
