"""The model of the `sdk` backend: one answer of a model API, any provider, streamed.

Above it is the tool loop, which makes a backend of it; below are the routes (providers.py) and the model library.
The library takes seconds to import, so nothing of it is imported here: `warm` does it in a thread. Nothing is tried
twice: a failure is classified where it is born, and raised.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn
from agent_worker.backends.models.providers import (
    AS_NAMED,
    NOTHING_APPROVED,
    Approval,
    Endpoint,
    Route,
    is_anthropic,
    route,
)
from agent_worker.core.errors import Permanent
from agent_worker.core.late_imports import for_good, soon, taking_turns
from agent_worker.core.outbound import NOT_TOO_LONG, Patience

if TYPE_CHECKING:  # importing it takes seconds
    from agent_worker.backends.models.library import Built, ModelLibrary


_KEPT_OPEN = 8


class Catalogue:
    """Every model in use, built once for each name, address and key. One for all agents of the daemon."""

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        approval: Approval = NOTHING_APPROVED,
        patience: Patience = NOT_TOO_LONG,
    ) -> None:
        self._env = env  # looked into at every call: a key may be set or changed later
        self._approval = approval
        self._patience = patience
        self._built: dict[tuple[str, str, str], Built] = {}
        self._retired: deque[Built] = deque()
        self._added: dict[str, Built] = {}
        self._building = asyncio.Lock()
        self._library: ModelLibrary | None = None

    async def warm(self) -> ModelLibrary:
        """Import the model library without holding up the event loop; after that, just hand it out."""
        if self._library is None:
            loaded = await asyncio.to_thread(_load, self._patience)
            self._library = self._library or loaded  # several may have waited for it
        return self._library

    async def add(self, spec: str, model: Any) -> None:
        """Serve a model of the model library that was made elsewhere; it needs no provider and no key."""
        await self.warm()
        self._added[spec] = _made_elsewhere(model)

    def route(self, spec: str, endpoint: Endpoint) -> Route | None:
        """Where requests for a model go; None for one that was added. Raises Permanent, with what to change."""
        if spec in self._added:
            return None
        if not spec:
            raise Permanent("the agent names no model", hint="write model: provider/model")
        return route(spec, endpoint, env=self._env, approval=endpoint.approval or self._approval)

    async def find(self, spec: str, endpoint: Endpoint) -> Built:
        where = self.route(spec, endpoint)
        if where is None:
            return self._added[spec]
        name = (where.provider, where.model, where.base_url)
        async with self._building:
            built = self._built.get(name)
            if built is None or built.route != where:
                if built:
                    await self._retire(built)
                built = self._built[name] = await self._build(where)
        return built

    async def close(self) -> None:
        for built in (*self._built.values(), *self._retired):
            await built.close()
        self._built.clear()
        self._retired.clear()

    async def _retire(self, built: Built) -> None:
        """The key has changed. Requests under way may still use the old connection, so it is not closed at once."""
        self._retired.append(built)
        if len(self._retired) > _KEPT_OPEN:
            await self._retired.popleft().close()

    async def _build(self, where: Route) -> Built:
        library = await self.warm()
        return await asyncio.to_thread(library.build, where, self._env)


class ModelApi:
    """Answers for one agent, from the endpoint its definition names."""

    def __init__(self, catalogue: Catalogue, endpoint: Endpoint = AS_NAMED) -> None:
        self._catalogue = catalogue
        self._endpoint = endpoint

    async def warm(self) -> None:
        await self._catalogue.warm()

    def expect(self, model: str) -> None:
        """Begin to import what calls of this model need: it will be asked soon."""
        soon("agent_worker.backends.models.library")
        speaker = "anthropic_model" if is_anthropic(model, self._endpoint) else "openai_model"
        soon(f"agent_worker.backends.models.{speaker}")

    async def reply(self, turn: Turn, steps: Sequence[PastStep], sink: StepSink) -> Reply:
        built = await self._catalogue.find(turn.model, self._endpoint)
        library = await self._catalogue.warm()
        return await library.ask(built, turn, steps, sink)

    def credential(self, model: str) -> str:
        """Names the key without telling it: whoever shares it shares its rate limit."""
        where = self._catalogue.route(model, self._endpoint)
        if where is None:
            return model
        return f"{where.host}:{hashlib.sha256(where.key.encode()).hexdigest()[:12]}"


def _load(patience: Patience) -> ModelLibrary:
    with taking_turns:
        with for_good():
            from agent_worker.backends.models.library import ModelLibrary

        return ModelLibrary(patience)


def _made_elsewhere(model: Any) -> Built:
    with taking_turns:
        from agent_worker.backends.models.library import Built

    return Built(model)
