"""Where traces are sent, by the variables that OpenTelemetry has for it. Nothing is imported here that is heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from urllib.parse import unquote

from agent_worker.core.errors import BadInput
from agent_worker.core.later import dataclass

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_PROTOCOL, _TIMEOUT = "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TIMEOUT"
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


@dataclass(frozen=True, slots=True)
class TraceSettings:
    endpoint: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    seconds: float = 10.0
    gzip: bool = False
    certificate: str = ""  #: a file
    content: bool = False  #: what models and tools said goes along, without secrets
    resource: Mapping[str, str] = field(default_factory=dict)


def trace_settings(environ: Mapping[str, str]) -> TraceSettings | None:
    """Where traces go; None when nobody asked for any. Raises BadInput for a protocol that is not spoken here."""
    endpoint = environ.get(_of_traces(ENDPOINT)) or ""
    if not endpoint and (base := environ.get(ENDPOINT)):
        endpoint = f"{base.rstrip('/')}/v1/traces"
    off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER") == "none"
    if not endpoint or off:
        return None
    if not endpoint.startswith(("http://", "https://")):
        raise BadInput(f"{ENDPOINT} is not an address", hint=f"{ENDPOINT}=http://localhost:4318")
    if (protocol := _given(environ, _PROTOCOL, "http/protobuf")) != "http/protobuf":
        raise BadInput(f"traces are sent as http/protobuf, not as {protocol}", hint=f"{_PROTOCOL}=http/protobuf")
    millis = _given(environ, _TIMEOUT, "10000")
    if not millis.isascii() or not millis.isdecimal():
        raise BadInput(f"{_TIMEOUT} is not a number of milliseconds", hint=f"{_TIMEOUT}=10000")
    name = {"service.name": environ.get("OTEL_SERVICE_NAME", "")}
    return TraceSettings(
        endpoint,
        _pairs(_given(environ, "OTEL_EXPORTER_OTLP_HEADERS", "")),
        int(millis) / 1000,
        _given(environ, "OTEL_EXPORTER_OTLP_COMPRESSION", "none") == "gzip",
        _given(environ, "OTEL_EXPORTER_OTLP_CERTIFICATE", ""),
        environ.get(CONTENT, "").lower() in ("true", "1", "span_only", "span_and_event"),
        {"service.name": "agent-worker"}
        | _pairs(environ.get("OTEL_RESOURCE_ATTRIBUTES", ""))
        | {key: value for key, value in name.items() if value},
    )


def _given(environ: Mapping[str, str], name: str, default: str) -> str:
    return environ.get(_of_traces(name)) or environ.get(name) or default


def _of_traces(name: str) -> str:
    """The variant of a variable that is for traces only, which counts more."""
    return name.replace("_OTLP_", "_OTLP_TRACES_")


def _pairs(text: str) -> dict[str, str]:
    found = (each.partition("=") for each in text.split(",") if "=" in each)
    return {name.strip(): unquote(value.strip()) for name, _, value in found}
