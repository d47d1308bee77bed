"""The one way out to model APIs: what leaves, to which address, and what of an answer is taken."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.certificates import Certificates

from agent_worker.backends.models.model_client import ModelAddress, ModelClient
from agent_worker.core.errors import Permanent, Transient
from agent_worker.core.outbound import NOT_TOO_LONG, IPAddress

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
FOREIGN = ModelAddress("https://llm.example", is_checked=True)


@dataclass
class Listener:
    """A server that says one thing to everybody and keeps what it was sent."""

    answer: bytes = OK
    heads: list[str] = field(default_factory=list)
    port: int = 0

    @asynccontextmanager
    async def open(self, certificate: ssl.SSLContext | None = None) -> AsyncIterator[Listener]:
        async with serving(self.talk, certificate) as self.port:
            yield self

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            self.heads.append(head.decode())
            await reader.readexactly(int(_header(head, b"content-length") or 0))
            writer.write(self.answer)
            await writer.drain()


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(talk: Talk, certificate: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server that talks like this with everybody who connects; when the block is left, nothing of it is open."""
    talks: set[asyncio.Task[None] | None] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talks.add(asyncio.current_task())
        try:
            await talk(reader, writer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=certificate)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in filter(None, talks):
            task.cancel()
        await asyncio.gather(*filter(None, talks), return_exceptions=True)
        await server.wait_closed()


def _header(head: bytes, name: bytes) -> bytes:
    return next((line.split(b":", 1)[1].strip() for line in head.split(b"\r\n") if line.lower().startswith(name)), b"")


def leads_to(*answers: list[str]) -> Callable[[str, int], Any]:
    """A name that resolves to these addresses, one list for each time it is asked."""
    left = list(answers)

    async def resolve(host: str, port: int) -> list[IPAddress]:
        return [ipaddress.ip_address(text) for text in left.pop(0)]

    return resolve


async def asked(client: ModelClient, target: ModelAddress, headers: dict[str, str] | None = None) -> bytes:
    async with client.post(target, "/v1/messages", headers or {}, b"{}") as answer:
        return b"".join([chunk async for chunk in answer.chunks()])


@pytest.fixture
async def client() -> AsyncIterator[ModelClient]:
    made = ModelClient({}, replace(NOT_TOO_LONG, connect=0.5, body=1000))
    yield made
    await made.close()


async def test_only_what_we_mean_to_send_is_sent(client: ModelClient) -> None:
    async with Listener().open() as server:
        assert await asked(client, ModelAddress(f"http://127.0.0.1:{server.port}", False), {"x-api-key": "k"}) == b"ok"
    lines = server.heads[0].strip().split("\r\n")
    assert lines[0] == "POST /v1/messages HTTP/1.1"
    names = {line.split(":")[0].lower() for line in lines[1:]}
    assert names == {"x-api-key", "content-type", "accept-encoding", "accept", "user-agent", "host", "content-length"}
    assert "accept-encoding: identity" in lines


async def test_a_connection_is_used_again(client: ModelClient) -> None:
    connected = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connected
        connected += 1
        await Listener().talk(reader, writer)

    async with serving(count) as port:
        target = ModelAddress(f"http://127.0.0.1:{port}", False)
        for _ in range(5):
            await asked(client, target)
    assert connected == 1


