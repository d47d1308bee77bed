"""A request to the very address that was checked: the name may answer differently a moment later."""

from __future__ import annotations

import httpx2

from agent_worker.core.outbound import IPAddress


def pinned(request: httpx2.Request, address: IPAddress) -> httpx2.Request:
    """The same request to this address; certificate and Host stay those of the name."""
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=str(address)),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.host},
    )
