"""Builds a model of the model library for a route: its client, with the connection guarded.

Imports the model library (a second of CPU), and that of a vendor when the first of its models is built, so it is
itself only imported in a thread, by model_api.py. The libraries retry and follow redirects by themselves; here they do
neither, because the loop decides about tries and a key must not travel.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace

import httpx2
from pydantic_ai.models import Model, ModelRequestParameters

from agent_worker.backends.models.providers import Route
from agent_worker.core.errors import BadInput, Permanent
from agent_worker.core.late_imports import for_good, taking_turns
from agent_worker.core.outbound import Patience, Resolve, checked_addresses, host_of, literal, proxy_for, resolve
from agent_worker.core.wording import plural
from agent_worker.tools.pinned_request import pinned

#: The libraries insist on a key; this stands for "none", and the transport takes it off again.
_NO_KEY = "none"


def build_model(
    route: Route, patience: Patience, *, env: Mapping[str, str], certificates: ssl.SSLContext
) -> tuple[Model, httpx2.AsyncClient]:
    """The model, and the client to close when it is no longer used."""
    http = _http_client(route, patience, env, certificates)
    model = _maker(route)(route, route.key or _NO_KEY, http)
    _fit_tools_once(model)
    return model, http


def _maker(route: Route) -> Callable[[Route, str, httpx2.AsyncClient], Model]:
    """Imports the library of one vendor: each takes seconds, and tens of megabytes."""
    with taking_turns, for_good():
        if route.speaks == "anthropic":
            from agent_worker.backends.models.anthropic_model import anthropic_model

            return anthropic_model
        from agent_worker.backends.models.openai_model import openai_model

        return openai_model


_TOOLSETS = 256


def _fit_tools_once(model: Model) -> None:
    """The library fits the schemas of all tools to the provider at every step; the tools of an agent stay the same."""
    fit = model.customize_request_parameters
    fitted: dict[tuple[object, ...], tuple[ModelRequestParameters, ModelRequestParameters]] = {}

    def fit_once(asked: ModelRequestParameters) -> ModelRequestParameters:
        key = tuple((tool.name, tool.description, id(tool.parameters_json_schema)) for tool in asked.function_tools)
        if key not in fitted:
            while len(fitted) >= _TOOLSETS:
                del fitted[next(iter(fitted))]
            fitted[key] = asked, fit(asked)  # the first keeps the schemas, so that no other gets their id
        return replace(asked, function_tools=fitted[key][1].function_tools)

    model.customize_request_parameters = fit_once  # type: ignore[method-assign, assignment]


def _http_client(
    route: Route, patience: Patience, env: Mapping[str, str], certificates: ssl.SSLContext
) -> httpx2.AsyncClient:
    proxy = proxy_for(route.base_url, env)
    limits = httpx2.Limits(max_connections=100, max_keepalive_connections=20)
    wire = httpx2.AsyncHTTPTransport(verify=certificates, limits=limits, proxy=proxy)
    guarded = GuardedTransport(wire, route, body=patience.body, pinned=proxy is None)
    timeout = httpx2.Timeout(patience.silence, connect=patience.connect)
    return httpx2.AsyncClient(transport=guarded, timeout=timeout, follow_redirects=False)


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends what we mean to send to where we mean to send it, and takes back a bounded, uncompressed answer."""

    def __init__(
        self,
        wire: httpx2.AsyncBaseTransport,
        route: Route,
        *,
        body: int,
        pinned: bool = True,
        resolve: Resolve = resolve,
    ) -> None:
        self._wire = wire
        self._route = route
        self._host = httpx2.URL(route.base_url).host
        self._body = body
        #: A proxy resolves names by itself, so nothing can be pinned behind one.
        self._pinned = pinned and route.foreign and not route.local and not literal(route.host)
        self._resolve = resolve

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.host != self._host:
            raise Permanent(f"a request for {self._host} was about to go to {request.url.host}")
        self._keep_secrets(request)
        request.headers["accept-encoding"] = "identity"  # an answer that unpacks to gigabytes cannot be sent
        if self._pinned:
            request = await self._to_checked_address(request)
        response = await self._wire.handle_async_request(request)
        if problem := _problem(response):
            await response.aclose()
            raise problem
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_Bounded(response.stream, self._body),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._wire.aclose()

    def _keep_secrets(self, request: httpx2.Request) -> None:
        """The libraries add headers from the environment; only their own vendor may see those."""
        key = self._route.key
        if self._route.foreign or self._route.provider not in _VENDORS:
            kept = [(n, v) for n, v in request.headers.multi_items() if n.lower() in _PLAIN_HEADERS]
            request.headers = httpx2.Headers(kept)
            if key:
                request.headers["authorization"] = f"Bearer {key}"

    async def _to_checked_address(self, request: httpx2.Request) -> httpx2.Request:
        host = request.url.host
        try:
            addresses = await checked_addresses(host, request.url.port or 443, resolve=self._resolve)
        except BadInput as error:
            raise Permanent(error.message, hint=error.hint) from None
        except OSError as error:
            raise httpx2.ConnectError(f"{host}: {error}", request=request) from error
        return pinned(request, addresses[0])


_VENDORS = frozenset({"anthropic", "openai", "openai-chat"})
_PLAIN_HEADERS = frozenset(
    {"host", "accept", "connection", "content-type", "content-length", "transfer-encoding", "user-agent"}
    | {"anthropic-version", "anthropic-beta"}
)


def _problem(response: httpx2.Response) -> Permanent | None:
    if 300 <= response.status_code < 400:
        target = host_of(response.headers.get("location", "")) or "another address"
        return Permanent(
            f"the provider redirects to {target}, which is not followed", hint="set base_url to where it answers"
        )
    if response.headers.get("content-encoding", "identity") != "identity":
        return Permanent("the provider sent a compressed answer though it was asked not to")
    return None


_AT_ONCE = 8192


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream = stream
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        async for chunk in self._stream:
            seen += len(chunk)
            if seen > self._limit:
                raise Permanent(f"the provider's answer is larger than {plural(self._limit, 'byte')}")
            for start in range(0, len(chunk), _AT_ONCE):
                if start:
                    await asyncio.sleep(0)  # hundreds of events may be in it; others want to work too
                yield chunk[start : start + _AT_ONCE]

    async def aclose(self) -> None:
        await self._stream.aclose()
