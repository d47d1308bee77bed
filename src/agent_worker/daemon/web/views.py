"""Every view of the page: operations that answer with HTML, one file per thing that is looked at."""

from __future__ import annotations

from agent_worker.daemon.web import (
    agents,
    approvals,
    audits,
    conversation,
    definitions,
    documents,
    exports,
    home,
    inbox,
    memory,
    projects,
    proposals,
    run_list,
    run_steps,
    runs,
    search,
    settings,
    side,
    starting,
    tokens,
    workspaces,
)
from agent_worker.service.operation import Operation, operations_in

_MODULES = (
    side,
    home,
    projects,
    starting,
    approvals,
    tokens,
    exports,
    workspaces,
    conversation,
    documents,
    proposals,
    agents,
    memory,
    audits,
    definitions,
    run_list,
    runs,
    run_steps,
    inbox,
    search,
    settings,
)
VIEWS: tuple[Operation, ...] = tuple(each for module in _MODULES for each in operations_in(module))
