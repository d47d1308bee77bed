"""The model of the `sdk` backend: one answer of a model API, any provider, streamed.

Above it is the tool loop, which makes a backend of it; below are the routes (providers.py), the three protocols, and
the one client through which requests leave. Nothing is tried twice: a failure is classified where it is born.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent_worker.backends.backend import Model, PastStep, Reply, StepSink, Turn, Usage
from agent_worker.backends.models.anthropic_messages import AnthropicMessages
from agent_worker.backends.models.chat_completions import ChatCompletions
from agent_worker.backends.models.event_stream import EventReader
from agent_worker.backends.models.failures import refused, told
from agent_worker.backends.models.model_client import ModelAddress, ModelAnswer, ModelClient
from agent_worker.backends.models.prices import FREE, Price, PriceList
from agent_worker.backends.models.protocol import Fragments, Heard, Listener, ModelProtocol, ToldError
from agent_worker.backends.models.providers import (
    AS_NAMED,
    NOTHING_APPROVED,
    PROVIDERS,
    Approval,
    Endpoint,
    Route,
    route,
)
from agent_worker.backends.models.reply import check_ended, reply_of, usage_of
from agent_worker.backends.models.responses import Responses
from agent_worker.core.errors import NoKey, Permanent, Transient
from agent_worker.core.outbound import NOT_TOO_LONG, Patience, host_of
from agent_worker.core.text import plural

PROTOCOLS: dict[str, ModelProtocol] = {
    "anthropic": AnthropicMessages(),
    "chat": ChatCompletions(),
    "responses": Responses(),
}
_END = b"[DONE]"  #: what some send behind the last event
_TRIAL = 60.0  # seconds for a request that only proves a key


class Catalogue:
    """What all agents of the daemon share when they call models: connections, prices, and JSON that is sent again."""

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        approval: Approval = NOTHING_APPROVED,
        patience: Patience = NOT_TOO_LONG,
        prices: PriceList | None = None,
    ) -> None:
        self.env = env  #: looked into at every call: a key may be set or changed later
        self._approval = approval
        self._added: dict[str, Model] = {}
        self._kept: dict[str, Fragments] = {}
        self.patience = patience
        self.prices = prices or PriceList()
        self.client = ModelClient(env, patience)

    def add(self, spec: str, model: Model) -> None:
        """Serve a model that was made elsewhere; it needs no provider and no key."""
        self._added[spec] = model

    def added(self, spec: str) -> Model | None:
        return self._added.get(spec)

    def route(self, spec: str, endpoint: Endpoint, env: Mapping[str, str]) -> Route:
        """Where requests for a model go, with a key from `env`. Raises Permanent, with what to change."""
        if not spec:
            raise Permanent("the agent names no model", hint="write model: provider/model")
        return route(spec, endpoint, env=env, approval=endpoint.approval or self._approval)

    def expect_price(self, where: Route) -> None:
        if not where.free:
            self.prices.expect(where.provider, where.model)

    def known_price(self, where: Route) -> Price | None:
        """The price, if it was looked up already."""
        return FREE if where.free else self.prices.known(where.provider, where.model)

    async def price(self, where: Route) -> Price | None:
        """The price of a model; None when nobody knows it."""
        return FREE if where.free else await self.prices.of(where.provider, where.model)

    def kept(self, protocol: str) -> Fragments:
        return self._kept.setdefault(protocol, Fragments())

    async def close(self) -> None:
        await self.prices.close()
        await self.client.close()


class ModelApi:
    """Answers for one agent, from the endpoint its definition names."""

    def __init__(
        self, catalogue: Catalogue, endpoint: Endpoint = AS_NAMED, env: Mapping[str, str] | None = None
    ) -> None:
        """`env` holds the keys of its project; without it, those of the catalogue's environment are used."""
        self._catalogue = catalogue
        self._endpoint = endpoint
        self._env = catalogue.env if env is None else env

    async def reply(self, turn: Turn, steps: Sequence[PastStep], sink: StepSink) -> Reply:
        if added := self._catalogue.added(turn.model):
            return await added.reply(turn, steps, sink)
        where = self._route(turn.model)
        self._catalogue.expect_price(where)
        listener = PROTOCOLS[where.speaks].listen(where)
        heard = listener.heard
        try:
            await self._in_time(self._listen(turn, steps, where, listener, sink))
            reply = reply_of(heard, PROTOCOLS[where.speaks])
            price = await self._catalogue.price(where)
        except BaseException:  # cancelled, too: what was used is paid for
            if heard.has_begun:
                price = self._catalogue.known_price(where)
                sink.spent(usage_of(heard, turn, steps, price))
            raise
        return replace(reply, usage=usage_of(heard, turn, steps, price))

    async def try_out(self, model: str, sink: StepSink) -> Usage:
        """Ask for as few words as the provider allows, and return what that used. Raises as `reply` does.

        It is enough that it answers, whatever it says: one that thinks first may come to no word at all. The sink is
        told what an answer has used that came to nothing.
        """
        where = self._route(model)
        turn = Turn(run="", system="", prompt="Hello.", model=model, max_tokens=where.quirks.fewest_tokens)
        self._catalogue.expect_price(where)
        listener = PROTOCOLS[where.speaks].listen(where)
        heard = listener.heard
        try:
            await self._in_time(self._listen(turn, (), where, listener, sink), at_most=_TRIAL)
            check_ended(heard)
            price = await self._catalogue.price(where)
        except BaseException:  # as in `reply`
            if heard.has_begun:
                sink.spent(usage_of(heard, turn, (), self._catalogue.known_price(where)))
            raise
        return usage_of(heard, turn, (), price)

    async def cheapest(self, model: str) -> str:
        """The model of the same provider that costs least, for small tasks; this one where no price is known.

        Raises as `reply` does where this one cannot be asked.
        """
        if self._catalogue.added(model):
            return model
        where = self._route(model)
        known = PROVIDERS.get(where.provider)
        if known is None or not known.cheap or host_of(where.base_url) != host_of(known.base_url):
            return model  # what is served elsewhere under this name, nobody knows
        cheap = f"{known.name}/{known.cheap}"
        less, own = await self._catalogue.price(self._route(cheap)), await self._catalogue.price(where)
        return cheap if less and (own is None or less.written.base < own.written.base) else model

    def credential(self, model: str) -> str:
        """Names the key without telling it: whoever shares it shares its rate limit."""
        if self._catalogue.added(model):
            return model
        where = self._route(model)
        return f"{where.host}:{hashlib.sha256(where.key.encode()).hexdigest()[:12]}"

    def lacks_key(self, model: str) -> NoKey | None:
        """The key without which this model cannot be asked now. What else is wrong is told when it is asked."""
        try:
            if not self._catalogue.added(model):
                self._route(model)
        except NoKey as error:
            return error
        except Permanent:
            pass
        return None

    def _route(self, model: str) -> Route:
        return self._catalogue.route(model, self._endpoint, self._env)

    async def _in_time(self, listening: Awaitable[None], *, at_most: float = math.inf) -> None:
        patience = min(self._catalogue.patience.total, at_most)
        try:
            async with asyncio.timeout(patience):
                await listening
        except TimeoutError:
            raise Transient(f"the provider's answer took longer than {patience:g} s") from None

    async def _listen(
        self, turn: Turn, steps: Sequence[PastStep], where: Route, listener: Listener, sink: StepSink
    ) -> None:
        protocol = PROTOCOLS[where.speaks]
        body = protocol.body(turn, steps, where, self._catalogue.kept(where.speaks))
        address = ModelAddress(where.base_url, is_checked=where.foreign and not where.local)
        headers = {**protocol.headers(where), **where.headers}
        async with self._catalogue.client.post(address, protocol.path, headers, body) as answer:
            if answer.status >= 400 or not await answer.is_events():
                raise await refused(answer, where)
            try:
                await self._hear(answer, listener, sink)
            except ToldError as error:
                raise told(error.error, where) from None

    async def _hear(self, answer: ModelAnswer, listener: Listener, sink: StepSink) -> None:
        """Raises nothing for what becomes of the connection once all was said."""
        from agent_worker.backends.models.http_connection import ConnectionBroken

        stream, heard = EventReader(), listener.heard
        try:
            while chunk := await answer.chunk():
                for data in stream.feed(chunk):
                    if data == _END:
                        heard.is_over = True
                    elif text := listener.hear(_event(data)):
                        sink.say(text)
                    self._limit_calls(heard)
                if heard.is_over:
                    return await answer.leave()
        except ConnectionBroken:
            if heard.stop is None:
                raise

    def _limit_calls(self, heard: Heard) -> None:
        most = self._catalogue.patience.calls
        if len(heard.parts) > most and len(heard.calls) > most:
            raise Permanent(f"the model made more than {plural(most, 'call')} at once")


def _event(data: bytes) -> dict[str, Any]:
    try:
        event = json.loads(data.decode())  # of bytes it would first look at how they are encoded
    except (ValueError, RecursionError):
        raise Transient("the provider's answer is not JSON") from None
    return event if isinstance(event, dict) else {}
