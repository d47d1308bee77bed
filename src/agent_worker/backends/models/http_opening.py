"""Opens a connection to a server: directly, or by the user's proxy (HTTP, HTTPS, SOCKS 5), with TLS if it is https.

A proxy resolves names by itself. Whoever waits sets how long that may take. Raises OSError with what is wrong in words,
and Permanent where an address is none.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import os
import ssl
from functools import lru_cache
from urllib.parse import SplitResult, unquote, urlsplit

from agent_worker.backends.models.http_connection import HttpConnection
from agent_worker.core.errors import Permanent
from agent_worker.core.later import dataclass

_LONGEST_HEAD = 64 * 1024  # bytes of what a proxy says before it lets us through
_LONGEST_NAME = 255  # what SOCKS has room for
_SECOND_ADDRESS = 0.25  # seconds until the next address of a name is tried beside the first
_SOCKS = {"socks", "socks5", "socks5h"}
#: Where systems keep the certificates that are trusted, if the Python here was built for another one.
_CERTIFICATES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_SOCKS_REFUSALS = {
    1: "it failed",
    2: "its rules do not allow that",
    3: "the network cannot be reached",
    4: "the host cannot be reached",
    5: "connection refused",
    6: "the route to the host is too long",
    7: "it cannot connect to anything",
    8: "it does not know that kind of address",
}


@dataclass(frozen=True, slots=True)
class Server:
    """Whom a connection leads to, and by which proxy."""

    host: str
    port: int
    is_secure: bool
    proxy: str = ""  #: an address, or '' for none

    @property
    def is_told_whole_addresses(self) -> bool:
        """Whether requests go to a proxy that passes each of them on, and so has to be told where to."""
        return bool(self.proxy) and not self.is_secure and _proxy(self.proxy).scheme not in _SOCKS


@lru_cache(64)
def server_of(url: str, proxy: str) -> Server:
    parts = urlsplit(url)
    host, is_secure = parts.hostname or "", parts.scheme == "https"
    try:
        known = host.encode("idna").decode()
    except UnicodeError:
        raise Permanent(f"{host} is not the name of a host", hint="check base_url") from None
    return Server(known, parts.port or (443 if is_secure else 80), is_secure, proxy)


def proxy_headers(server: Server) -> dict[str, str]:
    """What a proxy that passes requests on wants to read in each of them."""
    return _credentials(_proxy(server.proxy)) if server.is_told_whole_addresses else {}


def trusted_certificates() -> ssl.SSLContext:
    """Blocks. Those of the system, or of SSL_CERT_FILE."""
    context = ssl.create_default_context()
    named = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
    if not named and not ssl.get_default_verify_paths().cafile:
        for path in filter(os.path.isfile, _CERTIFICATES):
            context.load_verify_locations(path)
            break
    return context


async def open_connection(server: Server, address: str, certificates: ssl.SSLContext | None) -> HttpConnection:
    """`address` is where the server's name leads to, if that was looked up already."""
    loop = asyncio.get_running_loop()
    if server.proxy and not server.is_told_whole_addresses:
        return await _by_tunnel(server, certificates)
    host, port, tls = address or server.host, server.port, certificates if server.is_secure else None
    name = server.host
    if server.proxy:
        proxy = _proxy(server.proxy)
        host, port = _where(proxy)
        name, tls = host, certificates if proxy.scheme == "https" else None
    _, connection = await loop.create_connection(
        lambda: HttpConnection(address),
        host,
        port,
        ssl=tls,
        server_hostname=name if tls else None,
        happy_eyeballs_delay=_until_next(host),
    )
    return connection


class _Handshake(asyncio.Protocol):
    """What is said with a proxy before the connection leads to the server."""

    def __init__(self, proxy: SplitResult) -> None:
        self.name = "{}:{}".format(*_where(proxy))  #: for people: without a password that may stand in its address
        self._said = bytearray()
        self._is_lost = False
        self._news = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._said += data
        self._news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._news.set()

    def write(self, data: bytes) -> None:
        self.transport.write(data)

    async def read(self, count: int) -> bytes:
        while len(self._said) < count:
            await self._more()
        return self._taken(count)

    async def read_head(self) -> bytes:
        while (end := self._said.find(b"\r\n\r\n")) < 0:
            await self._more()
        return self._taken(end + 4)

    def refused(self, why: str) -> OSError:
        return OSError(f"the proxy {self.name} {why}")

    async def _more(self) -> None:
        if self._is_lost or len(self._said) > _LONGEST_HEAD:
            raise self.refused("broke off")
        self._news.clear()
        await self._news.wait()

    def _taken(self, count: int) -> bytes:
        taken = bytes(self._said[:count])
        del self._said[:count]
        return taken


