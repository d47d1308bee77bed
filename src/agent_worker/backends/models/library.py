"""The model library behind two verbs: build a model for a route, ask it once.

The way into the heavy half of the model API (this, client.py, messages.py, failures.py), which model_api.py
imports in a thread. It calls the model itself and not the library's `direct` functions: those walk the whole history
three times for every request, in search of kinds of messages that we never make.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import httpx2
from pydantic_ai.messages import (
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
)
from pydantic_ai.models import Model, StreamedResponse

from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn
from agent_worker.backends.models.client import build_model
from agent_worker.backends.models.failures import failure
from agent_worker.backends.models.messages import MessageCache, parameters, read_reply, settings
from agent_worker.backends.models.providers import Route
from agent_worker.core.errors import AgentWorkerError, Permanent, Transient
from agent_worker.core.outbound import Patience
from agent_worker.core.wording import plural


@dataclass(frozen=True, slots=True)
class Built:
    """A model, ready to be asked. One that was made elsewhere has no route and no connection."""

    model: Model
    route: Route | None = None
    http: httpx2.AsyncClient | None = None

    async def close(self) -> None:
        if self.http:
            await self.http.aclose()


class ModelLibrary:
    """Talks to a model through the library. Holds no conversation, only the form in which past steps are sent."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._memory = MessageCache()
        self._certificates = httpx2.create_ssl_context()  # takes long to read, so all connections share it

    def build(self, route: Route, env: Mapping[str, str]) -> Built:
        model, http = build_model(route, self._patience, env=env, certificates=self._certificates)
        return Built(model, route, http)

    async def ask(self, built: Built, turn: Turn, steps: Sequence[PastStep], sink: StepSink) -> Reply:
        route = built.route
        try:
            async with asyncio.timeout(self._patience.total):
                response = await self._stream(built.model, turn, steps, sink)
            return read_reply(response, turn, steps)
        except AgentWorkerError:
            raise  # ours: already classified, or from the sink
        except TimeoutError:
            raise Transient(f"the provider's answer took longer than {self._patience.total:g} s") from None
        except Exception as error:  # this is the border to the vendors' libraries, which raise what they like
            raise failure(error, route) from error

    async def _stream(self, model: Model, turn: Turn, steps: Sequence[PastStep], sink: StepSink) -> ModelResponse:
        messages = self._memory.messages(turn, steps)
        async with model.request_stream(messages, settings(turn), parameters(turn)) as stream:
            await self._show(stream, sink)
        return stream.get()

    async def _show(self, stream: StreamedResponse, sink: StepSink) -> None:
        calls = 0
        async for event in stream:
            match event:
                case PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if text:
                    sink.say(text)
                case PartStartEvent(part=TextPart(content=text)) if text:
                    sink.say(text)
                case PartStartEvent(part=ToolCallPart()):
                    calls += 1
                    if calls > self._patience.calls:
                        await stream.cancel()
                        raise Permanent(f"the model made more than {plural(self._patience.calls, 'call')} at once")
                case _:
                    pass
