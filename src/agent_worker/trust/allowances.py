"""Limits that the files of a project write, and which of them hold.

One at or below its default, or not above what held before, holds at once. A higher one holds when the user has
approved it; until then what held before does, or the default. `settled` is that rule, pure. How long a workflow may
run has no default that it could be raised above.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

from agent_worker.core.later import dataclass
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.project_files import ProjectFiles
from agent_worker.definitions.workflow import RefMember, WorkflowDefinition
from agent_worker.work.limits import WorkLimits

THE_PROJECT = "the project"
_UNITS = {"usd_per_day": "USD a day", "turns": "runs for one request", "usd": "USD for one request"}
_DEFAULT = WorkLimits()

Written = float | Literal["off"] | None


@dataclass(frozen=True, slots=True)
class Allowance:
    """One limit that one file sets."""

    of: str  #: the project, an agent, `alice@review` as a member, or a workflow
    name: str
    written: Written  #: None: the file says nothing
    default: float

    @property
    def value(self) -> float:
        """The number of the limit; infinite when it is lifted."""
        if self.written is None:
            return self.default
        return math.inf if self.written == "off" else self.written

    @property
    def is_raised(self) -> bool:
        return self.value > self.default

    def told(self, value: float) -> str:
        return f"any number of {_UNITS[self.name]}" if math.isinf(value) else f"{value:,g} {_UNITS[self.name]}"


def settled(allowance: Allowance, held: float | None) -> float:
    """What holds now. `held` is what held before; None when this file wrote no such limit before."""
    if allowance.value <= allowance.default or (held is not None and allowance.value <= held):
        return allowance.value
    return allowance.default if held is None else held


def allowances_of(project: ProjectFiles, workflow: WorkflowDefinition | None = None) -> Iterator[Allowance]:
    """The limits that the project, its agents and this workflow set; without a workflow, those of all its workflows."""
    yield of_project(project)
    for agent in project.agents.values():
        yield of_agent(agent)
    for each in project.workflows.values() if workflow is None else (workflow,):
        yield from of_workflow(each)


def of_project(project: ProjectFiles) -> Allowance:
    default = _DEFAULT.usd_per_project_day or math.inf
    return Allowance(THE_PROJECT, "usd_per_day", project.definition.limits.usd_per_day, default)


def of_agent(agent: AgentDefinition, who: str = "") -> Allowance:
    default = _DEFAULT.usd_per_agent_day or math.inf
    return Allowance(who or agent.name, "usd_per_day", agent.limits.usd_per_day, default)


def of_workflow(workflow: WorkflowDefinition) -> Iterator[Allowance]:
    limits = workflow.limits
    yield Allowance(workflow.name, "turns", limits.turns, _DEFAULT.runs_per_root or math.inf)
    yield Allowance(workflow.name, "usd", limits.usd, _DEFAULT.usd_per_root or math.inf)
    for name, member in workflow.agents.items():
        own = member.limits if isinstance(member, RefMember) else member.as_agent(name).limits
        if own is not None:
            written = own.usd_per_day
            yield Allowance(f"{name}@{workflow.name}", "usd_per_day", written, _DEFAULT.usd_per_agent_day or math.inf)
