"""Models that are spoken to with OpenAI's library: chat completions of all sorts, and responses.

Imported by models/client.py, when one is wanted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import httpx2
from openai import AsyncOpenAI, OpenAI
from pydantic_ai.models import Model
from pydantic_ai.models.ollama import OllamaModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.models.openrouter import OpenRouterModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from agent_worker.backends.models.providers import Route

#: Known to the model library with their peculiarities; the others are spoken to as plain chat completions.
_KNOWN = frozenset(("openai", "openai-chat", "openrouter", "deepseek", "moonshotai", "together", "fireworks", "ollama"))
_CHAT_MODELS: Mapping[str, type[OpenAIChatModel]] = {"openrouter": OpenRouterModel, "ollama": OllamaModel}


def openai_model(route: Route, key: str, http: httpx2.AsyncClient) -> Model:
    client = AsyncOpenAI(api_key=key, base_url=route.base_url, http_client=http, max_retries=0)
    _send_as_made(client.chat.completions, "messages", "tools")
    _send_as_made(client.responses, "input", "tools")
    provider = _provider(route, client)
    if route.speaks == "responses":
        _rehearse_responses()
        return OpenAIResponsesModel(route.model, provider=provider)
    # Without the flag a stream that ends early is taken for a whole answer.
    profile = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
    model = _CHAT_MODELS.get(route.provider, OpenAIChatModel)
    return model(route.model, provider=provider, profile=profile)


def _send_as_made(resource: Any, *names: str) -> None:
    """Let these arguments pass by the library's search for keys to rename, by the way it has for extra fields.

    The search goes through the whole conversation and all tools again at every step, which is most of what a step
    costs, and finds nothing: the model library makes them as they are sent.
    """
    create = resource.create

    async def create_as_made(*, extra_body: Mapping[str, Any] | None = None, **arguments: Any) -> Any:
        made = {name: arguments[name] for name in names if isinstance(arguments.get(name), list)}
        return await create(**arguments | dict.fromkeys(made, ()), extra_body={**made, **(extra_body or {})})

    resource.create = create_as_made


@cache
def _rehearse_responses() -> None:
    """The library builds the types of its events, most of a second of work, when the first of them arrives.

    Let it arrive here, in the thread that builds, and not on the event loop.
    """
    event = {"type": "response.created", "sequence_number": 0, "response": {"id": "", "output": [], "tools": []}}
    said = f"event: response.created\ndata: {json.dumps(event)}\n\n".encode()
    heads = {"content-type": "text/event-stream"}
    stage = httpx2.MockTransport(lambda request: httpx2.Response(200, headers=heads, content=said))
    with OpenAI(api_key="none", base_url="http://stage", http_client=httpx2.Client(transport=stage)) as client:
        for _ in client.responses.create(model="", input="", stream=True):
            pass


def _provider(route: Route, client: AsyncOpenAI) -> Provider[AsyncOpenAI]:
    if route.provider in _KNOWN:
        return infer_provider_class(route.provider)(openai_client=client)  # type: ignore[call-arg]
    return OpenAICompatibleProvider(route.provider, openai_client=client)
