"""All operations, by name: what the doors are made from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from agent_worker.service import (
    agent_files,
    agents,
    audit,
    backends,
    backups,
    cleanup,
    definition_files,
    demo,
    documents,
    events,
    inbox,
    limits,
    memory,
    messages,
    notifications,
    overview,
    projects,
    proposals,
    providers,
    remotes,
    revert,
    rounds,
    run,
    runs,
    schedules,
    search,
    settings,
    skills,
    soul,
    suggestions,
    tickets,
    tokens,
    trust,
    values,
    work,
    workflows,
)
from agent_worker.service.operation import Operation, operations_in

_MODULES = (
    projects,
    overview,
    agents,
    agent_files,
    definition_files,
    messages,
    search,
    workflows,
    run,
    runs,
    values,
    tickets,
    work,
    limits,
    documents,
    proposals,
    memory,
    rounds,
    soul,
    suggestions,
    audit,
    schedules,
    settings,
    inbox,
    notifications,
    providers,
    backends,
    trust,
    tokens,
    remotes,
    revert,
    skills,
    demo,
    backups,
    cleanup,
    events,
)

OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {each.name: each for module in _MODULES for each in operations_in(module)}
)
