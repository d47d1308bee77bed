"""A program's requests to its model: by the token of its run, with a key that it never sees, and nowhere else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

import pytest
from tests.fakes.model_server import ModelServer
from tests.patience import PATIENCE, until

from agent_worker.backends.programs.program import LentModel, ToolEndpoint
from agent_worker.core.events import Bus, Ended
from agent_worker.daemon.http.asgi import Message
from agent_worker.daemon.http.model_forwarding import make
from agent_worker.daemon.http.request_guard import LARGEST_BODY, RequestGuard, Tokens
from agent_worker.daemon.mcp.run_tokens import RunTokens
from agent_worker.tools.tool import RunIdentity

ADMIN, KEY = "the-token-of-the-daemon", "sk-the-key-of-the-model"
PROMPT = json.dumps({"model": "fake", "messages": [{"role": "user", "content": "go"}]}).encode()


STREAMED = json.dumps({"model": "fake", "stream": True, "messages": []}).encode()


@dataclass
class Told:
    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    was_cut: bool = False
    first: asyncio.Event = field(default_factory=asyncio.Event)  #: something of the answer came
    left: asyncio.Event = field(default_factory=asyncio.Event)  #: the program hung up

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)


class Daemon:
    """What stands before a model: the guard, and the forwarding behind it."""

    def __init__(self) -> None:
        tokens, self.bus = Tokens(ADMIN), Bus()
        self.entries = RunTokens(tokens, "http://127.0.0.1:1")
        self.entries.identity_of = lambda run: RunIdentity("a_1", "alice", "p_1", run, "m_1", 0)
        tokens.follow(self.bus)
        self.entries.follow(self.bus)
        self._guard = RequestGuard(make(self.entries), tokens, "127.0.0.1", 1)

    async def close(self) -> None:
        """As the server does it: what is kept open to models is closed."""
        told: list[Message] = []
        life = iter(({"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}))

        async def receive() -> Message:
            return next(life)

        async def send(message: Message) -> None:
            told.append(message)

        await self._guard({"type": "lifespan"}, receive, send)
        assert told[-1]["type"] == "lifespan.shutdown.complete"

    def run(self, model: ModelServer | str, run: str = "r_1", mode: str = "ok") -> ToolEndpoint:
        entry = self.entries.open(run)
        address = model if isinstance(model, str) else model.url(mode, "/v1")
        assert entry.lend(LentModel(address, KEY)) == "http://127.0.0.1:1/model"
        return entry

    async def asked(
        self,
        *headers: tuple[str, str],
        path: str = "/model/chat/completions",
        method: str = "POST",
        body: bytes = PROMPT,
        told: Told | None = None,
    ) -> Told:
        told, waiting = told or Told(), [body]

        async def receive() -> Message:
            if waiting:
                return {"type": "http.request", "body": waiting.pop(), "more_body": False}
            await told.left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                told.status, told.headers = message["status"], dict(message["headers"])
            elif message.get("body"):
                told.pieces.append(message["body"])
                told.first.set()

        def drop() -> None:
            told.was_cut = True

        given: Iterable[tuple[str, str]] = [("host", "127.0.0.1:1"), ("content-type", "application/json"), *headers]
        scope = {
            "type": "http",
            "method": method,
            "path": path.partition("?")[0],
            "raw_path": path.partition("?")[0].encode(),
            "query_string": path.partition("?")[2].encode(),
            "http_version": "1.1",
            "headers": [(name.encode(), value.encode()) for name, value in given],
            "extensions": {"agent_worker": {"trust": lambda: None, "drop": drop}},
        }
        async with asyncio.timeout(PATIENCE):
            await self._guard(scope, receive, send)
        return told


@pytest.fixture
async def daemon() -> AsyncIterator[Daemon]:
    made = Daemon()
    yield made
    await made.close()


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


def by(token: str) -> tuple[str, str]:
    return ("authorization", f"Bearer {token}")


@pytest.mark.parametrize("header", ["authorization", "x-api-key", "x-goog-api-key"])
async def test_the_key_leaves_in_the_header_that_the_token_came_in(
    daemon: Daemon, model: ModelServer, header: str
) -> None:
    entry = daemon.run(model)
    prefix = "Bearer " if header == "authorization" else ""
    told = await daemon.asked((header, prefix + entry.token), ("x-version", "7"), ("cookie", "a=b"))
    assert told.status == 200
    assert b"All is well." in told.body
    (request,) = model.requests
    assert request.path == "/m/ok/v1/chat/completions"
    assert request.headers[header] == prefix + KEY
    assert request.headers["x-version"] == "7"
    assert "cookie" not in request.headers
    assert request.headers["host"] == f"127.0.0.1:{model.port}"
    assert request.body == json.loads(PROMPT)
    assert entry.token not in repr(request)


async def test_what_else_a_program_sends_as_a_key_does_not_reach_the_provider(
    daemon: Daemon, model: ModelServer
) -> None:
    entry = daemon.run(model)
    await daemon.asked(by(entry.token), ("x-api-key", "sk-of-somebody-else"))
    assert "x-api-key" not in model.requests[0].headers


async def test_words_of_an_address_are_passed_on_as_they_are(daemon: Daemon, model: ModelServer) -> None:
    entry = daemon.run(model)
    await daemon.asked(by(entry.token), path="/model/chat/completions?alt=sse&beta=true")
    assert model.requests[0].path == "/m/ok/v1/chat/completions?alt=sse&beta=true"


async def test_a_run_that_was_lent_no_model_reaches_none(daemon: Daemon, model: ModelServer) -> None:
    daemon.run(model)
    other = daemon.entries.open("r_2")
    assert (await daemon.asked(by(other.token))).status == 404
    assert (await daemon.asked(by(ADMIN))).status == 404
    assert (await daemon.asked(by("wrong"))).status == 401
    assert (await daemon.asked(("x-api-key", "wrong"))).status == 401
    assert not model.requests


async def test_each_run_reaches_its_own_model(daemon: Daemon, model: ModelServer) -> None:
    first, second = daemon.run(model, "r_1", "ok"), daemon.run(model, "r_2", "429")
    assert (await daemon.asked(by(second.token))).status == 429
    assert (await daemon.asked(by(first.token))).status == 200


async def test_a_token_ends_with_its_run(daemon: Daemon, model: ModelServer) -> None:
    entry = daemon.run(model)
    about = {"workspace": None, "agent": "a_1", "name": "alice", "run": "r_1"}
    daemon.bus.publish(Ended(**about, instruction="i_1", state="done"))
    assert (await daemon.asked(by(entry.token))).status == 401
    assert not model.requests


@pytest.mark.parametrize("path", ["/model/../agents", "/model/a/../../x", "/models/x", "/model", "/agents", "/trust"])
async def test_the_token_of_a_run_leads_nowhere_else(daemon: Daemon, model: ModelServer, path: str) -> None:
    entry = daemon.run(model)
    assert (await daemon.asked(by(entry.token), path=path)).status in (403, 404)
    assert (await daemon.asked(("x-api-key", entry.token), path="/agents")).status == 401
    assert not model.requests


async def test_only_questions_to_a_model_are_passed_on(daemon: Daemon, model: ModelServer) -> None:
    entry = daemon.run(model)
    assert (await daemon.asked(by(entry.token), method="DELETE")).status == 404
    assert not model.requests


async def test_a_refusal_comes_back_with_when_to_come_again(daemon: Daemon, model: ModelServer) -> None:
    entry = daemon.run(model, mode="429")
    told = await daemon.asked(by(entry.token))
    assert told.status == 429
    assert b"retry-after" in told.headers
    assert "rate" in told.body.decode().lower()


async def test_a_model_that_cannot_be_reached_is_told_in_a_sentence(daemon: Daemon) -> None:
    entry = daemon.run("http://127.0.0.1:9")
    told = await daemon.asked(by(entry.token))
    assert told.status == 502
    assert "127.0.0.1:9 cannot be reached" in json.loads(told.body)["error"]["message"]


async def test_a_redirect_is_not_followed_with_the_key(daemon: Daemon, model: ModelServer) -> None:
    entry = daemon.run(model, mode="redirect")
    told = await daemon.asked(by(entry.token))
    assert told.status == 400
    assert "redirects to localhost" in json.loads(told.body)["error"]["message"]
    assert len(model.requests) == 1


async def test_an_answer_arrives_in_pieces_and_a_cut_one_is_cut(daemon: Daemon, model: ModelServer) -> None:
    entry = daemon.run(model, mode="slow")
    told = await daemon.asked(by(entry.token), body=STREAMED)
    assert len(told.pieces) > 2
    assert told.body.endswith(b"[DONE]\n\n")
    assert not told.was_cut
    cut = await daemon.asked(by(daemon.run(model, "r_2", "cut").token), body=STREAMED)
    assert cut.was_cut


async def test_when_a_program_hangs_up_its_model_is_not_listened_to_any_more(
    daemon: Daemon, model: ModelServer
) -> None:
    entry, told = daemon.run(model, mode="stall"), Told()
    asking = asyncio.create_task(daemon.asked(by(entry.token), body=STREAMED, told=told))
    async with asyncio.timeout(PATIENCE):
        await told.first.wait()
        told.left.set()
        await asyncio.gather(asking, return_exceptions=True)
        await asyncio.gather(*model._connections, return_exceptions=True)


async def test_when_a_program_hangs_up_before_its_model_has_said_anything_that_request_ends_too(
    daemon: Daemon, model: ModelServer
) -> None:
    entry, told = daemon.run(model, mode="hang"), Told()
    asking = asyncio.create_task(daemon.asked(by(entry.token), body=STREAMED, told=told))
    async with asyncio.timeout(PATIENCE):
        await until(lambda: model.requests)
        told.left.set()
        await asyncio.gather(asking, return_exceptions=True)
        await asyncio.gather(*model._connections, return_exceptions=True)
    assert not told.first.is_set()


@pytest.mark.parametrize("body", [PROMPT, STREAMED])
async def test_what_was_used_by_the_token_of_a_run_is_counted_for_it(
    daemon: Daemon, model: ModelServer, body: bytes
) -> None:
    """Also by a command, of which its program knows nothing."""
    entry, other = daemon.run(model), daemon.run(model, "r_2")
    await daemon.asked(by(entry.token), body=body)
    once = entry.used
    assert once.input > 0
    assert once.output > 0
    await daemon.asked(by(entry.token), body=body)
    assert entry.used == once.plus(once)
    assert other.used.is_nothing


async def test_a_long_conversation_fits(daemon: Daemon, model: ModelServer) -> None:
    entry, long = daemon.run(model), json.dumps({"messages": ["x" * LARGEST_BODY]}).encode()
    assert (await daemon.asked(by(entry.token), body=long)).status == 200
    assert (await daemon.asked(by(entry.token), body=long, path="/mcp")).status == 413


def test_what_is_lent_does_not_show_its_key() -> None:
    assert KEY not in repr(LentModel("https://a.example", KEY))