async def _by_tunnel(server: Server, certificates: ssl.SSLContext | None) -> HttpConnection:
    proxy, loop = _proxy(server.proxy), asyncio.get_running_loop()
    host, port = _where(proxy)
    tls = certificates if proxy.scheme == "https" else None
    _, talk = await loop.create_connection(
        lambda: _Handshake(proxy), host, port, ssl=tls, happy_eyeballs_delay=_until_next(host)
    )
    transport: asyncio.Transport = talk.transport
    try:
        await (_by_socks if proxy.scheme in _SOCKS else _by_connect)(server, proxy, talk)
        connection = HttpConnection()
        transport.set_protocol(connection)
        connection.connection_made(transport)
        if server.is_secure:
            assert certificates is not None
            inner = await loop.start_tls(transport, connection, certificates, server_hostname=server.host)
            assert isinstance(inner, asyncio.Transport)
            connection.connection_made(inner)
    except BaseException:
        transport.abort()
        raise
    return connection


async def _by_connect(server: Server, proxy: SplitResult, talk: _Handshake) -> None:
    there = f"[{server.host}]:{server.port}" if ":" in server.host else f"{server.host}:{server.port}"
    head = {"host": there, "user-agent": "agent-worker", **_credentials(proxy)}
    lines = [f"CONNECT {there} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items())]
    talk.write("\r\n".join([*lines, "", ""]).encode())
    said = (await talk.read_head()).split(b"\r\n", 1)[0].decode("latin-1")
    status = said.partition(" ")[2]
    if not status.startswith("2"):
        raise talk.refused(f"answered {status or said}")


async def _by_socks(server: Server, proxy: SplitResult, talk: _Handshake) -> None:
    user, password = _user(proxy)
    talk.write(b"\x05\x02\x00\x02" if user else b"\x05\x01\x00")
    version, method = await talk.read(2)
    if version != 5 or method not in ((0, 2) if user else (0,)):
        raise talk.refused("wants a kind of login that is not supported")
    if method == 2:
        talk.write(b"\x01" + bytes([len(user)]) + user + bytes([len(password)]) + password)
        if (await talk.read(2))[1]:
            raise talk.refused("does not know this user")
    talk.write(b"\x05\x01\x00" + _socks_address(server.host) + server.port.to_bytes(2, "big"))
    _, refusal, _, kind = await talk.read(4)
    if refusal:
        raise talk.refused(f"says: {_SOCKS_REFUSALS.get(refusal, f'error {refusal}')}")
    length = {1: 4, 4: 16}.get(kind) or (await talk.read(1))[0]
    await talk.read(length + 2)  # the address it speaks from, which is no business of ours


def _until_next(host: str) -> float | None:
    """Only a name has several addresses."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return _SECOND_ADDRESS
    return None


def _socks_address(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return b"\x03" + bytes([len(host)]) + host.encode()
    return (b"\x01" if address.version == 4 else b"\x04") + address.packed


@lru_cache(64)
def _proxy(url: str) -> SplitResult:
    """A proxy's address in its parts. Raises Permanent where it is none of which we could use."""
    wrong = ""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        _ = parts.port  # raises when it is no number
        if parts.scheme not in _SOCKS | {"http", "https"}:
            wrong = f"is given as {parts.scheme}://, and only http, https and socks5 are supported"
        elif not parts.hostname or max(len(part) for part in _user(parts)) > _LONGEST_NAME:
            wrong = "is given in a way that cannot be understood"
    except ValueError:
        wrong = "is given in a way that cannot be understood"
    if wrong:
        raise Permanent(f"the proxy for models {wrong}", hint="look at HTTPS_PROXY, HTTP_PROXY and ALL_PROXY")
    return parts


def _user(proxy: SplitResult) -> tuple[bytes, bytes]:
    return unquote(proxy.username or "").encode(), unquote(proxy.password or "").encode()


def _where(proxy: SplitResult) -> tuple[str, int]:
    usual = {"http": 80, "https": 443}.get(proxy.scheme, 1080)
    return proxy.hostname or "", proxy.port or usual


def _credentials(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    return {"proxy-authorization": "Basic " + base64.b64encode(b":".join(_user(proxy))).decode()}
