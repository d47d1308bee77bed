"""On what terms an agent works: its limits, who judges small questions for it, and the key it asks a model with."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from agent_worker.agents.backend_factory import Held
from agent_worker.agents.registry import AgentRuntime, JudgeTerms
from agent_worker.core.later import pattern
from agent_worker.core.provider_variables import KEYS
from agent_worker.definitions.agent import AgentDefinition, split_model
from agent_worker.definitions.guard import GuardModel
from agent_worker.definitions.project_files import ProjectFiles
from agent_worker.definitions.workflow import WorkflowDefinition
from agent_worker.trust.allowances import Allowance, of_agent, of_project, of_workflow
from agent_worker.work.limits import WorkLimits

_VARIABLE = pattern(r"\$\{?(\w+)\}?")  # that holds the key of a provider


def limits_of(
    agent: AgentDefinition,
    project: ProjectFiles,
    workflow: WorkflowDefinition | None = None,
    held: Held = MappingProxyType({}),
) -> WorkLimits:
    """The defaults, with what the three files say on top, where that is not held back."""
    limits = replace(
        WorkLimits(),
        usd_per_agent_day=holds(of_agent(agent), held),
        usd_per_project_day=holds(of_project(project), held),
    )
    if workflow is None:
        return limits
    found = {(each.of, each.name): holds(each, held) for each in of_workflow(workflow)}
    turns = found[workflow.name, "turns"]
    return replace(
        limits,
        runs_per_root=None if turns is None else int(turns),
        usd_per_root=found[workflow.name, "usd"],
        usd_per_agent_day=found.get((f"{agent.name}@{workflow.name}", "usd_per_day"), limits.usd_per_agent_day),
    )


def holds(allowance: Allowance, held: Held) -> float | None:
    """The number that holds for this limit; None when the limit is off."""
    value = held.get((allowance.of, allowance.name), allowance.value)
    return None if math.isinf(value) else value


def judge_of(worker: AgentRuntime, guard: GuardModel) -> JudgeTerms:
    if not guard.llm_curation or not guard.model:
        return JudgeTerms()
    credential = credential_of(worker.definition, guard.model, worker.root)
    return JudgeTerms(guard.model, credential, guard.budget, guard.rounds_budget)


def credential_of(definition: AgentDefinition, model: str | None, root: Path | None) -> str:
    """The name of the key with which an agent asks a model, together with the project it is from. '': the agent asks
    none.
    """
    if not model:
        return ""
    provider, name = definition.provider, split_model(model)[0] or ""
    if provider is not None:
        name = f"{definition.served_by}|{provider.base_url or ''}|{provider.api_key or ''}"
    return f"{root or ''}\0{name}" if name else ""


def shared_key(credential: str, environment: Callable[[Path | None], Mapping[str, str]]) -> str:
    """The name of a key's gate on all hosts: the same where the key is the same, and without giving the key away.

    Whoever shares a key shares its rate limit, from whatever project; `environment` has the keys of each.
    """
    root, name, variables = _taken_apart(credential)
    env = environment(root)
    said = "\0".join((name, *(env.get(variable, "") for variable in variables)))
    return hashlib.sha256(said.encode(errors="replace")).hexdigest()


@lru_cache(256)  # asked for with each request
def _taken_apart(credential: str) -> tuple[Path | None, str, tuple[str, ...]]:
    """The project that a credential is from, its name, and the variables that may hold the key."""
    root, _, name = credential.rpartition("\0")
    provider, _, rest = name.partition("|")
    return Path(root) if root else None, name, (*KEYS.get(provider, ()), *_VARIABLE.findall(rest))
