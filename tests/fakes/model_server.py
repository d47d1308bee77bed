"""A model API that is not one: the four protocols on loopback, with every way a provider can fail.

The first part of the path says how it behaves: `http://127.0.0.1:PORT/m/<mode>` is a base address (with `/v1` for
OpenAI's libraries). `/m/script/…` plays what a test wrote with `script`, and complains when the script was too
short or not played out; `/m/think/…` asks the `mind` that a test gave it. Run it alone to drive other programs:
`python -m tests.fakes.model_server --port 8123`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tests.fakes.model_protocols import (
    Answer,
    Anthropic,
    Ask,
    Chat,
    Gemini,
    Json,
    Protocol,
    Refusal,
    Responses,
    example,
)

PROTOCOLS: dict[str, Protocol] = {
    "/v1/messages": Anthropic(),
    "/v1/chat/completions": Chat(),
    "/v1/responses": Responses(),
    "/v1beta/models/fake:generateContent": Gemini(),  # whatever the model, streamed or not
}
_GEMINI = re.compile(r"/v1beta/models/([^/:]+):(streamGenerateContent|generateContent)")
REFUSALS = {
    "401": Refusal(401, "authentication_error", "invalid key"),
    "403": Refusal(403, "permission_error", "not allowed"),
    "404": Refusal(404, "not_found_error", "model: no such model"),
    "429": Refusal(429, "rate_limit_error", "slow down", (("retry-after", "7"),)),
    "500": Refusal(500, "api_error", "internal error"),
    "503": Refusal(503, "api_error", "not available"),
    "529": Refusal(529, "overloaded_error", "overloaded"),
}
STREAMED_FAULTS = ("stall", "cut", "early_end", "slow", "huge", "bad_json", "stream_error")
MODES = (
    "ok",
    "tools",
    "loop",
    "many_calls",
    "script",
    "think",
    *REFUSALS,
    "502html",
    "page",
    "quota",
    "overflow",
    "redirect",
    "hang",
)
MANY = 10_000


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]  #: names in lower case
    body: Json


@dataclass(frozen=True, slots=True)
class Fault:
    """A step of a script that behaves like a mode."""

    mode: str


Step = Answer | Fault | Refusal | str


@dataclass(slots=True)
class ModelServer:
    tool: str = ""  #: which tool the mode `tools` asks for; the first one offered when empty
    port: int = 0
    mind: Callable[[Json], Step] | None = None  #: what the mode `think` answers to a request
    requests: list[Recorded] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)  #: set by the first request
    complaints: list[str] = field(default_factory=list)
    _script: list[Step] = field(default_factory=list)
    _server: asyncio.Server | None = None
    _connections: set[asyncio.Task[None]] = field(default_factory=set)

    def script(self, steps: Iterable[Step]) -> None:
        """What `/m/script/…` answers, request by request. A plain text is said."""
        self._script.extend(steps)

    def url(self, mode: str, suffix: str = "") -> str:
        return f"http://127.0.0.1:{self.port}/m/{mode}{suffix}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in tuple(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()
        if self._script:
            self.complaints.append(f"{len(self._script)} steps of the script were not played")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        if error is None:
            assert not self.complaints, "; ".join(self.complaints)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while request := await _read(reader):
                self.requests.append(request)
                self.asked.set()
                await self._answer(request, _Wire(reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()  # not close: that would wait for somebody to read what is left
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
            self._connections.discard(task)

    async def _answer(self, request: Recorded, wire: _Wire) -> None:
        mode, path = _split(request.path)
        if path.endswith("/count_tokens"):
            return await wire.body(200, {"input_tokens": 100})
        if path.endswith(":countTokens"):
            return await wire.body(200, {"totalTokens": 100})
        if path == "/v1/models":
            return await wire.body(200, {"object": "list", "data": [{"id": "fake", "object": "model"}]})
        protocol = PROTOCOLS.get(_GEMINI.sub("/v1beta/models/fake:generateContent", path))
        if protocol is None:
            return await wire.body(404, {"error": {"message": f"no such path: {path}", "type": "not_found"}})
        step = self._step(mode, request.body)
        if isinstance(step, str):
            step = Answer(step)
        if isinstance(step, Refusal):
            return await wire.body(step.status, protocol.error(step), step.headers)
        if isinstance(step, Fault):
            answer = await self._behave(step.mode, request, protocol, wire)
        else:
            answer = step
        if answer:
            await _say(answer, request, protocol, wire)

    async def _behave(self, mode: str, request: Recorded, protocol: Protocol, wire: _Wire) -> Answer | None:
        """The answer that a mode gives, or None when it has misbehaved by itself."""
        if refusal := _refusal(mode, protocol):
            await wire.body(refusal.status, protocol.error(refusal), refusal.headers)
        elif mode == "502html":
            await wire.text(502, "<html><body><h1>502 Bad Gateway</h1></body></html>")
        elif mode == "page":
            await wire.text(200, "<!doctype html><title>Welcome to this network</title>")
        elif mode == "hang":
            await wire.hung_up()
        elif mode == "redirect":
            elsewhere = f"http://localhost:{self.port}/m/ok{_split(request.path)[1]}"
            await wire.text(302, "", (("location", elsewhere),))
        elif mode in STREAMED_FAULTS:
            await _misbehave(mode, request, protocol, wire)
        else:
            return self._normal(mode, request.body, protocol)
        return None

    def _normal(self, mode: str, body: Json, protocol: Protocol) -> Answer:
        offered = protocol.tools(body)
        if mode == "many_calls":
            return Answer(calls=tuple(Ask("flood", {"n": n}) for n in range(MANY)))
        wanted = next(((n, s) for n, s in offered if self.tool in n), None)
        if wanted and (mode == "loop" or (mode == "tools" and not protocol.has_result(body))):
            return Answer("Let me see.", (Ask(wanted[0], example(wanted[1]), f"call_{len(self.requests)}"),))
        return Answer("All is well.")

    def _step(self, mode: str, body: Json) -> Step:
        match mode:
            case "script":
                return self._next()
            case "think":
                assert self.mind is not None
                return self.mind(body)
            case _:
                return Fault(mode)

    def _next(self) -> Step:
        if self._script:
            return self._script.pop(0)
        self.complaints.append("the script was too short")
        return Fault("500")


def _refusal(mode: str, protocol: Protocol) -> Refusal | None:
    if mode == "overflow":
        return protocol.overflow
    return protocol.quota if mode == "quota" else REFUSALS.get(mode)


async def _say(answer: Answer, request: Recorded, protocol: Protocol, wire: _Wire) -> None:
    model = str(request.body.get("model", "fake"))
    if not (request.body.get("stream") or ":streamGenerateContent" in request.path):
        return await wire.body(200, protocol.body(answer, model))
    await wire.open()
    for event in events_of(answer, protocol, model):
        await wire.chunk(event)
    await wire.end()


async def _misbehave(mode: str, request: Recorded, protocol: Protocol, wire: _Wire) -> None:
    model = str(request.body.get("model", "fake"))
    events = list(events_of(Answer("A text that is long enough to be cut in the middle."), protocol, model))
    await wire.open()
    match mode:
        case "slow":
            for event in events:
                await wire.chunk(event)
                await asyncio.sleep(0.05)
            await wire.end()
        case "bad_json":
            await wire.chunk(events[0])
            await wire.chunk("event: message_delta\ndata: {this is not json\n\n")
            await wire.end()
        case "huge":
            # Whatever the protocol: the event that says most, again and again, until they hang up.
            flood = list(events_of(Answer("x" * 12), protocol, model))
            while True:
                await wire.chunk("".join(flood[:-3]) * 200)
        case _:
            for event in events[: len(events) // 2]:
                await wire.chunk(event)
            match mode:
                case "early_end":
                    await wire.end()
                case "cut":
                    wire.cut()
                case "stall":
                    await wire.hung_up()
                case "stream_error":
                    error = {"type": "error"} | protocol.error(REFUSALS["529"])
                    await wire.chunk(f"event: error\ndata: {json.dumps(error)}\n\n")
                    await wire.end()


def events_of(answer: Answer, protocol: Protocol, model: str) -> Iterator[str]:
    for name, data in protocol.events(answer, model):
        yield (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n"
    if type(protocol) is Chat:
        yield "data: [DONE]\n\n"


def _split(path: str) -> tuple[str, str]:
    """Mode and the provider's own path."""
    path = path.split("?", 1)[0]
    if path.startswith("/m/"):
        mode, _, rest = path.removeprefix("/m/").partition("/")
        return mode, f"/{rest}"
    return "ok", path


