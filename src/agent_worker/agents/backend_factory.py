"""Makes the backend and the tools of an agent by its definition, once everything in it is approved.

Approvals hold for what lies in a project now; between two runs somebody may have changed it, so a backend that could do
harm is `Guarded`: it asks again before each run.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing
from dataclasses import field, replace
from functools import partial
from pathlib import Path

from agent_worker.agents.registry import AgentKit, LacksKey, Learner, MoreTools
from agent_worker.backends.backend import Backend, Outcome, StepSink, Turn
from agent_worker.backends.mock import CHARACTERS, MockModel
from agent_worker.backends.models.keys import KeyRing
from agent_worker.backends.models.model_api import Catalogue, ModelApi
from agent_worker.backends.models.providers import Approval, Endpoint, lacks_named
from agent_worker.backends.programs.program import Program, ProgramHost, owner_of
from agent_worker.backends.tool_loop import ToolLoop
from agent_worker.core.clock import Clock
from agent_worker.core.errors import AgentWorkerError, Permanent
from agent_worker.core.late_imports import soon
from agent_worker.core.later import dataclass
from agent_worker.core.redaction import Redactor, secrets_in
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.project_files import ProjectFiles
from agent_worker.definitions.workflow import WorkflowDefinition
from agent_worker.processes.environment import BASE
from agent_worker.tools.mcp_pool import McpPool
from agent_worker.tools.mcp_server import servers_of
from agent_worker.tools.program_functions import ProgramFunctions
from agent_worker.tools.toolbox import Approved, tools_of
from agent_worker.trust.allowances import allowances_of
from agent_worker.trust.gate import Gate
from agent_worker.trust.powers import powers_of_agent

#: Limits that a file raised and nobody has approved: whose and which, and the number that holds instead.
Held = Mapping[tuple[str, str], float]


@dataclass(slots=True)
class BackendFactory:
    """Makes backends and tools by definition, and keeps the mock models it made for whoever scripts them."""

    clock: Clock
    catalogue: Catalogue
    servers: McpPool
    gate: Gate
    program_host: ProgramHost
    keys: KeyRing
    functions: ProgramFunctions
    redact: Redactor = field(default_factory=Redactor)
    mocks: dict[str, MockModel] = field(default_factory=dict)

    def keep_secret(self, project: ProjectFiles) -> None:
        """Register the secrets that the agents of a project are given by name with the redactor, before any run."""
        keys = {agent.provider.key_variable or "" for agent in project.agents.values() if agent.provider}
        self.redact.register(secrets_in(self.keys.of(project.root), named=project.secret_variables | keys))

    def make_kit(
        self,
        definition: AgentDefinition,
        root: Path,
        cwd: Path,
        *,
        has_home: bool,
        who: str = "",
        printed: Collection[str] = (),
    ) -> AgentKit:
        """Make the backend and the tools of an agent. Blocks: it reads files and imports tools. Raises whatever is
        wrong with the definition.
        """
        # What an agent is given by name is a secret, whatever the name. Known before anybody can say it.
        self.redact.register(secrets_in(os.environ, named=set(definition.env) - set(printed) - BASE))
        powers = powers_of_agent(definition, root, who=who)
        self.gate.require(root, powers)
        again = partial(self._require_again, definition, root, who)
        sources = {power.name: power.content for power in powers if power.kind == "python"}
        approved = Approved(sources, partial(again, "skills"))
        functions = self.functions.tools(root, definition.name)
        tools = tools_of(definition, root, has_home=has_home, approved=approved, functions=functions)
        learner = self._learner(definition, root) if has_home else None
        backend = self._guarded(definition, root, cwd, who or definition.name, partial(again, "program", "settings"))
        more_tools = self._more_tools(definition, root, partial(again, "mcp"))
        return AgentKit(backend, tools, learner, self._model(definition, root), more_tools)

    def held_back(self, project: ProjectFiles, workflow: WorkflowDefinition | None) -> Held:
        """Limits that files raised and the user has not approved, with the numbers that hold instead."""
        allowances = tuple(allowances_of(project, workflow))
        self.gate.settle(project.root, allowances)
        return self.gate.held_back(project.root, allowances)

    def _require_again(self, definition: AgentDefinition, root: Path, who: str, *kinds: str) -> None:
        """Check the approvals of an agent once more: an agent may have changed what was approved."""
        if not self.gate.is_open:
            powers = powers_of_agent(definition, root, who=who)
            self.gate.require(root, [power for power in powers if power.kind in kinds])

    def _guarded(
        self, definition: AgentDefinition, root: Path, cwd: Path, who: str, check: Callable[[], None]
    ) -> Backend:
        """The backend of an agent, `Guarded` unless the agent runs no program and changes no file of the project
        itself.
        """
        backend = self._backend(definition, root, cwd, who)
        writes = definition.writes and cwd == root / definition.cwd
        if self.gate.is_open or not (writes or definition.is_program):
            return backend
        worked = partial(self.gate.worked, root, who) if writes else lambda: None
        return Guarded(backend, check if definition.is_program else lambda: None, worked)

    def _backend(self, definition: AgentDefinition, root: Path, cwd: Path, who: str) -> Backend:
        match definition.backend:
            case "mock" if definition.character:
                return ToolLoop(CHARACTERS[definition.character]())
            case "mock":
                model = MockModel(self.clock, definition.script)
                self.mocks[definition.name] = model
                return ToolLoop(model)
            case "sdk":
                return ToolLoop(self._model(definition, root))
            case name:
                from agent_worker.backends.programs.known import driven  # most processes drive no program

                return driven(name, self._program(definition, root, cwd, who))

    def _program(self, definition: AgentDefinition, root: Path, cwd: Path, who: str) -> Program:
        return Program(
            backend=definition.backend,
            owner=owner_of(definition.name, root, who),
            root=root,
            cwd=cwd,
            program_host=replace(self.program_host, environ=self.keys.of(root)),
            model=definition.model or "",
            command=definition.command or (),
            access=definition.access,
            silence=definition.timeout,
            # Our default is for models that we drive step by step; programs pace themselves.
            max_turns=definition.max_steps if "max_steps" in definition.model_fields_set else None,
            variables=definition.env,
            endpoint=self._endpoint(definition, root),
        )

    def to_try(self, backend: str, model: str, place: Path) -> Backend:
        """A backend that belongs to no agent, for a person who tries it out: that needs no approval."""
        definition = AgentDefinition.model_validate(
            {"name": "probe", "backend": backend, "model": model or None, "prompt": {"system": "."}, "access": "read"}
        )
        return self._backend(definition, place, place, "probe")

    def _more_tools(self, definition: AgentDefinition, root: Path, check: Callable[[], None]) -> MoreTools | None:
        servers = servers_of(definition, root, check)
        if servers:
            soon("agent_worker.tools.mcp_client")
        return partial(self.servers.tools, servers) if servers else None

    def _learner(self, definition: AgentDefinition, root: Path) -> Learner | None:
        """The model that draws memories from runs: the one the definition names, else a cheap one of the agent's own
        provider.
        """
        wanted, model = definition.auto_memory, self._model(definition, root)
        named = wanted.model if wanted else None
        if named:
            return Learner(model, partial(_as_named, named))
        own = definition.model if wanted and definition.backend == "sdk" else None
        return Learner(model, partial(model.cheapest, own)) if own else None

    def _model(self, definition: AgentDefinition, root: Path) -> ModelApi:
        return ModelApi(self.catalogue, self._endpoint(definition, root), self.keys.of(root))

    def lacks_key(self, definition: AgentDefinition, root: Path) -> LacksKey | None:
        """A function that tells whether work has to wait for a key; None where it never does."""
        if not self.keys.can_wait or definition.backend == "mock":
            return None
        if definition.backend == "sdk":
            return partial(self._model(definition, root).lacks_key, definition.model or "")
        from agent_worker.backends.programs.known import NEEDED

        provider, env = definition.provider, self.keys.of(root)
        needed = provider.key_variable if provider else NEEDED.get(definition.backend)
        return partial(lacks_named, needed, env) if needed else None

    def _endpoint(self, definition: AgentDefinition, root: Path) -> Endpoint:
        provider = definition.provider
        if provider is None:
            return Endpoint()
        url = provider.base_url or ""
        self.redact.register(secrets_in(self.keys.of(root), named=[(provider.api_key or "").strip("${}")]))
        # The gate has let it pass, so the user has seen this address, and which key goes there.
        allowed = None if self.gate.is_open else Approval.of(url)
        return Endpoint(definition.served_by, url, provider.api_key or "", allowed)


async def _as_named(model: str) -> str:
    return model


class Guarded:
    """A backend that asks `check` before it works, and tells `worked` before and after each step. Both calls block."""

    def __init__(self, backend: Backend, check: Callable[[], None], worked: Callable[[], None]) -> None:
        self._backend = backend
        self._check = check
        self._worked = worked

    async def work(self, turn: Turn, sink: StepSink) -> AsyncGenerator[Outcome]:
        try:
            await asyncio.to_thread(self._check)
        except AgentWorkerError as error:
            raise Permanent(error.message, hint=error.hint) from None
        await asyncio.to_thread(self._worked)
        try:
            async with aclosing(self._backend.work(turn, sink)) as outcomes:
                async for outcome in outcomes:
                    # Again: it may have been approved anew while it worked.
                    await asyncio.to_thread(self._worked)
                    yield outcome
        finally:
            self._worked()

    async def close(self) -> None:
        await self._backend.close()
