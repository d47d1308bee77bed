"""The same way out as the model client's, for requests that end with whoever waits for them: at any moment.

The library of that one goes on waiting for the first byte of an answer when its caller is cancelled. This one closes
the connection, and takes more time for each piece of an answer, which matters little where pieces are only passed on.
Imports its library when the first request is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agent_worker.backends.models.model_client import (
    ModelAddress,
    ModelAnswer,
    ModelClient,
    addresses_of,
    in_pieces,
    refuse_detours,
)
from agent_worker.core.errors import Permanent, Transient
from agent_worker.core.outbound import Patience, Resolve, proxy_for, resolve
from agent_worker.core.text import plural

if TYPE_CHECKING:
    from httpx2 import AsyncHTTPTransport, Response

_KEPT_WIRES = 8


class AbortableClient:
    """Connections to all providers, each kept open for the next request."""

    def __init__(self, env: Mapping[str, str], patience: Patience, *, resolve: Resolve = resolve) -> None:
        self._env = env
        self._patience = patience
        self._resolve = resolve
        self._wires: dict[str, AsyncHTTPTransport] = {}  # by proxy
        self._by_socks = ModelClient(env, patience, resolve=resolve)  # which this library speaks only with another
        self._building = asyncio.Lock()

    @asynccontextmanager
    async def post(
        self, target: ModelAddress, path: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[AbortableAnswer | ModelAnswer]:
        """Send a request; whoever leaves before its end, also before it is answered, closes the connection."""
        proxy = proxy_for(target.base_url, self._env) or ""
        if proxy.startswith("socks"):
            async with self._by_socks.post(target, path, headers, body) as answer:
                yield answer
            return
        addresses = [] if proxy else await addresses_of(target, self._resolve)  # a proxy resolves names by itself
        wire = await self._wire(proxy)
        import httpx2  # after the wire, which loads it in a thread

        sent = {"user-agent": "agent-worker", "accept": "*/*", **headers}
        sent |= {"content-type": "application/json", "accept-encoding": "identity"}
        url, extensions = httpx2.URL(target.base_url + path), {"timeout": self._timeout()}
        request = httpx2.Request("POST", url, headers=sent, content=body, extensions=extensions)
        if addresses:  # certificate and Host stay those of the name
            request.url = url.copy_with(host=addresses[0])
            request.extensions = {**extensions, "sni_hostname": url.host}
        netloc = urlsplit(target.base_url).netloc
        try:
            response = await wire.handle_async_request(request)
            try:
                refuse_detours(response.status_code, response.headers.get)
                yield AbortableAnswer(response, self._patience)
            finally:
                await response.aclose()
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
            raise Transient(f"{netloc} cannot be reached: {_innermost(error)}") from None
        except httpx2.TransportError as error:
            raise Transient(f"the connection with {netloc} broke off: {_innermost(error)}") from None

    async def close(self) -> None:
        wires, self._wires = self._wires, {}
        for wire in wires.values():
            await wire.aclose()
        await self._by_socks.close()

    async def _wire(self, proxy: str) -> AsyncHTTPTransport:
        async with self._building:
            if proxy not in self._wires:
                self._wires[proxy] = await asyncio.to_thread(_build, proxy)
            return self._wires[proxy]

    def _timeout(self) -> dict[str, float]:
        connect, silence = self._patience.connect, self._patience.silence
        return {"connect": connect, "read": silence, "write": silence, "pool": connect}


class AbortableAnswer:
    """The answer to one request, read piece by piece."""

    def __init__(self, response: Response, patience: Patience) -> None:
        self._response = response
        self._patience = patience
        self.status = response.status_code

    def header(self, name: str) -> str:
        return str(self._response.headers.get(name, ""))

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [(name.lower(), value) for name, value in self._response.headers.raw]

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body, of which no more is taken than we have patience for. Raises Permanent beyond that."""
        seen = 0
        async for chunk in self._response.aiter_raw():
            seen += len(chunk)
            if seen > self._patience.body:
                raise Permanent(f"the provider's answer is larger than {plural(self._patience.body, 'byte')}")
            async for piece in in_pieces(chunk):
                yield piece


def _build(proxy: str) -> AsyncHTTPTransport:
    """Blocks: it imports the library and reads the certificates of the system, or those of SSL_CERT_FILE."""
    import httpx2

    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=_KEPT_WIRES)
    return httpx2.AsyncHTTPTransport(verify=httpx2.create_ssl_context(), proxy=proxy or None, limits=limits)


def _innermost(error: BaseException) -> str:
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return str(error) or type(error).__name__
