"""The one way out to model APIs: a request goes to the host it is meant for, at an address that was checked.

What comes back is bounded and never unpacked; no redirect is followed, no proxy used but the user's own. Keys are not
kept here: they come with each request. Imports the HTTP library when the first request is made.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agent_worker.core.errors import BadInput, Permanent, Transient
from agent_worker.core.later import dataclass
from agent_worker.core.outbound import Patience, Resolve, checked_addresses, host_of, literal, proxy_for, resolve
from agent_worker.core.text import plural

if TYPE_CHECKING:  # imported when it is first needed: whoever calls no model does not need it
    from pyreqwest.client import Client
    from pyreqwest.response import Response

_KEPT_CLIENTS = 64
_AT_ONCE = 8192
_LONGEST_ERROR = 64 * 1024
_HUGE_PAGES = "MIMALLOC_ALLOW_THP"


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
        self._clients: dict[tuple[str, str, str], Client] = {}
        self._building = asyncio.Lock()

    @asynccontextmanager
    async def post(
        self, target: ModelAddress, path: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[ModelAnswer]:
        """Send a request; leaving the block closes the connection of an answer that was not read to its end."""
        client = await self._client(target)
        from pyreqwest.exceptions import PyreqwestError  # after the client, which loads the library in a thread

        request = (
            client.post(target.base_url + path)
            .headers({**headers, "content-type": "application/json", "accept-encoding": "identity"})
            .body_bytes(body)
            .streamed_read_buffer_limit(0)  # by itself it would wait for 64 KB before it hands out the first word
            .build_streamed()
        )
        cancellation = Cancellation()
        try:
            async with request as response:
                cancellation.obey()
                refuse_detours(response.status, response.get_header)
                yield ModelAnswer(response, self._patience, cancellation)
        except PyreqwestError as error:
            cancellation.obey()
            raise Transient(_told(error, urlsplit(target.base_url).netloc)) from None

    async def close(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.close()

    async def _client(self, target: ModelAddress) -> Client:
        proxy = proxy_for(target.base_url, self._env) or ""
        addresses = [] if proxy else await addresses_of(target, self._resolve)  # a proxy resolves names by itself
        origin = "{0.scheme}://{0.netloc}".format(urlsplit(target.base_url))
        async with self._building:
            for address in addresses or [""]:  # one that is open already, if it is among those that were checked
                if client := self._clients.get((origin, address, proxy)):
                    return client
            pin = addresses[0] if addresses else ""
            client = await asyncio.to_thread(_build, target.base_url, pin, proxy, self._patience)
            while len(self._clients) >= _KEPT_CLIENTS:
                del self._clients[next(iter(self._clients))]
            self._clients[origin, pin, proxy] = client
            return client


async def addresses_of(target: ModelAddress, resolve: Resolve) -> list[str]:
    """The addresses that the name stands for now, each checked. Empty where any address will do."""
    host = host_of(target.base_url)
    if not target.is_checked or literal(host):
        return []
    try:
        found = await checked_addresses(host, _port(target.base_url), resolve=resolve)
    except BadInput as error:
        raise Permanent(error.message, hint=error.hint) from None
    except OSError as error:
        raise Transient(f"{host}: {error}") from None
    return [str(address) for address in found]


class Cancellation:
    """Notices a cancellation that the library swallows, when what it waits for comes in the same moment."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._known = self._task.cancelling() if self._task else 0

    def obey(self) -> None:
        """Raise the cancellation if there was one. Call it after everything that was awaited from the library."""
        if self._task and self._task.cancelling() > self._known:
            raise asyncio.CancelledError


class ModelAnswer:
    """The answer to one request, read piece by piece."""

    def __init__(self, response: Response, patience: Patience, cancellation: Cancellation) -> None:
        self._response = response
        self._patience = patience
        self._cancellation = cancellation
        self.status = response.status

    def header(self, name: str) -> str:
        return self._response.get_header(name) or ""

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [(name.lower().encode(), value.encode()) for name, value in self._response.headers.items()]

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body, of which no more is taken than we have patience for. Raises Permanent beyond that."""
        reader, seen = self._response.body_reader, 0
        while (chunk := await reader.read_chunk()) is not None:
            self._cancellation.obey()
            seen += len(chunk)
            if seen > self._patience.body:
                raise Permanent(f"the provider's answer is larger than {plural(self._patience.body, 'byte')}")
            if len(chunk) <= _AT_ONCE:  # as nearly always
                yield bytes(chunk)
                continue
            async for piece in in_pieces(bytes(chunk)):
                yield piece

    async def beginning(self) -> bytes:
        """As much of the body as an error message may take."""
        parts: list[bytes] = []
        async for chunk in self.chunks():
            parts.append(chunk)
            if sum(map(len, parts)) > _LONGEST_ERROR:
                break
        return b"".join(parts)


async def in_pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), _AT_ONCE):
        if start:
            await asyncio.sleep(0)  # hundreds of events may be in it; others want to work too
        yield data[start : start + _AT_ONCE]


def _build(base_url: str, pin: str, proxy: str, patience: Patience) -> Client:
    """Blocks: it imports the library and reads the certificates of the system, or those of SSL_CERT_FILE."""
    _load_library()
    from pyreqwest.client import ClientBuilder
    from pyreqwest.proxy import ProxyBuilder

    builder = (
        ClientBuilder()
        .no_proxy()  # it would look into the environment of the process, which need not be the user's
        .follow_redirects(False)
        .gzip(False)
        .brotli(False)
        .zstd(False)
        .deflate(False)
        .referer(False)
        .user_agent("agent-worker")
        .http1_lower_case_headers()
        .connect_timeout(timedelta(seconds=patience.connect))
        .read_timeout(timedelta(seconds=patience.silence))
    )
    if proxy:
        builder = builder.proxy(ProxyBuilder.all(proxy))
    if pin:
        builder = builder.resolve(host_of(base_url), pin, _port(base_url))
    return builder.build()


def _load_library() -> None:
    """Load the HTTP library with small memory pages: its allocator would take ten megabytes in pages of 2 MB."""
    if _HUGE_PAGES in os.environ or "pyreqwest" in sys.modules:
        return
    os.environ[_HUGE_PAGES] = "0"
    try:
        importlib.import_module("pyreqwest.client")
    finally:
        os.environ.pop(_HUGE_PAGES, None)


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def refuse_detours(status: int, header: Callable[[str], str | None]) -> None:
    if 300 <= status < 400:
        target = host_of(header("location") or "") or "another address"
        raise Permanent(
            f"the provider redirects to {target}, and redirects are not followed",
            hint="set base_url to where it answers",
        )
    if (header("content-encoding") or "identity") != "identity":
        raise Permanent("the provider sent a compressed answer though it was asked not to")


def _told(error: Exception, address: str) -> str:
    """What happened, and its innermost cause: `localhost:11434 cannot be reached: Connection refused`."""
    from pyreqwest.exceptions import ConnectError, ConnectTimeoutError, NetworkError

    details = getattr(error, "details", None) or {}
    causes = [str(cause.get("message", "")) for cause in details.get("causes") or ()]
    said = str(error.args[0]) if error.args else type(error).__name__
    if isinstance(error, ConnectError | ConnectTimeoutError):
        said = f"{address} cannot be reached"
    elif isinstance(error, NetworkError):
        said = f"the connection with {address} broke off"
    return f"{said}: {causes[-1]}" if causes else said
