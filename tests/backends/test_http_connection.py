"""What a server may say on a connection, and what becomes of the answer and of the connection."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.backends.test_model_client import OK, asked, serving
from tests.patience import until

from agent_worker.backends.models.http_connection import HttpConnection
from agent_worker.backends.models.model_client import ModelAddress, ModelClient
from agent_worker.core.errors import Permanent, Transient
from agent_worker.core.outbound import NOT_TOO_LONG, Patience

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Server:
    """Says what it is told to say to each request, and counts who connects."""

    def __init__(self, *answers: bytes, ends: bool = False) -> None:
        self.answers = list(answers)
        self.ends = ends  #: closes the connection after an answer
        self.connected = 0
        self.port = 0
        self.gone = asyncio.Event()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connected += 1
        try:
            while self.answers:
                await reader.readuntil(b"{}")
                writer.write(self.answers.pop(0))
                await writer.drain()
                if self.ends:
                    writer.close()
                    return
            await reader.read()
        finally:
            self.gone.set()


@asynccontextmanager
async def talking(server: Server, patience: Patience = NOT_TOO_LONG) -> AsyncIterator[tuple[ModelClient, ModelAddress]]:
    client = ModelClient({}, patience)
    async with serving(server.talk) as port:
        yield client, ModelAddress(f"http://127.0.0.1:{port}", False)
        await client.close()


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", b"ok"),
        (b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", b"ok"),
        (CHUNKED + b"2\r\nhe\r\n3;why=not\r\nllo\r\n0\r\nx-behind: it\r\n\r\n", b"hello"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
    ids=["a length", "go on first", "hints first", "chunks, extensions and trailers", "no body"],
)
async def test_an_answer_is_read_whole_and_its_connection_used_again(answer: bytes, body: bytes) -> None:
    server = Server(answer, OK)
    async with talking(server) as (client, there):
        assert await asked(client, there) == body
        assert await asked(client, there) == b"ok"
    assert server.connected == 1


async def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    server = Server(b"HTTP/1.1 200 OK\r\n\r\nuntil the end", ends=True)
    async with talking(server) as (client, there):
        assert await asked(client, there) == b"until the end"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        OK + b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecond",
    ],
    ids=["an old server", "it says so", "more than was asked for"],
)
async def test_a_connection_that_is_not_good_for_another_request_is_not_used_again(answer: bytes) -> None:
    server = Server(answer, OK)
    async with talking(server) as (client, there):
        assert await asked(client, there) == b"ok"
        assert await asked(client, there) == b"ok"
    assert server.connected == 2


async def test_what_comes_when_nobody_asked_is_not_taken_for_an_answer() -> None:
    """A server that answers ahead could otherwise put its words where those to the next question belong."""
    server, spoken = Server(OK), asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(OK)
        await spoken.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlies")
        await reader.read()
        server.gone.set()

    async with serving(talk) as port:
        client = ModelClient({}, NOT_TOO_LONG)
        there = ModelAddress(f"http://127.0.0.1:{port}", False)
        assert await asked(client, there) == b"ok"
        spoken.set()
        await server.gone.wait()
        await client.close()


async def test_a_connection_that_was_closed_while_nobody_used_it_is_not_used() -> None:
    server = Server(OK, OK, ends=True)
    async with talking(server) as (client, there):
        assert await asked(client, there) == b"ok"
        await until(lambda: not client.idle[0][1].is_open)
        assert await asked(client, there) == b"ok"
    assert server.connected == 2


@pytest.mark.parametrize("behind", [b"", OK], ids=["it was closed", "something came that nobody asked for"])
async def test_a_connection_on_which_something_waits_to_be_noticed_is_not_used(behind: bytes) -> None:
    """The system knows that a connection was closed before the event loop has looked: a request sent on it would be
    lost, and nobody could say whether it was seen."""
    server, sockets = Server(OK, OK), list[socket.socket]()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sockets.append(writer.get_extra_info("socket"))
        await server.talk(reader, writer)

    async with serving(talk) as port:
        client, there = ModelClient({}, NOT_TOO_LONG), ModelAddress(f"http://127.0.0.1:{port}", False)
        assert await asked(client, there) == b"ok"
        with socket.socket(fileno=os.dup(sockets[0].fileno())) as same:  # from here on nothing else runs in the loop
            same.send(behind) if behind else same.shutdown(socket.SHUT_RDWR)
        assert client.idle[0][1].is_open
        assert await asked(client, there) == b"ok"
        await client.close()
    assert server.connected == 2


async def test_a_request_that_may_have_been_read_is_not_sent_again_by_itself() -> None:
    """Whoever asked decides that: it may have been worked on, and have cost something."""
    server, requests = Server(), 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        server.connected += 1
        await reader.readuntil(b"{}")
        writer.write(OK)
        while await reader.readuntil(b"{}"):
            requests += 1
            return

    async with serving(talk) as port:
        client, there = ModelClient({}, NOT_TOO_LONG), ModelAddress(f"http://127.0.0.1:{port}", False)
        assert await asked(client, there) == b"ok"
        with pytest.raises(Transient, match="broke off"):
            await asked(client, there)
        await client.close()
    assert (server.connected, requests) == (1, 1)


async def test_a_connection_on_which_nothing_is_said_for_minutes_is_kept_alive() -> None:
    """A model may think that long, and what lies between forgets connections on which nothing passes."""
    server = Server(OK)
    async with talking(server) as (client, there):
        await asked(client, there)
        ours = client.idle[0][1].socket
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "the other side closed it"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", "the other side closed it"),
        (CHUNKED + b"5\r\nhe", "the other side closed it"),
        (CHUNKED + b"zz\r\n", "not HTTP"),
        (b"220 mail.example ESMTP\r\n", "not HTTP"),
        (b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nmore", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"x-more: y\r\n" * 20_000, "its headers do not end"),
        (CHUNKED + b"2\r\nok\r\n0\r\nx: " + b"y" * 600_000, "its headers do not end"),
        (CHUNKED + b"2;" + b"y" * 200_000, "its headers do not end"),
        (b"HTTP/1.1 200 OK\ncontent-length: 2\n\nok", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok", "not HTTP"),
        (CHUNKED + b"ffffffffffffffffffff\r\nok", "not HTTP"),
        (CHUNKED + b"1\r\nok\r\n0\r\n\r\n", "not HTTP"),
    ],
    ids=[
        "nothing",
        "half a body",
        "half a chunk",
        "no chunk",
        "mail",
        "another protocol",
        "headers without end",
        "a trailer without end",
        "a chunk without end",
        "bare line feeds",
        "two ways to end",
        "two lengths",
        "a length beyond counting",
        "a chunk longer than it says",
    ],
)
async def test_an_answer_that_breaks_off_is_a_failure_that_may_pass(answer: bytes, why: str) -> None:
    server = Server(answer, ends=True)
    async with talking(server) as (client, there):
        with pytest.raises(Transient, match=rf"the connection with 127\.0\.0\.1:\d+ broke off: .*{why}"):
            await asked(client, there)
        assert not client.idle


async def test_a_connection_that_is_reset_is_told_in_words() -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{")
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async with serving(reset) as port:
        client = ModelClient({}, NOT_TOO_LONG)
        with pytest.raises(Transient, match=r" broke off: Connection reset by peer$"):
            await asked(client, ModelAddress(f"http://127.0.0.1:{port}", False))


async def test_a_status_that_does_not_exist_is_not_waited_out() -> None:
    server = Server(b"HTTP/1.1 042 No\r\ncontent-length: 2\r\n\r\nok")
    async with talking(server) as (client, there):
        assert await asked(client, there) == b"ok"


async def test_a_server_that_says_nothing_is_given_up_on() -> None:
    server = Server(b"")
    async with talking(server, replace(NOT_TOO_LONG, silence=0.01)) as (client, there):
        with pytest.raises(Transient, match=r"it said nothing for 0\.01 s"):
            await asked(client, there)
        await server.gone.wait()


async def test_a_server_that_goes_silent_in_the_middle_is_given_up_on() -> None:
    server = Server(CHUNKED + b"2\r\nok\r\n")
    async with talking(server, replace(NOT_TOO_LONG, silence=0.01)) as (client, there):
        with pytest.raises(Transient, match=r"it said nothing for 0\.01 s"):
            await asked(client, there)
        await server.gone.wait()


async def test_a_reader_that_takes_its_time_is_not_sent_more_than_it_takes() -> None:
    """Nor is the server called silent, which is not let speak."""
    size = 64 * 1024 * 1024
    sent = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"{}")
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n".encode())
        for _ in range(size // 65536):
            writer.write(bytes(65536))
            await writer.drain()
            sent += 65536
        await reader.read()  # what is still on its way may arrive

    async with serving(talk) as port:
        client = ModelClient({}, replace(NOT_TOO_LONG, body=2 * size))
        async with client.post(ModelAddress(f"http://127.0.0.1:{port}", False), "/", {}, b"{}") as answer:
            chunks = answer.chunks()
            taken = len(await anext(chunks))
            before = -1
            while before != sent:  # until nothing more goes out
                before = sent
                for _ in range(50):
                    await asyncio.sleep(0)
            assert sent < size // 2
            taken += sum([len(chunk) async for chunk in chunks])
            assert taken == size
        await client.close()


@pytest.mark.parametrize("name", ["x y", "x:", "x\x0b", "ü", ""])
async def test_a_header_of_the_users_with_a_name_that_is_none_is_refused(name: str) -> None:
    server = Server(OK)
    async with talking(server) as (client, there):
        with pytest.raises(Permanent, match=f"the header {name} has characters that cannot be sent"):
            await asked(client, there, {name: "1"})
    assert server.connected == 0


@pytest.mark.parametrize("key", ["k\r\nx-evil: 1", "k\n", "ké", "k\x00"])
async def test_a_key_that_would_be_more_than_a_header_is_refused_and_not_told(key: str) -> None:
    server = Server(OK)
    async with talking(server) as (client, there):
        with pytest.raises(Permanent, match="the header x-api-key has characters that cannot be sent") as refused:
            await asked(client, there, {"x-api-key": key})
        assert key not in str(refused.value)
    assert server.connected == 0


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    st.lists(st.integers(0, 400), max_size=8),
    st.booleans(),
)
def test_an_answer_is_the_same_however_it_is_cut(pieces: list[bytes], cuts: list[int], chunked: bool) -> None:
    whole = b"".join(pieces)
    head = CHUNKED if chunked else f"HTTP/1.1 200 OK\r\ncontent-length: {len(whole)}\r\n\r\n".encode()
    body = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n" if chunked else whole
    places = sorted({min(cut, len(head + body)) for cut in cuts} | {0, len(head + body)})

    async def heard() -> bytes:
        connection = HttpConnection()
        connection.connection_made(Nowhere({"socket": unconnected}))
        connection.send(b"", b"", silence=300)
        for start, end in itertools.pairwise(places):
            connection.data_received((head + body)[start:end])
        await connection.answered()
        parts = []
        while (piece := await connection.piece()) is not None:
            parts.append(piece)
        assert connection.finish(0)
        return b"".join(parts)

    with socket.socket() as unconnected:
        assert asyncio.run(heard()) == whole


class Nowhere(asyncio.Transport):
    """A transport that leads nowhere."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def is_closing(self) -> bool:
        return False
