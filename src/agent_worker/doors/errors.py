"""Which status of HTTP an error of ours has, at every door."""

from __future__ import annotations

from agent_worker.core.errors import AgentWorkerError, BadInput

#: By the code of the error, or of the nearest class above it that is named here.
STATUS = {
    "bad_request": 400,
    "untrusted": 403,
    "not_found": 404,
    "refused": 409,
    "fenced": 409,
    "bad_input": 422,
    "too_many": 429,
    "backend_failure": 502,
    "storage_fault": 507,
    "unwritable": 507,
    "too_busy": 503,
    "error": 500,
}


class BadRequest(BadInput):
    """Raised for a request that cannot be read at all."""

    code = "bad_request"


def status_of(error: AgentWorkerError) -> int:
    codes = (vars(kind).get("code") for kind in type(error).__mro__)
    return next(STATUS[code] for code in codes if code in STATUS)
