"""All operations, by name: what the doors are made from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from agent_worker.service import (
    agents,
    attention,
    auditing,
    backends,
    demo,
    documents,
    keeping,
    limits,
    messages,
    personal,
    projects,
    proposals,
    remotes,
    reverting,
    running,
    runs,
    schedules,
    skills,
    tidying,
    trust,
    watching,
    workflows,
)
from agent_worker.service.operation import Operation, operations_in

_MODULES = (
    projects,
    agents,
    messages,
    workflows,
    running,
    runs,
    limits,
    documents,
    proposals,
    personal,
    auditing,
    schedules,
    attention,
    backends,
    trust,
    remotes,
    reverting,
    skills,
    demo,
    keeping,
    tidying,
    watching,
)

OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {each.name: each for module in _MODULES for each in operations_in(module)}
)
