"""The one way out to model APIs: a request goes to the host it is meant for, at an address that was checked.

What comes back is bounded and never unpacked; no redirect is followed, no proxy used but the user's own. Keys are not
kept here: they come with each request. Whoever leaves a request before its end, at any moment, ends it for the
provider too.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from agent_worker.core.errors import BadInput, Permanent, Transient
from agent_worker.core.later import dataclass, pattern
from agent_worker.core.outbound import (
    Patience,
    Resolve,
    checked_addresses,
    host_of,
    literal,
    port_of,
    proxy_for,
    resolve,
)
from agent_worker.core.text import plural

if TYPE_CHECKING:  # imported when it is first needed: whoever calls no model does not need it
    import ssl

    from agent_worker.backends.models.http_connection import HttpConnection
    from agent_worker.backends.models.http_opening import Server

_KEPT = 64  # connections that nobody uses
_KEPT_FOR = 60.0  # seconds without use; servers close them themselves, each after a time of its own
_AT_ONCE = 8192
_MOST_TRIED = 4  # addresses of one name
_PLAIN = "/?%:@!$&'()*+,;=~"  # what an address may have beside letters and digits
_LONGEST_ERROR = 64 * 1024
_NAME = pattern(r"[\w!#$%&'*+.^`|~-]+\Z", re.ASCII)
_SENT = {"user-agent": "agent-worker", "accept": "*/*"}
_SENT_ALWAYS = {"content-type": "application/json", "accept-encoding": "identity"}


@dataclass(frozen=True, slots=True)
class ModelAddress:
    """Where a request goes."""

    base_url: str
    is_checked: bool  #: the project chose the address, so it must not lead into the local network


class ModelClient:
    """Connections to all providers, each kept open for the next request."""

    def __init__(self, env: Mapping[str, str], patience: Patience, *, resolve: Resolve = resolve) -> None:
        self._env = env
        self._patience = patience
        self._resolve = resolve
        self._used: set[HttpConnection] = set()
        self.idle: list[tuple[Server, HttpConnection]] = []  # the last one used last
        self._certificates: ssl.SSLContext | None = None
        self._reading = asyncio.Lock()

    @asynccontextmanager
    async def post(
        self, target: ModelAddress, path: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[ModelAnswer]:
        """Send a request; leaving the block closes the connection of an answer that was not read to its end."""
        from agent_worker.backends.models.http_connection import ConnectionBroken
        from agent_worker.backends.models.http_opening import server_of

        server = server_of(target.base_url, proxy_for(target.base_url, self._env) or "")
        head = _head(server, target.base_url + path, {**_SENT, **headers, **_SENT_ALWAYS}, len(body))
        connection = await self._connection(server, target)
        try:
            connection.send(head, body, silence=self._patience.silence)
            await connection.answered()
            answer = ModelAnswer(connection, self._patience)
            _refuse_detours(answer)
            yield answer
        except ConnectionBroken as error:
            raise Transient(f"the connection with {urlsplit(target.base_url).netloc} broke off: {error}") from None
        finally:
            self._let_go(server, connection)

    async def close(self) -> None:
        idle, self.idle = self.idle, []
        for connection in (*self._used, *(connection for _, connection in idle)):
            connection.abort()
        await asyncio.sleep(0)  # they are told in the next turn of the loop, which may be its last

    async def _connection(self, server: Server, target: ModelAddress) -> HttpConnection:
        """One that is open already, if it leads to one of the addresses that are right now, or a new one."""
        addresses = [] if server.proxy else await addresses_of(target, self._resolve)  # a proxy resolves them itself
        if idle := self._idle_one(server, addresses):
            return idle
        from agent_worker.backends.models.http_connection import in_words

        tried, why = addresses[:_MOST_TRIED] or [""], ""
        for address in tried:
            try:
                async with asyncio.timeout(self._patience.connect / len(tried)):
                    connection = await self._open(server, address)
            except TimeoutError:
                why = f"no answer within {self._patience.connect:g} s"
            except OSError as error:
                why = in_words(error)
            else:
                self._used.add(connection)
                return connection
        raise Transient(f"{urlsplit(target.base_url).netloc} cannot be reached: {why}")

    async def _open(self, server: Server, address: str) -> HttpConnection:
        from agent_worker.backends.models.http_opening import open_connection

        needs_certificates = server.is_secure or server.proxy.startswith("https")
        return await open_connection(server, address, await self._trusted() if needs_certificates else None)

    def _idle_one(self, server: Server, addresses: list[str]) -> HttpConnection | None:
        now = asyncio.get_running_loop().time()
        for pair in reversed(self.idle):
            known, connection = pair
            if known != server or (addresses and connection.address not in addresses):
                continue
            self.idle.remove(pair)
            if connection.is_open and connection.unused(now) < _KEPT_FOR and connection.is_quiet:
                self._used.add(connection)
                return connection
            connection.abort()
        return None

    def _let_go(self, server: Server, connection: HttpConnection) -> None:
        """Keep the connection for the next request, if it can take one."""
        self._used.discard(connection)
        if not connection.finish(asyncio.get_running_loop().time()):
            return
        self.idle = [pair for pair in self.idle if pair[1].is_open]
        self.idle.append((server, connection))
        if len(self.idle) > _KEPT:
            self.idle.pop(0)[1].abort()

    async def _trusted(self) -> ssl.SSLContext:
        from agent_worker.backends.models.http_opening import trusted_certificates

        async with self._reading:
            if self._certificates is None:
                self._certificates = await asyncio.to_thread(trusted_certificates)
            return self._certificates


async def addresses_of(target: ModelAddress, resolve: Resolve) -> list[str]:
    """The addresses that the name stands for now, each checked. Empty where any address will do."""
    host = host_of(target.base_url)
    if not target.is_checked or literal(host):
        return []
    try:
        found = await checked_addresses(host, port_of(target.base_url), resolve=resolve)
    except BadInput as error:
        raise Permanent(error.message, hint=error.hint) from None
    except OSError as error:
        raise Transient(f"{host}: {error}") from None
    return [str(address) for address in found]


class ModelAnswer:
    """The answer to one request, read piece by piece."""

    def __init__(self, connection: HttpConnection, patience: Patience) -> None:
        self._connection = connection
        self._patience = patience
        self.status = connection.status
        self._ahead = b""  # of the body, looked at and not yet handed out
        self._seen = 0

    def header(self, name: str) -> str:
        wanted = name.encode()
        return next((value.decode("latin-1") for known, value in self._connection.headers if known == wanted), "")

    def headers(self) -> list[tuple[bytes, bytes]]:
        return self._connection.headers

    async def chunk(self) -> bytes:
        """What has come of the body, at most so much at once; empty at its end. No more is taken than we have patience
        for: raises Permanent beyond that.
        """
        if len(self._ahead) > _AT_ONCE:
            await asyncio.sleep(0)  # hundreds of events may be in it; others want to work too
        elif not self._ahead:
            self._ahead = await self._piece()
        chunk, self._ahead = self._ahead[:_AT_ONCE], self._ahead[_AT_ONCE:]
        return chunk

    async def chunks(self) -> AsyncIterator[bytes]:
        while chunk := await self.chunk():
            yield chunk

    async def is_events(self) -> bool:
        """Whether this is a stream of events, by how it begins: many servers do not say, or not what is true."""
        self._ahead = await self._piece()
        return self._ahead.lstrip()[:1] not in (b"{", b"[", b"<")

    async def leave(self) -> None:
        """Wait a moment for the end of the body, so that the connection is good for another request."""
        from agent_worker.backends.models.http_connection import ConnectionBroken

        if self._connection.is_whole:
            return
        with suppress(ConnectionBroken, TimeoutError):
            async with asyncio.timeout(self._patience.leave):
                while await self._connection.piece():
                    pass

    async def beginning(self) -> bytes:
        """As much of the body as an error message may take, and as comes soon: its status says more than its words."""
        from agent_worker.backends.models.http_connection import ConnectionBroken

        begun = b""
        with suppress(ConnectionBroken, TimeoutError):
            async with asyncio.timeout(self._patience.connect):
                while len(begun) < _LONGEST_ERROR and (chunk := await self.chunk()):
                    begun += chunk
        return begun

    async def _piece(self) -> bytes:
        piece = await self._connection.piece() or b""
        self._seen += len(piece)
        if self._seen > self._patience.body:
            raise Permanent(f"the provider's answer is larger than {plural(self._patience.body, 'byte')}")
        return piece


def _head(server: Server, url: str, headers: Mapping[str, str], length: int) -> bytes:
    """The beginning of a request. Raises Permanent where a header would be more than one line."""
    from agent_worker.backends.models.http_opening import proxy_headers

    parts = urlsplit(url)
    host = parts.netloc if parts.netloc.isascii() else f"{server.host}:{server.port}"
    where = quote(parts.path or "/", safe=_PLAIN) + (parts.query and f"?{quote(parts.query, safe=_PLAIN)}")
    if server.is_told_whole_addresses:
        where = f"{parts.scheme}://{host}{where}"
    lines = [f"POST {where} HTTP/1.1", f"host: {host}", f"content-length: {length}"]
    for name, value in (*headers.items(), *proxy_headers(server).items()):
        if not (_NAME.match(name) and value.isascii() and (value.isprintable() or not value)):
            raise Permanent(
                f"the header {name} has characters that cannot be sent",
                hint="is there a line break or a letter with an accent in the key?",
            )
        lines.append(f"{name}: {value}")
    return "\r\n".join([*lines, "", ""]).encode("ascii")


def _refuse_detours(answer: ModelAnswer) -> None:
    if 300 <= answer.status < 400:
        raise Permanent(
            f"the provider redirects to {_host_in(answer.header('location'))}, and redirects are not followed",
            hint="set base_url to where it answers",
        )
    if answer.status < 400 and (answer.header("content-encoding") or "identity") != "identity":
        raise Permanent("the provider sent a compressed answer though it was asked not to")


def _host_in(location: str) -> str:
    try:
        return host_of(location) or "another address"
    except BadInput:
        return "what is no address"
