"""The user's proxy, of each kind, and what it says when it does not let us through."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.backends.test_model_client import Listener, asked, serving
from tests.certificates import Certificates

from agent_worker.backends.models.model_client import ModelAddress, ModelClient
from agent_worker.core.errors import Permanent, Transient
from agent_worker.core.outbound import NOT_TOO_LONG


class Proxy:
    """Lets everybody through to one server, whatever they ask for; keeps what they asked."""

    def __init__(self, port: int = 0, *, refusal: bytes = b"", wants: bytes = b"") -> None:
        self.port = port  #: of the server
        self.refusal = refusal
        self.wants = wants  #: the user and password of SOCKS
        self.asked: list[bytes] = []

    async def by_connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self.refusal or b"HTTP/1.1 200 Connection established\r\n\r\n")
        if not self.refusal:
            await self._through(reader, writer)

    async def by_socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        if self.wants and 2 not in methods:
            writer.write(b"\x05\xff")
            return
        writer.write(b"\x05\x02" if self.wants else b"\x05\x00")
        if self.wants:
            said = await reader.readexactly(2 + len(self.wants))
            known = bytes(said[2:]).replace(bytes([len(self.wants.split(b":")[1])]), b":", 1)
            writer.write(b"\x01\x00" if known == self.wants else b"\x01\x01")
            if known != self.wants:
                return
        head = await reader.readexactly(4)
        assert head == b"\x05\x01\x00\x03"
        host = await reader.readexactly((await reader.readexactly(1))[0])
        self.asked.append(host + b":%d" % int.from_bytes(await reader.readexactly(2), "big"))
        writer.write(self.refusal or b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
        if not self.refusal:
            await self._through(reader, writer)

    async def _through(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            await asyncio.gather(pass_on(reader, to_server), pass_on(from_server, writer))
        finally:
            to_server.transport.abort()


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()


@pytest.fixture
def certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Certificates:
    made = Certificates(tmp_path, "llm.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(made.authority))
    return made


@asynccontextmanager
async def using(proxy: str) -> AsyncIterator[ModelClient]:
    client = ModelClient({"ALL_PROXY": proxy}, NOT_TOO_LONG)
    yield client
    await client.close()


SECURE = ModelAddress("https://llm.example", is_checked=True)  #: a name that leads nowhere here: the proxy resolves it
PLAIN = ModelAddress("http://llm.example:81", is_checked=False)


async def test_what_is_encrypted_goes_through_a_tunnel_that_sees_only_its_name(certificates: Certificates) -> None:
    async with Listener().open(certificates.server()) as server:
        proxy = Proxy(server.port)
        async with serving(proxy.by_connect) as port, using(f"http://127.0.0.1:{port}") as client:
            assert await asked(client, SECURE, {"x-api-key": "k"}) == b"ok"
            assert await asked(client, SECURE, {"x-api-key": "k"}) == b"ok"
    assert len(proxy.asked) == 1, "the tunnel is kept"
    assert proxy.asked[0].startswith(b"CONNECT llm.example:443 HTTP/1.1\r\nhost: llm.example:443\r\n")
    assert b"x-api-key" not in proxy.asked[0]
    assert server.heads[0].startswith("POST /v1/messages HTTP/1.1\r\nhost: llm.example\r\n")


async def test_a_proxy_is_told_its_user_and_the_server_is_not(certificates: Certificates) -> None:
    told = "proxy-authorization: Basic " + base64.b64encode(b"me@work:p:w").decode()
    async with Listener().open(certificates.server()) as server:
        proxy = Proxy(server.port)
        async with serving(proxy.by_connect) as port, using(f"http://me%40work:p%3Aw@127.0.0.1:{port}") as client:
            await asked(client, SECURE)
    assert told in proxy.asked[0].decode()
    assert "proxy-authorization" not in server.heads[0]
    async with Listener().open() as plain, using(f"http://me%40work:p%3Aw@127.0.0.1:{plain.port}") as client:
        await asked(client, PLAIN)
    assert plain.heads[0].startswith("POST http://llm.example:81/v1/messages HTTP/1.1\r\nhost: llm.example:81\r\n")
    assert told in plain.heads[0]


async def test_a_proxy_that_is_encrypted_itself_leads_to_servers_that_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = Certificates(tmp_path, "localhost", "llm.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(both.authority))
    async with Listener().open(both.server()) as server:
        proxy = Proxy(server.port)
        async with serving(proxy.by_connect, both.server()) as port, using(f"https://localhost:{port}") as client:
            assert await asked(client, SECURE) == b"ok"
    assert proxy.asked[0].startswith(b"CONNECT llm.example:443 ")


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
@pytest.mark.parametrize("wants", [b"", b"me:secret"], ids=["for everybody", "with a password"])
async def test_a_socks_proxy_resolves_the_name_itself(certificates: Certificates, scheme: str, wants: bytes) -> None:
    user = wants and wants + b"@"
    async with Listener().open(certificates.server()) as server:
        proxy = Proxy(server.port, wants=wants)
        async with serving(proxy.by_socks) as port, using(f"{scheme}://{user.decode()}127.0.0.1:{port}") as client:
            assert await asked(client, SECURE) == b"ok"
    assert proxy.asked == [b"llm.example:443"]
    async with Listener().open() as plain:
        proxy = Proxy(plain.port, wants=wants)
        async with serving(proxy.by_socks) as port, using(f"{scheme}://{user.decode()}127.0.0.1:{port}") as client:
            assert await asked(client, PLAIN) == b"ok"
    assert proxy.asked == [b"llm.example:81"]
    assert plain.heads[0].startswith("POST /v1/messages HTTP/1.1\r\n")


async def test_a_proxy_that_refuses_is_named_with_what_it_says_and_without_its_password() -> None:
    refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n"
    async with serving(Proxy(refusal=refusal).by_connect) as port, using(f"http://me:pw@127.0.0.1:{port}") as client:
        with pytest.raises(Transient) as refused:
            await asked(client, SECURE)
    said = f"llm.example cannot be reached: the proxy 127.0.0.1:{port} answered 407 Proxy Authentication Required"
    assert str(refused.value) == said


@pytest.mark.parametrize(
    ("proxy", "user", "said"),
    [
        (Proxy(refusal=b"\x05\x05\x00\x01\0\0\0\0\0\0"), "", "says: connection refused"),
        (Proxy(wants=b"me:pw"), "", "wants a kind of login that is not supported"),
        (Proxy(wants=b"me:pw"), "me:no@", "does not know this user"),
    ],
    ids=["by its rules", "without a user", "with a wrong user"],
)
async def test_a_socks_proxy_that_refuses_says_why(proxy: Proxy, user: str, said: str) -> None:
    async with serving(proxy.by_socks) as port, using(f"socks5://{user}127.0.0.1:{port}") as client:
        with pytest.raises(Transient, match=rf"llm\.example cannot be reached: the proxy 127\.0\.0\.1:{port} {said}"):
            await asked(client, SECURE)


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_a_proxy_that_breaks_off_is_told_as_that(scheme: str) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)

    async with serving(hang_up) as port, using(f"{scheme}://127.0.0.1:{port}") as client:
        with pytest.raises(Transient, match=rf"the proxy 127\.0\.0\.1:{port} broke off"):
            await asked(client, SECURE)


@pytest.mark.parametrize(
    ("proxy", "said"),
    [
        ("socks4://127.0.0.1:9", "is given as socks4://, and only http, https and socks5 are supported"),
        ("http://127.0.0.1:port", "is given in a way that cannot be understood"),
        ("http://", "is given in a way that cannot be understood"),
        (f"socks5://{'u' * 256}@127.0.0.1:9", "is given in a way that cannot be understood"),
    ],
    ids=["another protocol", "no port", "no host", "too long a user"],
)
async def test_a_proxy_that_cannot_be_used_is_a_mistake_that_names_where_to_look(proxy: str, said: str) -> None:
    async with using(proxy) as client:
        with pytest.raises(Permanent, match=f"^the proxy for models {said}") as wrong:
            await asked(client, SECURE)
    assert wrong.value.hint == "look at HTTPS_PROXY, HTTP_PROXY and ALL_PROXY"


async def test_a_name_with_letters_of_its_own_is_told_to_a_proxy_as_it_is_looked_up() -> None:
    async with Listener().open() as proxy, using(f"http://127.0.0.1:{proxy.port}") as client:
        assert await asked(client, ModelAddress("http://llm.bücher.example", is_checked=False)) == b"ok"
    name = "llm.xn--bcher-kva.example:80"
    assert proxy.heads[0].startswith(f"POST http://{name}/v1/messages HTTP/1.1\r\nhost: {name}\r\n")


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "b..example", "ü" * 70])
async def test_a_name_that_no_host_can_have_is_a_mistake(host: str) -> None:
    client = ModelClient({}, NOT_TOO_LONG)
    with pytest.raises(Permanent, match="is not the name of a host"):
        await asked(client, ModelAddress(f"https://{host}", False))


async def test_a_proxy_may_be_named_without_its_protocol() -> None:
    async with Listener().open() as proxy, using(f"127.0.0.1:{proxy.port}") as client:
        assert await asked(client, PLAIN) == b"ok"


async def test_a_server_that_refuses_connections_is_told_in_words() -> None:
    async with serving(Proxy().by_connect) as port:
        pass
    client = ModelClient({}, NOT_TOO_LONG)
    with pytest.raises(Transient, match=rf"^localhost:{port} cannot be reached: Connection refused$"):
        await asked(client, ModelAddress(f"http://localhost:{port}", False))
    await client.close()


async def test_whoever_is_cancelled_behind_a_proxy_while_the_server_is_silent_hangs_up(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    asked_there, closed = asyncio.Event(), asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)  # it was greeted, and does not say who it is
        asked_there.set()
        while await reader.read(1000):
            pass
        closed.set()

    async with (
        serving(silent) as server,
        serving(Proxy(server).by_connect) as port,
        using(f"http://127.0.0.1:{port}") as client,
    ):
        waiting = asyncio.create_task(asked(client, SECURE))
        await asked_there.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await closed.wait()
    assert not caplog.records


async def test_whoever_is_cancelled_while_a_proxy_is_silent_hangs_up() -> None:
    asked_there, closed = asyncio.Event(), asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked_there.set()
        await reader.read()
        closed.set()

    async with serving(silent) as port, using(f"http://127.0.0.1:{port}") as client:
        waiting = asyncio.create_task(asked(client, SECURE))
        await asked_there.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await closed.wait()
