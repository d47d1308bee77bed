"""Models that are spoken to with Anthropic's library. Imported by models/client.py, when one is wanted."""

from __future__ import annotations

import httpx2
from anthropic import AsyncAnthropic
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from agent_worker.backends.models.providers import Route


def anthropic_model(route: Route, key: str, http: httpx2.AsyncClient) -> Model:
    client = AsyncAnthropic(api_key=key, base_url=route.base_url, http_client=http, max_retries=0)
    return AnthropicModel(route.model, provider=AnthropicProvider(anthropic_client=client))