async def test_the_address_that_was_checked_is_the_one_connected_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Certificate and Host are those of the name: the loopback address stands here for a public one."""
    monkeypatch.setattr("agent_worker.core.outbound.check_address", lambda host, address, allow_local: None)
    certificates = Certificates(tmp_path, "llm.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    async with Listener().open(certificates.server()) as server:
        client = ModelClient({}, NOT_TOO_LONG, resolve=leads_to(["127.0.0.1"]))
        assert await asked(client, ModelAddress(f"https://llm.example:{server.port}", is_checked=True)) == b"ok"
        await client.close()
    assert f"host: llm.example:{server.port}" in server.heads[0].lower()


async def test_each_address_of_a_name_is_tried_until_one_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_worker.core.outbound.check_address", lambda host, address, allow_local: None)
    addresses = ["127.0.0.2", "127.0.0.3", "127.0.0.1"]
    async with Listener().open() as server:
        client = ModelClient({}, NOT_TOO_LONG, resolve=leads_to(addresses, addresses, addresses[:2], addresses[:2]))
        there = ModelAddress(f"http://llm.example:{server.port}", is_checked=True)
        assert await asked(client, there) == b"ok"
        assert await asked(client, there) == b"ok"
        assert client.idle[0][1].address == "127.0.0.1"
        with pytest.raises(Transient, match=r"llm\.example:\d+ cannot be reached: Connection refused$"):
            await asked(client, there)  # the third address is none of its own any more
        await client.close()


async def test_a_server_that_hangs_up_before_it_says_who_it_is_is_told_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)

    async with serving(hang_up) as port:
        client = ModelClient({}, NOT_TOO_LONG)
        with pytest.raises(Transient, match=r"127\.0\.0\.1:\d+ cannot be reached: \w+"):
            await asked(client, ModelAddress(f"https://127.0.0.1:{port}", False))


async def test_what_breaks_the_encryption_is_told_in_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates = Certificates(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))

    async def break_it(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe")
        await writer.drain()
        os.write(writer.get_extra_info("socket").fileno(), b"\x17\x03\x03\x00\x20" + b"x" * 32)
        await reader.read()

    async with serving(break_it, certificates.server()) as port:
        client = ModelClient({}, NOT_TOO_LONG)
        with pytest.raises(Transient, match=r"localhost:\d+ broke off: .*(record|decryption)"):
            await asked(client, ModelAddress(f"https://localhost:{port}", False))
        await client.close()


async def test_a_certificate_that_nobody_vouches_for_is_not_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_worker.core.outbound.check_address", lambda host, address, allow_local: None)
    certificates = Certificates(tmp_path, "llm.example")
    async with Listener().open(certificates.server()) as server:
        client = ModelClient({}, NOT_TOO_LONG, resolve=leads_to(["127.0.0.1"]))
        with pytest.raises(Transient, match="certificate"):
            await asked(client, ModelAddress(f"https://llm.example:{server.port}", is_checked=True))
        await client.close()
    assert server.heads == []


async def test_a_name_that_turns_local_at_its_second_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    client = ModelClient({}, replace(NOT_TOO_LONG, connect=0.01), resolve=leads_to(["192.0.0.9"], ["127.0.0.1"]))
    with pytest.raises(Transient):
        await asked(client, FOREIGN)  # nobody answers there, but it was tried
    with pytest.raises(Permanent, match=r"127\.0\.0\.1"):
        await asked(client, FOREIGN)
    await client.close()


async def test_a_name_with_one_local_address_among_others_is_refused() -> None:
    client = ModelClient({}, NOT_TOO_LONG, resolve=leads_to(["8.8.8.8", "169.254.169.254"]))
    with pytest.raises(Permanent, match=r"169\.254\.169\.254"):
        await asked(client, FOREIGN)


async def test_a_name_that_leads_nowhere_is_a_passing_failure() -> None:
    async def nowhere(host: str, port: int) -> list[IPAddress]:
        raise OSError("no such name")

    with pytest.raises(Transient, match=r"llm\.example"):
        await asked(ModelClient({}, NOT_TOO_LONG, resolve=nowhere), FOREIGN)


async def test_a_redirect_is_not_followed(client: ModelClient) -> None:
    there = b"HTTP/1.1 307 Go\r\nlocation: http://evil.example/x\r\ncontent-length: 0\r\n\r\n"
    async with Listener(there).open() as server:
        with pytest.raises(Permanent, match=r"evil\.example"):
            await asked(client, ModelAddress(f"http://127.0.0.1:{server.port}", False))


async def test_a_compressed_answer_is_refused_unopened(client: ModelClient) -> None:
    bomb = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n\x1f\x8b"
    async with Listener(bomb).open() as server:
        with pytest.raises(Permanent, match="compressed"):
            await asked(client, ModelAddress(f"http://127.0.0.1:{server.port}", False))


async def test_an_answer_that_is_too_large_is_not_taken(client: ModelClient) -> None:
    large = b"HTTP/1.1 200 OK\r\ncontent-length: 2000\r\n\r\n" + b"x" * 2000
    async with Listener(large).open() as server:
        with pytest.raises(Permanent, match=r"larger than 1,?000 bytes"):
            await asked(client, ModelAddress(f"http://127.0.0.1:{server.port}", False))


async def test_the_users_proxy_is_asked_and_the_one_of_this_process_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with Listener().open() as proxy:
        client = ModelClient({"http_proxy": f"http://127.0.0.1:{proxy.port}"}, NOT_TOO_LONG)
        assert await asked(client, ModelAddress("http://llm.example/api", False)) == b"ok"
        await client.close()
    assert proxy.heads[0].startswith("POST http://llm.example/api/v1/messages HTTP/1.1\r\n")
    async with Listener().open() as server:
        client = ModelClient({}, NOT_TOO_LONG)
        assert await asked(client, ModelAddress(f"http://127.0.0.1:{server.port}", False)) == b"ok"
        await client.close()


async def test_whoever_is_cancelled_while_something_comes_in_is_cancelled(client: ModelClient) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(3):
            writer.write(b"2\r\nok\r\n")
            await writer.drain()
        while await reader.read(1000):
            pass

    async def listen(heard: asyncio.Event) -> None:
        async with client.post(address, "/", {}, b"") as answer:
            async for _ in answer.chunks():
                heard.set()

    async with serving(talk) as port:
        address = ModelAddress(f"http://127.0.0.1:{port}", False)
        for number in range(60):  # without a check one in seven goes on listening, until the silence lasts too long
            heard = asyncio.Event()
            listening = asyncio.create_task(listen(heard))
            await heard.wait()
            for _ in range(number % 5):
                await asyncio.sleep(0)
            listening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await listening


async def test_a_request_ends_with_whoever_waits_for_it_before_anything_is_answered() -> None:
    asked_there, closed = asyncio.Event(), asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked_there.set()
        while await reader.read(1000):
            pass
        closed.set()

    client = ModelClient({}, NOT_TOO_LONG)
    async with serving(silent) as port:
        waiting = asyncio.create_task(asked(client, ModelAddress(f"http://127.0.0.1:{port}", False)))
        await asked_there.wait()
        waiting.cancel()
        await closed.wait()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    await client.close()


async def test_leaving_an_answer_closes_its_connection(client: ModelClient) -> None:
    closed = asyncio.Event()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n")
        while await reader.read(1000):
            pass
        closed.set()

    async with serving(endless) as port:
        target = ModelAddress(f"http://127.0.0.1:{port}", False)
        async with client.post(target, "/", {}, b"") as answer:
            async for chunk in answer.chunks():
                assert chunk == b"ok"
                break
        await closed.wait()
