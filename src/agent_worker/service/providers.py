"""Providers of models: which can be used, and whether their keys are good."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Literal

from agent_worker.backends.backend import LoneSink
from agent_worker.backends.models.model_api import ModelApi
from agent_worker.backends.models.providers import (
    PROVIDERS,
    Endpoint,
    Provider,
    ProviderStatus,
    configured_providers,
    parse_model,
    status_of,
)
from agent_worker.core.errors import BackendFailure, NotFound
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.service.trials import Trial


@dataclass(frozen=True, slots=True)
class ProviderTest:
    """What came of one tiny request."""

    name: str
    state: Literal["ok", "failed", "not tried"]
    model: str  #: that was asked; '' when none was
    reason: str = ""  #: why it failed, or was not tried
    hint: str = ""  #: what would help
    tokens: int = 0
    usd: float = 0.0  #: counted in what the project spends today
    estimated: bool = False  #: the price is not known, or how many tokens it were


@operation("GET", "/providers")
async def providers(service: Service) -> list[ProviderStatus]:
    """Which model providers can be used, by the keys in the daemon's environment. No key is shown."""
    return configured_providers(os.environ)


@operation("POST", "/providers/{name}/test")
async def provider_test(service: Service, name: str, model: str = "", project: str | None = None) -> ProviderTest:
    """Prove the key of a provider with one tiny request, to a cheap model unless one is named.

    It costs very little, which counts in what the project spends today.
    """
    provider = PROVIDERS.get(name)
    if provider is None:
        raise NotFound(f"there is no provider {name}", hint="agent-worker providers")
    model = parse_model(model, name)[1] if model else provider.cheap
    if untried := _why_not(provider, model):
        return untried
    trial = Trial(service, await service.project(project), f"{name}/{model}")
    api = ModelApi(service.runtime.backends.catalogue, Endpoint(name))
    found = ProviderTest(name, "ok", model)
    try:
        trial.charge(await api.try_out(model, LoneSink(trial.charge)))
    except BackendFailure as failure:
        found = ProviderTest(name, "failed", model, failure.message, failure.hint)
    await trial.charged()
    return replace(found, tokens=trial.tokens, usd=trial.usd, estimated=trial.estimated)


def _why_not(provider: Provider, model: str) -> ProviderTest | None:
    """Nothing is sent without a key, or to a machine of the user's that nobody has named."""
    status = status_of(provider, os.environ)
    if not status.configured:
        what = "there is no address" if provider.keyless else "there is no key"
        hint = f"export {status.variable}=… where the daemon is started"
        return ProviderTest(provider.name, "not tried", "", what, hint)
    if not model:
        return ProviderTest(provider.name, "not tried", "", "nobody knows which models it has", "name one: -m MODEL")
    return None
