"""Providers of models: which can be used, their keys, and whether those are good. No key is ever shown."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Literal

from agent_worker.agents.loader import LoadedProject
from agent_worker.backends.backend import LoneSink
from agent_worker.backends.models.keys import KeyFound
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
from agent_worker.core.later import dataclass
from agent_worker.core.provider_variables import KEYS, can_use, owner_of
from agent_worker.database.database import Transaction
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.service.trials import Trial
from agent_worker.work import inbox


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
    """Which model providers can be used, by the keys that the daemon has. No key is shown."""
    return configured_providers(service.runtime.backends.keys.of())


@operation("POST", "/providers/{name}/test")
async def provider_test(service: Service, name: str, model: str = "", project: str | None = None) -> ProviderTest:
    """Check a provider's key with one tiny request, to a cheap model unless you name one.

    It costs very little, which counts in what the project spends today.
    """
    provider = PROVIDERS.get(name)
    if provider is None:
        raise NotFound(f"there is no provider {name}", hint="agent-worker providers")
    model = parse_model(model, name)[1] if model else provider.cheap
    backends = service.runtime.backends
    if untried := _why_not(provider, model, backends.keys.of()):
        return untried
    trial = Trial(service, await service.project(project), f"{name}/{model}")
    api = ModelApi(backends.catalogue, Endpoint(name), backends.keys.of())
    found = ProviderTest(name, "ok", model)
    try:
        trial.charge(await api.try_out(model, LoneSink(trial.charge)))
    except BackendFailure as failure:
        found = ProviderTest(name, "failed", model, failure.message, failure.hint)
    await trial.charged()
    return replace(found, tokens=trial.tokens, usd=trial.usd, estimated=trial.estimated)


def _why_not(provider: Provider, model: str, env: Mapping[str, str]) -> ProviderTest | None:
    """Why a provider cannot be tried; None when it can. Nothing is sent without a key."""
    status = status_of(provider, env)
    if not status.configured and not provider.keyless:
        hint = f"agent-worker key set {owner_of(status.variable)}"
        return ProviderTest(provider.name, "not tried", "", "there is no key", hint)
    if not model:
        return ProviderTest(provider.name, "not tried", "", "its models are unknown", "name one: -m MODEL")
    return None


# --- their keys ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeyStored:
    variable: str
    provider: str  #: '' for a key of nobody we know
    working: int = 0  #: agents that waited for it and go on


@operation("GET", "/keys")
async def keys_list(service: Service, project: str | None = None) -> list[KeyFound]:
    """The keys that agents of a project can use, and where each comes from. No key is shown."""
    root = (await service.project(project)).project.root if project else None
    return service.runtime.backends.keys.listing(root)


@operation("POST", "/keys")
async def key_set(service: Service, name: str, value: str) -> KeyStored:
    """Store a key in the daemon's home, named by its provider or by a variable. Work that waited for it continues."""
    waited = [agent for agent, wait in service.runtime.supervisor.waits.here().items() if wait.what == "key"]
    variable = await asyncio.to_thread(service.runtime.backends.keys.set, name, value)
    await keys_changed(service)
    working = [agent for agent in waited if not service.runtime.registry.lacks_key(agent)]
    return KeyStored(variable, owner_of(variable), len(working))


@operation("DELETE", "/keys/{name}")
async def key_remove(service: Service, name: str) -> KeyStored:
    """Forget a stored key. One of the same name in the environment applies again."""
    variable = await asyncio.to_thread(service.runtime.backends.keys.remove, name)
    return KeyStored(variable, owner_of(variable))


async def bring(service: Service, given: Mapping[str, str]) -> None:
    """Use keys that a client has in its environment and that are missing here; they are forgotten
    when the daemon ends.
    """
    if service.runtime.backends.keys.bring(given):
        await keys_changed(service)


async def keys_changed(service: Service) -> None:
    """What waited for a key that is there now goes on, and nobody is asked for it any more."""
    for loaded in service.projects():
        await settle(service, loaded)
    await service.runtime.supervisor.wake_all()


async def settle(service: Service, loaded: LoadedProject) -> None:
    """Close what asks the person for keys that this project has by now."""
    env = service.runtime.backends.keys.of(loaded.project.root)
    asked = await service.read(loaded, inbox.asked_for_keys)
    there = [name for name in asked if (can_use(name, env) if name in KEYS else env.get(name))]
    if there:
        await service.write(loaded, _close, there)


def _close(tx: Transaction, subjects: Collection[str]) -> None:
    for subject in subjects:
        inbox.close_about(tx, "key", subject)