async def _read(reader: asyncio.StreamReader) -> Recorded | None:
    first = (await reader.readline()).decode("latin-1").split()
    if len(first) < 3:
        return None
    headers: dict[str, str] = {}
    while line := (await reader.readline()).decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    raw = await _read_body(reader, headers)
    try:
        body: Any = json.loads(raw) if raw else {}
    except ValueError:
        body = {}
    return Recorded(first[0], first[1], headers, body if isinstance(body, dict) else {})


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding") != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    raw = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        raw += (await reader.readexactly(size + 2))[:-2]
    await reader.readline()
    return raw


class _Wire:
    """One answer on one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def body(self, status: int, body: Json, headers: Iterable[tuple[str, str]] = ()) -> None:
        await self.text(status, json.dumps(body), headers, kind="application/json")

    async def text(
        self, status: int, text: str, headers: Iterable[tuple[str, str]] = (), *, kind: str = "text/html"
    ) -> None:
        raw = text.encode()
        self._head(status, [("content-type", kind), ("content-length", str(len(raw))), *headers])
        self._writer.write(raw)
        await self._writer.drain()

    async def open(self) -> None:
        self._head(200, [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")])
        await self._writer.drain()

    async def chunk(self, text: str) -> None:
        raw = text.encode()
        self._writer.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")
        await self._writer.drain()

    async def end(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    def cut(self) -> None:
        self._writer.transport.abort()
        raise ConnectionResetError

    async def hung_up(self) -> None:
        """Wait until the other side has had enough."""
        while await self._reader.read(65536):
            pass
        raise ConnectionResetError

    def _head(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        lines = [f"HTTP/1.1 {status} Fake", *(f"{name}: {value}" for name, value in headers), "", ""]
        self._writer.write("\r\n".join(lines).encode("latin-1"))


async def _serve(port: int, tool: str) -> None:
    async with ModelServer(tool=tool, port=port) as server:
        print(f"modes: {' '.join((*MODES, *STREAMED_FAULTS))}")
        print(f"anthropic: {server.url('ok')}    openai: {server.url('ok', '/v1')}", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="A fake model API on loopback.")
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--tool", default="", help="part of the name of the tool that /m/tools asks for")
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(options.port, options.tool))


if __name__ == "__main__":
    main()
